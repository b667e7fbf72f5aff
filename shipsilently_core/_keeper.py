"""The client's side of a store: what is loaded, looked up and saved, when, and by which thread.

Every call of the store is made in the store's own thread where a background runs. Whoever waits
for one waits for the store's deadline at most, in a thread or in a task. Where no background runs,
whoever needs something makes the call itself.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Final, TypeVar

from msgspec import Struct

from ._cache import Cache, Entry, Stamp
from ._clock import Clock
from ._consult import Consultation
from ._holdings import Holdings
from ._notices import Notices
from ._process import Bell, Errand, Latch, Lock
from ._saved import SavedContext, Seal, Unreadable, body_of, snapshot_of
from ._snapshot import Snapshot
from ._storecalls import StoreCalls, name_of
from .stores import Found, SharedStore, SnapshotStore
from .values import Failure, FailureReport, StoreStatus

__all__ = ["Keeper", "Look", "Wait"]

T = TypeVar("T")

#: What to wait for, and for how many seconds at most.
Wait = tuple[Latch[Any], float]

#: Seconds; of a store that says nothing of them itself.
_DEADLINE: Final = 1.0
_INTERVAL: Final = 10.0
_MOST_CONTEXTS: Final = 1_000
_MOST_BYTES: Final = 8 * 1024 * 1024

#: Seconds after which everything is saved again, though only the time until which it is known
#: to be current has changed.
_AGAIN_AFTER = 300.0

#: How many contexts may wait to be put into a shared store; the oldest goes first.
_MOST_WAITING = 10_000

#: Seconds; no store's clock shows as much.
_LATEST: Final = 1e12


class Look(Struct, frozen=True):
    """What a shared store knew of one context when it was asked.

    Attributes:
        asked: When it was asked.
        snapshot: The context's flags; ``None`` for nothing of use.
        age: Seconds since they were known to be current.
        stamp: By the store's clock, when they were asked for.
        fresh: Whether that was after the service's latest word of a change.
        now: The store's time; ``None`` where it has no clock.
        leads: Whether the caller is to ask the service.
    """

    asked: Stamp
    snapshot: Snapshot | None
    age: float
    stamp: float
    fresh: bool
    now: float | None
    leads: bool


class _Waiting(Struct, frozen=True):
    """What is to be put into a shared store; nothing but the end of a lease without a snapshot."""

    snapshot: Snapshot | None
    current: float
    stamp: float


class Question(Errand[Look | None]):
    """A look that a request waits for.

    Args:
        work: Carries it out.
        here: See `Errand`.
        answers: How many calls of the store had come back when it was asked for.
    """

    def __init__(self, work: Callable[[], Look | None], *, here: bool, answers: int) -> None:
        super().__init__(work, here=here)
        self.answers = answers


class Keeper:
    """Recalls what earlier processes knew, and keeps what this one knows.

    Args:
        store: The store.
        seal: Names and locks what it is given.
        cache: What this process knows.
        clock: Time.
        rng: Gives a number in ``[0, 1)``.
        notices: For the log.
        report: Told of each failure, outside every lock.
        baseline: The client's own context.
        lease: Seconds for which one process keeps the others from asking the service too.
    """

    def __init__(
        self,
        store: SnapshotStore,
        seal: Seal,
        cache: Cache,
        clock: Clock,
        rng: Callable[[], float],
        notices: Notices,
        report: Callable[[FailureReport], None],
        *,
        baseline: bytes,
        lease: float,
    ) -> None:
        self._store = store
        self._shared_store = store if isinstance(store, SharedStore) else None
        self._kind = type(store).__name__
        self._seal = seal
        self._cache = cache
        self._clock = clock
        self._notices = notices
        self._report = report
        self._baseline = baseline
        self._lease = lease
        self.deadline: float = float(getattr(store, "deadline", _DEADLINE))
        self._load_deadline = float(getattr(store, "load_deadline", self.deadline))
        self._interval = float(getattr(store, "interval", _INTERVAL))
        self._holdings = Holdings(
            seal,
            cache,
            clock,
            self._tell_unreadable,
            baseline=baseline,
            shared=self.shared,
            most_contexts=int(getattr(store, "max_contexts", _MOST_CONTEXTS)),
            most_bytes=int(getattr(store, "max_bytes", _MOST_BYTES)),
        )
        self._saved_at = float("-inf")
        self._saved_time: float | None = None
        self._dirty = False
        #: The generation in which the store's clock was last read, and what it said: whatever
        #: was asked for later is news of that generation. In the first there was no change yet.
        self._mark: tuple[int, float] = (cache.generation, -1.0)
        #: Whether the store has none.
        self._clockless = False
        #: The latest that is known of the store's clock.
        self._seen = 0.0
        self._calls = StoreCalls(
            self._kind, self.deadline, clock, rng, notices, report, gave_up=self._let_go
        )
        self._begin()

    def _begin(self) -> None:
        self._lock = Lock()
        self._bell = Bell()
        self._asked: deque[Question] = deque()
        self._waiting: dict[str, _Waiting] = {}
        self._heard = False
        #: Whether the last call that was to write has failed: then it does not work for as long as
        #: something waits to be written, though it may be read.
        self._unwritten = False
        #: Whether a thread of this process makes the calls.
        self._threaded = False
        #: Whether it is in `run`, and when it is to have ended; ``None`` where that is not for it.
        self._running = False
        self._end: float | None = None
        self._patient = True
        self._load: Errand[bool] = Errand(self._load_now, here=True)

    def renew(self) -> None:
        """In a forked child: locks and calls of its own; what was loaded is kept."""
        loaded = self._load.done
        self._calls.renew()
        self._begin()
        if loaded:
            self._load.set(True)

    @property
    def shared(self) -> bool:
        """Whether the store keeps single contexts for many processes."""
        return self._shared_store is not None

    def status(self) -> StoreStatus:
        """How it goes, at this moment."""
        return StoreStatus(
            kind=self._kind,
            loaded=self._load.done,
            contexts=len(self._holdings),
            saved=self._saved_time,
            error=self._calls.error,
            cool_down=self._calls.cool_down,
        )

    def consultation(self, context: bytes, *, patience: float, may_ask: bool) -> Consultation:
        """A look for one context, before the service is asked; see `Consultation`."""
        return Consultation(
            self, self._cache, self._clock, context, patience=patience, may_ask=may_ask
        )

    # What was known before.

    def loading(self) -> Iterator[Wait]:
        """Waits until the store has told what earlier processes knew, once in a process."""
        if not self._load.done and self._patient:
            yield self._load, self._load_deadline
            if not self._load.done:
                # One has waited; for the others what comes later comes later.
                self._patient = False

    def recall(self, context: bytes) -> Entry | None:
        """What an earlier process, or one beside this, knew of this context."""
        return self._holdings.recall(context)

    def _load_now(self) -> bool:
        self._read_again()
        self.recall(self._baseline)
        return True

    def _read_again(self) -> None:
        """Take in what the store holds, where that is something else than before."""
        name = self._seal.fingerprint
        data = self._call("load from", lambda: self._store.load(name), awaited=False)
        if data is not None:
            self._holdings.take_in(data)

    def _tell_unreadable(self, error: Unreadable) -> None:
        message = f"what the {self._kind} holds is not used: {error.why}; it will be replaced"
        self._notices.warn("store unreadable", "%s", message)
        self._report(FailureReport(Failure.STORE, None, None, message))

    # A shared store, on a request.

    def has_more(self, entry: Entry | None) -> bool:
        """Whether it makes sense to wait for the store before the service is asked."""
        if not self._load.done and self._patient:
            return True
        if not self.shared or not self._usable():
            return False
        if entry is None:
            return True
        if self._clockless:
            # Nobody could tell whether what it has is newer.
            return False
        if entry.looked is None:
            return True
        if entry.looked.generation != self._cache.generation:
            return True
        return self._clock.monotonic() - entry.looked.moment >= self._cache.base_age

    def look(self, context: bytes, *, leased: bool) -> Question | None:
        """Ask for one context; wait for it for `deadline` seconds, then call `found`.

        Args:
            context: Which.
            leased: Whether to keep other processes from asking the service meanwhile.

        Returns:
            ``None`` where the store cannot be asked just now.
        """
        store = self._shared_store
        if store is None or not self._usable():
            return None
        name = self._seal.name_of(context)
        lease = self._lease if leased else 0.0
        here = not self._threaded
        errand = Question(
            lambda: self._look(store, name, lease), here=here, answers=self._calls.answers
        )
        if not here:
            self._asked.append(errand)
            self._bell.ring()
        return errand

    def found(self, errand: Question) -> Look | None:
        """The answer, once it was waited for; where none came in time, nobody waits for a while."""
        if not errand.done:
            # Nobody waits for it any more, so it is not to take a lease either.
            errand.set(None)
            if self._calls.answers == errand.answers:
                # Otherwise there are too many looks for one thread, and the store is well.
                self._calls.failed("look into", "no answer in time")
        return errand.result

    def _look(self, store: SharedStore, name: str, lease: float) -> Look | None:
        asked = self._cache.stamp()
        generation, heard_at = self._mark
        newer_than = heard_at if generation == asked.generation else None

        def ask() -> Found:
            found = store.get(
                name, newer_than=newer_than, younger_than=self._cache.fresh_for, lease=lease
            )
            # Whoever wrote the store may give back anything.
            if not (_is_data(found.data) and _is_time(found.now)):
                raise TypeError
            return Found(found.data, found.now, leads=bool(found.leads))

        found = self._call("look into", ask)
        if found is None:
            return None
        snapshot, age, stamp, fresh = None, 0.0, -1.0, False
        self._clockless = found.now is None
        if found.now is not None:
            self._seen = found.now
            if newer_than is None or found.now < newer_than:
                # The latter: it was emptied, and its clock is another server's.
                self._mark = (asked.generation, found.now)
        if found.data is not None:
            try:
                saved = self._seal.open_context(name, found.data)
                snapshot = snapshot_of(saved.body)
            except Unreadable as error:
                self._tell_unreadable(error)
            else:
                stamp = saved.stamp
                age = self._clock.time() - saved.current
                if found.now is not None and newer_than is not None:
                    # A stamp from the future is that of a clock that was set back since.
                    passed = found.now - stamp
                    fresh = stamp > newer_than and 0.0 <= passed < self._cache.fresh_for
                    age = passed if fresh else age
        return Look(asked, snapshot, max(0.0, age), stamp, fresh, found.now, found.leads)

    def heard(self) -> None:
        """The service has told of a change: what the store's clock says now is to be known."""
        if self.shared:
            self._heard = True
            self._bell.ring()

    # What is known now.

    def keep(self, context: bytes, snapshot: Snapshot, stamp: float | None) -> None:
        """The service has answered.

        Args:
            context: For whom.
            snapshot: All of the context's flags as they are now.
            stamp: By the store's clock, from before the service was asked; ``None`` where it was
                not looked at then.
        """
        if not self.shared or context == self._baseline:
            first, self._dirty = not self._dirty, True
            if first:
                self._bell.ring()
        if self.shared:
            stamp = self._seen if stamp is None else stamp
            self._enqueue(context, _Waiting(snapshot, self._clock.time(), stamp))

    def release(self, context: bytes) -> None:
        """The service has not answered: others may ask it for this context."""
        self._enqueue(context, _Waiting(None, 0.0, 0.0))

    def _enqueue(self, context: bytes, waiting: _Waiting) -> None:
        name = self._seal.name_of(context)
        with self._lock:
            if waiting.snapshot is None and name in self._waiting:
                # What is to be put ends the lease, too.
                return
            self._waiting[name] = waiting
            if len(self._waiting) > _MOST_WAITING:
                del self._waiting[next(iter(self._waiting))]
        self._bell.ring()

    def deliver(self) -> Errand[bool] | None:
        """Put what is waiting, where no thread does; to be waited for."""
        if self._threaded or not self._waiting:
            return None
        end = self._clock.monotonic() + self.deadline
        # The others wait for the next request.
        return Errand(lambda: self._put_all(lambda: self._clock.monotonic() >= end), here=True)

    def _put_all(self, enough: Callable[[], bool]) -> bool:
        """Put what is waiting.

        Args:
            enough: Asked after each; whether the others are to wait.

        Returns:
            Whether nothing is left that could be put.
        """
        store = self._shared_store
        while store is not None and self._waiting and not self._calls.rests():
            with self._lock:
                waiting, self._waiting = self._waiting, {}
            while waiting:
                self._look_all()
                name, one = waiting.popitem()
                if not self._put(store, name, one):
                    waiting[name] = one
                elif not enough():
                    continue
                with self._lock:
                    self._waiting = {**waiting, **self._waiting}
                return not self._waiting
        return True

    def _put(self, store: SharedStore, name: str, one: _Waiting) -> bool:
        data = None
        if one.snapshot is not None:
            kept = SavedContext(one.current, one.stamp, body_of(one.snapshot))
            data = self._seal.close(name, kept)
        return self._done("put into", lambda: store.put(name, data, stamp=one.stamp))

    def _save(self) -> None:
        self._saved_at = self._clock.monotonic()
        name = self._seal.fingerprint
        with self._locked(name):
            self._save_as(name)

    @contextmanager
    def _locked(self, name: str) -> Iterator[None]:
        """Others save before this block or after it, where the store has a lock and it works."""
        lock = getattr(self._store, "locked", None)
        held: AbstractContextManager[object] | None = None
        if lock is not None and len(self._cache):
            try:
                held = lock(name)
                held.__enter__()
            except Exception as error:
                held = None
                self._tell_unlocked(error)
        try:
            yield
        finally:
            if held is not None:
                try:
                    held.__exit__(None, None, None)
                except Exception as error:
                    self._tell_unlocked(error)

    def _tell_unlocked(self, error: Exception) -> None:
        self._notices.warn(
            "store unlocked",
            "the lock of the %s does not work (%s), so what several processes save at once may be "
            "lost",
            self._kind,
            name_of(error),
        )

    def _save_as(self, name: str) -> None:
        if not (self.shared and self._dirty):
            # Those beside this process save there as well; and what this one knows may be older,
            # unless it is a baseline that has just been asked for.
            self._read_again()
        self._dirty = False
        try:
            data = self._holdings.sealed()
        except OverflowError:
            self._calls.failed("save to", "even one context is larger than allowed")
            return
        if data is None:
            return
        if self._done("save to", lambda: self._store.save(name, data)):
            self._holdings.saved(data)
            self._saved_time = self._clock.time()
        else:
            self._dirty = True

    # The store's own thread.

    def run(self) -> None:
        """Make the calls, until `stop`."""
        self._running = True
        self._survive(self._load.run)
        while not self._bell.wait(self.due_in()):
            self._survive(self.turn)
        self._let_go()
        end, self._running = self._end, False
        if end is not None:
            self._survive(lambda: self._finish(end))

    def _survive(self, work: Callable[[], object]) -> None:
        try:
            work()
        except (Exception, SystemExit) as error:
            # Whatever it is, the next turn must come, and not at once. The latter would end this
            # thread without a word.
            self._calls.failed("use", name_of(error))

    def start(self) -> None:
        """From now on a thread calls `run`."""
        self._threaded = True
        self._load.here = False

    def stop(self, timeout: float | None = None) -> None:
        """End `run`; from now on whoever needs something makes the call.

        Args:
            timeout: Seconds within which its thread is to keep what is not kept yet, since a
                store may hang, and nobody is to wait for it then; ``None`` leaves it to `finish`.
        """
        if self._running and timeout is not None:
            self._end = self._clock.monotonic() + timeout
        self._threaded = False
        self._load.here = True
        self._bell.close()

    def finish(self, timeout: float) -> None:
        """Keep what is not kept yet, within about so many seconds, unless `run` sees to it."""
        if self._end is None:
            self._finish(self._clock.monotonic() + timeout)

    def _finish(self, end: float) -> None:
        if self._load.done and not (self.shared and self._calls.error is not None):
            self._put_all(lambda: self._clock.monotonic() >= end)
            if self._dirty and self._clock.monotonic() < end:
                self._save()
        close = getattr(self._store, "close", None)
        if callable(close):
            try:
                close()
            except Exception as error:
                self._calls.failed("close", name_of(error))

    def due_in(self) -> float | None:
        """Seconds until there is something to do; ``None`` for not until the bell rings."""
        now = self._clock.monotonic()
        if self._calls.rests():
            return self._calls.cool_down
        if self._asked or self._waiting or self._heard:
            return 0.0
        if self._calls.error is not None and (self.shared or self._dirty):
            # The cool-down is over: try it.
            return 0.0
        since = now - self._saved_at
        if self._dirty:
            return max(0.0, self._interval - since)
        return None if self._saved_time is None else max(0.0, _AGAIN_AFTER - since)

    def turn(self) -> None:
        """Do what is due: first what requests wait for."""
        if self._calls.rests():
            self._let_go()
            return
        store = self._shared_store
        if store is not None:
            if self._heard or self._calls.error is not None:
                self._heard = False
                self._read_clock(store)
            self._look_all()
            # Once it is closed, whoever closes it puts what is left.
            self._put_all(lambda: self._bell.closed)
        if not self._calls.rests() and self._is_due():
            self._save()

    def _look_all(self) -> None:
        """What requests wait for goes before anything else."""
        while not self._calls.rests() and (errand := self._next()) is not None:
            errand.run()

    def _is_due(self) -> bool:
        since = self._clock.monotonic() - self._saved_at
        if self._dirty:
            return since >= self._interval or self._calls.error is not None
        return self._saved_time is not None and since >= _AGAIN_AFTER

    def _next(self) -> Question | None:
        try:
            return self._asked.popleft()
        except IndexError:
            return None

    def _read_clock(self, store: SharedStore) -> None:
        generation = self._cache.generation

        def ask() -> float | None:
            now = store.clock(self._seal.fingerprint)
            if not _is_time(now):
                raise TypeError
            return now

        now = self._call("read the clock of", ask)
        if now is not None:
            self._seen = now
            self._mark = (generation, now)

    def _let_go(self) -> None:
        """Nobody is to wait for what will not be done."""
        while (errand := self._next()) is not None:
            errand.set(None)

    # One call of the store.

    def _usable(self) -> bool:
        """Whether a request may ask it; after a failure the store's own thread tries it first."""
        return not self._calls.rests() and not (self._threaded and self._calls.error is not None)

    def _done(self, what: str, work: Callable[[], object]) -> bool:
        def done() -> bool:
            work()
            return True

        self._unwritten = self._call(what, done, awaited=False, writes=True) is None
        return not self._unwritten

    def _call(
        self, what: str, work: Callable[[], T], *, awaited: bool = True, writes: bool = False
    ) -> T | None:
        settles = writes or not (self._unwritten and (self._dirty or self._waiting))
        # What the thread does for itself may take longer, such as making the first connection.
        timed = self.shared and (awaited or not self._threaded)
        return self._calls.call(what, work, awaited=timed, settles=settles)


def _is_data(value: object) -> bool:
    return value is None or isinstance(value, bytes)


def _is_time(value: object) -> bool:
    return value is None or (isinstance(value, (int, float)) and abs(value) < _LATEST)
