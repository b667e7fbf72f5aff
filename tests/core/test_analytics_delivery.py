"""Delivery beside running requests: in the background, through outages, never in anybody's way."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from shipsilently_core import ShipSilentlyClient, signals
from shipsilently_core._wire import EVENTS, Reply, Request
from shipsilently_core.testing import ManualClock, ScriptedService
from shipsilently_local import LocalService
from tests.core.running import QUICK, eventually, running
from tests.core.support import KEY

U1 = {"userId": "u1"}


class Events(ScriptedService):
    """Its analytics endpoint can be told to fail, to raise and to hang by itself.

    Attributes:
        posts: How many requests with events came.
        answer: What they get, or what is raised; ``None`` for what is right.
        open: Cleared, they hang until it is set.
    """

    def __init__(self, flags: dict[str, Any], *, streaming: bool = True) -> None:
        super().__init__(flags, streaming=streaming)
        self.posts = 0
        self.answer: Reply | Exception | None = None
        self.open = threading.Event()
        self.open.set()

    def send(self, request: Request) -> Reply:
        """Answer one request."""
        if request.path != EVENTS:
            return super().send(request)
        self.posts += 1
        assert self.open.wait(30)
        if isinstance(self.answer, Exception):
            raise self.answer
        return super().send(request) if self.answer is None else self.answer


class Made:
    """A started client of such a service, whose clock stands still."""

    def __init__(self, **analytics: Any) -> None:
        self.service, self.clock = Events({"a": 1}), ManualClock()
        self.client = ShipSilentlyClient(
            api_key=KEY,
            api_url="http://flags.invalid",
            transport=self.service,
            clock=self.clock,
            retry=QUICK,
            analytics=analytics,
        )
        self.client.start()
        assert self.client.wait_ready(5)

    def read(self, count: int) -> None:
        """Check a flag so many times."""
        for _ in range(count):
            self.client.get("a", 0)


@pytest.fixture
def made(request: pytest.FixtureRequest) -> Iterator[Made]:
    """A running client; `parametrize` it with analytics settings."""
    made = Made(**getattr(request, "param", {"max_batch_size": 10}))
    yield made
    made.service.open.set()
    made.client.close()


# In the background.


def test_a_full_batch_is_delivered_at_once(made: Made) -> None:
    """Nobody flushes, and no time passes."""
    made.read(9)
    assert made.service.posts == 0
    made.read(1)
    eventually(lambda: len(made.service.events) == 10)
    made.read(25)
    eventually(lambda: len(made.service.events) >= 30)
    assert made.client.flush() + len(made.service.events) >= 35


def test_what_is_less_than_a_batch_is_delivered_at_the_interval() -> None:
    """By the real clock, with the shortest interval there is."""
    service = Events({"a": 1})
    client = ShipSilentlyClient(
        api_key=KEY,
        api_url="http://flags.invalid",
        transport=service,
        analytics={"flush_interval": 1.0},
    )
    begin = time.monotonic()
    client.start()
    client.get("a", 0)
    assert service.posts == 0
    eventually(lambda: service.events)
    assert time.monotonic() - begin >= 0.9
    threading.Event().wait(1.2)
    assert service.posts == 1
    client.close()


def test_nothing_runs_for_events_where_analytics_is_off() -> None:
    """No thread, no event, and `flush` has nothing to do."""
    before = set(threading.enumerate())
    with running(analytics={"enabled": False}) as run:
        run.client.get("a", 0)
        assert run.client.flush() == 0
        names = {thread.name for thread in set(threading.enumerate()) - before}
        assert names == {"shipsilently-refresh", "shipsilently-stream"}
    assert run.service.events == []


@pytest.mark.parametrize(
    "answer", [Reply(500), Reply(200), Reply(429), RuntimeError("broken transport")], ids=str
)
def test_a_failure_is_not_tried_again_at_once(
    answer: Reply | Exception, made: Made, lines: list[logging.LogRecord]
) -> None:
    """However many events come in, it rests for its interval, and says so in one line."""
    made.service.answer = answer
    made.read(500)
    eventually(lambda: made.service.posts)
    made.read(500)
    threading.Event().wait(0.2)
    assert made.service.posts == 1
    assert len(made.client.evaluator.analytics) == 1_000
    assert len(lines) == 1
    assert "broken transport" not in lines[0].getMessage()
    made.service.answer = None
    made.clock.advance(30)
    # It waits by the real clock; let it look at this one.
    made.client.evaluator.analytics.wake()
    eventually(lambda: len(made.service.events) == 1_000)


# Never in anybody's way.


@pytest.mark.parametrize("made", [{}], indirect=True)
def test_no_read_waits_for_an_endpoint_that_hangs(
    made: Made, lines: list[logging.LogRecord]
) -> None:
    """Eight threads read 160,000 flags: none waits, the buffer is capped, losses are counted."""
    made.service.open.clear()
    slowest: list[float] = []
    told: list[tuple[int, str]] = []

    def reader() -> None:
        worst, last = 0.0, time.perf_counter()
        for _ in range(20_000):
            made.client.get("a", 0)
            now = time.perf_counter()
            worst, last = max(worst, now - last), now
        slowest.append(worst)

    def receiver(sender: Any, *, count: int, cause: str) -> None:
        told.append((count, cause))

    threads = [threading.Thread(target=reader) for _ in range(8)]
    with signals.events_dropped.connected_to(receiver, sender=made.client):
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        status = made.client.status()
        assert len(slowest) == 8
        assert max(slowest) < 2
        # At most one buffer is on its way and one is full.
        assert status.buffered_events <= 10_000
        assert status.dropped_events == 160_000 - status.buffered_events
        assert told == []
        made.service.answer = Reply(500)
        made.service.open.set()
        eventually(lambda: told)
    assert made.service.posts == 1
    assert told == [(155_000, "buffer_full")]
    status = made.client.status()
    assert (status.buffered_events, status.dropped_events) == (5_000, 155_000)
    (line,) = lines
    assert line.getMessage() == (
        "analytics events could not be delivered (server); 5000 wait for the next time, "
        "155000 were lost"
    )


def test_a_flush_waits_for_what_is_already_on_its_way(made: Made) -> None:
    """A handler that flushes before it is frozen gets what the background had begun."""
    made.service.open.clear()
    made.read(10)
    eventually(lambda: made.service.posts)
    assert made.client.flush(timeout=0.05) == 0
    assert made.service.events == []
    threading.Timer(0.05, made.service.open.set).start()
    assert made.client.flush(timeout=5) == 0
    assert len(made.service.events) == 10


# Through an outage.


class Tally:
    """How often each flag was read, by value and reason, and what the service has of that."""

    def __init__(self, service: LocalService) -> None:
        self._service = service
        self.read: Counter[str] = Counter()

    def accepted(self) -> dict[str, int]:
        """How many events of each flag the service has accepted."""
        by_flag = self._service.state()["events"]["byFlag"]
        return {
            flag: sum(sum(reasons.values()) for reasons in variations.values())
            for flag, variations in by_flag.items()
        }


def test_nothing_is_lost_or_told_twice_over_an_outage_with_restarts() -> None:
    """Checks read before, during and after failures and restarts arrive, each once."""
    with LocalService({"a": 1, "b": "x"}) as service:
        tally = Tally(service)
        client = ShipSilentlyClient(
            api_key=service.key,
            api_url=service.url,
            timeout=5,
            background=False,
            analytics={"max_buffer_size": 5_000},
        )
        client.evaluate_all(U1)

        def read(count: int) -> None:
            for number in range(count):
                key = "ab"[number % 2]
                client.get(key, None, U1)
                tally.read[key] += 1

        def fail(**fault: Any) -> None:
            service.fault("analytics", **fault)
            read(400)
            client.flush(0.3)
            service.clear_faults()

        read(100)
        client.flush()
        for _ in range(2):
            fail(status=503)
            fail(drop=True)
            service.restart()
            fail(silence=True)
            fail(garbage=True)
            read(300)
            client.flush()
            service.stop()
            read(700)
            assert client.flush() == 0
            service.start()
            read(100)
            client.flush()
        client.close()
        assert client.status().dropped_events == 0
        assert tally.accepted() == dict(tally.read)


def test_nothing_is_lost_or_told_twice_while_many_threads_read_through_an_outage() -> None:
    """Four threads read while the background delivers to a service that fails in every way."""
    with LocalService({"a": 1, "b": "x"}) as service:
        tally = Tally(service)
        client = ShipSilentlyClient(
            api_key=service.key,
            api_url=service.url,
            timeout=5,
            analytics={"max_batch_size": 50, "flush_interval": 1.0, "max_buffer_size": 50_000},
        )
        client.evaluate_all(U1)
        assert client.wait_ready(5)
        stop = threading.Event()
        counts: list[Counter[str]] = []

        def reader() -> None:
            mine: Counter[str] = Counter()
            while not stop.wait(0.001):
                for key in "ab":
                    client.get(key, None, U1)
                    mine[key] += 1
            counts.append(mine)

        threads = [threading.Thread(target=reader) for _ in range(4)]
        for thread in threads:
            thread.start()
        for fault in ({"status": 503}, {"drop": True}, {"garbage": True}, {"status": 500}):
            service.fault("analytics", **fault, times=2)
            client.flush()
            threading.Event().wait(0.3)
        stop.set()
        for thread in threads:
            thread.join(5)
        service.clear_faults()
        client.close(10)
        assert client.status().dropped_events == 0
        for mine in counts:
            tally.read.update(mine)
        assert tally.accepted() == dict(tally.read)
        assert sum(tally.read.values()) > 100
