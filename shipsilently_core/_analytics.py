"""Counts flag checks and sends the counts, without any request waiting for it."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from msgspec import Struct

from ._clock import Clock
from ._events import Check, accepted_of, events_body
from ._notices import Notices
from ._process import Latch, Lock
from ._snapshot import Row
from ._wire import EVENTS, Reply, Request, failure_of, retry_after
from .config import AnalyticsConfig
from .values import Failure

__all__ = ["NOT_COUNTED", "Analytics", "Recorder"]

#: The service refuses more in one request, and all of them are lost then.
_MOST_IN_ONE_REQUEST = 1_000


class Recorder(Struct, frozen=True):
    """Where a request puts the checks of its flags, on the shortest way.

    Attributes:
        append: Takes one.
        time: Tells when it was.
    """

    append: Callable[[Check], object]
    time: Callable[[], float]


#: Of checks that nobody is told of.
NOT_COUNTED = Recorder(deque[Check](maxlen=0).append, float)


class Analytics:
    """A bounded buffer of flag checks, emptied in chunks.

    Recording takes no lock and never waits. A buffer that is too full lets its oldest
    go and counts them: at once, or for what a request records by itself, when the next one
    begins to. What could not be delivered goes back in front, in order; what the
    service refused is dropped, since sending it again could not succeed.

    Args:
        config: Sizes, rates, and whether there is anything to do at all.
        clock: For the events' time.
        rng: Gives a number in ``[0, 1)``; for sampling.
        base_delay: Seconds; what a pause counts as that names no time.
        notices: For the log.
        dropped: Called with how many events were lost and why, once per flush at most.
    """

    def __init__(
        self,
        config: AnalyticsConfig,
        clock: Clock,
        rng: Callable[[], float],
        *,
        base_delay: float,
        notices: Notices,
        dropped: Callable[[int, str], None],
    ) -> None:
        self._config = config
        self._clock = clock
        self._time = clock.time
        self._rng = rng
        self._buffer: deque[Check] = deque()
        self._recorder: Recorder | None = None
        if not config.enabled:
            self._recorder = NOT_COUNTED
        elif config.sampling_rate >= 1.0:
            self._recorder = Recorder(self._buffer.append, self._time)
        #: Whether every check is counted, which needs no further question.
        self._counts_all = config.enabled and config.sampling_rate >= 1.0
        self._base_delay = base_delay
        self._notices = notices
        self._tell_dropped = dropped
        self._not_before = 0.0
        self._paused_until = 0.0
        self.renew()

    def renew(self) -> None:
        """In a forked child: what is in the buffer is the parent's to send."""
        # The same buffer: requests that are under way put their checks there.
        self._buffer.clear()
        self._lock = Lock()
        self._turn: _Delivery | None = None
        self._await_batch()
        self._crowded_out = 0
        self._crowded_out_told = 0
        self._refused = 0
        #: Called when a batch is full.
        self.wake: Callable[[], object] = lambda: None

    def _await_batch(self) -> None:
        self._woken = False
        #: So many in the buffer ask for attention, be it a delivery or a loss.
        self._full = min(self._config.max_batch_size, self._config.max_buffer_size + 1)

    def __len__(self) -> int:
        """How many events wait for delivery or are on their way."""
        self._let_oldest_go()
        turn = self._turn
        return len(self._buffer) + (0 if turn is None else turn.left())

    @property
    def idle(self) -> bool:
        """Whether there is nothing to deliver and nothing on its way."""
        # In this order: a delivery takes its turn first, and only then out of the buffer.
        return not (self._turn or self._buffer or self._turn)

    @property
    def dropped(self) -> int:
        """How many events have been lost so far."""
        self._let_oldest_go()
        return self._crowded_out + self._refused

    def recorder(self) -> Recorder | None:
        """For the flags of one request, and once for each; ``None`` to `record` each check."""
        if len(self._buffer) >= self._full:
            self._attend(len(self._buffer))
        return self._recorder

    def record(self, flag_key: str, value: Any, reason: str, latency_ms: float = 0.0) -> None:
        """Count one check of a flag.

        Args:
            flag_key: The flag.
            value: What was served; never changed afterwards.
            reason: Why, in the protocol's words.
            latency_ms: Milliseconds that it took; 0 from memory.
        """
        if not self._counts_all and not self._is_sampled():
            return
        buffer = self._buffer
        buffer.append((flag_key, Row(value, reason), self._time(), latency_ms))
        if len(buffer) >= self._full:
            self._attend(len(buffer))

    def _is_sampled(self) -> bool:
        return self._config.enabled and self._rng() < self._config.sampling_rate

    def _attend(self, size: int) -> None:
        if size > self._config.max_buffer_size:
            self._let_oldest_go()
        if size >= self._config.max_batch_size and not self._woken:
            self._woken = True
            # Until the batch has been taken, only a loss is worth another look.
            self._full = self._config.max_buffer_size + 1
            self.wake()

    def _let_oldest_go(self) -> None:
        while len(self._buffer) > self._config.max_buffer_size:
            try:
                self._buffer.popleft()
            except IndexError:
                # A delivery has taken it all at this moment.
                return
            self._crowded_out += 1

    def now(self) -> float:
        """Monotonic seconds."""
        return self._clock.monotonic()

    def paused(self) -> bool:
        """Whether the service has asked to be left alone with events for now."""
        return self._clock.monotonic() < self._paused_until

    def take_all(self) -> list[Check]:
        """Empty the buffer, oldest first."""
        self._await_batch()
        self._let_oldest_go()
        buffer = self._buffer
        taken: list[Check] = []
        # A full buffer may let its oldest go meanwhile.
        with suppress(IndexError):
            for _ in range(len(buffer)):
                taken.append(buffer.popleft())
        return taken

    def refused(self, reply: Reply, count: int) -> None:
        """The service will never take these events."""
        self._notices.warn(
            "events refused",
            "the service refused %d analytics events (HTTP %s); they are dropped",
            count,
            reply.status,
        )

    def cut_short(self) -> None:
        """A delivery ended early for a reason of our own; the background waits before the next."""
        self._not_before = self._clock.monotonic() + self._config.flush_interval

    def failed(self, reply: Reply) -> Failure:
        """The service could not take events now; how that is called."""
        now = self._clock.monotonic()
        pause = retry_after(reply, now=self._clock.time(), base=self._base_delay)
        if pause is not None:
            self._paused_until = now + pause
        self._not_before = now + (self._config.flush_interval if pause is None else pause)
        return failure_of(reply) or Failure.PROTOCOL

    def end_turn(self, unsent: list[Check], refused: int, failure: Failure | None) -> None:
        """A delivery has ended: put back what is unsent, in front, as far as there is room."""
        self._buffer.extendleft(reversed(unsent))
        self._let_oldest_go()
        with self._lock:
            self._turn = None
            self._refused += refused
            crowded_out = self._crowded_out - self._crowded_out_told
            self._crowded_out_told += crowded_out
        if failure is not None:
            self._notices.warn(
                f"events {failure}",
                "analytics events could not be delivered (%s); %d wait for the next time, %d were "
                "lost",
                failure,
                len(self._buffer),
                crowded_out,
            )
        elif crowded_out:
            self._notices.warn(
                "events lost",
                "more flags are read than can be delivered: %d analytics events were lost",
                crowded_out,
            )
        causes = [
            name for name, count in (("buffer_full", crowded_out), ("refused", refused)) if count
        ]
        if causes:
            self._tell_dropped(crowded_out + refused, " and ".join(causes))

    def due_in(self, last: float) -> float:
        """Seconds until the background should flush: not at once again after a failure.

        Args:
            last: Monotonic seconds of the last flush.
        """
        now = self._clock.monotonic()
        due = last + self._config.flush_interval
        if len(self._buffer) >= self._config.max_batch_size:
            due = last
        return max(0.0, due - now, self._not_before - now)

    def flush(self, send: Callable[[Request], Reply], timeout: float) -> int:
        """Send what is in the buffer; how many events the service accepted.

        One flush at a time: another waits for its turn.

        Args:
            send: Carries out one call, within the time that the request names.
            timeout: Seconds for all of it.
        """
        delivery = _Delivery(self, timeout)
        while (other := self._take_turn(delivery)) is not None:
            if not other.over.wait(delivery.time_left()):
                return 0
        try:
            while (request := delivery.next_request()) is not None:
                delivery.take(send(request))
        finally:
            delivery.end()
        return delivery.accepted

    async def aflush(self, send: Callable[[Request], Awaitable[Reply]], timeout: float) -> int:
        """`flush`, waiting in a task."""
        delivery = _Delivery(self, timeout)
        while (other := self._take_turn(delivery)) is not None:
            if not await other.over.await_(delivery.time_left()):
                return 0
        try:
            while (request := delivery.next_request()) is not None:
                delivery.take(await send(request))
        finally:
            delivery.end()
        return delivery.accepted

    def _take_turn(self, delivery: _Delivery) -> _Delivery | None:
        """Whose turn it is, if not this delivery's from now on."""
        with self._lock:
            if self._turn is None:
                self._turn = delivery
                return None
            return self._turn


class _Delivery:
    """The events of one flush on their way."""

    def __init__(self, analytics: Analytics, timeout: float) -> None:
        self._analytics = analytics
        self._end = analytics.now() + timeout
        self._checks: list[Check] | None = None
        self._sent = 0
        self._refused = 0
        self._failure: Failure | None = None
        self.accepted = 0
        #: Set when the next flush may begin.
        self.over: Latch[bool] = Latch()

    def left(self) -> int:
        """How many of its events have not been answered for yet."""
        return len(self._checks or ()) - self._sent

    def time_left(self) -> float:
        """Seconds that this flush may still take."""
        return max(0.0, self._end - self._analytics.now())

    def next_request(self) -> Request | None:
        """The next chunk; ``None`` where there is none, no time, or no use in another."""
        if self._analytics.paused():
            return None
        if self._checks is None:
            self._checks = self._analytics.take_all()
        chunk = self._checks[self._sent : self._sent + _MOST_IN_ONE_REQUEST]
        if self._failure is not None or not chunk or not self.time_left():
            return None
        return Request(EVENTS, events_body(chunk), self.time_left())

    def take(self, reply: Reply) -> None:
        """Draw the conclusion from how the chunk was answered."""
        size = len((self._checks or [])[self._sent : self._sent + _MOST_IN_ONE_REQUEST])
        status = reply.status
        accepted = accepted_of(reply)
        if accepted is not None:
            self.accepted += accepted
            self._sent += size
        elif status is not None and 400 <= status < 500 and status != 429:
            # Sending them again cannot succeed.
            self._refused += size
            self._sent += size
            self._analytics.refused(reply, size)
        else:
            self._failure = self._analytics.failed(reply)

    def end(self) -> None:
        """What was not sent goes back, and the next flush may begin."""
        unsent = (self._checks or [])[self._sent :]
        if unsent and self._failure is None:
            self._analytics.cut_short()
        self._analytics.end_turn(unsent, self._refused, self._failure)
        self.over.set(True)
