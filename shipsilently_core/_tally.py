"""How many calls were made, and how they went."""

from __future__ import annotations

from collections import Counter

from ._clock import Clock
from ._process import Lock
from .values import Failure, FailureReport

__all__ = ["Tally"]


class Tally:
    """Counts of this process.

    Args:
        clock: For when it was.

    Attributes:
        attempts: Calls for evaluations that were carried out.
        failures: Those that failed, by class.
        last_success: Unix time of the last that succeeded; ``None`` for never.
        last_error: The last failure.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = Lock()
        self.attempts: int = 0
        self.failures: Counter[Failure] = Counter()
        self.last_success: float | None = None
        self.last_error: FailureReport | None = None

    def renew(self) -> None:
        """In a forked child: it begins anew."""
        self._lock = Lock()
        self.attempts = 0
        self.failures = Counter()
        self.last_error = None

    def succeeded(self) -> None:
        """A call was answered."""
        with self._lock:
            self.attempts += 1
            self.last_success = self._clock.time()

    def failed(self, report: FailureReport) -> None:
        """A call was not."""
        with self._lock:
            self.attempts += 1
            self.failures[report.failure] += 1
            self.last_error = report
