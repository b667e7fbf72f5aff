"""What a store holds of a whole process's knowledge: taken in, looked up, and put together anew.

Nothing here calls the store; `Keeper` does.
"""

from __future__ import annotations

from collections.abc import Callable

from ._cache import Cache, Entry
from ._clock import Clock
from ._saved import Collection, Recalled, SavedSnapshot, Seal, Unreadable

__all__ = ["Holdings"]


class Holdings:
    """What earlier processes, and those beside this one, have saved, and what is to be saved next.

    Args:
        seal: Names and locks what the store is given.
        cache: What this process knows.
        clock: Time.
        unreadable: Told of what cannot be used.
        baseline: The client's own context.
        shared: Whether the store also keeps each context by itself, so that of this process's only
            the baseline is saved with the others'.
        most_contexts: How many contexts are saved at most.
        most_bytes: How many bytes.
    """

    def __init__(
        self,
        seal: Seal,
        cache: Cache,
        clock: Clock,
        unreadable: Callable[[Unreadable], None],
        *,
        baseline: bytes,
        shared: bool,
        most_contexts: int,
        most_bytes: int,
    ) -> None:
        self._seal = seal
        self._cache = cache
        self._clock = clock
        self._unreadable = unreadable
        self._baseline = baseline
        self._shared = shared
        self._most_contexts = most_contexts
        self._most_bytes = most_bytes
        self._recalled: Recalled | None = None
        #: What the store held when this process last read or wrote it.
        self._last: bytes | None = None

    def __len__(self) -> int:
        """How many contexts there are of others that this process has not asked for."""
        return 0 if self._recalled is None else len(self._recalled.contexts)

    def take_in(self, data: bytes) -> None:
        """What the store holds, where that is something else than before."""
        try:
            # In this order: what is not bytes may not even be comparable.
            if not isinstance(data, bytes):
                raise Unreadable("it is not bytes")
            if data == self._last:
                return
            self._last = data
            self._recalled = Recalled(self._seal.open_snapshot(self._seal.fingerprint, data))
        except Unreadable as error:
            self._unreadable(error)

    def saved(self, data: bytes) -> None:
        """The store holds this now, which is what `sealed` has given."""
        self._last = data

    def recall(self, context: bytes) -> Entry | None:
        """What is known of this context, also where only others knew it."""
        recalled = self._recalled
        if recalled is None:
            return None
        if recalled.contexts:
            name = self._seal.name_of(context)
            try:
                found = recalled.find(name)
            except Unreadable as error:
                self._unreadable(error)
                found = None
            if found is not None:
                current, snapshot = found
                # It may be of a time to come, since the clock was set back.
                age = max(0.0, self._clock.time() - current)
                self._cache.adopt(context, snapshot, age=age, kept=None, stamp=None)
            # In this order: whoever asks at the same time finds it there or here.
            recalled.forget(name)
        return self._cache.get(context)

    def sealed(self) -> bytes | None:
        """What is to be saved, as large as it may be; ``None`` where that is nothing.

        Raises:
            OverflowError: Even one context is larger.
        """
        count = self._most_contexts
        saved = self._collected(count)
        while saved.contexts:
            data = self._seal.close(self._seal.fingerprint, saved)
            if len(data) <= self._most_bytes:
                return data
            if len(saved.contexts) == 1:
                raise OverflowError
            # The baseline is not among those that are counted.
            count = (len(saved.contexts) - (saved.baseline in saved.contexts)) // 2
            saved = self._collected(count)
        return None

    def _collected(self, count: int) -> SavedSnapshot:
        """What is known, of so many contexts: first of this process, then of others."""
        wall = self._clock.time()
        # Compressed, it takes a fraction of this.
        collected = Collection(wall, self._seal.name_of(self._baseline), 2 * self._most_bytes)
        known = self._cache.get(self._baseline)
        own = [] if known is None else [(self._baseline, known)]
        if not self._shared:
            own += self._cache.recent(count + len(own))
        for context, entry in own:
            name = self._seal.name_of(context)
            current, snapshot = wall - self._cache.age(entry), entry.snapshot
            recalled = self._recalled
            others = None if recalled is None else recalled.contexts.get(name)
            if recalled is not None and others is not None:
                if not snapshot.complete:
                    # Single flags go on top of what others know of all of them.
                    entry = self.recall(context) or entry
                    current, snapshot = wall - self._cache.age(entry), entry.snapshot
                elif current < others[0] <= wall and not entry.singles:
                    collected.add_other(recalled, name)
            collected.add(name, current, snapshot)
        if self._recalled is not None:
            collected.add_others(self._recalled, count + (known is not None))
        return collected.saved()
