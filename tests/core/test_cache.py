"""What is known of each context."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, rule

from shipsilently_core._cache import Cache, SharedBodies, Stamp
from shipsilently_core._snapshot import Row, Snapshot
from shipsilently_core.testing import ManualClock
from tests.core.support import held_by_nobody

PINNED = b"baseline"


def cache_of(
    *, max_contexts: int = 100, max_age: float | None = None, clock: ManualClock | None = None
) -> Cache:
    return Cache(
        clock or ManualClock(),
        max_contexts=max_contexts,
        max_age=max_age,
        fresh_for=30.0,
        pinned=PINNED,
    )


def rows(**values: Any) -> dict[str, Row]:
    return {key: Row(value, "default") for key, value in values.items()}


def batch(**values: Any) -> Snapshot:
    return Snapshot(rows(**values), complete=True)


def values_of(cache: Cache, key: bytes) -> dict[str, Any]:
    entry = cache.get(key)
    assert entry is not None
    return {flag: row.value for flag, row in entry.snapshot.rows.items()}


def test_an_answer_is_fresh_until_its_age_has_passed() -> None:
    """Age counts from when the question was asked, and at `fresh_for` an entry is stale."""
    clock = ManualClock()
    cache = cache_of(clock=clock)
    stamp = cache.stamp()
    clock.advance(10)
    entry = cache.store_batch(b"u1", batch(a=1), [], stamp)
    clock.advance(19.5)
    assert cache.is_fresh(entry)
    clock.advance(0.5)
    assert not cache.is_fresh(entry)


def test_max_age_zero_is_never_fresh() -> None:
    """With `max_age=0` not even an answer of this instant counts as fresh."""
    cache = cache_of(max_age=0.0)
    assert not cache.is_fresh(cache.store_batch(b"u1", batch(a=1), [], cache.stamp()))


def test_a_single_answer_is_never_fresh() -> None:
    """One flag's answer says nothing of the others, so it saves no batch."""
    cache = cache_of()
    cache.store_row(b"u1", "a", Row(1, "default"), cache.stamp())
    entry = cache.get(b"u1")
    assert entry is not None
    assert entry.batch is None
    assert not entry.snapshot.complete
    assert not cache.is_fresh(entry)


def test_a_change_makes_every_entry_stale_and_keeps_it() -> None:
    """After `invalidate` the values stay as last known good, and nothing is fresh."""
    cache = cache_of()
    entry = cache.store_batch(b"u1", batch(a=1), [], cache.stamp())
    cache.invalidate()
    assert not cache.is_fresh(entry)
    assert values_of(cache, b"u1") == {"a": 1}


def test_an_answer_to_a_question_from_before_the_change_is_not_fresh() -> None:
    """A call that began before `invalidate` brings values, but no freshness."""
    cache = cache_of()
    stamp = cache.stamp()
    cache.invalidate()
    entry = cache.store_batch(b"u1", batch(a=1), [], stamp)
    assert not cache.is_fresh(entry)
    assert values_of(cache, b"u1") == {"a": 1}


def test_while_the_service_tells_of_changes_age_alone_makes_nothing_stale() -> None:
    """A live stream keeps entries fresh for ever; its coming up makes older ones stale once."""
    clock = ManualClock()
    cache = cache_of(clock=clock)
    before = cache.store_batch(b"u1", batch(a=1), [], cache.stamp())
    cache.live(True)
    assert not cache.is_fresh(before)
    since = cache.store_batch(b"u1", batch(a=1), [], cache.stamp())
    clock.advance(1e6)
    assert cache.is_fresh(since)
    cache.live(False)
    assert not cache.is_fresh(since)


def test_a_max_age_that_was_set_holds_on_a_live_stream_too() -> None:
    """An explicit `max_age` is obeyed whatever the stream says."""
    clock = ManualClock()
    cache = cache_of(clock=clock, max_age=5.0)
    cache.live(True)
    entry = cache.store_batch(b"u1", batch(a=1), [], cache.stamp())
    clock.advance(5)
    assert not cache.is_fresh(entry)
    cache.live(False)
    assert not cache.is_fresh(entry)


def test_an_older_batch_never_replaces_a_newer_one() -> None:
    """Of two batches that overtake each other, the one asked for later stays."""
    cache = cache_of()
    first, second = cache.stamp(), cache.stamp()
    kept = cache.store_batch(b"u1", batch(a=2), [], second)
    assert cache.store_batch(b"u1", batch(a=1), [], first) is kept
    assert values_of(cache, b"u1") == {"a": 2}


def test_a_single_answer_survives_a_batch_that_was_asked_for_before_it() -> None:
    """A flag evaluated alone after the batch had been asked for keeps the newer value."""
    cache = cache_of()
    early, late = cache.stamp(), cache.stamp()
    cache.store_row(b"u1", "a", Row("new", "default"), late)
    cache.store_batch(b"u1", batch(a="old", b="old"), [], early)
    assert values_of(cache, b"u1") == {"a": "new", "b": "old"}
    cache.store_batch(b"u1", batch(a="newest"), [], cache.stamp())
    assert values_of(cache, b"u1") == {"a": "newest"}


def test_a_late_single_answer_never_replaces_a_newer_one() -> None:
    """A slow answer for one flag loses against a newer batch and a newer single answer."""
    cache = cache_of()
    stamps = [cache.stamp() for _ in range(4)]
    cache.store_batch(b"u1", batch(a=1), [], stamps[1])
    cache.store_row(b"u1", "a", Row(0, "default"), stamps[0])
    assert values_of(cache, b"u1") == {"a": 1}
    cache.store_row(b"u1", "a", Row(3, "default"), stamps[3])
    cache.store_row(b"u1", "a", Row(2, "default"), stamps[2])
    assert values_of(cache, b"u1") == {"a": 3}


def test_a_single_answer_leaves_the_other_flags_and_their_freshness() -> None:
    """One flag's answer replaces that flag only; the entry stays complete and fresh."""
    cache = cache_of()
    cache.store_batch(b"u1", batch(a=1, b=1), [], cache.stamp())
    cache.store_row(b"u1", "a", Row(2, "default"), cache.stamp())
    entry = cache.get(b"u1")
    assert entry is not None
    assert entry.snapshot.complete
    assert cache.is_fresh(entry)
    assert values_of(cache, b"u1") == {"a": 2, "b": 1}


def test_single_answers_gather_where_no_batch_is_known() -> None:
    """Flags evaluated one by one are all remembered, and the set stays incomplete."""
    cache = cache_of()
    for flag in ("a", "b"):
        cache.store_row(b"u1", flag, Row(flag, "default"), cache.stamp())
    entry = cache.get(b"u1")
    assert entry is not None
    assert not entry.snapshot.complete
    assert values_of(cache, b"u1") == {"a": "a", "b": "b"}


def test_a_malformed_row_keeps_its_last_known_good_value() -> None:
    """Of a batch with a malformed row the others count, and that one stays as it was known."""
    cache = cache_of()
    cache.store_batch(b"u1", batch(a=1, b=1), [], cache.stamp())
    cache.store_batch(b"u1", batch(b=2), ["a", "never seen"], cache.stamp())
    assert values_of(cache, b"u1") == {"a": 1, "b": 2}


def test_a_flag_that_a_batch_no_longer_holds_is_gone() -> None:
    """A flag deleted at the service is not served from memory after the next batch."""
    cache = cache_of()
    cache.store_batch(b"u1", batch(a=1, b=1), [], cache.stamp())
    cache.store_batch(b"u1", batch(b=1), [], cache.stamp())
    assert values_of(cache, b"u1") == {"b": 1}


def test_the_least_recently_used_context_goes_first() -> None:
    """Beyond `max_contexts` the entry whose last read is longest ago is dropped."""
    cache = cache_of(max_contexts=2)
    for key in (b"u1", b"u2"):
        cache.store_batch(key, batch(), [], cache.stamp())
    cache.get(b"u1")
    cache.store_batch(b"u3", batch(), [], cache.stamp())
    assert cache.get(b"u2") is None
    assert cache.get(b"u1") is not None
    assert len(cache) == 2


def test_the_baseline_never_goes() -> None:
    """The pinned context stays, however long it has not been read."""
    cache = cache_of(max_contexts=1)
    cache.store_batch(PINNED, batch(a=1), [], cache.stamp())
    for number in range(20):
        cache.store_batch(b"%d" % number, batch(), [], cache.stamp())
    assert cache.get(PINNED) is not None
    assert len(cache) == 1


def test_a_large_cache_makes_room_for_many_at_once() -> None:
    """A sixteenth goes at a time, and never the recently used ones."""
    cache = cache_of(max_contexts=160)
    for number in range(161):
        cache.store_batch(b"%d" % number, batch(), [], cache.stamp())
    assert len(cache) == 151
    assert all(cache.get(b"%d" % number) is None for number in range(10))


def test_locks_of_a_parent_process_are_not_waited_for() -> None:
    """After `renew`, locks that were held when the process forked do not matter any more."""
    cache, bodies = cache_of(), SharedBodies()
    for part in (cache, bodies):
        held_by_nobody(part._lock)
        part.renew()
    cache.store_batch(b"u1", batch(a=1), [], cache.stamp())
    bodies.put(b"{}", batch())
    assert values_of(cache, b"u1") == {"a": 1}


def test_a_forked_child_knows_that_the_stream_is_its_parent_s() -> None:
    """Nothing tells it of changes, so after `renew` what is known grows old by itself."""
    clock = ManualClock()
    cache = cache_of(clock=clock)
    cache.live(True)
    entry = cache.store_batch(b"u1", batch(a=1), [], cache.stamp())
    clock.advance(3_600)
    assert cache.is_fresh(entry)
    assert cache.age(entry) == 0
    cache.renew()
    assert not cache.is_fresh(entry)
    clock.advance(10)
    assert cache.age(entry) == 10


class TestSharedBodies:
    """Answers already decoded."""

    def test_equal_answers_are_one_snapshot(self) -> None:
        """The bytes of an answer find the snapshot that was made of them."""
        bodies, snapshot = SharedBodies(), batch(a=1)
        bodies.put(b"body", snapshot)
        assert bodies.get(b"bo" + b"dy") is snapshot
        assert bodies.get(b"other") is None

    def test_the_memory_they_take_is_bounded(self) -> None:
        """Beyond the bound the oldest answers go; one beyond the bound by itself is not kept."""
        bodies = SharedBodies(max_bytes=2_000)
        bodies.put(b"x" * 2_001, batch())
        bodies.put(b"y", batch(a=1, b=2, c=3, d=4, e=5, f=6))
        for body in (b"aaaa", b"bbbb", b"bbbb", b"cccc"):
            bodies.put(body, batch(a=1))
        assert bodies.get(b"x" * 2_001) is None
        assert bodies.get(b"y") is None
        assert bodies.get(b"aaaa") is None
        assert bodies.get(b"bbbb") is not None
        assert bodies.get(b"cccc") is not None


KEYS = [b"u1", b"u2", b"u3", b"u4", b"u5", PINNED]
FLAGS = ["a", "b", "c"]
Answer = tuple[int, dict[str, int], bool]


class CacheMachine(RuleBasedStateMachine):
    """The cache beside a model that keeps every answer and works out what should be known."""

    stamps: Bundle[Stamp] = Bundle("stamps")

    def __init__(self) -> None:
        super().__init__()
        self.clock = ManualClock()
        self.cache = cache_of(max_contexts=3, clock=self.clock)
        self.answers: dict[bytes, list[Answer]] = {}
        self.order: list[bytes] = []
        self.asked: dict[int, tuple[float, int]] = {}
        self.generation = 0
        self.count = 0

    @rule(target=stamps)
    def ask(self) -> Stamp:
        stamp = self.cache.stamp()
        self.asked[stamp.sequence] = (self.clock.monotonic(), self.generation)
        return stamp

    @rule(key=st.sampled_from(KEYS), stamp=stamps, flags=st.sets(st.sampled_from(FLAGS)))
    def batch_arrives(self, key: bytes, stamp: Stamp, flags: set[str]) -> None:
        self.count += 1
        values = dict.fromkeys(flags, self.count)
        known = max((s for s, _, whole in self.answers.get(key, []) if whole), default=0)
        self.cache.store_batch(key, batch(**values), [], stamp)
        if stamp.sequence >= known:
            self._arrived(key, (stamp.sequence, values, True))

    @rule(key=st.sampled_from(KEYS), stamp=stamps, flag=st.sampled_from(FLAGS))
    def single_arrives(self, key: bytes, stamp: Stamp, flag: str) -> None:
        self.count += 1
        known = max(
            (s for s, v, whole in self.answers.get(key, []) if whole or flag in v), default=0
        )
        self.cache.store_row(key, flag, Row(self.count, "default"), stamp)
        if stamp.sequence >= known:
            self._arrived(key, (stamp.sequence, {flag: self.count}, False))

    def _arrived(self, key: bytes, answer: Answer) -> None:
        self.answers.setdefault(key, []).append(answer)
        self._touch(key)
        if len(self.order) > 3:
            oldest = next(other for other in self.order if other != PINNED)
            self.order.remove(oldest)
            del self.answers[oldest]

    def _touch(self, key: bytes) -> None:
        if key in self.order:
            self.order.remove(key)
        self.order.append(key)

    @rule()
    def change(self) -> None:
        self.cache.invalidate()
        self.generation += 1

    @rule(seconds=st.sampled_from([1.0, 20.0, 40.0]))
    def wait(self, seconds: float) -> None:
        self.clock.advance(seconds)

    @rule(key=st.sampled_from(KEYS))
    def read(self, key: bytes) -> None:
        entry = self.cache.get(key)
        if key not in self.answers:
            assert entry is None
            return
        self._touch(key)
        assert entry is not None
        answers = sorted(self.answers[key], key=lambda answer: answer[0])
        expected: dict[str, int] = {}
        latest = 0
        for sequence, values, whole in answers:
            if whole:
                expected, latest = {}, sequence
            expected |= values
        assert {flag: row.value for flag, row in entry.snapshot.rows.items()} == expected
        assert entry.snapshot.complete is bool(latest)
        moment, generation = self.asked.get(latest, (0.0, -1))
        fresh = generation == self.generation and self.clock.monotonic() - moment < 30
        assert self.cache.is_fresh(entry) is fresh

    @invariant()
    def bounded(self) -> None:
        assert len(self.cache) == len(self.order) <= 3


TestCacheMachine = CacheMachine.TestCase
TestCacheMachine.__doc__ = (
    "Under any order of answers, changes and reads the cache knows what the simple model knows."
)


@pytest.mark.parametrize("size", [1, 16, 33])
def test_the_cache_never_outgrows_its_bound(size: int) -> None:
    """Whatever the bound, storing one more context never leaves more than it."""
    cache = cache_of(max_contexts=size)
    for number in range(100):
        cache.store_row(b"%d" % number, "a", Row(1, "default"), cache.stamp())
        assert len(cache) <= size
