"""From the service's event to the new value in ``flags.get``, in 1 and in 8 processes."""

from __future__ import annotations

from benchmarks import propagation

from .outcome import Figure, Goal, Outcome, Settings
from .timing import median, percentile


def run(settings: Settings) -> Outcome:
    """Measure."""
    rows: list[Figure] = []
    goals: list[Goal] = []
    for processes, limit in ((1, 10.0), (8, 50.0)):
        if settings.quick and processes > 1:
            continue
        propagation.CHANGES = 5 if settings.quick else 200
        took = propagation.measure(processes)
        worst = percentile(took, 0.99)
        rows.append(Figure(f"{processes} processes, median", median(took), "ms"))
        rows.append(Figure(f"{processes} processes, p99", worst, "ms"))
        goals.append(Goal(f"{processes} processes: p99 ≤ {limit:g} ms", worst, limit))
    return Outcome(rows, goals)
