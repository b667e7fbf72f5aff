"""What an installed integration adds to a request that reads no flag."""

from __future__ import annotations

from . import sites
from .outcome import Figure, Goal, Outcome, Settings
from .timing import added, median, ratio

#: Microseconds, as in ``benchmarks/frameworks.py``.
LIMITS = {"Django, sync": 1.0, "Django, async": 1.2, "Flask": 1.5, "FastAPI": 1.5}


def run(settings: Settings) -> Outcome:
    """Measure."""
    rows: list[Figure] = []
    goals: list[Goal] = []
    for framework, limit in LIMITS.items():
        runs, missing = sites.SITES[framework](settings)
        wanted = (sites.BARE, sites.OURS, sites.FURAGU, sites.LEAST)
        figures = sites.measure({name: runs[name] for name in wanted if name in runs}, settings)
        bare = figures[sites.BARE]
        ours = added(figures[sites.OURS], bare) * 1e6
        rows.append(Figure(f"{framework}, bare", median(bare) * 1e6, "µs", None, "the whole"))
        rows.append(Figure(f"{framework}, shipsilently", ours, "µs", 1.0, "added"))
        goals.append(Goal(f"{framework}: ≤ {limit:g} µs added", ours, limit))
        if sites.LEAST in figures:
            least = added(figures[sites.LEAST], bare) * 1e6
            rows.append(Figure(f"{framework}, {sites.LEAST}", least, "µs", ours / least, "added"))
        what = f"{framework}: ≤ 0.75 × what furagu adds"
        if sites.FURAGU in figures:
            theirs = added(figures[sites.FURAGU], bare) * 1e6
            share = ours / theirs
            rows.append(Figure(f"{framework}, furagu", theirs, "µs", share, "added"))
            goals.append(Goal(what, share, 0.75))
        else:
            goals.append(Goal(what, None, 0.75, note=missing.get("furagu", "left out")))
        share = ratio(figures[sites.OURS], bare)
        rows.append(Figure(f"{framework}, with ours to bare", 100 * (share - 1), "%", None, "more"))
    return Outcome(rows, goals)
