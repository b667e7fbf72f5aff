"""Counts flag checks and sends the counts, without any request waiting for it."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Sized
from contextlib import suppress
from typing import Any, Protocol

from ._clock import Clock
from ._events import Check, accepted_of, events_body
from ._kinds import as_key
from ._notices import Notices
from ._process import Latch, Lock, this_thread
from ._snapshot import Row
from ._wire import EVENTS, Reply, Request, failure_of, retry_after
from .config import AnalyticsConfig
from .values import Failure

__all__ = ["Analytics", "Sheet"]

#: The service refuses more in one request, and all of them are lost then.
_MOST_IN_ONE_REQUEST = 1_000

#: Characters. A key that is longer is of no flag, and may be what somebody has sent.
_LONGEST_KEY = 1_000

#: So many full batches are delivered in a second, each at once. A delivery takes as much of the
#: processor's time as a thousand reads, however few events it has, so where more are read the
#: next waits for the next second, or for as many events as fill a request.
_AT_ONCE = 8
_SECOND = 1.0

#: So many requests' checks are left on their sheets, or a few more, since each keeps its request's
#: values in memory.
_MOST_SHEETS = 100

#: Each request lists one, so what is on them is counted for so many at once: for the fewer where
#: that may be a batch, for the more where a batch is far away.
_LOOK_EVERY, _LOOK_SELDOM = 10, 50


class Sheet(Protocol):
    """Where the flags of one request note what was checked, on the shortest way.

    Attributes:
        listed: Whether what is noted here will be taken. Whoever notes something while it is
            not calls `Analytics.enlist`.
        moment: When it was listed; Unix time in seconds, and of all checks until they are taken.
    """

    listed: bool
    moment: float

    @property
    def counted(self) -> Sized:
        """The checks that were noted so far, and perhaps some that were not."""
        ...

    @property
    def taken(self) -> int:
        """How many of these there is nothing to take of any more."""
        ...

    def take(self) -> list[Check]:
        """The checks that were noted since this was called last; it is not listed afterwards.

        One caller at a time; others may note more meanwhile.
        """
        ...


class Analytics:
    """A bounded buffer of flag checks, emptied in chunks.

    Recording never waits. The flags of a request only note what was checked
    on a sheet of their own, which is taken when the checks are to be delivered or counted.
    A buffer that is too full lets its oldest go and counts them: at once, or for what is on
    sheets, when a few more have been listed. What could not be delivered goes back in front, in
    order; what the service refused is dropped, since sending it again could not succeed.

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
        self._sheets: deque[Sheet] = deque()
        #: Whether anything is counted at all.
        self.enabled: bool = config.enabled and config.sampling_rate > 0.0
        #: Whether every check is counted, which needs no further question.
        self._counts_all = config.enabled and config.sampling_rate >= 1.0
        self._base_delay = base_delay
        self._notices = notices
        self._tell_dropped = dropped
        self._not_before = 0.0
        self._paused_until = 0.0
        #: What is on sheets is counted each time that so many more are listed, and after how many
        #: the next time.
        self._every = max(1, min(_LOOK_EVERY, config.max_batch_size // 10))
        self._look_at = self._every
        #: How many sheets have been looked through since the last were taken, and what was noted
        #: there; another list whenever it changes.
        self._looked = [0, 0]
        #: When so many are listed, all of them are looked through anew.
        self._look_anew_at = 2 * self._every
        self.renew()

    def renew(self) -> None:
        """In a forked child: what is in the buffer is the parent's to send."""
        self._lock = Lock()
        self._taking = Lock()
        # Requests that are under way here go on from where they were.
        self._take_sheets()
        self._buffer.clear()
        self._turn: _Delivery | None = None
        self._await_batch()
        #: How many full batches have been delivered since when, in monotonic seconds.
        self._delivered, self._since = 0, self._clock.monotonic()
        self._crowded_out = 0
        self._crowded_out_told = 0
        self._refused = 0
        #: Called when a batch is full.
        self.wake: Callable[[], object] = lambda: None

    def _await_batch(self) -> None:
        #: So many are worth waking the background for; ``None`` once that has been done.
        self._wake_at: int | None = self._config.max_batch_size
        self._await_more()

    def _await_more(self) -> None:
        most = self._config.max_buffer_size + 1
        #: So many in the buffer ask for attention, be it a delivery or a loss.
        self._full = most if self._wake_at is None else min(self._wake_at, most)

    def __len__(self) -> int:
        """How many events wait for delivery or are on their way."""
        self._take_sheets()
        self._let_oldest_go()
        turn = self._turn
        return len(self._buffer) + (0 if turn is None else turn.left())

    @property
    def idle(self) -> bool:
        """Whether there is nothing to deliver and nothing on its way."""
        self._take_sheets()
        # In this order: a delivery takes its turn first, and only then out of the buffer.
        return not (self._turn or self._buffer or self._turn)

    @property
    def dropped(self) -> int:
        """How many events have been lost so far."""
        self._take_sheets()
        self._let_oldest_go()
        return self._crowded_out + self._refused

    def enlist(self, sheet: Sheet) -> None:
        """See to it that what is noted on a sheet is delivered; once for most requests."""
        if not self.enabled:
            sheet.listed = True
            return
        time, sheets = self._time, self._sheets
        sheet.moment = time()
        # In this order: once it is in the list it may be taken, and is listed no more.
        sheet.listed = True
        sheets.append(sheet)
        if len(sheets) >= self._look_at:
            self._look()

    def _look(self) -> None:
        """See whether what was noted is enough for attention."""
        looked = self._looked
        before, noted = looked
        if len(self._sheets) >= self._look_anew_at:
            # So many are under way at once, and they have read on since they were looked through.
            before, noted = 0, 0
            self._look_anew_at *= 2
        # Nothing is called while the first list is made, so nobody puts one in meanwhile.
        sizes = [len(sheet.counted) - sheet.taken for sheet in list(self._sheets)[before:]]
        count, noted = before + len(sizes), noted + sum(sizes)
        size = len(self._buffer) + noted
        # So many more like these would be enough; where nothing was noted yet, nobody knows.
        rest = (self._full - size) * count // noted + 1 if noted else 0
        self._look_at = count + min(max(self._every, rest), _LOOK_SELDOM)
        # Unless another thread has taken them meanwhile. Whoever has listed the last may still be
        # reading, so that one is counted again.
        if sizes and self._looked is looked:
            self._looked = [count - 1, noted - sizes[-1]]
        if size >= self._full or count > _MOST_SHEETS:
            self._attend(size)

    def _take_sheets(self) -> None:
        """Put the checks on all sheets into the buffer, also those that another has in hand."""
        with self._taking:
            self._look_at, self._looked = self._every, [0, 0]
            self._look_anew_at = 2 * self._every
            # Those that are listed meanwhile are for the next time.
            for _ in range(len(self._sheets)):
                try:
                    sheet = self._sheets.popleft()
                except IndexError:
                    # A handler of a signal has come here in the midst of this, and taken the rest.
                    break
                checks = sheet.take()
                if not self._counts_all:
                    checks = [check for check in checks if self._is_sampled()]
                self._buffer.extend(checks)

    def _take_sheets_at_once(self) -> None:
        """`_take_sheets`, unless another thread is at it: for requests, which wait for nobody."""
        if self._sheets and self._taking.acquire(blocking=False):
            try:
                self._take_sheets()
            finally:
                self._taking.release()

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
        # What was noted before comes before it.
        self._take_sheets_at_once()
        buffer = self._buffer
        check = as_key(flag_key)[:_LONGEST_KEY], Row(value, reason), self._time(), latency_ms
        buffer.append(check)
        if len(buffer) >= self._full:
            self._attend(len(buffer))

    def _is_sampled(self) -> bool:
        return self._config.enabled and self._rng() < self._config.sampling_rate

    def _attend(self, size: int) -> None:
        if not self._counts_all:
            # What is on sheets is more than what will be left of it.
            self._take_sheets_at_once()
            size = len(self._buffer)
        if size > self._config.max_buffer_size or len(self._sheets) > _MOST_SHEETS:
            self._take_sheets_at_once()
            self._let_oldest_go()
            # More may have been noted on them than had been counted.
            size = max(size, len(self._buffer))
        if self._wake_at is not None and size >= self._wake_at:
            # Until the batch has been taken, only what ends the gathering is worth another word.
            self._wake_at = _MOST_IN_ONE_REQUEST if size < _MOST_IN_ONE_REQUEST else None
            self._await_more()
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

    def take_all(self, taken: list[Check]) -> None:
        """Empty the buffer into `taken`, oldest first: there they are, whatever interrupts this."""
        self._take_sheets()
        self._let_oldest_go()
        buffer = self._buffer
        # A full buffer may let its oldest go meanwhile.
        with suppress(IndexError):
            for _ in range(len(buffer)):
                taken.append(buffer.popleft())
        self._await_batch()
        # They may have come while nobody was to be woken for so few.
        self._look()
        if len(taken) >= self._config.max_batch_size:
            now = self._clock.monotonic()
            if now - self._since >= _SECOND:
                self._delivered, self._since = 0, now
            self._delivered += 1

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
        # The service may ask for no pause at all; it is not asked again at once for that.
        wait = self._config.flush_interval if pause is None else max(pause, self._base_delay)
        self._not_before = now + wait
        return failure_of(reply) or Failure.PROTOCOL

    def end_turn(self, unsent: list[Check], refused: int, failure: Failure | None) -> None:
        """A delivery has ended: put back what is unsent, in front, as far as there is room."""
        try:
            # First: whatever interrupts the rest, these are there.
            self._buffer.extendleft(reversed(unsent))
            self._take_sheets()
            self._let_oldest_go()
        finally:
            # Also where something interrupts it, the next may begin.
            self._turn = None
        with self._lock:
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
        """Seconds until the background should flush: not at once again after a failure, and not
        too often where batches are full all the time.

        Args:
            last: Monotonic seconds of the last flush.
        """
        now = self._clock.monotonic()
        due = last + self._config.flush_interval
        self._take_sheets()
        size = len(self._buffer)
        if size < self._config.max_batch_size:
            # Whoever was woken for more, or for less than it seemed, is woken for a batch again.
            self._await_batch()
            self._take_sheets()
            size = len(self._buffer)
        if size >= self._config.max_batch_size:
            gathers = self._delivered >= _AT_ONCE and size < _MOST_IN_ONE_REQUEST
            due = max(last, self._since + _SECOND) if gathers else last
        return max(0.0, due - now, self._not_before - now)

    def flush(self, send: Callable[[Request], Reply], timeout: float) -> int:
        """Send what is in the buffer; how many events the service accepted.

        One flush at a time: another waits for its turn.

        Args:
            send: Carries out one call, within the time that the request names.
            timeout: Seconds for all of it.
        """
        delivery = _Delivery(self, timeout)
        delivery.thread = this_thread()
        while (other := self._take_turn(delivery)) is not None:
            # A handler of a signal may have come in the midst of its own thread's delivery.
            if other.thread == delivery.thread or not other.over.wait(delivery.time_left()):
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
        #: The thread that it blocks.
        self.thread: int | None = None
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
            self._checks = []
            self._analytics.take_all(self._checks)
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
        try:
            if unsent and self._failure is None:
                self._analytics.cut_short()
            self._analytics.end_turn(unsent, self._refused, self._failure)
        finally:
            self.over.set(True)
