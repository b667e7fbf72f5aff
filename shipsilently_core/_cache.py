"""What is known of each context: its last good evaluation, and whether that is still fresh."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec import Struct

from ._clock import Clock
from ._process import UNMARKED, Lock, Mark
from ._snapshot import Row, Snapshot

if TYPE_CHECKING:
    from .context import Context

__all__ = ["Cache", "Entry", "SharedBodies", "Stamp"]

#: Bytes that an answer takes beside its own, and that each flag in it takes, about.
_PER_BODY = 500
_PER_ROW = 300
#: Seconds.
_FOR_EVER = float("inf")
#: How many generations are remembered for the age of values; of older ones, it is overrated.
_GENERATIONS = 1_000


class Stamp(Struct, frozen=True, gc=False):
    """When a call to the service began.

    Attributes:
        sequence: Its place among all the calls of this process.
        moment: Monotonic seconds.
        generation: How many times the service had said that something changed.
    """

    sequence: int
    moment: float
    generation: int


#: Most entries have none, and none is ever added to one that has not.
_NO_SINGLES: dict[str, Stamp] = {}


# There may be very many, which the garbage collector need not look through: none is in a cycle.
class Entry(Struct, gc=False, eq=False):
    """One context's last good evaluation.

    Attributes:
        snapshot: Its flags.
        batch: When the batch that it rests on was asked for; ``None`` where single
            flags are all that is known.
        singles: Flags evaluated one by one since, with that call.
        current: Monotonic seconds until which the flags are known to have been current, apart
            from `singles` and from what the cache itself knows; see `Cache.age`.
        kept: By a shared store's clock, when these flags were asked for; ``None`` where
            they have not been there.
        looked: When such a store was last asked for something newer.
        used: The cache's tick at the last read.
        generation: That of `batch`, or -1.
        moment: The same.
    """

    snapshot: Snapshot
    batch: Stamp | None
    singles: dict[str, Stamp]
    current: float
    kept: float | None = None
    looked: Stamp | None = None
    used: int = 0
    generation: int = -1
    moment: float = -1.0


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
        serves: Whether `fresh` ever gives anything, that is, whether the service need not be
            asked each time.
    """

    def __init__(
        self,
        clock: Clock,
        *,
        max_contexts: int,
        max_age: float | None,
        fresh_for: float,
        pinned: bytes,
        serves: bool = True,
    ) -> None:
        self._clock = clock
        #: Looked up once.
        self._monotonic = clock.monotonic
        self._max = max_contexts
        self._fixed_age = max_age
        #: Seconds for which an entry counts as fresh while nothing is live.
        self.base_age: float = fresh_for if max_age is None else max_age
        #: The same, as things are.
        self.fresh_for: float = self.base_age
        self._pinned = pinned
        self._entries: dict[bytes, Entry] = {}
        #: Of what may be used without asking.
        self._found = self._entries.get if serves else dict[bytes, Entry]().get
        self._sequence = itertools.count(1)
        self._tick = 0
        self._streaming = False
        #: When the latest generations ended that the service would have told of any change in.
        self._ends: dict[int, float] = {}
        self._lock = Lock()
        #: How many times the service has said that something changed.
        self.generation: int = 0
        #: Its first byte is not 0 while there is nothing to `prepare`.
        self.steady: Mark = UNMARKED
        #: Looks after whatever a request needs, as a background in this process; given by whoever
        #: has something to look after.
        self.prepare: Callable[[], object] = lambda: None

    def __len__(self) -> int:
        return len(self._entries)

    def renew(self) -> None:
        """New locks, in a forked child whose old ones may be held by nobody that lives.

        The stream is the parent's, so here age alone makes stale what is known.
        """
        self._lock = Lock()
        self.live(False)

    def live(self, streaming: bool) -> None:
        """While the service tells of every change, age alone makes nothing stale.

        Changes may have been missed before the stream came up, so its coming up
        makes every entry stale once.
        """
        if streaming:
            # In this order: who sees that no age matters also sees that all of it is stale.
            self.invalidate()
        if self._fixed_age is None:
            self.fresh_for = _FOR_EVER if streaming else self.base_age
        with self._lock:
            if self._streaming and not streaming:
                self._end_generation()
            self._streaming = streaming

    def invalidate(self) -> None:
        """Make every entry stale; they stay as last known good."""
        with self._lock:
            if self._streaming:
                self._end_generation()
            self.generation += 1

    def _end_generation(self) -> None:
        self._ends[self.generation] = self._clock.monotonic()
        if len(self._ends) > _GENERATIONS:
            del self._ends[next(iter(self._ends))]

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

    def fresh(self, context: Context) -> Snapshot | None:
        """What can be used of a context without asking the service: `get` and `is_fresh` at once.

        Every request comes by here, so whatever is to be looked after before one is `prepare`'s.
        """
        if not self.steady[0]:
            self.prepare()
        # What is an attribute of an object, not of its class, is called sooner by a name.
        # In this order: see `live`.
        found, fresh_for = self._found, self.fresh_for
        entry = found(context.body)
        if entry is None:
            # As nearly all contexts are their own keys, that is looked at last.
            entry = found(context.key)
        if entry is None or entry.generation != self.generation:
            return None
        if fresh_for != _FOR_EVER:
            monotonic = self._monotonic
            if monotonic() - entry.moment >= fresh_for:
                return None
        self._tick = entry.used = self._tick + 1
        return entry.snapshot

    def is_fresh(self, entry: Entry) -> bool:
        """Whether an entry can be used without asking the service.

        An answer to a question that was asked before the service's latest word of
        a change does not count.
        """
        batch, fresh_for = entry.batch, self.fresh_for
        return (
            batch is not None
            and batch.generation == self.generation
            and self._clock.monotonic() - batch.moment < fresh_for
        )

    def age(self, entry: Entry) -> float:
        """Seconds since an entry's flags were last known to be current.

        That is since they were asked for; and while the service tells of every change,
        nothing grows older until it has told of one, or cannot tell any more.
        """
        now, current, batch = self._clock.monotonic(), entry.current, entry.batch
        if batch is not None:
            if self._streaming and batch.generation == self.generation:
                return 0.0
            current = max(current, self._ends.get(batch.generation, current))
        return max(0.0, now - current)

    def single_age(self, stamp: Stamp) -> float:
        """Seconds since a flag was asked for by itself."""
        return max(0.0, self._clock.monotonic() - stamp.moment)

    def recent(self, count: int) -> list[tuple[bytes, Entry]]:
        """The entries used last, the latest first."""
        entries = list(self._entries.items())
        return heapq.nlargest(count, entries, key=lambda item: item[1].used)

    def store_batch(
        self,
        key: bytes,
        snapshot: Snapshot,
        malformed: list[str],
        stamp: Stamp,
        *,
        kept: float | None = None,
    ) -> Entry:
        """Keep the answer to a batch, unless a newer one is there already.

        A malformed row keeps its last known good value, and so does a flag that
        was evaluated alone after this batch had been asked for.

        Args:
            key: The context.
            snapshot: Its flags.
            malformed: The keys of the flags that could not be read.
            stamp: When the batch was asked for.
            kept: The same by a shared store's clock, where there is one.
        """
        with self._lock:
            old = self._entries.get(key)
            if old is None:
                entry = Entry(snapshot, stamp, _NO_SINGLES, current=stamp.moment, kept=kept)
                return self._put(key, entry)
            if old.batch is not None and old.batch.sequence > stamp.sequence:
                return old
            newer = {k: s for k, s in old.singles.items() if s.sequence > stamp.sequence}
            newer = newer or _NO_SINGLES
            known = old.snapshot.rows
            stay = {k: known[k] for k in (*malformed, *newer) if k in known}
            if stay:
                snapshot = Snapshot({**snapshot.rows, **stay}, complete=True)
            entry = Entry(snapshot, stamp, newer, current=stamp.moment, kept=kept)
            return self._put(key, entry)

    def adopt(
        self, key: bytes, snapshot: Snapshot, *, age: float, kept: float | None, stamp: Stamp | None
    ) -> Entry:
        """Take over what another process was told, if it is better than what is here.

        Args:
            key: The context.
            snapshot: Its flags.
            age: Seconds since they were last known to be current.
            kept: By a shared store's clock, when they were asked for.
            stamp: Where they count as if this process had asked for them: the look into
                the store that found them. ``None``: as last known good only, and only where
                this process knows nothing, or something that is older by that clock.

        Returns:
            What is known now.
        """
        with self._lock:
            old = self._entries.get(key)
            moment = self._clock.monotonic() - age
            singles: dict[str, Stamp] = {}
            if old is not None:
                if not _is_better(old, kept, stamp):
                    return old
                singles = {k: s for k, s in old.singles.items() if s.moment >= moment}
                rows = {k: row for k, row in old.snapshot.rows.items() if k in singles}
                if rows:
                    snapshot = Snapshot({**snapshot.rows, **rows}, complete=snapshot.complete)
            if stamp is not None:
                stamp = Stamp(stamp.sequence, moment, stamp.generation)
            return self._put(key, Entry(snapshot, stamp, singles, current=moment, kept=kept))

    def store_row(self, key: bytes, flag_key: str, row: Row, stamp: Stamp) -> Row:
        """Keep the answer for one flag, unless something newer is known of it.

        Returns:
            What is known of it now: whoever asks next will be told the same.
        """
        with self._lock:
            old = self._entries.get(key)
            if old is None:
                alone = Snapshot({flag_key: row}, complete=False)
                self._put(key, Entry(alone, None, {flag_key: stamp}, current=stamp.moment))
                return row
            latest = old.singles.get(flag_key, old.batch)
            if old.batch is not None and latest is not None:
                latest = max(latest, old.batch, key=lambda call: call.sequence)
            if latest is not None and latest.sequence > stamp.sequence:
                return old.snapshot.get(flag_key) or row
            rows = {**old.snapshot.rows, flag_key: row}
            snapshot = Snapshot(rows, complete=old.snapshot.complete)
            singles = {**old.singles, flag_key: stamp}
            entry = Entry(snapshot, old.batch, singles, current=old.current, kept=old.kept)
            entry.looked = old.looked
            self._put(key, entry)
            return row

    def _put(self, key: bytes, entry: Entry) -> Entry:
        self._tick += 1
        entry.used = self._tick
        if entry.batch is not None:
            entry.generation, entry.moment = entry.batch.generation, entry.batch.moment
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


def _is_better(old: Entry, kept: float | None, stamp: Stamp | None) -> bool:
    """Whether what another process was told goes before what is known here."""
    if stamp is not None:
        return old.batch is None or old.batch.sequence <= stamp.sequence
    if old.batch is None and not old.snapshot.complete:
        # Nothing but single flags, which stay.
        return True
    return old.kept is not None and kept is not None and kept > old.kept


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
            if body in self._snapshots:
                # Two have decoded it at once, and perhaps each in its own way.
                return
            self._held += cost
            self._snapshots[body] = snapshot
            while self._held > self._max:
                oldest = next(iter(self._snapshots))
                self._held -= _cost(oldest, self._snapshots.pop(oldest))


def _cost(body: bytes, snapshot: Snapshot) -> int:
    return _PER_BODY + len(body) + _PER_ROW * snapshot.own_rows
