"""The cache against a model of what is known of each context, with answers that overtake others."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    precondition,
    rule,
)

from shipsilently_core._cache import Cache, Stamp
from shipsilently_core._snapshot import Row, Snapshot
from shipsilently_core.testing import ManualClock
from tests.properties.support import run

BASELINE = b"baseline"
CONTEXTS = (BASELINE, b"u1", b"u2", b"u3", b"u4", b"u5")
FLAGS = ("a", "b", "c")
MOST = 4
FRESH_FOR = 30.0

KEYS = st.sampled_from(CONTEXTS)
Answer = dict[str, bool]
#: Whether each flag of an answer is well formed.
ANSWERS = st.dictionaries(st.sampled_from(FLAGS), st.booleans())


@dataclass
class Question:
    """A call to the service that is under way.

    Attributes:
        stamp: The cache's own note of it.
        number: Its place among all calls.
        moment: When it began, in seconds.
        changes: How many times the service had spoken of a change by then.
    """

    stamp: Stamp
    number: int
    moment: float
    changes: int


@dataclass
class Known:
    """What is known of one context.

    Attributes:
        values: The value of each flag.
        asked: For each flag that was evaluated alone, the number of that call.
        batch: The call that brought all flags.
    """

    values: dict[str, str] = field(default_factory=dict)
    asked: dict[str, int] = field(default_factory=dict)
    batch: Question | None = None


class CacheMachine(RuleBasedStateMachine):
    """Calls begin, end in any order or never, the service speaks of changes, and time passes."""

    questions = Bundle("questions")

    cache: Cache | None = None

    def __init__(self) -> None:
        super().__init__()
        self.clock = ManualClock()
        # The order is the order of use, the least lately used first.
        self.known: dict[bytes, Known] = {}
        # Until when the service would have told of a change, by the number of those before it.
        self.current: dict[int, float] = {}
        self.now = 0.0
        self.calls = 0
        self.changes = 0
        self.streaming = False

    @initialize(max_age=st.sampled_from([None, None, 0.0, 10.0]))
    def begin(self, max_age: float | None) -> None:
        self.max_age = max_age
        self.cache = Cache(
            self.clock,
            max_contexts=MOST,
            max_age=max_age,
            fresh_for=FRESH_FOR,
            pinned=BASELINE,
        )

    @rule(target=questions)
    def ask(self) -> Question:
        assert self.cache is not None
        self.calls += 1
        return Question(self.cache.stamp(), self.calls, self.now, self.changes)

    @rule(key=KEYS, answer=ANSWERS)
    def ask_and_hear_at_once(self, key: bytes, answer: Answer) -> None:
        self.batch_arrives(self.ask(), key, answer)

    @rule(key=KEYS, flag=st.sampled_from(FLAGS))
    def ask_for_one_flag_and_hear_at_once(self, key: bytes, flag: str) -> None:
        self.single_flag_arrives(self.ask(), key, flag)

    @rule(question=consumes(questions), key=KEYS, answer=ANSWERS)
    def batch_arrives(self, question: Question, key: bytes, answer: Answer) -> None:
        assert self.cache is not None
        values = {flag: f"{flag}{question.number}" for flag, sound in answer.items() if sound}
        malformed = [flag for flag, sound in answer.items() if not sound]
        rows = {flag: Row(value, "default") for flag, value in values.items()}
        entry = self.cache.store_batch(
            key, Snapshot(rows, complete=True), malformed, question.stamp
        )
        known = self.known.get(key, Known())
        if known.batch is None or known.batch.number < question.number:
            for flag in malformed:
                if flag in known.values:
                    values[flag] = known.values[flag]
            later = {f: number for f, number in known.asked.items() if number > question.number}
            values |= {flag: known.values[flag] for flag in later}
            known = Known(values, later, question)
            self.touch(key, known)
        assert served(entry.snapshot) == known.values

    @rule(question=consumes(questions), key=KEYS, flag=st.sampled_from(FLAGS))
    def single_flag_arrives(self, question: Question, key: bytes, flag: str) -> None:
        assert self.cache is not None
        value = f"{flag}{question.number}"
        self.cache.store_row(key, flag, Row(value, "default"), question.stamp)
        known = self.known.get(key, Known())
        newest = max(known.asked.get(flag, 0), known.batch.number if known.batch else 0)
        if newest < question.number:
            known.values[flag] = value
            known.asked[flag] = question.number
            self.touch(key, known)

    def touch(self, key: bytes, known: Known) -> None:
        self.known.pop(key, None)
        self.known[key] = known
        if len(self.known) > MOST:
            del self.known[next(other for other in self.known if other != BASELINE)]

    def fresh(self, known: Known) -> bool:
        batch = known.batch
        if batch is None or batch.changes != self.changes:
            return False
        if self.max_age is not None:
            return self.now - batch.moment < self.max_age
        return self.streaming or self.now - batch.moment < FRESH_FOR

    @rule(key=KEYS)
    def read(self, key: bytes) -> None:
        assert self.cache is not None
        assert (self.cache.get(key) is None) == (key not in self.known)
        if key in self.known:
            self.touch(key, self.known[key])

    @rule()
    def service_tells_of_a_change(self) -> None:
        assert self.cache is not None
        self.cache.invalidate()
        self.changes += 1

    @rule()
    def stream_comes_up(self) -> None:
        assert self.cache is not None
        self.cache.live(True)
        # A change may have been missed before.
        self.changes += 1
        self.streaming = True

    @precondition(lambda self: self.streaming)
    @rule()
    def stream_is_lost(self) -> None:
        assert self.cache is not None
        self.cache.live(False)
        self.streaming = False

    @rule(seconds=st.sampled_from([0.5, 9.5, 10.0, 29.5, 30.0, 86_400.0]))
    def time_passes(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self.now += seconds

    @rule()
    def process_forks(self) -> None:
        assert self.cache is not None
        self.cache.renew()
        # The stream is the parent's.
        self.streaming = False

    @invariant()
    def knows_what_it_was_told(self) -> None:
        if self.cache is None:
            return
        if self.streaming:
            self.current[self.changes] = self.now
        entries = self.cache.recent(len(CONTEXTS))
        assert len(self.cache) == len(entries) <= MOST
        # In the order of their use.
        assert [key for key, _ in entries] == list(reversed(self.known))
        for key, entry in entries:
            known = self.known[key]
            assert served(entry.snapshot) == known.values
            assert entry.snapshot.complete == (known.batch is not None)
            assert self.cache.is_fresh(entry) == self.fresh(known)
            if known.batch is not None:
                until = max(known.batch.moment, self.current.get(known.batch.changes, 0.0))
                assert self.cache.age(entry) == self.now - until


def served(snapshot: Snapshot) -> dict[str, str]:
    """The value of each flag."""
    return {flag: row.value for flag, row in snapshot.rows.items()}


def test_the_cache_knows_what_the_newest_answers_said() -> None:
    """Whatever overtakes what, every context has the newest good value of each flag, no other's."""
    run(CacheMachine)
