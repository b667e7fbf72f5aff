"""A request with a cached answer and ten reads, in each framework."""

from __future__ import annotations

from . import sites
from .outcome import Figure, Goal, Outcome, Settings
from .timing import added, median


def run(settings: Settings) -> Outcome:
    """Measure."""
    rows: list[Figure] = []
    goals: list[Goal] = []
    for framework, site in sites.SITES.items():
        runs, missing = site(settings)
        runs = {name: run for name, run in runs.items() if name == sites.BARE or "ten" in name}
        figures = sites.measure(runs, settings)
        bare = figures.pop(sites.BARE)
        rows.append(Figure(f"{framework}, bare", median(bare) * 1e6, "µs", None, "the whole"))
        ours = added(figures[sites.TEN], bare) * 1e6
        for name, took in figures.items():
            theirs = added(took, bare) * 1e6
            note = "added" if name in (sites.TEN, sites.FURAGU_TEN) else "added, no integration"
            rows.append(Figure(f"{framework}, {name}", theirs, "µs", ours / theirs, note))
        rows.extend(
            Figure(f"{framework}, {name}", None, "µs", note=why) for name, why in missing.items()
        )
        goals.append(Goal(f"{framework}: ten reads ≤ 6 µs added", ours, 6.0))
    return Outcome(rows, goals)
