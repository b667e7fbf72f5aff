"""Threads, tasks and processes, as far as a request meets them."""

from __future__ import annotations

import asyncio
import mmap
import os
import sys
import threading
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import pytest

from shipsilently_core._process import (
    Latch,
    ProcessGuard,
    in_thread,
    on_event_loop,
    run_on,
    running_loop,
    spawn,
)
from tests.servers.harness import run_script

LONG = 20.0


def in_threads(count: int, work: Any) -> list[threading.Thread]:
    threads = [threading.Thread(target=work, daemon=True) for _ in range(count)]
    for thread in threads:
        thread.start()
    return threads


def test_a_plain_function_is_not_on_a_loop() -> None:
    """Without an event loop there is none to be found."""
    assert not on_event_loop()
    assert running_loop() is None


async def test_a_coroutine_is_on_a_loop() -> None:
    """Inside a coroutine the loop is found, and in a thread beside it none."""
    assert on_event_loop()
    assert running_loop() is asyncio.get_running_loop()
    assert not await asyncio.to_thread(on_event_loop)


async def test_spawned_work_outlives_its_task() -> None:
    """Work that was spawned goes on when the task that wanted it is cancelled."""
    done = asyncio.Event()
    begun = asyncio.Event()

    async def work() -> None:
        begun.set()
        await asyncio.sleep(0.01)
        done.set()

    async def wants() -> None:
        await spawn(work())

    # Shielded by nothing: awaiting a task directly cancels it, so only its start is awaited.
    holder: list[asyncio.Task[None]] = []

    async def starts() -> None:
        holder.append(spawn(work()))
        await asyncio.sleep(LONG)

    task = asyncio.create_task(starts())
    await begun.wait()
    task.cancel()
    await asyncio.wait([task])
    await asyncio.wait_for(done.wait(), LONG)
    await wants()


def test_a_latch_gives_its_result_once() -> None:
    """The first result stays, and who comes later does not wait."""
    latch: Latch[int] = Latch()
    assert latch.result is None
    assert not latch.wait(0)
    latch.set(1)
    latch.set(2)
    assert latch.wait(0)
    assert latch.result == 1


def test_threads_wait_together() -> None:
    """One result releases every thread that waits."""
    latch: Latch[int] = Latch()
    seen = []

    def work() -> None:
        if latch.wait(LONG):
            seen.append(latch.result)

    threads = in_threads(8, work)
    latch.set(7)
    for thread in threads:
        thread.join(LONG)
    assert seen == [7] * 8


async def test_tasks_wait_together_for_a_thread() -> None:
    """A result that comes from a thread releases every task, and a late task at once."""
    latch: Latch[int] = Latch()
    tasks = [asyncio.create_task(latch.await_(LONG)) for _ in range(8)]
    await asyncio.sleep(0)
    in_threads(1, lambda: latch.set(7))
    assert await asyncio.gather(*tasks) == [True] * 8
    assert await latch.await_(0)


async def test_a_task_waits_no_longer_than_it_said() -> None:
    """A wait that ends without a result says so and leaves nothing behind."""
    latch: Latch[int] = Latch()
    assert not await latch.await_(0.01)
    assert latch._futures == []


async def test_a_task_may_wait_for_any_time() -> None:
    """Without a limit the result ends the wait, and a cancellation does."""
    latch: Latch[int] = Latch()
    one, other = (asyncio.create_task(latch.await_(None)) for _ in range(2))
    await asyncio.sleep(0.01)
    other.cancel()
    await asyncio.wait([other])
    assert not one.done()
    latch.set(1)
    assert await one
    assert latch._futures == []


async def test_a_cancelled_waiter_takes_nothing_from_the_others() -> None:
    """One task's cancellation is its own; the others get the result."""
    latch: Latch[int] = Latch()
    one, other = (asyncio.create_task(latch.await_(LONG)) for _ in range(2))
    await asyncio.sleep(0)
    one.cancel()
    await asyncio.wait([one])
    assert one.cancelled()
    latch.set(1)
    assert await other


async def test_a_result_that_meets_a_cancelled_future_is_dropped() -> None:
    """A future that ended in the meantime is left alone."""
    latch: Latch[int] = Latch()
    task = asyncio.create_task(latch.await_(LONG))
    await asyncio.sleep(0)
    latch.set(1)
    task.cancel()
    await asyncio.wait([task])
    await asyncio.sleep(0)
    assert task.cancelled()


def test_a_loop_that_was_closed_is_passed_over() -> None:
    """A waiter whose loop is gone stops neither the result nor the other waiters."""
    latch: Latch[int] = Latch()
    loop = asyncio.new_event_loop()
    task = loop.create_task(latch.await_(LONG))
    loop.run_until_complete(asyncio.sleep(0))
    future = latch._futures[0]
    assert future.get_loop() is loop
    task.cancel()
    loop.run_until_complete(asyncio.wait([task]))
    loop.close()
    latch._futures.append(future)
    latch.set(1)
    assert latch.result == 1


# Blocking work of a task.


def where() -> str:
    """The name of the thread that this runs in."""
    return threading.current_thread().name


@asynccontextmanager
async def full_executor() -> AsyncIterator[None]:
    """The running loop's executor has one thread, and something that hangs is in it."""
    release = threading.Event()
    with ThreadPoolExecutor(1) as executor:
        loop = asyncio.get_running_loop()
        loop.set_default_executor(executor)
        hanging = loop.run_in_executor(None, release.wait, LONG)
        try:
            yield
        finally:
            assert not hanging.done()
            release.set()
            await hanging


async def test_a_task_gets_what_its_thread_gives() -> None:
    """The result of blocking work, done in a thread of its own that has a name."""
    assert await in_thread(where) == "shipsilently-aside"
    assert await in_thread(where, "shipsilently-other") == "shipsilently-other"


@pytest.mark.parametrize("kind", [ValueError, SystemExit, asyncio.CancelledError])
async def test_a_task_gets_what_its_thread_raises(kind: type[BaseException]) -> None:
    """Whatever that is, and nobody else hears of it."""

    def fail() -> None:
        raise kind("broken")

    with pytest.raises(kind, match="broken"):
        await in_thread(fail)


async def test_a_thread_of_a_task_sees_its_context_variables() -> None:
    """Those of the task that waits; what it sets is seen by nobody else."""
    variable: ContextVar[str] = ContextVar("variable", default="none")

    def work() -> str:
        found = variable.get()
        variable.set("the thread's")
        return found

    async def task(value: str) -> tuple[str, str]:
        variable.set(value)
        return await in_thread(work), variable.get()

    one, two = await asyncio.gather(task("one"), task("two"))
    assert (one, two) == (("one", "one"), ("two", "two"))
    assert await in_thread(work) == variable.get() == "none"


async def test_blocking_work_needs_nothing_of_the_executor() -> None:
    """However full the loop's executor is, work is done, and by many at once."""
    together = threading.Barrier(20)
    async with full_executor():
        work = [in_thread(lambda: together.wait(LONG)) for _ in range(20)]
        assert sorted(await asyncio.gather(*work)) == list(range(20))


async def test_who_no_longer_waits_for_a_thread_leaves_it_to_itself() -> None:
    """The task is free at once, and the work comes to its end."""
    release, ended = threading.Event(), threading.Event()

    def work() -> None:
        release.wait(LONG)
        ended.set()
        raise ValueError("nobody hears of this")

    task = asyncio.create_task(in_thread(work))
    await asyncio.sleep(0.01)
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()
    assert not ended.is_set()
    release.set()
    assert await asyncio.to_thread(ended.wait, LONG)


async def test_without_new_threads_work_is_done_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the system refuses a thread, and while the interpreter ends, the loop's does it."""

    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    def fail() -> None:
        raise ValueError("broken")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    assert await in_thread(where) == where()
    with pytest.raises(ValueError, match="broken"):
        await in_thread(fail)


def test_a_thread_that_hangs_holds_no_loop_up() -> None:
    """A loop that is shut down waits for its executor, but not for what was done beside it."""
    release = threading.Event()

    async def give_up() -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(in_thread(lambda: release.wait(LONG), "hanging"), 0.01)

    asyncio.run(give_up())
    hanging = [thread for thread in threading.enumerate() if thread.name == "hanging"]
    assert len(hanging) == 1
    assert hanging[0].daemon
    release.set()
    hanging[0].join(LONG)
    assert not hanging[0].is_alive()


async def test_work_runs_on_a_loop_from_a_thread() -> None:
    """A coroutine given from a thread runs on the loop; what it raises is reported."""
    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    failures: list[str] = []

    async def bad() -> None:
        raise ValueError("bad")

    def failed(error: BaseException) -> None:
        failures.append(str(error))
        loop.call_soon_threadsafe(ended.set)

    assert await asyncio.to_thread(run_on, loop, bad(), failed)
    await asyncio.wait_for(ended.wait(), LONG)
    assert failures == ["bad"]


async def test_work_that_is_cancelled_or_succeeds_is_no_failure() -> None:
    """Only an exception counts as one."""
    loop, begun = asyncio.get_running_loop(), asyncio.Event()
    failures: list[BaseException] = []
    tasks: list[asyncio.Task[Any] | None] = []

    async def long() -> None:
        tasks.append(asyncio.current_task())
        begun.set()
        await asyncio.sleep(LONG)

    async def short() -> None:
        pass

    assert run_on(loop, long(), failures.append)
    assert run_on(loop, short(), failures.append)
    await begun.wait()
    task = tasks[0]
    assert task is not None
    task.cancel()
    await asyncio.wait([task])
    await asyncio.sleep(0.01)
    assert failures == []


def test_the_guard_knows_its_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """In another process it has the parent left once, and then that is its process."""
    guard = ProcessGuard()
    left: list[int] = []
    guard.check(lambda: left.append(guard.pid))
    assert left == []
    pid = os.getpid()
    guard.mark = b"\0"
    guard.check(lambda: left.append(guard.pid))
    assert left == []
    monkeypatch.setattr(os, "getpid", lambda: pid + 1)
    guard.check(lambda: left.append(guard.pid))
    guard.check(lambda: left.append(guard.pid))
    assert left == [pid]
    assert guard.pid == pid + 1


class _NoSuchAdvice(mmap.mmap):
    def madvise(self, *_: int) -> None:
        raise OSError(22, "Invalid argument")


@pytest.mark.parametrize("lacks", ["system", "kernel"])
def test_the_guard_needs_no_help_of_the_system(lacks: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the system cannot mark a process, its number is looked at each time."""
    if lacks == "system":
        monkeypatch.setattr(sys, "platform", "darwin")
    else:
        monkeypatch.setattr(mmap, "mmap", _NoSuchAdvice)
    guard = ProcessGuard()
    assert not guard.mark[0]
    guard.check(lambda: pytest.fail("this is still the same process"))
    pid = os.getpid()
    monkeypatch.setattr(os, "getpid", lambda: pid + 1)
    left: list[int] = []
    guard.check(lambda: left.append(guard.pid))
    assert left == [pid]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux marks a process")
@pytest.mark.parametrize("how", ["os.fork()", "ctypes.CDLL(None).fork()"])
def test_a_fork_that_python_knows_nothing_of_is_noticed(how: str, tmp_path: Path) -> None:
    """A child finds its mark wiped, also one that a server's own code in C has forked."""
    source = f"""
import ctypes, os
from shipsilently_core._process import ProcessGuard
guard, left = ProcessGuard(), []
parent = os.getpid()
assert guard.mark[0]
child = {how}
guard.check(lambda: left.append(guard.pid))
guard.check(lambda: left.append(guard.pid))
if child == 0:
    os._exit(0 if left == [parent] and guard.mark[0] and guard.pid == os.getpid() else 1)
assert left == [] and os.waitpid(child, 0)[1] == 0
"""
    ended = run_script(source, tmp_path)
    assert ended.status == 0, ended.errors
