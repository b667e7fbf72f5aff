"""Where time comes from."""

from __future__ import annotations

import time

from shipsilently_core._clock import Clock, SystemClock


def test_the_system_clock_is_the_machines() -> None:
    """Durations come from the monotonic clock, dates from the wall clock."""
    clock: Clock = SystemClock()
    before = time.monotonic()
    assert before <= clock.monotonic() <= time.monotonic()
    assert abs(clock.time() - time.time()) < 60
