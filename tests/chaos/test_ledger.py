"""The checks find what breaks the promise, so that they can fail."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from .ledger import Ledger, User
from .load import Load
from .service import value_of


def test_a_client_that_keeps_the_promise_breaks_nothing() -> None:
    """The same version again, a newer one, and a default before anything was known are right."""
    ledger, user = Ledger(60), User("ada")
    for value in ("", "ada:1", "ada:1", "ada:7"):
        ledger.end(ledger.begin(user), value)
    assert (ledger.reads, ledger.broken, user.newest) == (4, {}, 7)


def test_a_read_that_began_before_a_newer_value_came_may_return_an_older_one() -> None:
    """Only what a finished read has returned is the measure of one that begins."""
    ledger, user = Ledger(60), User("ada")
    first, second = ledger.begin(user), ledger.begin(user)
    ledger.end(second, "ada:5")
    ledger.end(first, "ada:4")
    assert (ledger.broken, user.newest) == ({}, 5)


@pytest.mark.parametrize(
    ("value", "broken"),
    [
        ("ada:4", "regressed"),
        ("", "regressed"),
        ("bob:6", "crossed"),
        ("ada:x", "crossed"),
        (None, "crossed"),
        (True, "crossed"),
    ],
)
def test_a_wrong_value_is_found(value: object, broken: str) -> None:
    """An older value, a default again, another user's value, and none at all."""
    ledger, user = Ledger(60), User("ada")
    ledger.end(ledger.begin(user), "ada:5")
    ledger.end(ledger.begin(user), value)
    assert ledger.broken == {broken: 1}
    assert user.newest == 5
    assert len(ledger.examples) == 1


def test_an_exception_is_found() -> None:
    """Whatever a read raises breaks the promise."""
    ledger = Ledger(60)
    ledger.end(ledger.begin(User("ada")), None, OSError("no way"))
    assert ledger.broken == {"raised": 1}


def test_a_late_read_is_found() -> None:
    """A right value that comes after the deadline breaks the promise too."""
    ledger = Ledger(0.01)
    read = ledger.begin(User("ada"))
    threading.Event().wait(0.05)
    ledger.end(read, "ada:1")
    assert ledger.broken == {"late": 1}
    assert ledger.slowest >= 0.05


class _Flags:
    def __init__(self, read: Callable[[], str]) -> None:
        self._read = read

    def get(self, key: str, default: str) -> str:
        return self._read()

    async def aget(self, key: str, default: str) -> str:
        await asyncio.sleep(0)
        return self._read()


class _Client:
    """Gives what a function makes of a user's name and a number that grows."""

    def __init__(self, make: Callable[[str, int], str]) -> None:
        self._make = make
        self._numbers = itertools.count(1)

    def evaluate(self, flag_key: str, context: Mapping[str, Any], default: str) -> str:
        return self._make(context["userId"], next(self._numbers))

    async def aevaluate(self, flag_key: str, context: Mapping[str, Any], default: str) -> str:
        return self.evaluate(flag_key, context, default)

    def flags(self, context: Mapping[str, Any]) -> _Flags:
        return _Flags(lambda: self.evaluate("", context, ""))


def _raise(user: str, number: int) -> str:
    if number > 5:
        raise ValueError("no value")
    return value_of(user, number)


def _wait(user: str, number: int) -> str:
    threading.Event().wait(0.05)
    return value_of(user, 1)


@pytest.mark.parametrize(
    ("make", "longest", "broken"),
    [
        (lambda user, number: value_of(user, 1_000 - number % 2), 60, "regressed"),
        (lambda user, number: value_of(user, 1) if number % 3 else "", 60, "regressed"),
        (lambda user, number: value_of("task-0", 1), 60, "crossed"),
        (_raise, 60, "raised"),
        (_wait, 0.01, "late"),
    ],
    ids=["older", "default", "crossed", "raises", "late"],
)
@pytest.mark.parametrize(("threads", "tasks"), [(3, 0), (0, 3)], ids=["threads", "tasks"])
def test_a_client_that_breaks_the_promise_is_found_under_load(
    make: Callable[[str, int], str], longest: float, broken: str, threads: int, tasks: int
) -> None:
    """Threads find it, and tasks find it, whichever of the two there are."""
    ledger = Ledger(longest)
    load = Load(_Client(make), ledger, threads=threads, tasks=tasks)
    load.start()
    while not ledger.broken:
        threading.Event().wait(0.01)
    assert load.stop(10) == 0
    assert set(ledger.broken) == {broken}


def test_a_client_that_keeps_the_promise_under_load_is_not_blamed() -> None:
    """Reads that overlap are no violation, and everybody gets on."""
    ledger = Ledger(60)
    load = Load(_Client(value_of), ledger, threads=3, tasks=3)
    load.start()
    while load.oldest() < 20:
        threading.Event().wait(0.01)
    assert load.stop(10) == 0
    assert ledger.broken == {}
    assert ledger.reads >= 20
