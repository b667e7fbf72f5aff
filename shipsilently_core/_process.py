"""Threads, tasks and processes: everything that the rest of the package needs of them."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Coroutine
from typing import Any, Generic, TypeVar

__all__ = ["Latch", "Lock", "ProcessGuard", "on_event_loop", "spawn"]

T = TypeVar("T")

Lock = threading.Lock


def on_event_loop() -> bool:
    """Whether this code runs inside an asyncio event loop, where blocking stops everybody."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def spawn(work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
    """Run `work` as a task of its own, so that it outlives the task that wanted it."""
    return asyncio.get_running_loop().create_task(work)


class Latch(Generic[T]):
    """A result that any number of threads and tasks wait for together.

    A waiter that gives up or is cancelled takes nothing from the others.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._event = threading.Event()
        self._futures: list[asyncio.Future[None]] = []
        self._result: T | None = None

    @property
    def result(self) -> T | None:
        """The result, once it is set."""
        return self._result

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
                future.get_loop().call_soon_threadsafe(_finish, future)
            except RuntimeError:
                # That loop has been closed, so nobody is waiting there any more.
                continue

    def wait(self, timeout: float) -> bool:
        """Block for at most `timeout` seconds; whether the result is there."""
        return self._event.wait(timeout)

    async def await_(self, timeout: float) -> bool:
        """Wait in a task for at most `timeout` seconds; whether the result is there."""
        future = asyncio.get_running_loop().create_future()
        with self._lock:
            if self._event.is_set():
                return True
            self._futures.append(future)
        try:
            async with asyncio.timeout(timeout):
                await future
        except TimeoutError:
            return False
        finally:
            with self._lock:
                if future in self._futures:
                    self._futures.remove(future)
        return True


def _finish(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


class ProcessGuard:
    """Tells whether this is still the process that the client was made in.

    The one check that is right under every server: fork hooks do not run under
    uWSGI, and there even a thread that is gone says that it is alive.
    """

    def __init__(self) -> None:
        self._pid = os.getpid()

    def forked(self) -> bool:
        """Whether this is another process than at the last call; true once in each."""
        pid = os.getpid()
        if pid == self._pid:
            return False
        self._pid = pid
        return True
