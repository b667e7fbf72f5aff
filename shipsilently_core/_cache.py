"""What is known of each context: its last good evaluation, and whether that is still fresh."""

from __future__ import annotations

import heapq
import itertools

from msgspec import Struct

from ._clock import Clock
from ._process import Lock
from ._wire import Row, Snapshot

__all__ = ["Cache", "Entry", "SharedBodies", "Stamp"]

#: Bytes that an answer takes beside its own, and that each flag in it takes, about.
_PER_BODY = 500
_PER_ROW = 300


class Stamp(Struct, frozen=True):
    """When a call to the service began.

    Attributes:
        sequence: Its place among all the calls of this process.
        moment: Monotonic seconds.
        generation: How many times the service had said that something changed.
    """

    sequence: int
    moment: float
    generation: int


class Entry:
    """One context's last good evaluation.

    Attributes:
        snapshot: Its flags.
        batch: When the batch that it rests on was asked for; ``None`` where single
            flags are all that is known.
        singles: Flags evaluated one by one since, with the sequence of that call.
        used: The cache's tick at the last read.
    """

    __slots__ = ("batch", "singles", "snapshot", "used")

    def __init__(self, snapshot: Snapshot, batch: Stamp | None, singles: dict[str, int]) -> None:
        self.snapshot = snapshot
        self.batch = batch
        self.singles = singles
        self.used = 0


class Cache:
    """Entries by context, bounded; the least recently used goes first.

    Reading takes no lock. Entries are replaced, never changed, but for `Entry.used`,
    where a lost update only makes an entry look a little older than it is.

    Args:
        clock: For the age of entries.
        max_contexts: The bound.
        max_age: Seconds for which an entry counts as fresh, whatever else holds;
            ``None`` leaves it to `live` and `fresh_for`.
        fresh_for: Seconds for which an entry counts as fresh while nothing is live.
        pinned: The key of the context that never goes: the baseline.
    """

    def __init__(
        self,
        clock: Clock,
        *,
        max_contexts: int,
        max_age: float | None,
        fresh_for: float,
        pinned: bytes,
    ) -> None:
        self._clock = clock
        self._max = max_contexts
        self._fixed_age = max_age
        self._base_age = fresh_for if max_age is None else max_age
        self._fresh_for = self._base_age
        self._pinned = pinned
        self._entries: dict[bytes, Entry] = {}
        self._sequence = itertools.count(1)
        self._tick = 0
        self._lock = Lock()
        #: How many times the service has said that something changed.
        self.generation = 0

    def __len__(self) -> int:
        return len(self._entries)

    def renew(self) -> None:
        """New locks, in a forked child whose old ones may be held by nobody that lives."""
        self._lock = Lock()

    def live(self, streaming: bool) -> None:
        """While the service tells of every change, age alone makes nothing stale.

        Changes may have been missed before the stream came up, so its coming up
        makes every entry stale once.
        """
        if self._fixed_age is None:
            self._fresh_for = float("inf") if streaming else self._base_age
        if streaming:
            self.invalidate()

    def invalidate(self) -> None:
        """Make every entry stale; they stay as last known good."""
        with self._lock:
            self.generation += 1

    def stamp(self) -> Stamp:
        """To be taken before a call begins and handed back with its answer."""
        return Stamp(next(self._sequence), self._clock.monotonic(), self.generation)

    def get(self, key: bytes) -> Entry | None:
        """What is known of a context, fresh or not."""
        entry = self._entries.get(key)
        if entry is not None:
            self._tick += 1
            entry.used = self._tick
        return entry

    def is_fresh(self, entry: Entry) -> bool:
        """Whether an entry can be used without asking the service.

        An answer to a question that was asked before the service's latest word of
        a change does not count.
        """
        batch = entry.batch
        return (
            batch is not None
            and batch.generation == self.generation
            and self._clock.monotonic() - batch.moment < self._fresh_for
        )

    def store_batch(
        self, key: bytes, snapshot: Snapshot, malformed: list[str], stamp: Stamp
    ) -> Entry:
        """Keep the answer to a batch, unless a newer one is there already.

        A malformed row keeps its last known good value, and so does a flag that
        was evaluated alone after this batch had been asked for.
        """
        with self._lock:
            old = self._entries.get(key)
            if old is None:
                return self._put(key, Entry(snapshot, stamp, {}))
            if old.batch is not None and old.batch.sequence > stamp.sequence:
                return old
            newer = {k: s for k, s in old.singles.items() if s > stamp.sequence}
            kept = {k: old.snapshot.rows[k] for k in (*malformed, *newer) if k in old.snapshot.rows}
            if kept:
                snapshot = Snapshot({**snapshot.rows, **kept}, complete=True)
            return self._put(key, Entry(snapshot, stamp, newer))

    def store_row(self, key: bytes, flag_key: str, row: Row, stamp: Stamp) -> None:
        """Keep the answer for one flag, unless something newer is known of it."""
        with self._lock:
            old = self._entries.get(key)
            if old is None:
                alone = Snapshot({flag_key: row}, complete=False)
                self._put(key, Entry(alone, None, {flag_key: stamp.sequence}))
                return
            known = old.singles.get(flag_key, 0)
            if old.batch is not None:
                known = max(known, old.batch.sequence)
            if known > stamp.sequence:
                return
            rows = {**old.snapshot.rows, flag_key: row}
            snapshot = Snapshot(rows, complete=old.snapshot.complete)
            singles = {**old.singles, flag_key: stamp.sequence}
            self._put(key, Entry(snapshot, old.batch, singles))

    def _put(self, key: bytes, entry: Entry) -> Entry:
        self._tick += 1
        entry.used = self._tick
        self._entries[key] = entry
        if len(self._entries) > self._max:
            self._evict()
        return entry

    def _evict(self) -> None:
        # A sixteenth at once: to find the least recently used costs a pass over all of them.
        count = max(1, self._max // 16)
        candidates = (key for key in self._entries if key != self._pinned)
        for key in heapq.nsmallest(count, candidates, key=lambda key: self._entries[key].used):
            del self._entries[key]


class SharedBodies:
    """Answers already decoded, by their bytes, so that equal ones are decoded and held once.

    Bounded by the memory that it holds, as estimated; the oldest goes first.

    Args:
        max_bytes: The bound.
    """

    def __init__(self, max_bytes: int = 8 * 1024 * 1024) -> None:
        self._max = max_bytes
        self._held = 0
        self._snapshots: dict[bytes, Snapshot] = {}
        self._lock = Lock()

    def renew(self) -> None:
        """New locks, in a forked child."""
        self._lock = Lock()

    def get(self, body: bytes) -> Snapshot | None:
        """The snapshot that an answer stands for, if one like it was decoded lately."""
        return self._snapshots.get(body)

    def put(self, body: bytes, snapshot: Snapshot) -> None:
        """Let `snapshot` stand for every answer that equals `body`."""
        cost = _cost(body, snapshot)
        if cost > self._max:
            return
        with self._lock:
            if body not in self._snapshots:
                self._held += cost
            self._snapshots[body] = snapshot
            while self._held > self._max:
                oldest = next(iter(self._snapshots))
                self._held -= _cost(oldest, self._snapshots.pop(oldest))


def _cost(body: bytes, snapshot: Snapshot) -> int:
    return _PER_BODY + len(body) + _PER_ROW * len(snapshot.rows)
