"""Analytics in simulated time, and an endpoint for it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from shipsilently_core import AnalyticsConfig, Source
from shipsilently_core._analytics import Analytics
from shipsilently_core._notices import Notices
from shipsilently_core._seen import Seen
from shipsilently_core._snapshot import Row, Snapshot
from shipsilently_core._view import View
from shipsilently_core._wire import EVENTS, Reply, Request
from shipsilently_core.testing import ManualClock

OK = "ok"


class Post:
    """The analytics endpoint: takes what comes, unless told otherwise.

    Attributes:
        bodies: The keys of each request that came.
        taken: The keys of the events that were accepted.
        answers: What to answer the next requests with; `OK` accepts.
    """

    def __init__(self) -> None:
        self.bodies: list[list[str]] = []
        self.taken: list[str] = []
        self.answers: list[Reply | str] = []
        self.timeouts: list[float | None] = []

    def send(self, request: Request) -> Reply:
        """Answer one request."""
        assert request.path == EVENTS
        keys = [event["flagKey"] for event in msgspec.json.decode(request.body)["events"]]
        self.bodies.append(keys)
        self.timeouts.append(request.timeout)
        answer = self.answers.pop(0) if self.answers else OK
        if isinstance(answer, Reply):
            return answer
        self.taken += keys
        return Reply(200, b'{"accepted":%d}' % len(keys))

    async def asend(self, request: Request) -> Reply:
        """Answer one request, in a task."""
        return self.send(request)


class Setup:
    """Analytics whose clock, luck and post the test holds."""

    def __init__(self, rng: Callable[[], float] = lambda: 0.5, **config: Any) -> None:
        self.clock = ManualClock()
        self.post = Post()
        self.lost: list[tuple[int, str]] = []
        self.woken = 0
        self.analytics = Analytics(
            AnalyticsConfig(**config),
            self.clock,
            rng,
            base_delay=1.0,
            notices=Notices(self.clock),
            dropped=lambda count, cause: self.lost.append((count, cause)),
        )
        self.analytics.wake = self.wake

    def wake(self) -> None:
        """A batch is full."""
        self.woken += 1

    def record(self, count: int, first: int = 0) -> list[str]:
        """Count so many checks; their keys."""
        keys = [str(number) for number in range(first, first + count)]
        for key in keys:
            self.analytics.record(key, True, "default")
        return keys

    def flush(self, timeout: float = 2.0) -> int:
        """Deliver."""
        return self.analytics.flush(self.post.send, timeout)

    def aflush(self, timeout: float = 2.0) -> int:
        """Deliver, in a task."""
        return asyncio.run(self.analytics.aflush(self.post.asend, timeout))


def sheet(*keys: str) -> Seen:
    """What a request has seen and read, to be listed."""
    rows = {key: Row(True, "default") for key in keys}
    view = View(Snapshot(rows, complete=True), (), {}, Source.CACHE)
    return Seen(None, view, dict.fromkeys(keys, True), rows, {}, listed=False)


def run_while_delivering(made: Setup, threads: Sequence[threading.Thread]) -> None:
    """Run these threads while another delivers again and again, and deliver what is left."""
    stop = threading.Event()

    def deliver() -> None:
        while not stop.is_set():
            made.flush()

    courier = threading.Thread(target=deliver)
    courier.start()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    stop.set()
    courier.join(5)
    made.flush(20.0)
