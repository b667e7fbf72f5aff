"""The background of one client in one process: its two threads, and the state they are in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from ._clock import Clock
from ._evaluation import Evaluator
from ._process import Bell, Lock, Worker, is_ending
from ._refresh import Refresher
from ._stream import Stream, StreamTransport
from ._watch import Watch
from ._wire import Reply, Request
from .config import Config
from .values import ConnectionState

__all__ = ["Background", "Tell"]

#: Seconds for one delivery of events, which nobody waits for.
_FLUSH_TIMEOUT = 30.0

#: Seconds between two tries to start threads.
_START_AGAIN = 60.0

#: Seconds between two looks at a thread that is to end.
_STEP = 0.05


class Transport(StreamTransport, Protocol):
    """What the background needs of the network."""

    def interrupt(self) -> None:
        """End every exchange that is under way, at once."""
        ...


class _Closing(Exception):
    """A delivery has been ended because the client is being closed."""


class Tell(Protocol):
    """Whom the background tells what it found; none of these raises."""

    def state(self, state: ConnectionState, previous: ConnectionState) -> None:
        """The connection's state has changed."""
        ...

    def call(self, what: str, function: Callable[..., Any], *args: Any) -> None:
        """Call a function of the user's."""
        ...


class Background:
    """A thread that follows the stream and one that evaluates.

    Args:
        config: The client's settings.
        clock: Time.
        rng: Gives a number in ``[0, 1)``.
        evaluator: Draws the conclusions.
        transport: Gives the network when it is first needed.
        watches: The contexts to keep current, the baseline's first.
        tell: Told of what happens.
    """

    def __init__(
        self,
        config: Config,
        clock: Clock,
        rng: Callable[[], float],
        *,
        evaluator: Evaluator,
        transport: Callable[[], Transport],
        watches: tuple[Watch, ...],
        tell: Tell,
    ) -> None:
        self._evaluator = evaluator
        self._transport = transport
        self._tell = tell
        self._lock = Lock()
        self._state = ConnectionState.IDLE
        self._stopped = False
        self._bells = (Bell(), Bell())
        self.refresher = Refresher(
            evaluator,
            lambda request: transport().send(request),
            clock,
            rng,
            bell=self._bells[0],
            base=config.retry.base_delay,
            isolate=lambda function, *args: tell.call("a callback", function, *args),
        )
        for watch in watches:
            self.refresher.add(watch)
        self._stream = Stream(
            transport,
            clock,
            rng,
            retry=config.retry,
            notices=evaluator.notices,
            wait=self._bells[1].wait,
            closed=lambda: self._bells[1].closed,
            on_state=self._enter,
            on_updated=self._updated,
        )
        self._flush_bell = Bell()
        self._clock = clock
        self._base = config.retry.base_delay
        self._workers = [self._worker("refresh", self.refresher.run, self._bells[0])]
        if config.analytics.enabled:
            self._workers.append(self._worker("events", self._flush, self._flush_bell))
        self._wants_stream = config.stream
        self._keeper = evaluator.keeper
        self._keeps: Worker | None = None
        #: Whether all its threads run.
        self.complete = False
        self._starting = Lock()
        #: Monotonic seconds of the next try to start those that do not.
        self._start_at = 0.0
        if config.stream:
            self._workers.append(self._worker("stream", self._stream.run, self._bells[1]))

    @property
    def state(self) -> ConnectionState:
        """The connection's state."""
        return self._state

    def _worker(self, name: str, run: Callable[[], None], bell: Bell) -> Worker:
        """A thread that ends when its work does, and when nothing else does."""

        def go_on() -> None:
            while True:
                try:
                    return run()
                except (Exception, SystemExit) as error:
                    # The latter would end it without a word.
                    kind = type(error).__name__
                    self._evaluator.notices.warn(
                        f"{name} raised {kind}",
                        "the background's thread for %s raised %s; it begins anew",
                        name,
                        kind,
                    )
                if bell.wait(self._base):
                    return None

        return Worker(f"shipsilently-{name}", go_on)

    def start(self) -> bool:
        """Start the threads that do not run yet; whether all run now.

        What was refused is tried again once a minute, by whoever calls this.
        """
        # Nobody waits for whoever is just starting them.
        if self._stopped or not self._starting.acquire(blocking=False):
            return False
        try:
            return self._start()
        finally:
            self._starting.release()

    def _start(self) -> bool:
        if self.complete or self._clock.monotonic() < self._start_at:
            return self.complete
        self._evaluator.wake = self._bells[0].ring
        self._evaluator.analytics.wake = self._flush_bell.ring
        self._start_keeper()
        # Each, whatever becomes of the others.
        started = [worker.start() for worker in self._workers]
        self.complete = self._evaluator.gate.background = all(started)
        if not self._wants_stream:
            self._enter(ConnectionState.POLLING)
        if not self.complete:
            self._start_at = self._clock.monotonic() + _START_AGAIN
            if not is_ending():
                self._evaluator.notices.warn(
                    "no threads",
                    "the system refuses more threads: the background runs without %d of its %d, "
                    "and tries again in a minute",
                    started.count(False),
                    len(started),
                )
        return self.complete

    def _start_keeper(self) -> None:
        """Give the store a thread of its own; without one, requests make its calls themselves."""
        if self._keeper is not None and self._keeps is None:
            self._keeps = Worker("shipsilently-store", self._keeper.run)
            self._keeper.start()
            if not self._keeps.start():
                self._keeper.stop()

    def stop(self, timeout: float) -> None:
        """End the threads, waiting for them for at most `timeout` seconds."""
        with self._lock:
            self._stopped = True
        self._evaluator.gate.background = False
        for bell in (*self._bells, self._flush_bell):
            bell.close()
        if self._keeper is not None:
            self._keeper.stop(timeout)
        transport = self._transport()
        transport.interrupt()
        workers = self._workers if self._keeps is None else [*self._workers, self._keeps]
        for worker in workers:
            # What it was about to open just then is to end, too.
            while not worker.join(min(_STEP, timeout)) and timeout > 0:
                timeout = max(0.0, timeout - _STEP)
                transport.interrupt()
        self._change(ConnectionState.IDLE)

    def _enter(self, state: ConnectionState) -> None:
        if not self._stopped:
            self._change(state)

    def _change(self, state: ConnectionState) -> None:
        with self._lock:
            previous, self._state = self._state, state
            if state is previous:
                return
            streaming = state is ConnectionState.STREAMING
            self.refresher.streaming = streaming
            self._evaluator.cache.live(streaming)
        if streaming and self._keeper is not None:
            self._keeper.heard()
        if streaming:
            # What happened before the stream came up was not told on it.
            self.refresher.missed()
        elif previous is ConnectionState.STREAMING:
            self.refresher.unwatched()
        self._bells[0].ring()
        self._tell.state(state, previous)

    def _flush(self) -> None:
        analytics = self._evaluator.analytics
        last = self._clock.monotonic()
        while not self._flush_bell.wait(analytics.due_in(last)):
            if analytics.due_in(last) > 0:
                continue
            if not analytics.idle:
                try:
                    analytics.flush(self._deliver, _FLUSH_TIMEOUT)
                except _Closing:
                    return
                except Exception as error:
                    # Whatever it is, the next delivery must come.
                    self._evaluator.notices.warn(
                        "events raised", "delivering events raised %s", type(error).__name__
                    )
            last = self._clock.monotonic()

    def _deliver(self, request: Request) -> Reply:
        reply = self._transport().send(request)
        if reply.status is None and self._flush_bell.closed:
            # Our own doing: no failure to tell of, and the last delivery takes these events along.
            raise _Closing
        return reply

    def _updated(self) -> None:
        self._evaluator.cache.invalidate()
        if self._keeper is not None:
            self._keeper.heard()
        self.refresher.changed()
