"""What counts as a flag check, through every door: the protocol's table, row by row."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from shipsilently_core import Context, Failure, ShipSilentlyClient
from shipsilently_core._wire import EVENTS, Reply, Request
from shipsilently_core.testing import ManualClock, ScriptedService, override_flags
from tests.core.running import eventually
from tests.core.support import ALL_FLAGS, FLAGS, KEY, ONE_FLAG, Door, Setup, setup

U1 = {"userId": "u1"}
JSON = {"content-type": "application/json"}

Told = tuple[str, str, str]


def told(made: Setup) -> list[Told]:
    """Key, variation and reason of each event that the client delivers now."""
    made.service.recover()
    made.clock.advance(3_600)
    made.client.flush()
    return [(e["flagKey"], e["variationKey"], e["reason"]) for e in made.service.events]


def learn(made: Setup, reason: str, value: Any = True, key: str = "a") -> None:
    """Let the client know one flag with this reason, without counting a check."""
    row = {"flagKey": key, "value": value, "reason": reason}
    body = msgspec.json.encode({"flags": {key: row}})
    made.service.fail(200, body=body, headers=JSON, times=1)
    made.client.evaluate_all(U1)


def expire(made: Setup) -> None:
    """Make everything that is known stale."""
    made.clock.advance(3_600)


def name(door: Door) -> str:
    return door.name


@pytest.mark.parametrize("door", [*ONE_FLAG, *ALL_FLAGS, *FLAGS], ids=name)
def test_what_the_service_answered_itself_is_not_counted_again(door: Door) -> None:
    """A call that succeeded is no event: the service has counted it."""
    made = setup({"a": True})
    assert door.read(made.client, U1, "a", False) is not None
    assert told(made) == []


@pytest.mark.parametrize("door", [*ONE_FLAG, *FLAGS], ids=name)
def test_a_counted_flag_of_another_type_is_not_counted_again(door: Door) -> None:
    """A value that the caller cannot use was still evaluated, and counted, by the service."""
    made = setup({"a": "text"})
    result = door.read(made.client, U1, "a", False)
    assert result is not None
    assert result.error is Failure.TYPE_MISMATCH
    assert told(made) == []


@pytest.mark.parametrize("door", [*ONE_FLAG, *FLAGS], ids=name)
@pytest.mark.parametrize("known", [False, True], ids=["unknown", "cached"])
def test_a_flag_that_does_not_exist_is_one_event(door: Door, known: bool) -> None:
    """One `flag_not_found` with the default that was served, whatever the cache holds."""
    made = setup({"b": 1})
    if known:
        learn(made, "default", value="old")
        expire(made)
    door.read(made.client, U1, "a", "mine")
    assert told(made) == [("a", '"mine"', "flag_not_found")]


FAILURES: dict[str, dict[str, Any]] = {
    "network": {"failure": Failure.NETWORK},
    "timeout": {"failure": Failure.TIMEOUT},
    "500": {"status": 500},
    "503": {"status": 503},
    "401": {"status": 401},
    "403": {"status": 403},
    "400": {"status": 400},
    "302": {"status": 302},
    "429": {"status": 429, "headers": {"retry-after": "60"}},
    "page": {"status": 200, "body": b"<html>"},
}


@pytest.mark.parametrize("door", [*ONE_FLAG, *FLAGS], ids=name)
@pytest.mark.parametrize("known", [False, True], ids=["default", "cached"])
@pytest.mark.parametrize("failure", FAILURES)
def test_a_failure_is_one_event_with_the_value_served(
    failure: str, known: bool, door: Door
) -> None:
    """One `error_fallback`, with the last known good value or else the default."""
    made = setup({"a": "good"})
    if known:
        learn(made, "rule_match", value="good")
        expire(made)
    made.service.fail(**FAILURES[failure])
    door.read(made.client, U1, "a", "mine")
    assert told(made) == [("a", '"good"' if known else '"mine"', "error_fallback")]


@pytest.mark.parametrize("door", [*ONE_FLAG, *FLAGS], ids=name)
def test_a_call_that_may_not_be_made_is_one_event(door: Door) -> None:
    """While the service's `Retry-After` runs, and after `close`, each check is counted here."""
    made = setup({"a": True})
    made.service.fail(429, headers={"retry-after": "60"}, times=1)
    made.client.evaluate_all(U1)
    door.read(made.client, U1, "a", False)
    assert told(made) == [("a", "false", "error_fallback")]
    made.client.close()
    made.service.events.clear()
    door.read(made.client, {"userId": "u2"}, "a", False)
    assert told(made) == [("a", "false", "error_fallback")]


@pytest.mark.parametrize("door", ALL_FLAGS, ids=name)
def test_a_batch_that_failed_is_no_event(door: Door) -> None:
    """Nobody has asked for any one flag."""
    made = setup({"a": True})
    made.service.fail(500)
    door.read(made.client, U1, "a", False)
    assert told(made) == []


@pytest.mark.parametrize("reason", ["default", "rule_match", "rollout", "flag_disabled", "newer"])
def test_a_read_from_the_cache_is_one_event_with_the_cached_reason(reason: str) -> None:
    """`client.get`, however old the value is, counts with the reason that the service gave."""
    made = setup()
    learn(made, reason)
    for _ in range(2):
        assert made.client.get("a", False, U1) is True
        expire(made)
    assert told(made) == [("a", "true", reason)] * 2


def test_a_read_from_the_baseline_is_one_event_with_its_reason() -> None:
    """What stands in for another context's flag counts with the reason that it has there."""
    made = setup({"a": "for all"})
    made.client.evaluate_all({"userId": "system"})
    assert made.client.get("a", "mine", U1) == "for all"
    assert told(made) == [("a", '"for all"', "default")]


def test_a_read_from_the_cache_that_finds_nothing_is_one_event() -> None:
    """`client.get` of an unknown flag counts as `flag_not_found`, with the default."""
    made = setup(defaults={"b": {"c": 1}})
    made.client.get("a", False, U1)
    made.client.get("b", context=U1)
    assert told(made) == [("a", "false", "flag_not_found"), ("b", '{"c":1}', "flag_not_found")]


def test_a_cached_flag_of_another_type_is_one_event() -> None:
    """`client.get` and a cached `Flags` count the default that they serve as a fallback."""
    made = setup({"a": "text"})
    made.client.evaluate_all(U1)
    made.client.get("a", False, U1)
    made.client.flags(U1).get("a", 1)
    assert told(made) == [("a", "false", "error_fallback"), ("a", "1", "error_fallback")]


def test_looking_around_is_no_event() -> None:
    """`get_all`, `in`, and a request's whole set are no checks of a flag."""
    made = setup({"a": True})
    made.client.evaluate_all(U1)
    made.client.get_all(U1)
    flags = made.client.flags(U1)
    assert "a" in flags
    flags.evaluate_all()
    asyncio.run(flags.aevaluate_all())
    assert told(made) == []


def test_overrides_are_no_events() -> None:
    """What a test has set is counted through no door."""
    made = setup({"a": True})
    made.client.evaluate_all(U1)
    with override_flags(a=False):
        for door in (*ONE_FLAG, *FLAGS):
            door.read(made.client, U1, "a", True)
        made.client.get("a", True, U1)
    assert told(made) == []


# A request.


async def every_way(client: ShipSilentlyClient) -> None:
    """Ask for one flag of a request in each way, twice."""
    flags = client.flags(U1)
    await flags.aevaluate_all()
    for _ in range(2):
        flags.get("a", False)
        flags.get("a", "text")
        flags.is_enabled("a")
        flags.detail("a", False)
        await flags.aget("a", False)
        await flags.ais_enabled("a")
        await flags.adetail("a", False)


def test_a_request_counts_a_flag_once_however_often_it_asks() -> None:
    """Asking in every way, twice, is one check; another request's is another."""
    made = setup({"a": True})
    asyncio.run(every_way(made.client))
    assert told(made) == []
    expire(made)
    made.client.evaluate_all(U1)
    for _ in range(3):
        asyncio.run(every_way(made.client))
    assert told(made) == [("a", "true", "default")] * 3


def test_a_request_counts_each_flag_that_it_asked_for() -> None:
    """Flags that are there but are not asked for are not counted."""
    made = setup({"a": True, "b": 2, "c": "x"})
    made.client.evaluate_all(U1)
    flags = made.client.flags(U1)
    flags.get("a", False)
    flags.get("b", 0)
    flags.get("none", None)
    assert told(made) == [
        ("a", "true", "default"),
        ("b", "2", "default"),
        ("none", "null", "flag_not_found"),
    ]


def test_a_read_that_was_not_awaited_is_one_event() -> None:
    """In a coroutine, a read before the evaluation counts what it served, and once."""
    made = setup({"a": True})

    async def handler() -> None:
        flags = made.client.flags(U1)
        assert flags.get("a", False) is False
        assert await flags.aget("a", False) is True

    asyncio.run(handler())
    assert told(made) == [("a", "false", "error_fallback")]


class Slow(ScriptedService):
    """Answers a batch when it is allowed to."""

    def __init__(self, flags: dict[str, Any]) -> None:
        super().__init__(flags)
        self.asked = threading.Event()
        self.go = threading.Event()

    def send(self, request: Request) -> Reply:
        """Wait, then answer."""
        if request.path != EVENTS:
            self.asked.set()
            assert self.go.wait(5)
        return super().send(request)

    async def asend(self, request: Request) -> Reply:
        """Wait, then answer."""
        return await asyncio.to_thread(self.send, request)


def read_in_threads(client: ShipSilentlyClient, service: Slow, count: int) -> None:
    """Read one flag for one context in so many requests at once."""
    waiting = threading.Barrier(count, timeout=5)

    def request() -> None:
        flags = client.flags(U1)
        waiting.wait()
        assert flags.get("a", False) is True

    threads = [threading.Thread(target=request) for _ in range(count)]
    for thread in threads:
        thread.start()
    assert service.asked.wait(5)
    # Those who have not joined by now are served from the cache, which counts the same.
    threading.Event().wait(0.05)
    service.go.set()
    for thread in threads:
        thread.join(5)


def read_in_tasks(client: ShipSilentlyClient, service: Slow, count: int) -> None:
    """Read one flag for one context in so many tasks at once."""

    async def request() -> None:
        assert await client.flags(U1).aget("a", False) is True

    async def all_of_them() -> None:
        tasks = [asyncio.create_task(request()) for _ in range(count)]
        await asyncio.to_thread(service.asked.wait, 5)
        service.go.set()
        await asyncio.gather(*tasks)

    asyncio.run(all_of_them())


@pytest.mark.parametrize("read", [read_in_threads, read_in_tasks])
def test_of_those_who_wait_together_one_was_counted_by_the_service(
    read: Callable[[ShipSilentlyClient, Slow, int], None],
) -> None:
    """Of five requests that share a call, four count here; and a later one from the cache."""
    service = Slow({"a": True})
    client = ShipSilentlyClient(
        api_key=KEY, api_url="http://flags.invalid", transport=service, clock=ManualClock()
    )
    read(client, service, 5)
    assert len(service.requests) == 1
    client.flags(Context(user_id="u1")).get("a", False)
    eventually(lambda: len(client.evaluator.analytics) == 5)
    client.flush()
    assert [event["reason"] for event in service.events] == ["default"] * 5


# What an event holds.


class Late(ScriptedService):
    """Takes a quarter of a second for each answer."""

    clock: ManualClock

    def send(self, request: Request) -> Reply:
        """Let time pass, then answer."""
        if request.path != EVENTS:
            self.clock.advance(0.25)
        return super().send(request)


@pytest.mark.parametrize("door", [*ONE_FLAG, *FLAGS], ids=name)
def test_an_event_tells_when_and_how_long(door: Door) -> None:
    """Whole seconds of Unix time; milliseconds of the call, and none for a read from memory."""
    service, clock = Late({"b": 1}), ManualClock(1_800_000_000.7)
    service.clock = clock
    client = ShipSilentlyClient(
        api_key=KEY, api_url="http://flags.invalid", transport=service, clock=clock
    )
    service.fail(500, times=1)
    door.read(client, U1, "a", 1)
    client.get("a", 2, U1)
    client.flush()
    assert service.events == [
        {
            "flagKey": "a",
            "variationKey": "1",
            "reason": "error_fallback",
            "latencyMs": 250.0,
            "timestamp": 1_800_000_000,
        },
        {
            "flagKey": "a",
            "variationKey": "2",
            "reason": "flag_not_found",
            "latencyMs": 0.0,
            "timestamp": 1_800_000_000,
        },
    ]
    assert type(service.events[0]["timestamp"]) is int


def test_what_a_request_reads_has_the_time_at_which_it_began_until_a_delivery() -> None:
    """In a request that lives on, reads after a delivery have the time of the first of them."""
    made = setup({"a": 1, "b": 2, "c": 3, "d": 4})
    made.client.evaluate_all(U1)
    flags = made.client.flags(U1).load()
    began = int(made.clock.time())
    made.clock.advance(2)
    flags.get("a", 0)
    made.clock.advance(2)
    flags.get("b", 0)
    made.client.flush()
    made.clock.advance(6)
    flags.get("c", 0)
    made.clock.advance(3)
    flags.get("d", 0)
    made.client.flush()
    assert [(event["flagKey"], event["timestamp"] - began) for event in made.service.events] == [
        ("a", 0),
        ("b", 0),
        ("c", 10),
        ("d", 10),
    ]


def test_a_value_that_a_caller_changes_is_counted_as_served() -> None:
    """An object is counted as it was when it was handed out."""
    made = setup({"a": {"b": [1]}})
    made.client.evaluate_all(U1)
    value = made.client.get("a", {}, U1)
    value["b"].append("later")
    assert told(made) == [("a", '{"b":[1]}', "default")]
