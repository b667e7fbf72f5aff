"""Calls of a store, which may fail or take too long; then it is left alone for a while."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from ._backoff import full_jitter
from ._clock import Clock
from ._notices import Notices
from ._process import Lock, is_time_limit
from .values import Failure, FailureReport

__all__ = ["StoreCalls", "name_of"]

T = TypeVar("T")

#: Seconds; the ladder of the cool-down after a failure.
_BASE: Final = 1.0
_CEILING: Final = 60.0


class StoreCalls:
    """Makes the calls of one store, none of which raises, and keeps count of how they went.

    Args:
        kind: The store's class, for people.
        deadline: Seconds that a call may take for which somebody waits.
        clock: Time.
        rng: Gives a number in ``[0, 1)``.
        notices: For the log.
        report: Told of each failure, outside every lock.
        gave_up: Called where the store is to be left alone.

    Attributes:
        error: What went wrong last; ``None`` while it works.
        answers: How many calls have come back.
    """

    def __init__(
        self,
        kind: str,
        deadline: float,
        clock: Clock,
        rng: Callable[[], float],
        notices: Notices,
        report: Callable[[FailureReport], None],
        gave_up: Callable[[], object],
    ) -> None:
        self._kind = kind
        self._deadline = deadline
        self._clock = clock
        self._rng = rng
        self._notices = notices
        self._report = report
        self._gave_up = gave_up
        self._failures = 0
        self._resting_until = float("-inf")
        self.error: str | None = None
        self.renew()

    def renew(self) -> None:
        """In a forked child: calls of its own."""
        self._lock = Lock()
        self.answers = 0

    def rests(self) -> bool:
        """Whether the store is left alone just now."""
        return self._clock.monotonic() < self._resting_until

    @property
    def cool_down(self) -> float:
        """Seconds until it is tried again; 0 while it is not left alone."""
        return max(0.0, self._resting_until - self._clock.monotonic())

    def call(
        self, what: str, work: Callable[[], T], *, awaited: bool, settles: bool = True
    ) -> T | None:
        """Make a call.

        Args:
            what: What it is for, as in "to save to it".
            work: Makes it.
            awaited: Whether somebody waits for it, so that it must keep to the deadline.
            settles: Whether the store works where this call does, whatever failed before.

        Returns:
            What `work` gave; ``None`` where it raised.
        """
        begun = self._clock.monotonic()
        try:
            result = work()
        except Exception as error:
            if is_time_limit(error):
                raise
            self.failed(what, name_of(error))
            return None
        self.answers += 1
        if awaited and self._clock.monotonic() - begun > self._deadline:
            self.failed(what, "no answer in time")
        elif settles:
            self._worked()
        return result

    def failed(self, what: str, why: str) -> None:
        """Leave the store alone for a while.

        Args:
            what: What was to be done, as in "to save to it".
            why: What happened, without anything that may hold a secret.
        """
        with self._lock:
            first, self.error = self.error is None, why
            if self.rests():
                # Told already, by whoever waited for it.
                return
            delay = full_jitter(self._failures, _BASE, _CEILING, self._rng)
            self._failures += 1
            self._resting_until = self._clock.monotonic() + delay
        self._gave_up()
        message = f"the {self._kind} could not be used (to {what} it: {why})"
        if first:
            self._notices.warn("store", "%s; values are served without it", message)
        self._report(FailureReport(Failure.STORE, None, None, message))

    def _worked(self) -> None:
        if self.error is None:
            return
        with self._lock:
            self.error, self._failures = None, 0
            self._resting_until = float("-inf")
        self._notices.tell("the %s works again", self._kind)


def name_of(error: BaseException) -> str:
    """What happened, without a text that may hold an address with a password."""
    known = error.strerror if isinstance(error, OSError) else None
    return f"{type(error).__name__}: {known}" if known else type(error).__name__
