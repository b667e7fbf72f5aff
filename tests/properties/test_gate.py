"""The gate against a model that knows each context's failures and what the outage did."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from shipsilently_core._gate import Gate
from shipsilently_core.testing import ManualClock
from shipsilently_core.values import Failure
from tests.properties.support import Luck, run

BASE, CEILING, TIMEOUT = 1.0, 8.0, 2.0
CONTEXTS = (b"u1", b"u2", b"u3", b"u4", b"u5", b"u6")
MOST = 4
#: The bound of the wait after the first, second, … failure in a row.
LADDER = (1.0, 2.0, 4.0, 8.0)
FAILURES = st.sampled_from([Failure.TIMEOUT, Failure.SERVER, Failure.AUTH, Failure.PROTOCOL])


@dataclass
class Rest:
    """A context's failures in a row, the last of them, and when it may ask again."""

    failures: int
    last: Failure
    until: float


class GateMachine(RuleBasedStateMachine):
    """Requests of several contexts meet a service that answers, fails, hangs or wants a pause."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = ManualClock()
        self.luck = Luck()
        self.gate = Gate(
            self.clock,
            self.luck,
            base=BASE,
            ceiling=CEILING,
            timeout=TIMEOUT,
            max_contexts=MOST,
        )
        # By context, the one that failed longest ago first.
        self.rests: dict[bytes, Rest] = {}
        # Every failure since the last success, and whether it had a connection.
        self.since_success: list[tuple[bytes, bool]] = []
        self.closed: Failure | None = None
        self.probes = 0
        self.next_probe = 0.0
        self.pause_ends = 0.0
        self.background = False
        # Whether one request may try beside the background, and which has.
        self.spare = False
        self.beside: bytes | None = None
        # When each attempt began; the oldest first.
        self.under_way: dict[bytes, float] = {}
        self.last_success = -1e9
        self.usual = 0.0

    @property
    def now(self) -> float:
        return self.clock.monotonic()

    def bound(self, failures: int) -> float:
        return self.luck.number * LADDER[min(failures, len(LADDER)) - 1]

    @initialize(number=st.sampled_from([0.0, 0.5, 0.999]))
    def begin(self, number: float) -> None:
        self.luck.number = number

    def expected(self, key: bytes, known: bool) -> Failure | None:
        """Who may ask, rule by rule; the later rule first."""
        if self.now < self.pause_ends:
            return Failure.THROTTLED
        if self.closed is not None:
            rest = self.rests.get(key)
            rests = rest is not None and self.now < rest.until
            beside = self.spare and not rests
            probe_is_due = beside if self.background else self.now >= self.next_probe
            return None if probe_is_due else self.closed
        rest = self.rests.get(key)
        if rest is not None and self.now < rest.until:
            return rest.last
        return Failure.TIMEOUT if self.hangs(known) else None

    def hangs(self, known: bool) -> bool:
        # Whatever has been under way for two deadlines has vanished.
        waiting = [begun for begun in self.under_way.values() if self.now - begun <= 2 * TIMEOUT]
        if len(waiting) < 3:
            return False
        silent = self.now - max(sorted(waiting)[2], self.last_success)
        if known and self.usual:
            return silent > min(TIMEOUT / 2, max(0.1, 8 * self.usual))
        return silent > TIMEOUT / 2

    @rule(key=st.sampled_from(CONTEXTS), known=st.booleans())
    def request_asks(self, key: bytes, known: bool) -> None:
        expected = self.expected(key, known)
        assert self.gate.admit(key, known=known) is expected
        if expected is None:
            if self.closed is not None and self.background:
                self.spare, self.beside = False, key
            elif self.closed is not None:
                # The next probe goes after this one's end, or after the longest wait.
                self.next_probe = self.now + CEILING
            self.gate.under_way(key)
            self.under_way.pop(key, None)
            self.under_way[key] = self.now

    @precondition(lambda self: self.under_way)
    @rule(data=st.data(), seconds=st.sampled_from([0.0, 0.01, 0.5, 1.5]))
    def attempt_is_answered(self, data: st.DataObject, seconds: float) -> None:
        key = data.draw(st.sampled_from(list(self.under_way)))
        self.clock.advance(seconds)
        if self.now - self.under_way[key] <= TIMEOUT:
            self.success(key)
        self.ends(key)

    def ends(self, key: bytes) -> None:
        self.gate.ended(key)
        self.under_way.pop(key, None)
        if key == self.beside:
            self.beside = None

    @precondition(lambda self: self.under_way)
    @rule(data=st.data())
    def attempt_is_interrupted(self, data: st.DataObject) -> None:
        self.ends(data.draw(st.sampled_from(list(self.under_way))))

    @rule()
    def background_is_answered(self) -> None:
        self.success(b"baseline")

    def success(self, key: bytes) -> None:
        opens = self.closed is not None
        assert self.gate.succeeded(key) is opens
        self.last_success = self.now
        self.usual = max(self.now - self.under_way.get(key, self.now), self.usual * 0.9)
        self.since_success.clear()
        self.rests.pop(key, None)
        if opens:
            self.rests.clear()
            self.closed = None

    @precondition(lambda self: self.under_way)
    @rule(data=st.data(), failure=FAILURES, connected=st.sampled_from([True, True, True, False]))
    def attempt_fails(self, data: st.DataObject, failure: Failure, connected: bool) -> None:
        key = data.draw(st.sampled_from(list(self.under_way)))
        self.failure(key, failure, connected)
        self.ends(key)

    @rule(failure=FAILURES, connected=st.booleans())
    def background_fails(self, failure: Failure, connected: bool) -> None:
        self.failure(b"baseline", failure, connected)

    def failure(self, key: bytes, failure: Failure, connected: bool) -> None:
        closed = self.gate.failed(key, failure, connected=connected)
        before = self.rests.pop(key, None)
        failures = 1 if before is None else before.failures + 1
        self.rests[key] = Rest(failures, failure, self.now + self.bound(failures))
        if len(self.rests) > MOST:
            del self.rests[next(iter(self.rests))]
        self.since_success.append((key, connected))
        if self.closed is not None:
            assert not closed
            self.closed = failure
            if key == self.beside:
                self.beside = None
                return
            self.probes += 1
            # The service has answered, so perhaps it refuses this context alone.
            self.spare = failure in (Failure.SERVER, Failure.PROTOCOL)
        else:
            contexts = {context for context, _ in self.since_success}
            outage = len(self.since_success) >= 3 and len(contexts) >= 2
            assert closed is (outage or not connected)
            if not closed:
                return
            self.probes = 1
            self.spare, self.beside = False, None
        self.closed = failure
        self.next_probe = self.now + self.bound(self.probes)

    @precondition(lambda self: self.under_way)
    @rule(data=st.data())
    def loop_of_an_attempt_is_dropped(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(list(self.under_way)))
        # Nobody says that it has ended.
        self.clock.advance(max(0.0, self.under_way[key] + 2 * TIMEOUT + 0.01 - self.now))
        del self.under_way[key]

    @rule(seconds=st.sampled_from([0.0, 1.0, 5.0, 3600.0]))
    def service_asks_for_a_pause(self, seconds: float) -> None:
        self.gate.hold(seconds)
        self.pause_ends = max(self.pause_ends, self.now + seconds)

    @rule(seconds=st.sampled_from([0.01, 0.1, 0.5, 0.9, 1.1, 4.0, 8.0]))
    def time_passes(self, seconds: float) -> None:
        self.clock.advance(seconds)

    @rule(number=st.floats(0, 1, exclude_max=True))
    def luck_changes(self, number: float) -> None:
        self.luck.number = number

    @rule(running=st.booleans())
    def background_comes_or_goes(self, running: bool) -> None:
        self.gate.background = self.background = running

    @rule()
    def process_forks(self) -> None:
        self.gate.renew()
        self.background = False
        self.under_way.clear()

    @invariant()
    def says_how_it_stands(self) -> None:
        assert self.gate.closed is self.closed
        assert self.gate.held_for() == max(0.0, self.pause_ends - self.now)
        if self.closed is None:
            assert self.gate.probe_in() is None
        else:
            due = max(self.next_probe, self.pause_ends)
            assert self.gate.probe_in() == max(0.0, due - self.now)


def test_the_gate_keeps_away_whom_its_rules_say_and_nobody_else() -> None:
    """In every order of answers, failures, pauses and time, each request is admitted by rule."""
    run(GateMachine)
