"""How much is logged, and how much memory is held, over a long life."""

from __future__ import annotations

import gc
import logging
import random
import tracemalloc
from collections import Counter
from typing import Any

import pytest

from shipsilently_core import Config, ShipSilentlyClient
from shipsilently_core._notices import _MOST_KINDS
from shipsilently_core._stream import Stream
from shipsilently_core._wire import Reply
from shipsilently_core.config import AnalyticsConfig
from shipsilently_core.testing import ManualClock, ScriptedService
from tests.core.simulation import CONNECTED, Simulation, ticket
from tests.core.support import KEY

Lines = list[logging.LogRecord]


class Life:
    """A client, its stream and its polls in one simulated time.

    The stream of a `Simulation` moves the clock; while it waits, requests come and
    whatever poll is due is made.
    """

    def __init__(self, flags: dict[str, Any], **settings: Any) -> None:
        self.clock = ManualClock()
        self.service = ScriptedService(flags)
        self.client = ShipSilentlyClient(
            Config(api_key=KEY, analytics=AnalyticsConfig(max_buffer_size=500), **settings),
            transport=self.service,
            clock=self.clock,
            rng=random.Random(5).random,
        )

    def stream(self, simulation: Simulation) -> Simulation:
        """Let the stream of `simulation` be this client's."""
        simulation.stream._notices = self.client.evaluator.notices
        simulation.stream.run()
        return simulation

    def poll(self) -> None:
        """Evaluate the baseline, as a poll does."""
        evaluator = self.client.evaluator
        call = evaluator.prepare(evaluator.baseline)
        evaluator.settle(call, None if call.request is None else self.service.send(call.request))


def test_an_outage_is_a_handful_of_lines(lines: Lines) -> None:
    """100 tries of the stream and 1,000 requests during an outage: lines by minute and kind."""
    life = Life({"a": 1})
    life.poll()
    life.service.fail(503)
    requests = iter(range(1000))

    def pass_time(seconds: float) -> None:
        for _ in range(10):
            number = next(requests, None)
            if number is not None:
                life.client.evaluate("a", {"userId": f"u{number}"}, 0)
            life.clock.advance(seconds / 10)

    simulation = Simulation(
        float("inf"),
        clock=life.clock,
        pass_time=pass_time,
        on_ticket=lambda number: Reply(503) if number < 100 else Reply(402),
    )
    life.stream(simulation)
    assert len(simulation.tickets) == 101
    assert next(requests, None) is None
    minutes = simulation.now / 60
    life.service.recover()
    for _ in range(100):
        life.clock.advance(30)
        life.poll()
    for _ in range(1000):
        life.client.evaluate("missing", {"userId": "u1"}, 0)
        life.client.get("missing", 0, {"userId": "u2"})
    by_level = Counter(line.levelname for line in lines)
    texts = [line.getMessage() for line in lines]
    # One a minute for each of the two things that fail; the plan; the missing flag.
    assert by_level["WARNING"] <= 2 * (minutes + 1) + 3
    assert sum("answers again" in text for text in texts) == by_level["INFO"] == 1
    assert sum("knows no flag 'missing'" in text for text in texts) == 1
    assert sum("nothing is known of flag 'missing'" in text for text in texts) <= 1
    assert set(by_level) == {"WARNING", "INFO"}
    assert not any(line.exc_info for line in lines)


def test_the_first_minute_of_an_outage_is_two_lines(lines: Lines) -> None:
    """A thousand requests and as many tries within a minute: one line each for its kind."""
    life = Life({"a": 1})
    life.service.fail(503)
    for number in range(1000):
        life.client.evaluate("a", {"userId": f"u{number}"}, 0)
        life.clock.advance(0.05)
    life.stream(Simulation(9, clock=life.clock, on_ticket=lambda _: Reply(503)))
    assert [line.getMessage().split(";")[0] for line in lines] == [
        "the service failed (HTTP 503)",
        "could not get a ticket for the stream: server (HTTP 503)",
    ]


def test_polls_without_changes_say_nothing(lines: Lines) -> None:
    """A hundred polls that succeed leave no line at any level."""
    life = Life({"a": 1})
    for _ in range(100):
        life.poll()
        life.clock.advance(30)
    assert lines == []


# Memory.


def held() -> int:
    """Bytes that are held."""
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


@pytest.fixture
def _traced() -> Any:
    # What pytest keeps of the log would be counted too.
    logging.disable(logging.CRITICAL)
    tracemalloc.start()
    yield
    tracemalloc.stop()
    logging.disable(logging.NOTSET)


@pytest.mark.usefixtures("_traced")
def test_any_number_of_users_fits_into_the_cache() -> None:
    """The second 5,000 users hold no more memory than the first, whatever verb they came by."""
    life = Life({"a": 1, "b": "x"}, max_contexts=250)
    verbs = (
        lambda who: life.client.flags(who).get("a"),
        lambda who: life.client.evaluate("a", who, 0),
        lambda who: life.client.evaluate_all(who),
        lambda who: life.client.get("a", 0, who),
    )
    marks = []
    for half in range(2):
        for number in range(5_000):
            verbs[number % 4]({"userId": f"user-{half}-{number}"})
            life.service.requests.clear()
        marks.append(held())
    assert len(life.client.evaluator.cache) <= 250
    assert marks[1] < marks[0] * 1.05 + 20_000


@pytest.mark.usefixtures("_traced")
def test_any_number_of_users_may_fail() -> None:
    """Cool-downs of users whose evaluation failed are bounded as the cache is."""
    life = Life({"a": 1}, max_contexts=500)
    life.service.fail(500)
    marks = []
    for half in range(2):
        for number in range(4000):
            life.client.evaluate("a", {"userId": f"user-{half}-{number}"}, 0)
            life.service.requests.clear()
        marks.append(held())
    assert len(life.client.evaluator.gate._cool_downs) <= 500
    assert marks[1] < marks[0] * 1.05 + 20_000


@pytest.mark.usefixtures("_traced")
def test_any_number_of_missing_flags_is_told_of_within_bounds() -> None:
    """Names of flags that do not exist, read one after the other, are not remembered for ever."""
    life = Life({"a": 1})
    names = random.Random(1)
    marks = []
    for _ in range(2):
        for _ in range(5_000):
            life.client.flags({"userId": "u1"}).get(f"missing-{names.random()}")
            life.service.requests.clear()
        marks.append(held())
    assert len(life.client.evaluator.notices._told) <= _MOST_KINDS
    assert marks[1] < marks[0] * 1.05 + 20_000


@pytest.mark.usefixtures("_traced")
def test_any_number_of_reconnects_holds_nothing() -> None:
    """The second 1,000 streams hold no more memory than the first."""
    clock = ManualClock()
    simulation = Simulation(float("inf"), clock=clock)
    marks: list[int] = []

    def on_ticket(number: int) -> Reply:
        if number in (1000, 2000):
            for told in (
                simulation.tickets,
                simulation.opened,
                simulation.waits,
                simulation.states,
                simulation.feeds,
            ):
                told.clear()
            marks.append(held())
        counter["tickets"] += 1
        return ticket("t" * 200) if number < 2000 else Reply(402)

    counter: Counter[str] = Counter()
    simulation.on_ticket = lambda _: on_ticket(counter["tickets"])
    simulation.on_open = lambda _: [(0.0, CONNECTED), (1.0, b"data: " + b"x" * 5000)]
    stream: Stream = simulation.stream
    stream.run()
    assert len(marks) == 2
    assert marks[1] < marks[0] * 1.05 + 5_000
