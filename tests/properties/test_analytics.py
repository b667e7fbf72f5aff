"""The buffer of flag checks against a plain list, with a service that takes, refuses and fails."""

from __future__ import annotations

from collections import Counter
from collections.abc import Coroutine
from typing import Any, TypeVar

import msgspec
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from shipsilently_core import AnalyticsConfig, FailureReport
from shipsilently_core._analytics import Analytics
from shipsilently_core._notices import Notices
from shipsilently_core._seen import NO_ROWS, NOTHING, Seen
from shipsilently_core._snapshot import Row
from shipsilently_core._tally import Tally
from shipsilently_core._wire import EVENTS, Reply, Request
from shipsilently_core.testing import ManualClock
from shipsilently_core.values import Failure
from tests.properties.support import Luck, run

T = TypeVar("T")

IN_ONE_REQUEST = 1_000
INTERVAL = 30.0
TIMEOUT = 10.0
#: Sheets that are not looked through, at most.
SELDOM = 50

TAKEN = Reply(200, b"the number is put in")
REPLIES = st.one_of(
    st.just(TAKEN),
    st.just(TAKEN),
    st.sampled_from([400, 401, 402, 404, 413]).map(Reply),
    st.sampled_from([500, 502, 503]).map(Reply),
    st.just(Reply(failure=Failure.NETWORK, connected=False)),
    st.just(Reply(200, b"<html>log in</html>")),
    st.sampled_from([0, 7, 4_000]).map(
        lambda pause: Reply(429, headers={"retry-after": str(pause)})
    ),
    st.just(Reply(429)),
)


def at_once(call: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine that never has to wait."""
    try:
        call.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    raise AssertionError("it waits")


class AnalyticsMachine(RuleBasedStateMachine):
    """Flags are read, before and during deliveries; each event is known by its number."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = ManualClock()
        self.luck = Luck()
        self.notices = Notices(self.clock)
        self.notices.silence()
        self.told: list[int] = []
        self.woken = 0
        self.number = 0
        self.waiting: list[str] = []
        self.lost = 0
        self.paused_until = 0.0
        self.not_before = 0.0
        #: The last that has read flags.
        self.request: Seen | None = None

    @initialize(
        most=st.sampled_from([1, 3, 50, 2_300]),
        batch=st.sampled_from([1, 4, 100]),
        rate=st.sampled_from([1.0, 1.0, 0.5, 0.0]),
    )
    def begin(self, most: int, batch: int, rate: float) -> None:
        self.most, self.batch, self.rate = most, batch, rate
        self.wake_at: int | None = batch
        self.full_ones, self.since = 0, self.clock.monotonic()
        self.analytics = Analytics(
            AnalyticsConfig(
                flush_interval=INTERVAL,
                max_batch_size=batch,
                max_buffer_size=most,
                sampling_rate=rate,
            ),
            self.clock,
            self.luck,
            base_delay=1.0,
            notices=self.notices,
            dropped=lambda count, _: self.told.append(count),
        )
        self.analytics.wake = self.wake

    def wake(self) -> None:
        self.woken += 1

    @rule(count=st.sampled_from([1, 1, 2, 5, 60, 1_001, 2_500]), number=st.sampled_from([0.2, 0.7]))
    def flags_are_read(self, count: int, number: float) -> None:
        self.luck.number = number
        for _ in range(count):
            self.number += 1
            key = f"f{self.number}"
            self.analytics.record(key, self.number, "rollout")
            if number < self.rate:
                self.waiting.append(key)
                self.expect_wake(len(self.waiting))
                self.forget_oldest()

    @rule(
        requests=st.lists(st.tuples(st.booleans(), st.sampled_from([1, 2, 9, 60])), max_size=12),
        number=st.sampled_from([0.2, 0.7]),
    )
    def requests_read(self, requests: list[tuple[bool, int]], number: float) -> None:
        """Each goes on with what it has seen, or is another one, and notes what it reads."""
        self.luck.number = number
        #: By sheet, and after how many sheets what is on them is counted next.
        noted: list[list[str]] = []
        every = look_at = max(1, self.batch // 10)
        for goes_on, count in requests:
            if not goes_on or self.request is None:
                self.request = Seen(None, NOTHING.view, {}, {}, NO_ROWS, listed=False)
            request = self.request
            for _ in range(count):
                self.number += 1
                key = f"f{self.number}"
                request.own[key] = Row(self.number, "rollout")
                request.counted[key] = self.number
                listed = request.listed
                if not listed:
                    self.analytics.enlist(request)
                if not self.rate:
                    continue
                if listed:
                    noted[-1].append(key)
                    continue
                noted.append([key])
                if len(noted) >= look_at:
                    look_at = len(noted) + max(every, min(self.rest(noted), SELDOM))
                    self.look(noted, number)
                    look_at = look_at if noted else every
        self.take(noted, number)
        # What is looked at is taken, so a request goes on as one that is to be listed again.
        assert len(self.analytics) == len(self.waiting)

    def enough(self) -> int:
        """So many that wait are attended to."""
        return min(self.wake_at or self.most + 1, self.most + 1)

    def rest(self, noted: list[list[str]]) -> int:
        """So many more sheets like these would be more than enough."""
        read = sum(map(len, noted))
        return (self.enough() - len(self.waiting) - read) * len(noted) // read + 1

    def look(self, noted: list[list[str]], number: float) -> None:
        """What is on sheets is counted, and attended to if it is enough."""
        size = len(self.waiting) + sum(map(len, noted))
        if size < self.enough():
            return
        if self.rate < 1.0:
            # Only what is left of it counts.
            left = sum(map(len, noted)) if number < self.rate else 0
            size = len(self.waiting) + left
            self.take(noted, number)
        if size > self.most:
            self.take(noted, number)
        self.expect_wake(size)

    def expect_wake(self, size: int) -> None:
        """The background is woken for a full batch, and for as many as fill a request."""
        if self.wake_at is not None and size >= self.wake_at:
            self.wake_at = IN_ONE_REQUEST if size < IN_ONE_REQUEST else None
            self.woken -= 1

    def take(self, noted: list[list[str]], number: float) -> None:
        """What is noted waits, as far as it is sampled, in the order in which it was listed."""
        for keys in noted:
            if number < self.rate:
                self.waiting += keys
        noted.clear()
        self.forget_oldest()

    def forget_oldest(self) -> int:
        beyond = max(0, len(self.waiting) - self.most)
        del self.waiting[:beyond]
        self.lost += beyond
        return beyond

    @rule(
        replies=st.lists(REPLIES, min_size=4, max_size=4),
        meanwhile=st.sampled_from([0, 0, 3, 120]),
        takes=st.sampled_from([0.0, 0.0, 4.0, 10.0]),
        asynchronous=st.booleans(),
        other=st.booleans(),
    )
    def events_are_delivered(
        self, replies: list[Reply], meanwhile: int, takes: float, asynchronous: bool, other: bool
    ) -> None:
        requests: list[Request] = []
        under_way: list[str] = []

        def send(request: Request) -> Reply:
            requests.append(request)
            reply = replies[len(requests) - 1]
            self.flags_are_read(meanwhile, 0.2)
            if other:
                # Whoever comes while events are on their way has none to send.
                assert self.analytics.flush(lambda _: out_of_turn(), 0.0) == 0
            self.clock.advance(takes)
            keys = keys_of(request)
            return Reply(200, b'{"accepted":%d}' % len(keys)) if reply is TAKEN else reply

        async def asend(request: Request) -> Reply:
            return send(request)

        start, now = self.clock.monotonic(), self.clock.monotonic()
        if start >= self.paused_until:
            under_way, self.waiting = self.waiting, []
            self.wake_at = self.batch
            if len(under_way) >= self.batch:
                if start - self.since >= 1.0:
                    self.full_ones, self.since = 0, start
                self.full_ones += 1
        already_lost = len(self.told), self.lost
        if asynchronous:
            accepted = at_once(self.analytics.aflush(asend, TIMEOUT))
        else:
            accepted = self.analytics.flush(send, TIMEOUT)

        # The model goes through the chunks again.
        expected_accepted = sent = refused = 0
        failed = False
        while sent < len(under_way) and not failed and now < start + TIMEOUT:
            if now < self.paused_until:
                break
            chunk = under_way[sent : sent + IN_ONE_REQUEST]
            request = requests.pop(0)
            reply = replies.pop(0)
            assert request.path == EVENTS
            assert request.timeout == start + TIMEOUT - now
            assert keys_of(request) == chunk
            now += takes
            status = reply.status or 0
            if reply is TAKEN:
                expected_accepted += len(chunk)
            elif 400 <= status < 500 and status != 429:
                refused += len(chunk)
            else:
                failed = True
                pause = 0.0
                if status == 429:
                    pause = min(float(reply.headers.get("retry-after", 1.0)), 3600.0)
                    self.paused_until = now + pause
                # A pause of nothing is none that was asked for, and not tried again at once.
                self.not_before = now + (max(pause, 1.0) if status == 429 else INTERVAL)
                break
            sent += len(chunk)
        assert not requests
        assert accepted == expected_accepted
        unsent = under_way[sent:]
        if unsent and not failed:
            self.not_before = now + INTERVAL
        self.waiting = unsent + self.waiting
        self.forget_oldest()
        self.lost += refused
        # Whoever listens hears of every loss, once, at the end of the next delivery.
        assert len(self.told) - already_lost[0] <= 1
        assert sum(self.told) == self.lost

    @rule(seconds=st.sampled_from([1.0, 7.0, 29.0, 30.0, 3_600.0]))
    def time_passes(self, seconds: float) -> None:
        self.clock.advance(seconds)

    @rule()
    def process_forks(self) -> None:
        self.analytics.renew()
        self.analytics.wake = self.wake
        self.waiting, self.lost, self.wake_at = [], 0, self.batch
        self.full_ones, self.since = 0, self.clock.monotonic()
        self.told.clear()

    @rule(ago=st.sampled_from([0.0, 12.0, 40.0]))
    def background_looks_when_to_deliver(self, ago: float) -> None:
        now = self.clock.monotonic()
        if len(self.waiting) < self.batch:
            self.wake_at = self.batch
        due = now - ago if len(self.waiting) >= self.batch else now - ago + INTERVAL
        if self.batch <= len(self.waiting) < IN_ONE_REQUEST and self.full_ones >= 8:
            due = max(due, self.since + 1.0)
        assert self.analytics.due_in(now - ago) == max(0.0, due - now, self.not_before - now)

    @invariant()
    def counts_what_waits_and_what_is_lost(self) -> None:
        if hasattr(self, "analytics"):
            assert len(self.analytics) == len(self.waiting) <= self.most
            assert self.analytics.dropped == self.lost
            assert self.analytics.idle == (not self.waiting)
            assert self.analytics.paused() == (self.clock.monotonic() < self.paused_until)
            # Once for each batch that became full.
            assert self.woken == 0


def out_of_turn() -> Reply:
    """For a request that must not be sent."""
    raise AssertionError("sent out of turn")


def keys_of(request: Request) -> list[str]:
    """The flags of a request, each with the value that it was read with."""
    events = msgspec.json.decode(request.body)["events"]
    for event in events:
        assert event["variationKey"] == event["flagKey"].removeprefix("f")
        assert event["reason"] == "rollout"
    return [event["flagKey"] for event in events]


def test_every_event_is_delivered_once_in_order_or_counted_as_lost() -> None:
    """What is recorded waits, is taken or refused by the service, or was too much: nothing else."""
    run(AnalyticsMachine)


class TallyMachine(RuleBasedStateMachine):
    """Calls end in every way, in this process and in a forked one."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = ManualClock()
        self.tally = Tally(self.clock)
        self.ends: list[FailureReport | None] = []
        self.last_success: float | None = None

    @rule()
    def call_succeeds(self) -> None:
        self.tally.succeeded()
        self.ends.append(None)
        self.last_success = self.clock.time()

    @rule(failure=st.sampled_from(Failure))
    def call_fails(self, failure: Failure) -> None:
        report = FailureReport(failure, None, None, f"number {len(self.ends)}")
        self.tally.failed(report)
        self.ends.append(report)

    @rule()
    def time_passes(self) -> None:
        self.clock.advance(1.0)

    @rule()
    def process_forks(self) -> None:
        self.tally.renew()
        self.ends.clear()

    @invariant()
    def says_how_calls_ended(self) -> None:
        failures = [end for end in self.ends if end is not None]
        assert self.tally.attempts == len(self.ends)
        assert self.tally.failures == Counter(report.failure for report in failures)
        assert self.tally.last_error is (failures[-1] if failures else None)
        assert self.tally.last_success == self.last_success


def test_the_tally_is_the_sum_of_all_ends() -> None:
    """Attempts, failures by class, the last error and the last success are those that were."""
    run(TallyMachine)
