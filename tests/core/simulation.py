"""The stream in simulated time: waiting moves the clock, and the network is a script."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from shipsilently_core import ConnectionState, RetryConfig
from shipsilently_core._notices import Notices
from shipsilently_core._stream import Silence, Stream, StreamBroken, StreamReader
from shipsilently_core._wire import TICKET, Reply, Request
from shipsilently_core.testing import ManualClock

__all__ = [
    "CONNECTED",
    "DAY",
    "HEARTBEAT",
    "SILENCE",
    "UPDATED",
    "Feed",
    "Simulation",
    "Step",
    "heartbeats",
    "ticket",
]

DAY = 86_400.0
CONNECTED = b'event: connected\ndata: {"connectionId":"c1"}\n\n'
HEARTBEAT = b"event: heartbeat\ndata: {}\n\n"
UPDATED = b'event: flags.updated\ndata: {"envId":"e1"}\n\n'

#: Seconds of waiting, then bytes, or what reading raises.
Step = tuple[float, bytes | BaseException]


#: Nothing comes any more, and nobody says so.
SILENCE: Step = (float("inf"), b"")


def ticket(name: str) -> Reply:
    """The answer to a request for a ticket."""
    return Reply(200, json.dumps({"ticket": name, "expiresIn": 60}).encode())


def heartbeats(length: float, *, every: float = 30.0) -> Iterator[Step]:
    """A stream that lives for so many seconds as the service's do."""
    yield 0.0, CONNECTED
    for _ in range(int(length / every)):
        yield every, HEARTBEAT


class Feed:
    """An open stream that plays a script, then ends."""

    def __init__(
        self,
        pass_time: Callable[[float], None],
        steps: Iterable[Step],
        interrupted: Callable[[], bool],
    ) -> None:
        self._interrupted = interrupted
        self._pass_time = pass_time
        self._steps = iter(steps)
        self._held: Step | None = None
        self.closed = False

    def read(self, timeout: float) -> bytes:
        """What comes next, or silence."""
        assert not self.closed
        assert timeout > 0
        step = self._held or next(self._steps, None)
        if step is None:
            raise StreamBroken("the server ended it")
        delay, what = step
        if delay >= timeout:
            self._held = (delay - timeout, what)
            self._pass_time(timeout)
            raise Silence
        self._held = None
        if delay:
            self._pass_time(delay)
            if self._interrupted():
                raise StreamBroken("interrupted")
        if isinstance(what, BaseException):
            raise what
        return what

    def close(self) -> None:
        """No more reads."""
        self.closed = True


@dataclass
class Simulation:
    """A `Stream` whose client is closed when the time is up.

    Attributes:
        stream: What is under test.
        clock: Moved by waiting and reading.
        tickets: When each ticket was asked for, seconds from the start.
        opened: The ticket that each stream was opened with.
        waits: Each wait between two tries.
        states: Each state that was told, with its moment.
        updates: When each update was told.
        feeds: Every stream that was open.
        on_ticket: Answers a request for a ticket; gets the number of those before it.
        on_open: Answers the opening of a stream, likewise.
        on_wait: Called as each wait begins.
    """

    lasts: float
    retry: RetryConfig = field(default_factory=RetryConfig)
    rng: Callable[[], float] = field(default_factory=lambda: random.Random(7).random)
    on_ticket: Callable[[int], Reply] = lambda number: ticket(f"t{number}")
    on_open: Callable[[int], Reply | Iterable[Step] | StreamReader] = lambda number: ()
    pass_time: Callable[[float], None] | None = None
    clock: ManualClock = field(default_factory=ManualClock)
    tickets: list[float] = field(default_factory=list)
    opened: list[str] = field(default_factory=list)
    waits: list[float] = field(default_factory=list)
    states: list[tuple[float, ConnectionState]] = field(default_factory=list)
    updates: list[float] = field(default_factory=list)
    feeds: list[Feed] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._began = self.clock.monotonic()
        self.notices = Notices(self.clock)
        self.stream = Stream(
            lambda: self,
            self.clock,
            self.rng,
            retry=self.retry,
            notices=self.notices,
            wait=self._wait,
            closed=self._closed,
            on_state=lambda state: self.states.append((self.now, state)),
            on_updated=lambda: self.updates.append(self.now),
        )

    @property
    def now(self) -> float:
        """Seconds since the start."""
        return self.clock.monotonic() - self._began

    def run(self) -> Simulation:
        """Run it to its end."""
        self.stream.run()
        return self

    def changes(self) -> list[ConnectionState]:
        """The states, each told once per change as the background does."""
        told = [state for _, state in self.states]
        return [s for i, s in enumerate(told) if i == 0 or s is not told[i - 1]]

    def send(self, request: Request) -> Reply:
        """For the stream: a request for a ticket."""
        assert request == Request(TICKET, b"")
        self.tickets.append(self.now)
        return self.on_ticket(len(self.tickets) - 1)

    def open_stream(self, ticket: str) -> StreamReader | Reply:
        """For the stream: open it."""
        self.opened.append(ticket)
        answer = self.on_open(len(self.opened) - 1)
        if isinstance(answer, Reply):
            return answer
        if not isinstance(answer, Iterable):
            return answer
        feed = Feed(self._pass, answer, self._closed)
        self.feeds.append(feed)
        return feed

    def _pass(self, seconds: float) -> None:
        if self.pass_time is None:
            self.clock.advance(seconds)
        else:
            self.pass_time(seconds)

    def _wait(self, seconds: float) -> bool:
        self.waits.append(seconds)
        self._pass(seconds)
        return self._closed()

    def _closed(self) -> bool:
        return self.now >= self.lasts
