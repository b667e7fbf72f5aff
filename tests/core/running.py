"""Clients whose background really runs, in threads, beside a scripted service."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import msgspec

from shipsilently_core import Config, ConnectionState, ShipSilentlyClient
from shipsilently_core._clock import Clock
from shipsilently_core.testing import ManualClock, ScriptedService
from tests.core.support import KEY

__all__ = ["Running", "eventually", "running", "users"]

#: Retries that no test has to wait for.
QUICK = {"base_delay": 0.01, "max_delay": 0.05}

Flags = Mapping[str, Any] | Callable[[dict[str, Any]], Mapping[str, Any]]


def eventually(holds: Callable[[], object], *, within: float = 5.0) -> None:
    """Wait until something holds, however busy the machine is."""
    end = time.monotonic() + within
    pause = threading.Event()
    while not holds():
        assert time.monotonic() < end, "it never came true"
        pause.wait(0.002)


def users(service: ScriptedService) -> list[str]:
    """Whom the service was asked for, in order."""
    return [msgspec.json.decode(request.body)["context"]["userId"] for request in service.requests]


class Running:
    """A started client.

    Attributes:
        states: Each state that `on_state_change` was told.
    """

    def __init__(
        self,
        flags: Flags | None,
        *,
        streaming: bool = True,
        clock: Clock | None = None,
        kind: type[ScriptedService] = ScriptedService,
        rng: Callable[[], float] = random.random,
        **settings: Any,
    ) -> None:
        self.service = kind({"a": 1} if flags is None else flags, streaming=streaming)
        self.clock = ManualClock()
        self.states: list[ConnectionState] = []
        self.client = ShipSilentlyClient(
            Config(
                **{
                    "api_key": KEY,
                    "api_url": "http://flags.invalid",
                    "retry": QUICK,
                    "on_state_change": self.states.append,
                    **settings,
                }
            ),
            transport=self.service,
            clock=clock or self.clock,
            rng=rng,
        )

    def asked(self, user: str = "u1") -> int:
        """How often this user's flags were asked for."""
        return users(self.service).count(user)

    def change(self, flags: Flags) -> None:
        """Serve other flags and say so on the stream."""
        self.service.set(flags)
        self.service.send_event()

    def is_in(self, state: ConnectionState) -> None:
        """Wait until the connection is in this state."""
        eventually(lambda: self.client.connection_state is state)


@contextmanager
def running(flags: Flags | None = None, **settings: Any) -> Iterator[Running]:
    """A client that is started, live and ready; closed in the end."""
    made = Running(flags, **settings)
    try:
        made.client.start()
        assert made.client.wait_ready(5)
        streaming = settings.get("streaming", True) and settings.get("stream", True)
        made.is_in(ConnectionState.STREAMING if streaming else ConnectionState.POLLING)
        if streaming:
            # The stream may have come up before or after the first evaluation.
            eventually(lambda: made.client.evaluator.cache.generation == 1)
            eventually(lambda: not made.client._baseline.stale)
        yield made
    finally:
        made.client.close()
