"""Who may ask the service now: the cool-down of one context, and the gate before all of them."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice

from msgspec import Struct

from ._backoff import full_jitter
from ._clock import Clock
from ._process import Lock
from .values import Failure

__all__ = ["Gate"]

#: Failures in a row, of more than one context, that tell an outage from one bad context.
_FAILURES_TO_CLOSE = 3
_CONTEXTS_TO_CLOSE = 2

#: Failures that the service has answered with, and that one context alone may have caused.
_OF_ONE = (Failure.SERVER, Failure.PROTOCOL)

#: How many times its usual time the service may take before it counts as hanging, and the least
#: that is allowed for, in seconds.
_UNUSUAL = 8
_LEAST_PATIENCE = 0.1


class _CoolDown(Struct, frozen=True):
    failures: int
    until: float
    failure: Failure


class Gate:
    """Keeps requests from waiting for a service that does not answer.

    Three rules, the later over the earlier:

    1. A context whose attempt failed rests for its own full-jitter cool-down.
    2. Three attempts in a row have failed, for at least two contexts and with no
       success between, or no connection could be made at all: the gate closes for
       every request. It is tried again on the same ladder, by the background where
       one runs (`background`), else by one request at a time; the first success
       opens it and ends the cool-downs that the outage had caused. A background that does
       not come to it, as one that a receiver holds up, is not waited for. It asks
       for one context only; where the service answers and that is refused, the cause may
       be that context alone, so one request may try beside it, for a context that does not rest.
    3. Three attempts are under way and the service has not answered anybody for much
       longer than it usually takes: it hangs, so nobody joins them until one has ended.
    4. The service said ``Retry-After``: nobody asks before.

    So one context that always fails costs the others nothing, and an outage costs
    a few requests one timeout.

    Args:
        clock: For cool-downs.
        rng: Gives a number in ``[0, 1)``.
        base: Seconds; the first bound of the ladder.
        ceiling: Seconds; the last bound of the ladder.
        timeout: Seconds; the deadline of one call.
        max_contexts: How many cool-downs are remembered; the oldest goes first.
    """

    def __init__(
        self,
        clock: Clock,
        rng: Callable[[], float],
        *,
        base: float,
        ceiling: float,
        timeout: float = 2.0,
        max_contexts: int,
    ) -> None:
        self._clock = clock
        self._rng = rng
        self._base = base
        self._ceiling = max(base, ceiling)
        self._timeout = timeout
        self._max = max_contexts
        #: By so many seconds no background is late that tries at all.
        self._overdue = self._ceiling + 2 * timeout
        self._lock = Lock()
        self._cool_downs: dict[bytes, _CoolDown] = {}
        self._held_until = 0.0
        self._in_a_row = 0
        self._failing: set[bytes] = set()
        self._closed: Failure | None = None
        self._probes = 0
        self._probe_at = 0.0
        #: Whether one request may try beside the background, and the context of the last that did.
        self._spare, self._beside = False, b""
        self._under_way: dict[bytes, float] = {}
        self._last_success = float("-inf")
        self._usual = 0.0
        #: Whether a background probes for the requests.
        self.background: bool = False

    def renew(self) -> None:
        """New locks, in a forked child, where no background runs yet."""
        self._lock = Lock()
        self._under_way = {}
        self.background = False

    @property
    def closed(self) -> Failure | None:
        """The failure that closed the gate, or ``None`` while it is open."""
        return self._closed

    def held_for(self) -> float:
        """Seconds that are left of the service's ``Retry-After``; 0 for none."""
        return max(0.0, self._held_until - self._clock.monotonic())

    def probe_in(self) -> float | None:
        """Seconds until the background should try a closed gate; ``None`` while it is open."""
        if self._closed is None:
            return None
        now = self._clock.monotonic()
        return max(0.0, self._probe_at - now, self._held_until - now)

    def admit(self, key: bytes, *, known: bool = True) -> Failure | None:
        """Whether a request for this context may ask the service.

        Args:
            key: The context.
            known: Whether last known good values of it could be served instead; where
                nothing could, a service that only seems to hang is given more time.

        Returns:
            ``None`` for yes; else the failure on whose account it may not.
        """
        now = self._clock.monotonic()
        if now < self._held_until:
            return Failure.THROTTLED
        if self._closed is not None:
            with self._lock:
                return self._admit_probe(key, now)
        cool_down = self._cool_downs.get(key)
        if cool_down is not None and now < cool_down.until:
            return cool_down.failure
        if len(self._under_way) >= _FAILURES_TO_CLOSE and self._hangs(now, known):
            return Failure.TIMEOUT
        return None

    def _hangs(self, now: float, known: bool) -> bool:
        with self._lock:
            # Long beyond its deadline, an attempt was dropped together with its event loop.
            for key, begun in list(self._under_way.items()):
                if now - begun <= 2 * self._timeout:
                    break
                del self._under_way[key]
            third = next(islice(self._under_way.values(), _FAILURES_TO_CLOSE - 1, None), now)
        patience = self._timeout / 2
        if known and self._usual:
            patience = min(patience, max(_LEAST_PATIENCE, _UNUSUAL * self._usual))
        return now - max(third, self._last_success) > patience

    def under_way(self, key: bytes) -> None:
        """A request's attempt for this context begins."""
        with self._lock:
            # The oldest stays first.
            self._under_way.pop(key, None)
            self._under_way[key] = self._clock.monotonic()

    def has_waited(self, key: bytes) -> bool:
        """Whether an attempt is under way for this context, for much longer than usual."""
        begun = self._under_way.get(key)
        if begun is None:
            return False
        return self._clock.monotonic() - begun > max(_LEAST_PATIENCE, _UNUSUAL * self._usual)

    def ended(self, key: bytes) -> None:
        """A request's attempt for this context has ended, in whatever way."""
        with self._lock:
            self._under_way.pop(key, None)
            if key == self._beside:
                self._beside = b""

    def _admit_probe(self, key: bytes, now: float) -> Failure | None:
        if self._closed is not None and self.background and self._spare:
            cool_down = self._cool_downs.get(key)
            if cool_down is None or now >= cool_down.until:
                self._spare, self._beside = False, key
                return None
        if self._closed is None or now < self._probe_at:
            return self._closed
        if self.background and now < max(self._probe_at, self._held_until) + self._overdue:
            return self._closed
        # This request is the probe; the next may go when it has had its answer, or on the ladder.
        self._probe_at = now + self._ceiling
        return None

    def hold(self, seconds: float) -> None:
        """The service asked to be left alone for so long."""
        with self._lock:
            self._held_until = max(self._held_until, self._clock.monotonic() + seconds)

    def succeeded(self, key: bytes) -> bool:
        """The service answered for this context.

        Returns:
            Whether this opened the gate.
        """
        now = self._clock.monotonic()
        self._last_success = now
        # The slowest of late, slowly forgotten.
        self._usual = max(now - self._under_way.get(key, now), self._usual * 0.9)
        if not self._in_a_row and key not in self._cool_downs:
            return False
        with self._lock:
            self._in_a_row = 0
            self._failing.clear()
            self._cool_downs.pop(key, None)
            if self._closed is None:
                return False
            self._closed = None
            self._probes = 0
            self._cool_downs.clear()
            return True

    def failed(self, key: bytes, failure: Failure, *, connected: bool) -> bool:
        """The service did not answer for this context.

        Args:
            key: The context.
            failure: How.
            connected: Whether there was a connection at all.

        Returns:
            Whether this closed the gate.
        """
        with self._lock:
            now = self._clock.monotonic()
            self._rest(key, failure, now)
            self._in_a_row += 1
            if len(self._failing) < _CONTEXTS_TO_CLOSE:
                self._failing.add(key)
            if self._closed is not None:
                self._closed = failure
                if key == self._beside:
                    # Where it stands on the ladder is the background's affair.
                    self._beside = b""
                    return False
                self._probes += 1
                self._probe_at = now + self._delay(self._probes)
                self._spare = failure in _OF_ONE
                return False
            outage = (
                self._in_a_row >= _FAILURES_TO_CLOSE and len(self._failing) >= _CONTEXTS_TO_CLOSE
            )
            if connected and not outage:
                return False
            self._closed = failure
            self._spare, self._beside = False, b""
            self._probes = 0
            self._probe_at = now + self._delay(0)
            return True

    def _rest(self, key: bytes, failure: Failure, now: float) -> None:
        before = self._cool_downs.pop(key, None)
        failures = 0 if before is None else before.failures + 1
        self._cool_downs[key] = _CoolDown(failures, now + self._delay(failures), failure)
        if len(self._cool_downs) > self._max:
            del self._cool_downs[next(iter(self._cool_downs))]

    def _delay(self, attempt: int) -> float:
        return full_jitter(attempt, self._base, self._ceiling, self._rng)
