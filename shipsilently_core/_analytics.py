"""Counts flag checks and sends the counts, without any request waiting for it."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from msgspec import MsgspecError, Struct
from msgspec.json import Decoder, Encoder

from ._clock import Clock
from ._kinds import plain
from ._notices import Notices
from ._process import Latch, Lock
from ._wire import EVENTS, Reply, Request, failure_of, retry_after
from .config import AnalyticsConfig
from .values import Failure

__all__ = ["Analytics", "variation_key"]

#: The service refuses more in one request, and all of them are lost then.
_MOST_IN_ONE_REQUEST = 1_000

_LONGEST_VARIATION = 200

_encode = Encoder(enc_hook=plain).encode


class _Check(NamedTuple):
    """One flag check; the value is shared with the cache, so this is all it costs."""

    flag_key: str
    value: Any
    reason: str
    latency_ms: float
    timestamp: int


class _Event(Struct, rename="camel"):
    flag_key: str
    variation_key: str
    reason: str
    latency_ms: float
    timestamp: int


class _Accepted(Struct):
    accepted: int


_accepted = Decoder(_Accepted)


class Analytics:
    """A bounded buffer of flag checks, emptied in chunks.

    Recording takes no lock and never waits. A full buffer lets its oldest go and
    counts them. What could not be delivered goes back in front, in order; what the
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
        self._rng = rng
        self._base_delay = base_delay
        self._notices = notices
        self._tell_dropped = dropped
        self._buffer: deque[_Check] = deque(maxlen=config.max_buffer_size)
        self._lock = Lock()
        self._turn: _Delivery | None = None
        self._crowded_out = 0
        self._not_before = 0.0
        self._paused_until = 0.0
        #: How many events have been lost so far.
        self.dropped = 0
        #: Called when a batch is full.
        self.wake: Callable[[], object] = lambda: None

    def __len__(self) -> int:
        return len(self._buffer)

    def renew(self) -> None:
        """In a forked child: what is in the buffer is the parent's to send."""
        self._buffer = deque(maxlen=self._config.max_buffer_size)
        self._lock = Lock()
        self._turn = None
        self._crowded_out = 0
        self.wake = lambda: None

    def record(self, flag_key: str, value: Any, reason: str, latency_ms: float = 0.0) -> None:
        """Count one check of a flag.

        Args:
            flag_key: The flag.
            value: What was served; never changed afterwards.
            reason: Why, in the protocol's words.
            latency_ms: Milliseconds that it took; 0 from memory.
        """
        config = self._config
        if not config.enabled:
            return
        if config.sampling_rate < 1.0 and self._rng() >= config.sampling_rate:
            return
        buffer = self._buffer
        size = len(buffer)
        if size >= config.max_buffer_size:
            self._crowded_out += 1
        buffer.append(_Check(flag_key, value, reason, latency_ms, int(self._clock.time())))
        if size + 1 == config.max_batch_size:
            self.wake()

    def now(self) -> float:
        """Monotonic seconds."""
        return self._clock.monotonic()

    def paused(self) -> bool:
        """Whether the service has asked to be left alone with events for now."""
        return self._clock.monotonic() < self._paused_until

    def take_all(self) -> list[_Check]:
        """Empty the buffer, oldest first."""
        buffer = self._buffer
        taken = []
        for _ in range(len(buffer)):
            try:
                taken.append(buffer.popleft())
            except IndexError:
                # A full buffer let its oldest go meanwhile.
                break
        return taken

    def refused(self, reply: Reply, count: int) -> None:
        """The service will never take these events."""
        self._notices.warn(
            "events refused",
            "the service refused %d analytics events (HTTP %s); they are dropped",
            count,
            reply.status,
        )

    def failed(self, reply: Reply) -> None:
        """The service could not take events now."""
        now = self._clock.monotonic()
        pause = retry_after(reply, now=self._clock.time(), base=self._base_delay)
        if pause is not None:
            self._paused_until = now + pause
        self._not_before = now + (self._config.flush_interval if pause is None else pause)
        failure = failure_of(reply) or Failure.PROTOCOL
        self._notices.warn(
            f"events {failure}",
            "analytics events could not be delivered (%s); they are kept for the next time",
            failure,
        )

    def end_turn(self, unsent: list[_Check], refused: int) -> None:
        """A delivery has ended: put back what is unsent, in front, as far as there is room."""
        buffer = self._buffer
        room = max(0, self._config.max_buffer_size - len(buffer))
        kept = unsent[len(unsent) - min(room, len(unsent)) :]
        buffer.extendleft(reversed(kept))
        with self._lock:
            self._turn = None
            crowded_out = self._crowded_out + len(unsent) - len(kept)
            self._crowded_out = 0
            self.dropped += crowded_out + refused
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
        self._checks: list[_Check] | None = None
        self._sent = 0
        self._refused = 0
        self._stopped = False
        self.accepted = 0
        #: Set when the next flush may begin.
        self.over: Latch[bool] = Latch()

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
        if self._stopped or not chunk or not self.time_left():
            return None
        body = _encode({"events": [_event(check) for check in chunk]})
        return Request(EVENTS, body, self.time_left())

    def take(self, reply: Reply) -> None:
        """Draw the conclusion from how the chunk was answered."""
        size = len((self._checks or [])[self._sent : self._sent + _MOST_IN_ONE_REQUEST])
        status = reply.status
        accepted = _accepted_of(reply)
        if accepted is not None:
            self.accepted += accepted
            self._sent += size
        elif status is not None and 400 <= status < 500 and status != 429:
            # Sending them again cannot succeed.
            self._refused += size
            self._sent += size
            self._analytics.refused(reply, size)
        else:
            self._stopped = True
            self._analytics.failed(reply)

    def end(self) -> None:
        """What was not sent goes back, and the next flush may begin."""
        unsent = (self._checks or [])[self._sent :]
        self._analytics.end_turn(unsent, self._refused)
        self.over.set(True)


def _event(check: _Check) -> _Event:
    return _Event(
        check.flag_key,
        variation_key(check.value),
        check.reason,
        round(check.latency_ms, 3),
        check.timestamp,
    )


def variation_key(value: Any) -> str:
    """The value as compact JSON, cut to 200 characters: 197 and an ellipsis."""
    if type(value) is float and value.is_integer():
        # As the other SDKs write it: JSON has one type of number.
        value = int(value)
    try:
        text = _encode(value).decode("utf-8")
    except (MsgspecError, TypeError, ValueError, OverflowError, RecursionError):
        # A default of the caller's own that JSON has no form for.
        text = type(value).__name__
    return text if len(text) <= _LONGEST_VARIATION else f"{text[: _LONGEST_VARIATION - 3]}…"


def _accepted_of(reply: Reply) -> int | None:
    """How many events the service says it took; ``None`` where it does not say so."""
    if failure_of(reply) is not None:
        return None
    try:
        return _accepted.decode(reply.body.removeprefix(b"\xef\xbb\xbf")).accepted
    except (MsgspecError, RecursionError):
        return None
