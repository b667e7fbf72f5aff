"""Where time comes from."""

from __future__ import annotations

import time
from typing import Protocol

__all__ = ["Clock", "SystemClock"]


class Clock(Protocol):
    """Two clocks, in seconds: one for durations, one for dates."""

    def monotonic(self) -> float:
        """A time that only grows; for durations."""
        ...

    def time(self) -> float:
        """Unix time; for dates that come over the wire."""
        ...


class SystemClock:
    """The machine's own clocks."""

    monotonic = staticmethod(time.monotonic)
    time = staticmethod(time.time)
