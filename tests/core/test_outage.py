"""What a bad day costs, in attempts, with simulated time."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from shipsilently_core import Failure, Source
from shipsilently_core._wire import Reply, Request
from tests.core.support import Setup, setup


def users(count: int) -> list[dict[str, str]]:
    return [{"userId": f"u{number}"} for number in range(count)]


def warm(s: Setup, count: int = 50) -> None:
    for who in users(count):
        s.client.flags(who).evaluate_all()
    s.clock.advance(31)
    s.service.requests.clear()


@pytest.fixture(params=["plain", "awaited"])
def read(request: pytest.FixtureRequest) -> Any:
    """A request that reads one flag, blocking or in a loop."""

    def plain(s: Setup, who: dict[str, str]) -> Any:
        return s.client.flags(who).detail("a", 0)

    def awaited(s: Setup, who: dict[str, str]) -> Any:
        return asyncio.run(s.client.flags(who).adetail("a", 0))

    return plain if request.param == "plain" else awaited


@pytest.mark.parametrize(
    ("how", "most"),
    [
        ({"failure": Failure.NETWORK, "connected": False}, 1),
        ({"failure": Failure.TIMEOUT, "connected": False}, 1),
        ({"failure": Failure.TIMEOUT}, 3),
        ({"failure": Failure.NETWORK}, 3),
        ({"status": 500}, 3),
        ({"status": 401}, 3),
        ({"status": 200, "body": b"<html>"}, 3),
        ({"status": 429}, 1),
    ],
    ids=str,
)
def test_an_outage_costs_a_few_attempts_and_never_a_value(
    how: dict[str, Any], most: int, read: Any
) -> None:
    """Of 1,000 requests of 50 users at one moment at most three try; all get their values."""
    s = setup({"a": 1})
    warm(s)
    s.service.fail(**how)
    for number in range(1_000):
        result = read(s, users(50)[number % 50])
        assert (result.value, result.source) == (1, Source.CACHE)
    assert 1 <= len(s.service.requests) <= most


def test_a_long_outage_is_probed_ever_more_rarely(read: Any) -> None:
    """In an hour without the service 1,200 requests cost a hundred attempts or two."""
    s = setup({"a": 1}, rng=random.Random(5).random)
    warm(s)
    s.service.fail(failure=Failure.TIMEOUT)
    for minute in range(60):
        for number in range(20):
            s.clock.advance(3)
            read(s, users(50)[(minute + number) % 50])
    # The ladder ends at 30 s with full jitter: one probe in 15 s on average, seen every 3 s.
    assert len(s.service.requests) < 300


def test_recovery_is_seen_by_the_next_probe_and_then_by_all(read: Any) -> None:
    """The first success opens the way for everybody at once."""
    s = setup({"a": 1})
    warm(s)
    s.service.fail(500)
    for who in users(50):
        read(s, who)
    s.service.recover()
    s.service.set({"a": 2})
    assert read(s, users(50)[0]).value == 1
    s.clock.advance(0.5)
    for who in users(50):
        result = read(s, who)
        assert (result.value, result.source) == (2, Source.SERVER)


def poisoned(s: Setup, bad: str) -> None:
    answer = s.service.send

    def send(request: Request) -> Reply:
        reply = answer(request)
        return Reply(500) if bad.encode() in request.body else reply

    async def asend(request: Request) -> Reply:
        return send(request)

    s.service.send = send  # type: ignore[method-assign]
    s.service.asend = asend  # type: ignore[method-assign]


def test_one_poisonous_context_leaves_the_others_fresh(read: Any) -> None:
    """A user for whom the service always fails costs nobody else a value or a moment."""
    s = setup({"a": 1})
    poisoned(s, "u7")
    for round_ in range(1, 40):
        s.service.set({"a": round_})
        for who in users(10):
            result = read(s, who)
            expected = (0, Source.DEFAULT) if who["userId"] == "u7" else (round_, Source.SERVER)
            assert (result.value, result.source) == expected
        s.clock.advance(31)
    assert s.client.evaluator.gate.closed is None


def test_a_poisonous_context_is_tried_ever_more_rarely(read: Any) -> None:
    """Its own cool-down grows, so that it does not hammer the service either."""
    s = setup({"a": 1}, rng=lambda: 0.999)
    poisoned(s, "u7")
    for _ in range(600):
        read(s, {"userId": "u7"})
        s.clock.advance(1)
    assert len(s.service.requests) < 30


def test_evaluate_always_makes_its_one_attempt() -> None:
    """The plain verbs ask also while requests have stopped asking."""
    s = setup({"a": 1})
    warm(s)
    s.service.fail(failure=Failure.NETWORK, connected=False)
    s.client.flags(users(1)[0]).get("a", 0)
    for _ in range(10):
        s.client.evaluate("a", users(1)[0], 0)
        s.client.evaluate_all(users(1)[0])
    assert len(s.service.requests) == 21


def test_retry_after_holds_back_requests_and_plain_verbs(read: Any) -> None:
    """Until it has passed nothing is sent at all; then the service is asked again."""
    s = setup({"a": 1})
    warm(s)
    s.service.fail(503, headers={"retry-after": "20"})
    read(s, users(1)[0])
    s.service.recover()
    for _ in range(19):
        s.clock.advance(1)
        for who in users(50):
            assert read(s, who).value == 1
            assert s.client.evaluate("a", who, 0) == 1
    assert len(s.service.requests) == 1
    s.clock.advance(1)
    assert read(s, users(50)[9]).source is Source.SERVER


def test_an_outage_at_the_start_serves_defaults_and_heals(read: Any) -> None:
    """With nothing known, the defaults are served quickly, and the values once it works."""
    s = setup({"a": 1})
    s.service.fail(failure=Failure.NETWORK, connected=False)
    for who in users(50):
        result = read(s, who)
        assert (result.value, result.error) == (0, Failure.NETWORK)
    assert len(s.service.requests) == 1
    s.service.recover()
    s.clock.advance(1)
    for who in users(50):
        assert read(s, who).value == 1
