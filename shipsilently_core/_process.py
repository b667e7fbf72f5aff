"""Threads, tasks and processes: everything that the rest of the package needs of them."""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
import threading
import weakref
from collections.abc import Callable, Coroutine
from contextvars import copy_context
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeAlias, TypeVar, cast

if TYPE_CHECKING:
    import asyncio
    import mmap
    from concurrent.futures import Future

__all__ = [
    "UNMARKED",
    "Bell",
    "Errand",
    "Event",
    "Latch",
    "Lock",
    "Mark",
    "Places",
    "ProcessGuard",
    "Worker",
    "at_exit_and_fork",
    "in_main_thread",
    "in_thread",
    "is_ending",
    "is_time_limit",
    "living",
    "on_event_loop",
    "run_on",
    "running_loop",
    "spawn",
    "this_thread",
]

T = TypeVar("T")

#: One that its own thread may take again: a handler of a signal, or a finalizer, runs in the midst
#: of whatever that thread is doing, and would wait for itself for ever.
Lock = threading.RLock


class Event:
    """`threading.Event`, whose own lock a handler of a signal would wait for."""

    def __init__(self) -> None:
        # Its lock is one that can be taken again.
        self._changed = threading.Condition()
        self._is_set = False

    def is_set(self) -> bool:
        """Whether it has happened."""
        return self._is_set

    def set(self) -> None:
        """It has happened: wake all who wait."""
        with self._changed:
            self._is_set = True
            self._changed.notify_all()

    def clear(self) -> None:
        """It may happen again."""
        self._is_set = False

    def wait(self, timeout: float | None) -> bool:
        """Block for at most `timeout` seconds, ``None`` for any time; whether it has happened."""
        with self._changed:
            if not self._is_set:
                self._changed.wait(timeout)
            return self._is_set


class Places:
    """So many may be taken at once; a semaphore that can be taken in a handler of a signal.

    Args:
        count: How many.
    """

    def __init__(self, count: int) -> None:
        self._freed = threading.Condition()
        self._free = count

    def take(self, timeout: float) -> bool:
        """Block for at most `timeout` seconds until one is free; whether it is taken."""
        with self._freed:
            if not self._freed.wait_for(lambda: self._free > 0, timeout):
                return False
            self._free -= 1
            return True

    def give_back(self) -> None:
        """Another may have it."""
        with self._freed:
            self._free += 1
            self._freed.notify()


def in_main_thread() -> bool:
    """Whether this thread is the one that ends the process where it exits."""
    return threading.current_thread() is threading.main_thread()


def is_ending() -> bool:
    """Whether the interpreter ends, and so starts no thread any more."""
    return not threading.main_thread().is_alive()


def this_thread() -> int:
    """The number of the thread that this code runs in."""
    return threading.get_ident()


def running_loop() -> asyncio.AbstractEventLoop | None:
    """The event loop that this code runs in."""
    # Where one runs, asyncio has been imported; elsewhere that would cost more than all the rest.
    look = getattr(sys.modules.get("asyncio"), "_get_running_loop", None)
    return None if look is None else look()


def on_event_loop() -> bool:
    """Whether this code runs inside an asyncio event loop, where blocking stops everybody."""
    return running_loop() is not None


def run_on(
    loop: asyncio.AbstractEventLoop | None,
    work: Coroutine[Any, Any, object],
    failed: Callable[[BaseException], object],
) -> bool:
    """Run `work` on `loop`, from any thread, without waiting for it.

    Args:
        loop: Where.
        work: What; closed unrun where there is no such loop any more.
        failed: Called with what it raises.

    Returns:
        Whether it will run.
    """

    def ended(future: Future[object]) -> None:
        if not future.cancelled():
            error = future.exception()
            if error is not None:
                failed(error)

    if loop is not None:
        import asyncio

        try:
            asyncio.run_coroutine_threadsafe(work, loop).add_done_callback(ended)
        except RuntimeError:
            # Closed, perhaps just now.
            pass
        else:
            return True
    work.close()
    return False


def spawn(work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
    """Run `work` as a task of its own, so that it outlives the task that wanted it."""
    import asyncio

    return asyncio.get_running_loop().create_task(work)


async def in_thread(work: Callable[[], T], name: str = "shipsilently-aside") -> T:
    """Run blocking `work` in a thread of its own, and wait for it in a task.

    Not in one of the event loop's executor: those are the application's, which may keep all of them
    busy, would miss one in which this hangs, and waits for each where the loop ends.

    Args:
        work: What to do. It sees the task's context variables.
        name: The thread's.

    Returns:
        What it gives; what it raises is raised.
    """
    ended: Latch[tuple[Any, BaseException | None]] = Latch()
    # What it raises refers to the frames that it came by: none of them is to lead back to it.
    handed, run = [ended], copy_context().run

    def carry_out() -> None:
        latch = handed.pop()
        try:
            outcome: tuple[Any, BaseException | None] = run(work), None
        except BaseException as error:
            outcome = None, error
        latch.set(outcome)
        del latch, outcome

    if not Worker(name, carry_out).start():
        # None can be started while the interpreter ends.
        carry_out()
    await ended.await_(None)
    assert ended.result is not None
    result, error = ended.result
    try:
        if error is not None:
            raise error
        return cast(T, result)
    finally:
        del ended, error


#: What task queues raise in the midst of whatever runs, by the handler of a signal: Celery and RQ.
_TIME_LIMITS = frozenset({"SoftTimeLimitExceeded", "JobTimeoutException"})


def is_time_limit(error: BaseException) -> bool:
    """Whether it is the end of the task that this runs in, although it is an `Exception`."""
    return not _TIME_LIMITS.isdisjoint(kind.__name__ for kind in type(error).__mro__)


class Latch(Generic[T]):
    """A result that any number of threads and tasks wait for together.

    A waiter that gives up or is cancelled takes nothing from the others.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._event = Event()
        self._futures: list[asyncio.Future[None]] = []
        self._result: T | None = None

    @property
    def result(self) -> T | None:
        """The result, once it is set."""
        return self._result

    @property
    def done(self) -> bool:
        """Whether it is set."""
        return self._event.is_set()

    def set(self, result: T | None) -> None:
        """Give the result to all who wait, once."""
        with self._lock:
            if self._event.is_set():
                return
            self._result = result
            self._event.set()
            futures, self._futures = self._futures, []
        for future in futures:
            try:
                future.get_loop().call_soon_threadsafe(future.set_result, None)
            except RuntimeError:
                # That loop has been closed, so nobody is waiting there any more.
                continue

    def wait(self, timeout: float) -> bool:
        """Block for at most `timeout` seconds; whether the result is there."""
        return self._event.wait(timeout)

    async def await_(self, timeout: float | None) -> bool:
        """Wait in a task for at most `timeout` seconds, ``None`` for ever; whether it is there."""
        import asyncio

        future = asyncio.get_running_loop().create_future()
        with self._lock:
            if self._event.is_set():
                return True
            self._futures.append(future)
        try:
            await asyncio.wait([future], timeout=timeout)
        finally:
            with self._lock:
                if future in self._futures:
                    self._futures.remove(future)
        return future.done()


class Errand(Latch[T]):
    """Blocking work that one does and others wait for.

    Args:
        work: What to do. The result is ``None`` where it raises.
        here: Whether whoever waits for it carries it out, since nobody else will.

    Attributes:
        here: The same; may be changed.
    """

    def __init__(self, work: Callable[[], T], *, here: bool) -> None:
        super().__init__()
        self._work = work
        self.here = here
        # Nobody waits for it, and its own thread is not to take it again.
        self._begun = threading.Lock()

    def run(self) -> None:
        """Carry it out, the first time, unless it has a result already."""
        if self.done or not self._begun.acquire(blocking=False):
            return
        result = None
        try:
            result = self._work()
        finally:
            self.set(result)

    def wait(self, timeout: float) -> bool:
        """Block for at most `timeout` seconds, or for as long as the work takes here."""
        if self.here:
            self.run()
        return super().wait(timeout)

    async def await_(self, timeout: float | None) -> bool:
        """Wait in a task for at most `timeout` seconds, or for as long as the work takes here."""
        if self.here:
            await in_thread(self.run)
        return await super().await_(timeout)


class Bell:
    """Wakes the one thread that waits on it; closed, it never lets anybody wait again."""

    def __init__(self) -> None:
        self._event = Event()
        self._closed = False

    @property
    def closed(self) -> bool:
        """Whether nobody waits on it any more."""
        return self._closed

    def ring(self) -> None:
        """End the wait that is going on, or else the next one."""
        self._event.set()

    def close(self) -> None:
        """End this wait and all that follow."""
        self._closed = True
        self._event.set()

    def wait(self, timeout: float | None) -> bool:
        """Wait for at most `timeout` seconds, ``None`` for any time; whether it is closed."""
        if not self._closed:
            self._event.wait(timeout)
            if not self._closed:
                self._event.clear()
        return self._closed


class Worker:
    """One named daemon thread.

    Args:
        name: Seen in debuggers and in `threading.enumerate`.
        work: What it does.
    """

    def __init__(self, name: str, work: Callable[[], None]) -> None:
        self._name = name
        self._work = work
        self._thread: threading.Thread | None = None

    def start(self) -> bool:
        """Start it, unless that is done already.

        Returns:
            Whether it has started. The system may refuse another thread, and Python starts none
            any more while the interpreter ends.
        """
        if self._thread is None:
            # Before it is started: a handler of a signal may come here in the midst of that.
            thread = self._thread = threading.Thread(
                target=self._work, name=self._name, daemon=True
            )
            try:
                thread.start()
            except RuntimeError:
                self._thread = None
                return False
        return True

    def join(self, timeout: float) -> bool:
        """Wait for its end, for at most `timeout` seconds; not where it is this very thread.

        Returns:
            Whether there is nothing to wait for any more.
        """
        thread = self._thread
        if thread is None or thread.ident is None or thread is threading.current_thread():
            return True
        thread.join(timeout)
        return not thread.is_alive()


class ProcessGuard:
    """Tells whether this is still the process that the client was made in.

    The one check that is right under every server: fork hooks do not run under
    uWSGI, and there even a thread that is gone says that it is alive.

    Attributes:
        mark: Its first byte is not 0 where this is known without asking the system for the
            process's number, which takes longer than to read a flag.
    """

    def __init__(self) -> None:
        self._pid = os.getpid()
        self._locks: dict[int, threading.RLock] = {}
        self.mark: Mark = _mark()
        self._set_mark()

    @property
    def pid(self) -> int:
        """The process that it is."""
        return self._pid

    def check(self, leave: Callable[[], object]) -> None:
        """In another process than at the last call: `leave` the parent, before any thread goes on.

        Args:
            leave: Called once in each process. Must not use what calls this.
        """
        if self.mark[0]:
            return
        pid = os.getpid()
        if pid == self._pid:
            self._set_mark()
            return
        # One for each process: nobody would ever let go of a lock that was held at the fork.
        with self._locks.setdefault(pid, Lock()):
            if pid != self._pid:
                leave()
                self._pid = pid
        self._set_mark()

    def _set_mark(self) -> None:
        if not isinstance(self.mark, bytes):
            self.mark[0] = 1


Mark: TypeAlias = "mmap.mmap | bytes"

#: Of what is to be looked at each time.
UNMARKED: Mark = b"\0"

#: Of Linux's madvise(2): in a child, however it was forked, the page is full of zeros again.
_WIPE_ON_FORK = 18


def _mark() -> Mark:
    """A page that is wiped when the process forks; where there is none, one that always looks so.

    Other systems give the number another meaning, so only Linux is asked.
    """
    # Here, not above: what makes no client needs none.
    import mmap

    try:
        if sys.platform == "linux":
            page = mmap.mmap(-1, mmap.PAGESIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
            page.madvise(_WIPE_ON_FORK)
            return page
    except OSError:
        # An old kernel, or something that only looks like one.
        pass
    return UNMARKED


class Lived(Protocol):
    """Something with threads and sockets of this process."""

    def at_exit(self) -> None:
        """The interpreter ends."""
        ...

    def after_fork(self) -> None:
        """This is a child; everything but the memory stayed behind in the parent."""
        ...


_lived: weakref.WeakSet[Lived] = weakref.WeakSet()
_hooked = False


def at_exit_and_fork(lived: Lived) -> None:
    """Tell `lived`, for as long as it exists, of the end of this process and of its children.

    The hooks themselves cannot be taken back, so there is one of each for all.
    """
    global _hooked
    _lived.add(lived)
    if _hooked:
        return
    _hooked = True
    atexit.register(_at_exit)
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_after_fork)


def living() -> list[Lived]:
    """Whatever in this process is told of its end and has not been forgotten."""
    return list(_lived)


def _at_exit() -> None:
    # A second signal may end this end: then nothing is left to do, and nothing to tell.
    with contextlib.suppress(SystemExit, KeyboardInterrupt):
        for lived in living():
            lived.at_exit()


def _after_fork() -> None:
    for lived in living():
        lived.after_fork()
