"""What the background evaluates, and when, in simulated time."""

from __future__ import annotations

import itertools
import logging
import random
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import msgspec
import pytest

from shipsilently_core import Config, Failure, FailureReport, ShipSilentlyClient
from shipsilently_core._process import Bell
from shipsilently_core._refresh import Refresher
from shipsilently_core._watch import Results, Watch, differing, same
from shipsilently_core._wire import Reply, Request
from shipsilently_core.context import Context
from shipsilently_core.signals import Emitter
from shipsilently_core.testing import ManualClock, ScriptedService
from tests.core.support import KEY, fixed


class SimulatedBell(Bell):
    """A bell whose waits move the clock, past what is to happen meanwhile."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__()
        self._clock = clock
        self._rung = False
        self._plan: list[tuple[float, Callable[[], object]]] = []

    def at(self, moment: float, what: Callable[[], object]) -> None:
        """Do something at a moment of the monotonic clock."""
        self._plan.append((moment, what))
        self._plan.sort(key=lambda entry: entry[0])

    def ring(self) -> None:
        self._rung = True

    def wait(self, timeout: float | None) -> bool:
        end = self._clock.monotonic() + (float("inf") if timeout is None else timeout)
        while not self._rung and not self.closed and self._plan and self._plan[0][0] <= end:
            moment, what = self._plan.pop(0)
            self._clock.advance(max(0.0, moment - self._clock.monotonic()))
            what()
        if not self._rung and not self.closed:
            assert end < float("inf"), "nothing would ever happen again"
            self._clock.advance(end - self._clock.monotonic())
        self._rung = False
        return self.closed


class Rounds:
    """A refresher of one scripted service, run for some simulated seconds.

    Attributes:
        calls: When each evaluation was sent, and for which user.
        told: What the first watch was told: the keys that changed, and whether announced.
        reports: Each failure that was reported.
        during: Called while an evaluation is under way, with the number of those before it.
    """

    def __init__(
        self,
        flags: Mapping[str, Any] | None = None,
        *,
        rng: Callable[[], float] | None = None,
        interval: float = 30.0,
        **settings: Any,
    ) -> None:
        self.clock = ManualClock()
        self.began = self.clock.monotonic()
        self.service = ScriptedService({"a": 1} if flags is None else flags)
        self.reports: list[FailureReport] = []
        rng = rng or fixed()
        self.evaluator = ShipSilentlyClient(
            Config(
                api_key=KEY, polling_interval=interval, on_error=self.reports.append, **settings
            ),
            transport=self.service,
            clock=self.clock,
            rng=rng,
        ).evaluator
        self.evaluator.gate.background = True
        self.bell = SimulatedBell(self.clock)
        self.evaluator.wake = self.bell.ring
        self.refresher = Refresher(
            self.evaluator,
            self._send,
            self.clock,
            rng,
            bell=self.bell,
            base=1.0,
            isolate=lambda function, *args: Emitter(self.evaluator.notices.once).call(
                "a callback", function, *args
            ),
        )
        self.calls: list[tuple[float, str]] = []
        self.told: list[tuple[set[str] | None, bool]] = []
        self.during: Callable[[int], object] = lambda number: None
        self.watch = self.follow("system", interval, self._take)

    @property
    def now(self) -> float:
        return self.clock.monotonic() - self.began

    def follow(
        self,
        user: str,
        interval: float = 30.0,
        on_results: Callable[[Results | None, Results, bool], object] = lambda *_: None,
    ) -> Watch:
        """Keep one more context current."""
        watch = Watch(Context({"userId": user}), interval, on_results)
        self.refresher.add(watch)
        return watch

    def at(self, moment: float, what: Callable[[], object]) -> None:
        """Let something happen after so many seconds."""
        self.bell.at(self.began + moment, what)

    def run(self, seconds: float) -> list[float]:
        """Run for so long; when the first watch's context was asked for."""
        self.at(seconds, self.bell.close)
        self.refresher.run()
        return self.times("system")

    def times(self, user: str) -> list[float]:
        """When a context was asked for."""
        return [round(moment, 6) for moment, who in self.calls if who == user]

    def _send(self, request: Request) -> Reply:
        number = len(self.calls)
        self.calls.append((self.now, msgspec.json.decode(request.body)["context"]["userId"]))
        reply = self.service.send(request)
        self.during(number)
        return reply

    def _take(self, last: Results | None, new: Results, announced: bool) -> None:
        changed = None if last is None else set(differing(last, new))
        self.told.append((changed, announced))


# When.


def test_polls_come_at_their_interval_while_nothing_streams() -> None:
    """The first evaluation is at once, the others follow one interval after the other."""
    rounds = Rounds()
    assert rounds.run(100) == [0, 30, 60, 90]
    assert rounds.told == [(None, False), (set(), False), (set(), False), (set(), False)]
    assert rounds.watch.ready.result is True


def test_nothing_is_polled_while_the_service_tells_of_changes() -> None:
    """A day of streaming without a change costs the one evaluation at its beginning."""
    rounds = Rounds()
    rounds.refresher.streaming = True
    assert rounds.run(86_400) == [0]


def test_polling_starts_when_the_stream_is_lost_and_ends_when_it_is_back() -> None:
    """What is older than the interval when the stream is lost is asked for at once."""
    rounds = Rounds()
    rounds.refresher.streaming = True

    def streaming(on: bool) -> None:
        rounds.refresher.streaming = on
        rounds.refresher.missed() if on else rounds.bell.ring()

    rounds.at(1000, lambda: streaming(False))
    rounds.at(1065, lambda: streaming(True))
    assert rounds.run(5000) == [0, 1000, 1030, 1060, 1065]
    assert not any(announced for _, announced in rounds.told)


def burst(rounds: Rounds) -> None:
    for _ in range(10):
        rounds.refresher.changed()


def test_a_burst_of_changes_costs_one_evaluation() -> None:
    """Ten words of a change, one right after the other, are looked at once."""
    rounds = Rounds()
    rounds.refresher.streaming = True
    rounds.at(5, lambda: burst(rounds))
    assert rounds.run(1000) == [0, 5]
    assert rounds.told == [(None, False), (set(), True)]


def test_a_change_during_an_evaluation_costs_one_more() -> None:
    """However many words of a change come while one is under way, one more follows, not none."""
    rounds = Rounds()
    rounds.refresher.streaming = True

    def change(number: int) -> None:
        if number == 0:
            rounds.service.set({"a": 2})
            burst(rounds)

    rounds.during = change
    assert rounds.run(1000) == [0, 0]
    assert rounds.told == [(None, False), ({"a"}, True)]


def test_each_context_has_an_interval_of_its_own() -> None:
    """Contexts are polled each at its interval; a change is looked at for all of them."""
    rounds = Rounds()
    rounds.follow("fast", 10)
    rounds.follow("slow", 50)
    rounds.at(35, rounds.refresher.changed)
    assert rounds.run(90) == [0, 30, 35, 65]
    assert rounds.times("fast") == [0, 10, 20, 30, 35, 45, 55, 65, 75, 85]
    assert rounds.times("slow") == [0, 35, 85]


def test_a_context_is_followed_until_it_is_removed() -> None:
    """A context that is added later is evaluated at once, one that is removed never again."""
    rounds = Rounds()
    rounds.refresher.streaming = True
    added: list[Watch] = []
    rounds.at(10, lambda: added.append(rounds.follow("guest")))
    rounds.at(20, rounds.refresher.changed)
    rounds.at(30, lambda: rounds.refresher.remove(added[0]))
    rounds.at(40, rounds.refresher.changed)
    assert rounds.run(100) == [0, 20, 40]
    assert rounds.times("guest") == [10, 20]


def test_a_context_that_is_removed_meanwhile_is_not_told() -> None:
    """What was asked for a context that nobody follows any more is not passed on."""
    rounds = Rounds()
    rounds.during = lambda _: rounds.refresher.remove(rounds.watch)
    assert rounds.run(100) == [0]
    assert rounds.told == []


def test_a_context_that_is_added_twice_is_followed_once() -> None:
    """Adding the same context again only looks at it once more if need be."""
    rounds = Rounds()
    rounds.at(5, lambda: rounds.refresher.add(rounds.watch))
    assert rounds.run(20) == [0]


def test_without_a_context_there_is_nothing_to_wait_for() -> None:
    """With nothing to follow the thread sleeps until it is rung."""
    rounds = Rounds()
    rounds.refresher.remove(rounds.watch)
    assert rounds.refresher.due_in() is None
    assert rounds.run(100) == []


# Failure.


def test_failures_are_tried_again_up_to_the_interval() -> None:
    """A failed evaluation is tried again on a full-jitter ladder whose top is the interval."""
    rounds = Rounds()
    rounds.service.fail(500)
    assert rounds.run(64) == [0, 0.5, 1.5, 3.5, 7.5, 15.5, 30.5, 45.5, 60.5]
    assert rounds.told == []
    assert rounds.watch.ready.result is None
    assert {report.failure for report in rounds.reports} == {Failure.SERVER}


def test_failures_are_tried_again_while_the_stream_is_up() -> None:
    """A change that could not be looked at is not forgotten, nor that the service told of it."""
    rounds = Rounds()
    rounds.refresher.streaming = True

    def change() -> None:
        rounds.service.set({"a": 2})
        rounds.service.fail(500, times=3)
        rounds.refresher.changed()

    rounds.at(10, change)
    assert rounds.run(1000) == [0, 10, 10.5, 11.5, 13.5]
    assert rounds.told == [(None, False), ({"a"}, True)]


def test_the_ladder_ends_with_a_success() -> None:
    """After a success polls come at their interval, and the next failure starts at the foot."""
    rounds = Rounds()
    rounds.service.fail(500, times=2)
    rounds.at(40, lambda: rounds.service.fail(500, times=2))
    assert rounds.run(100) == [0, 0.5, 1.5, 31.5, 61.5, 62, 63, 93]


def test_the_delays_are_jittered() -> None:
    """A day of failure gives delays spread over the whole interval, half of it on average."""
    rounds = Rounds(rng=random.Random(3).random)
    rounds.service.fail(500)
    times = rounds.run(86_400)
    gaps = [later - sooner for sooner, later in itertools.pairwise(times)]
    assert all(0 <= gap < min(30, 2 ** min(n, 10)) for n, gap in enumerate(gaps))
    assert sum(gaps[5:]) / len(gaps[5:]) == pytest.approx(15, abs=0.5)


def test_a_dead_service_is_probed_for_all_requests() -> None:
    """Where no connection can be made the first context probes on the gate's ladder, alone."""
    rounds = Rounds()
    rounds.follow("guest")
    rounds.service.fail(connected=False)
    rounds.at(70, rounds.service.recover)
    assert rounds.run(110) == [0, 0.5, 1.5, 3.5, 7.5, 15.5, 30.5, 45.5, 60.5, 75.5, 105.5]
    assert rounds.times("guest") == [75.5, 105.5]
    assert rounds.evaluator.gate.closed is None


def test_an_outage_is_told_from_one_bad_context() -> None:
    """Three failures in a row for two contexts close the gate, and a success opens it."""
    rounds = Rounds()
    rounds.follow("guest")
    rounds.service.fail(500)
    gate = rounds.evaluator.gate
    closed: list[Failure | None] = []
    rounds.at(0.4, lambda: closed.append(gate.closed))
    rounds.at(0.6, lambda: closed.append(gate.closed))
    rounds.at(20, rounds.service.recover)
    rounds.run(60)
    assert closed == [None, Failure.SERVER]
    assert gate.closed is None
    # While it is closed the first context probes alone.
    assert rounds.times("guest") == [0, 31]


def test_requests_that_close_the_gate_wake_the_background() -> None:
    """A streaming background that sleeps is woken to probe when requests find an outage."""
    rounds = Rounds()
    rounds.refresher.streaming = True

    def outage() -> None:
        rounds.service.fail(connected=False)
        call = rounds.evaluator.prepare(Context({"userId": "u1"}))
        assert call.request is not None
        rounds.evaluator.settle(call, rounds.service.send(call.request))

    rounds.at(1000, outage)
    rounds.at(1010, rounds.service.recover)
    assert rounds.run(5000) == [0, 1000.5, 1001.5, 1003.5, 1007.5, 1015.5]
    assert rounds.evaluator.gate.closed is None


@pytest.mark.parametrize("streaming", [True, False])
def test_a_pause_that_the_service_asks_for_is_kept(streaming: bool) -> None:
    """Nothing is sent before `Retry-After` has passed, not for a change either."""
    rounds = Rounds()
    rounds.refresher.streaming = streaming
    rounds.service.fail(429, headers={"retry-after": "120"}, times=1)
    rounds.at(20, rounds.refresher.changed)
    rounds.at(119, rounds.follow("guest").stale.__bool__)
    times = rounds.run(125)
    assert times == [0, 120]
    assert rounds.times("guest") == [120]


def test_a_pause_and_a_closed_gate_are_both_kept() -> None:
    """The later of the two is what counts."""
    rounds = Rounds()
    rounds.service.fail(503, headers={"retry-after": "50"}, connected=False)
    assert rounds.run(101) == [0, 50, 100]


def test_an_evaluation_that_raises_stops_nothing(lines: list[logging.LogRecord]) -> None:
    """Errors that nobody foresaw cost a retry: no context is starved, no change is lost."""
    rounds = Rounds()
    rounds.refresher.streaming = True
    rounds.follow("guest")

    def fail(number: int) -> None:
        if rounds.calls[-1][1] == "system" and number < 10:
            raise KeyError("secret")

    rounds.during = fail
    assert rounds.run(1000) == [0, 0.5, 1.5, 3.5, 7.5, 15.5, 30.5, 45.5, 60.5, 75.5]
    assert rounds.times("guest") == [0]
    assert rounds.told == [(None, False)]
    texts = [line.getMessage() for line in lines]
    assert texts[0] == "the background evaluation raised KeyError; it goes on"
    assert len(texts) == 2
    assert not any("secret" in text for text in texts)


def test_a_callback_that_raises_stops_nothing(lines: list[logging.LogRecord]) -> None:
    """Whatever is done with the results, the next poll comes, and other contexts are told."""
    rounds = Rounds()
    heard: list[Results] = []

    def fail(*_: object) -> None:
        raise RuntimeError("broken callback")

    rounds.follow("bad", 30, fail)
    rounds.follow("good", 30, lambda last, new, announced: heard.append(new))
    assert rounds.run(70) == [0, 30, 60]
    assert rounds.times("bad") == [0, 30, 60]
    assert len(heard) == 3
    assert [line.levelname for line in lines] == ["ERROR"] * 3


def test_the_end_of_the_client_ends_a_look_into_the_store(
    lines: list[logging.LogRecord], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is closed before it has waited for the store waits no more, and asks nobody."""
    rounds = Rounds()

    class Latch:
        def wait(self, seconds: float) -> None:
            raise AssertionError("it was waited for")

    class Looking:
        kept = entry = None
        leads = False

        def steps(self) -> Iterator[tuple[Latch, float]]:
            rounds.bell.close()
            yield Latch(), 10.0

    monkeypatch.setattr(rounds.evaluator, "consultation", lambda context: Looking())
    rounds.refresher.streaming = True
    rounds.run(1)
    assert (rounds.calls, rounds.told, lines) == ([], [], [])


def test_the_end_of_the_client_is_no_failure(lines: list[logging.LogRecord]) -> None:
    """An evaluation that the client's own end interrupts is neither reported nor logged."""
    rounds = Rounds()
    rounds.service.fail(500)
    rounds.during = lambda _: rounds.bell.close()
    rounds.run(100)
    assert rounds.reports == []
    assert lines == []


# What changed.


@pytest.mark.parametrize(
    ("one", "other", "equal"),
    [
        (True, True, True),
        (True, 1, False),
        (False, 0, False),
        (0, "", False),
        ("1", 1, False),
        (None, False, False),
        ("a", "a", True),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, True),
        ({"a": True}, {"a": 1}, False),
        ({"a": {"b": [True]}}, {"a": {"b": [1]}}, False),
        ({"a": {"b": [1]}}, {"a": {"b": [1]}}, True),
        ({"a": 1}, {"b": 1}, False),
        ({"a": 1}, {"a": 1, "b": 1}, False),
        ([1, 2], [2, 1], False),
        ([1], [1, 1], False),
        ([], {}, False),
    ],
)
def test_values_are_compared_as_json(one: Any, other: Any, equal: bool) -> None:
    """`true` is not 1 and order of keys is nothing, at the top as inside of objects."""
    assert same(one, other) is equal
    assert same(other, one) is equal


def test_what_differs_are_the_flags_that_changed_came_or_went() -> None:
    """Between two polls the changed flags are those with another value, the new and the gone."""
    rounds = Rounds({"same": 1, "changed": True, "gone": 1})
    rounds.at(10, lambda: rounds.service.set({"same": 1, "changed": 1, "new": 1}))
    rounds.run(65)
    assert rounds.told == [
        (None, False),
        ({"changed", "new", "gone"}, False),
        (set(), False),
    ]


# After a fork.


@pytest.mark.parametrize("known", [True, False])
def test_a_forked_child_looks_anew_and_stays_ready(known: bool) -> None:
    """After a fork what is followed is stale, its ladder starts again, and readiness is kept."""
    rounds = Rounds()
    if not known:
        rounds.service.fail(500)
    rounds.run(5)
    before = rounds.watch.ready
    rounds.watch.renew()
    assert rounds.watch.stale
    assert rounds.watch.failures == 0
    assert rounds.watch.ready is not before
    assert rounds.watch.ready.result is (True if known else None)


def test_a_service_that_refuses_only_the_baseline_serves_everybody_else() -> None:
    """In an hour in which another user is refused as well, the others have their values."""

    class Choosy(ScriptedService):
        def send(self, request: Request) -> Reply:
            who = msgspec.json.decode(request.body)["context"]["userId"]
            return Reply(400) if who in ("system", "poison") else super().send(request)

    rounds = Rounds()
    rounds.service = Choosy({"a": 1})
    rounds.evaluator.gate.background = True
    served: list[bool] = []

    def request(user: str) -> None:
        found = rounds.evaluator.enter(Context({"userId": user}), may_wait=True)
        if isinstance(found, tuple):
            attempt, _ = found
            rounds.evaluator.finish(attempt, rounds.service.send(attempt.request))
            served.append(attempt.result is not None and attempt.result.failure is None)
        else:
            served.append(found.failure is None)

    for minute in range(1, 60):
        rounds.at(60 * minute, lambda: request("poison"))
        for number in range(8):
            moment = 60 * minute + 5 * number + 1
            rounds.at(moment, partial(request, f"user-{minute}-{number}"))
    rounds.run(3_600)
    # Apart from those who come between a failure that closes the gate and the next try.
    assert served.count(True) > 0.75 * len(served)
