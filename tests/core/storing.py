"""Processes of one app that share a store, as clients in simulated time; and stores that fail."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from shipsilently_core import Config, FailureReport, ShipSilentlyClient
from shipsilently_core.stores import FileStore, Found, MemoryStore
from shipsilently_core.testing import ManualClock, ScriptedService
from tests.core.running import Running
from tests.core.support import KEY, fixed

__all__ = [
    "ADA",
    "EVE",
    "HOUR",
    "SYSTEM",
    "BrokenStore",
    "Fleet",
    "SlowStore",
    "by_user",
    "pass_time",
    "saved_by_one",
]

ADA = {"userId": "ada-4711", "email": "ada@example.org"}
EVE = {"userId": "eve"}
SYSTEM = {"userId": "system"}
HOUR = 3_600.0


class Fleet:
    """One service, one clock, one store, and any number of clients.

    Args:
        store: ``None`` for a `MemoryStore` of this clock.
        flags: What the service answers.
        settings: Of each client.
    """

    def __init__(
        self,
        store: Any = None,
        *,
        flags: Mapping[str, Any] | Callable[[dict[str, Any]], Mapping[str, Any]] | None = None,
        **settings: Any,
    ) -> None:
        self.clock = ManualClock()
        self.service = ScriptedService({"a": 1} if flags is None else flags)
        self.store = MemoryStore(self.clock.time) if store is None else store
        self.errors: list[FailureReport] = []
        self._settings = settings

    def client(self, **settings: Any) -> ShipSilentlyClient:
        """A new process."""
        return ShipSilentlyClient(
            Config(
                **{
                    "api_key": KEY,
                    "api_url": "http://flags.invalid",
                    "store": self.store,
                    "on_error": self.errors.append,
                    **self._settings,
                    **settings,
                }
            ),
            transport=self.service,
            clock=self.clock,
            rng=fixed(),
        )

    @property
    def asked(self) -> int:
        """How many calls for flags the service has had."""
        return len(self.service.requests)


class BrokenStore(MemoryStore):
    """A store that works until it is told to raise.

    Attributes:
        error: What every call raises; ``None`` while it works.
        calls: The names of the methods that were called.
    """

    def __init__(self, clock: Callable[[], float], error: Exception | None = None) -> None:
        super().__init__(clock)
        self.error = error
        self.calls: list[str] = []

    def _called(self, name: str) -> None:
        self.calls.append(name)
        if self.error is not None:
            raise self.error

    def load(self, name: str) -> bytes | None:
        """As told."""
        self._called("load")
        return super().load(name)

    def save(self, name: str, data: bytes) -> None:
        """As told."""
        self._called("save")
        super().save(name, data)

    def get(
        self, name: str, *, newer_than: float | None, younger_than: float, lease: float
    ) -> Found:
        """As told."""
        self._called("get")
        return super().get(name, newer_than=newer_than, younger_than=younger_than, lease=lease)

    def put(self, name: str, data: bytes | None, *, stamp: float) -> None:
        """As told."""
        self._called("put")
        super().put(name, data, stamp=stamp)

    def clock(self, name: str) -> float:
        """As told."""
        self._called("clock")
        return super().clock(name)


class SlowStore(BrokenStore):
    """A store that can be made to hang.

    Attributes:
        deadline: Seconds that a request waits for it.
        goes_on: Cleared while it hangs.
    """

    deadline = 0.02

    def __init__(self, clock: Callable[[], float]) -> None:
        super().__init__(clock)
        self.goes_on = threading.Event()
        self.goes_on.set()

    def _called(self, name: str) -> None:
        super()._called(name)
        assert self.goes_on.wait(20)


def by_user(context: dict[str, Any]) -> dict[str, Any]:
    """Flags of which each tells whose it is."""
    return {"whose": context["userId"], "object": {"n": [1]}}


def saved_by_one(path: Path, **settings: Any) -> Fleet:
    """A fleet whose first process has ended, after it had been asked for Ada and the baseline."""
    fleet = Fleet(FileStore(path), flags=by_user, **settings)
    client = fleet.client()
    assert client.flags(ADA).get("whose") == "ada-4711"
    client.evaluate_all(SYSTEM)
    client.close()
    return fleet


def pass_time(run: Running, seconds: float) -> None:
    """Let simulated time pass for the store's own thread, too."""
    run.clock.advance(seconds)
    keeper = run.client.evaluator.keeper
    assert keeper is not None
    keeper._bell.ring()
