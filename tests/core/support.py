"""What several test modules share: clients on fakes, and the doors to one flag."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from shipsilently_core import Config, EvaluationResult, Failure, ShipSilentlyClient, signals
from shipsilently_core.testing import ManualClock, ScriptedService

__all__ = [
    "ALL_FLAGS",
    "DOORS",
    "ONE_FLAG",
    "Door",
    "Heard",
    "JobTimeoutException",
    "Setup",
    "SoftTimeLimitExceeded",
    "check_unknown",
    "fixed",
    "held_by_nobody",
    "listening",
    "setup",
]

KEY = "sk_live_0123456789"


class SoftTimeLimitExceeded(Exception):
    """As Celery raises it in the midst of whatever its task does."""


class JobTimeoutException(Exception):
    """As RQ does."""


def check_unknown(flags: Any, key: Any) -> None:
    """Each plain verb of these flags, of whatever framework, reads this as an unknown flag."""
    assert flags.get(key, "mine") == "mine"
    assert flags.get(key) is None
    assert flags.is_enabled(key) is False
    assert flags.is_enabled(key, default=True) is True
    assert flags.detail(key, "mine").value == "mine"
    assert key not in flags


def held_by_nobody(lock: Any) -> None:
    """Take a lock in a thread that ends with it, as those of a parent do in a forked child."""
    thread = threading.Thread(target=lock.acquire)
    thread.start()
    thread.join(10)
    assert not thread.is_alive()


def fixed(number: float = 0.5) -> Callable[[], float]:
    """A source of random numbers that always gives the same one."""
    return lambda: number


@dataclass
class Setup:
    """A client whose service and clock the test holds."""

    client: ShipSilentlyClient
    service: ScriptedService
    clock: ManualClock


def setup(
    flags: Mapping[str, Any] | Callable[[dict[str, Any]], Mapping[str, Any]] | None = None,
    *,
    rng: Callable[[], float] | None = None,
    **settings: Any,
) -> Setup:
    """A client of a scripted service in simulated time."""
    service, clock = ScriptedService(flags), ManualClock()
    client = ShipSilentlyClient(
        Config(**{"api_key": KEY, "api_url": "http://flags.invalid", **settings}),
        transport=service,
        clock=clock,
        rng=rng or fixed(),
    )
    return Setup(client, service, clock)


@dataclass(frozen=True)
class Heard:
    """One `evaluation_failed`, as a receiver gets it."""

    failure: Failure
    status: int | None
    flag_key: str | None


@contextmanager
def listening(client: ShipSilentlyClient) -> Iterator[list[Heard]]:
    """Everything that `evaluation_failed` tells of this client."""
    heard: list[Heard] = []

    def receiver(
        sender: Any, *, failure: Failure, status: int | None, flag_key: str | None
    ) -> None:
        heard.append(Heard(failure, status, flag_key))

    with signals.evaluation_failed.connected_to(receiver, sender=client):
        yield heard


@dataclass(frozen=True)
class Door:
    """One way to read a flag.

    Attributes:
        name: For people.
        read: From client, context, key and default to the result; ``None`` where
            the door shows no such flag at all.
        batch: Whether it asks for every flag at once.
        typed: Whether it takes a default, so that types can be compared.
    """

    name: str
    read: Callable[[ShipSilentlyClient, Any, str, Any], EvaluationResult | None]
    batch: bool
    typed: bool

    def __str__(self) -> str:
        return self.name


def _evaluate(c: ShipSilentlyClient, who: Any, key: str, default: Any) -> EvaluationResult:
    return c.evaluate_detail(key, who, default)


def _aevaluate(c: ShipSilentlyClient, who: Any, key: str, default: Any) -> EvaluationResult:
    return asyncio.run(c.aevaluate_detail(key, who, default))


def _evaluate_all(c: ShipSilentlyClient, who: Any, key: str, _: Any) -> EvaluationResult | None:
    return c.evaluate_all(who).get(key)


def _aevaluate_all(c: ShipSilentlyClient, who: Any, key: str, _: Any) -> EvaluationResult | None:
    return asyncio.run(c.aevaluate_all(who)).get(key)


def _flags(c: ShipSilentlyClient, who: Any, key: str, default: Any) -> EvaluationResult:
    return c.flags(who).detail(key, default)


def _aflags(c: ShipSilentlyClient, who: Any, key: str, default: Any) -> EvaluationResult:
    return asyncio.run(c.flags(who).adetail(key, default))


ONE_FLAG = (
    Door("evaluate", _evaluate, batch=False, typed=True),
    Door("aevaluate", _aevaluate, batch=False, typed=True),
)
FLAGS = (
    Door("flags", _flags, batch=True, typed=True),
    Door("aflags", _aflags, batch=True, typed=True),
)
ALL_FLAGS = (
    Door("evaluate_all", _evaluate_all, batch=True, typed=False),
    Door("aevaluate_all", _aevaluate_all, batch=True, typed=False),
)
DOORS = (*ONE_FLAG, *ALL_FLAGS, *FLAGS)
TYPED = (*ONE_FLAG, *FLAGS)


def named(value: object) -> str:
    """A name for a case that is the same in every process: no address of an object in it."""
    return re.sub(r" at 0x[0-9a-f]+", "", repr(value))
