"""Counts of calls."""

from __future__ import annotations

import threading

from shipsilently_core import Failure, FailureReport
from shipsilently_core._tally import Tally
from shipsilently_core.testing import ManualClock

LATE = FailureReport(Failure.TIMEOUT, None, None, "late")


def test_calls_are_counted_by_how_they_ended() -> None:
    """Attempts, failures by class, when one last succeeded, and the last error."""
    clock = ManualClock(1_000.0)
    tally = Tally(clock)
    assert (tally.attempts, tally.last_success, tally.last_error) == (0, None, None)
    tally.succeeded()
    clock.advance(5)
    tally.failed(LATE)
    tally.failed(LATE)
    assert (tally.attempts, tally.failures) == (3, {Failure.TIMEOUT: 2})
    assert (tally.last_success, tally.last_error) == (1_000.0, LATE)


def test_a_child_process_counts_anew() -> None:
    """What its parent knew is known since then all the same."""
    tally = Tally(ManualClock(1_000.0))
    tally.succeeded()
    tally.failed(LATE)
    tally.renew()
    assert (tally.attempts, dict(tally.failures), tally.last_error) == (0, {}, None)
    assert tally.last_success == 1_000.0


def test_no_count_is_lost_between_threads() -> None:
    """Four threads count at once."""
    tally = Tally(ManualClock())

    def work() -> None:
        for _ in range(2_000):
            tally.succeeded()
            tally.failed(LATE)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert (tally.attempts, tally.failures[Failure.TIMEOUT]) == (16_000, 8_000)
