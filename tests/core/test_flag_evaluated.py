"""The signal `flag_evaluated`: once for each flag and request, whoever counted it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from shipsilently_core import EvaluationResult, Failure, ShipSilentlyClient, Source, signals
from shipsilently_core.testing import override_flags
from tests.core.support import ALL_FLAGS, FLAGS, ONE_FLAG, Door, setup

U1 = {"userId": "u1"}


@contextmanager
def told_of(client: ShipSilentlyClient) -> Iterator[list[EvaluationResult]]:
    """Every result that the signal brings."""
    results: list[EvaluationResult] = []

    def receiver(sender: Any, *, result: EvaluationResult) -> None:
        assert sender is client
        results.append(result)

    with signals.flag_evaluated.connected_to(receiver, sender=client):
        yield results


@pytest.mark.parametrize("door", [*ONE_FLAG, *FLAGS], ids=str)
def test_a_read_is_told_with_its_result(door: Door) -> None:
    """What the caller gets, also where the service has counted it, or it failed."""
    made = setup({"a": True})
    with told_of(made.client) as results:
        expected = [door.read(made.client, U1, "a", False)]
        expected.append(door.read(made.client, U1, "none", 1))
        made.service.fail(500)
        expected.append(door.read(made.client, {"userId": "u2"}, "a", False))
        expected.append(door.read(made.client, {"userId": "u3"}, "a", "text"))
    assert results == expected
    assert [result.error for result in results[1:]] == [
        Failure.NOT_FOUND,
        Failure.SERVER,
        Failure.SERVER,
    ]


def test_a_request_tells_once_of_each_flag() -> None:
    """Reading a flag again, in whatever way, tells nothing; another request does."""
    made = setup({"a": True, "b": 2})
    with told_of(made.client) as results:
        for _ in range(2):
            flags = made.client.flags(U1)
            for _ in range(3):
                flags.get("a", False)
                flags.get("b", 0)
                flags.is_enabled("a")
                asyncio.run(flags.adetail("b", 0))
    assert [(result.flag_key, result.source) for result in results] == [
        ("a", Source.SERVER),
        ("b", Source.SERVER),
        ("a", Source.CACHE),
        ("b", Source.CACHE),
    ]


def test_a_receiver_that_comes_amid_a_request_is_told_of_what_is_read_from_then_on() -> None:
    """In whichever way, and not of flags that had been read before."""
    made = setup({"a": True, "b": True, "c": True})
    flags = made.client.flags(U1).load()
    flags.get("a", False)
    with told_of(made.client) as results:
        for _ in range(2):
            assert flags.get("a", False) is flags.is_enabled("b") is flags.get("c", False) is True
    assert flags.is_enabled("b")
    assert [result.flag_key for result in results] == ["b", "c"]


def test_a_read_from_the_cache_is_told() -> None:
    """`client.get` tells every time."""
    made = setup({"a": True})
    with told_of(made.client) as results:
        made.client.get("a", False, U1)
        made.client.get("a", False, U1)
    assert [result.error for result in results] == [Failure.NOT_FOUND] * 2


def test_batches_and_overrides_are_not_told() -> None:
    """Where no one flag was read, or a test has set it, there is nothing to tell."""
    made = setup({"a": True})
    with told_of(made.client) as results:
        for door in ALL_FLAGS:
            door.read(made.client, U1, "a", None)
        made.client.get_all(U1)
        with override_flags(a=False):
            for door in (*ONE_FLAG, *FLAGS):
                door.read(made.client, U1, "a", True)
            made.client.get("a", True, U1)
    assert results == []


def test_it_does_not_need_analytics() -> None:
    """With counting switched off, reads are told all the same."""
    made = setup({"a": True}, analytics={"enabled": False})
    with told_of(made.client) as results:
        made.client.get("a", False, U1)
    assert len(results) == 1


def test_a_receiver_that_reads_flags_is_not_told_of_its_own() -> None:
    """No read inside a receiver, plain or coroutine function, starts another round."""
    made = setup({"a": True})
    told: list[str] = []

    def receiver(sender: ShipSilentlyClient, *, result: EvaluationResult) -> None:
        told.append(result.flag_key)
        sender.get("inner", False, U1)

    async def areceiver(sender: ShipSilentlyClient, *, result: EvaluationResult) -> None:
        told.append(result.flag_key)
        await sender.flags(U1).aget("inner", False)

    async def read() -> None:
        await made.client.aevaluate("a", U1, False)
        await asyncio.sleep(0.01)

    signal = signals.flag_evaluated
    with signal.connected_to(receiver, made.client), signal.connected_to(areceiver, made.client):
        asyncio.run(read())
        assert told == ["a", "a"]
        made.client.get("b", False, U1)
    assert "inner" not in told


def test_a_receiver_that_fails_spoils_no_read(lines: list[logging.LogRecord]) -> None:
    """The value is served, the check counted, and the error logged."""
    made = setup({"a": True})

    def broken(sender: Any, **_: Any) -> None:
        raise RuntimeError("broken receiver")

    with signals.flag_evaluated.connected_to(broken, sender=made.client):
        assert made.client.flags(U1).get("a", False) is True
        made.client.get("b", False, U1)
    assert len(made.client.evaluator.analytics) == 1
    assert [line.getMessage() for line in lines if line.levelname == "ERROR"] == [
        "a receiver of the signal flag-evaluated raised"
    ] * 2
