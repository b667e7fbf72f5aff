"""A request with a cached answer and ten reads, in each framework."""

from __future__ import annotations

import time

from benchmarks.frameworks import AHEAD, CLIENT, MOST

from . import sites
from .outcome import Figure, Goal, Outcome, Settings
from .timing import added, median, take_turns

_SHOWN = (sites.BARE, sites.ONE)
_LEAST = {
    sites.LEAST_TEN: "added: the least that ten reads take in Python",
    sites.NOTED_TEN: "added: the least of a client that counts them, and minds nothing else",
}


def run(settings: Settings) -> Outcome:
    """Measure."""
    rows: list[Figure] = []
    goals: list[Goal] = []
    for framework, site in sites.SITES.items():
        runs, missing = site(settings)
        runs = {name: run for name, run in runs.items() if name in _SHOWN or "ten" in name}
        figures = sites.measure(runs, settings)
        bare = figures.pop(sites.BARE)
        rows.append(Figure(f"{framework}, bare", median(bare) * 1e6, "µs", None, "the whole"))
        ours = added(figures[sites.TEN], bare) * 1e6
        for name, took in figures.items():
            theirs = added(took, bare) * 1e6
            note = "added, no integration"
            if name in (sites.ONE, sites.TEN, sites.FURAGU_TEN):
                note = "added"
            if name in _LEAST:
                note = _LEAST[name]
            rows.append(Figure(f"{framework}, {name}", theirs, "µs", ours / theirs, note))
        rows.extend(
            Figure(f"{framework}, {name}", None, "µs", note=why) for name, why in missing.items()
        )
        goals.append(Goal(f"{framework}: ten reads ≤ 6 µs added", ours, 6.0))
    alone = take_turns({"alone": by_themselves}, settings, most=MOST)["alone"]
    what = "the core, ten reads, in a loop of its own"
    rows.append(Figure(what, median(alone) * 1e6, "µs", None, "the whole, no framework"))
    return Outcome(rows, goals)


def by_themselves(count: int) -> float:
    """Seconds of so many times ten first reads, with nothing else in between."""
    took = 0.0
    for begun in range(0, count, AHEAD):
        turns = range(min(AHEAD, count - begun))
        began = time.thread_time()
        for _ in turns:
            flags = CLIENT.flags()
            for key in sites.KEYS:
                flags.get(key, False)
        took += time.thread_time() - began
        CLIENT.flush()
    return took
