"""A request with a cached answer and ten reads, in each framework."""

from __future__ import annotations

import time

from benchmarks.frameworks import AHEAD, CLIENT, MOST, Run
from benchmarks.hot_paths import instructions

from . import sites
from .outcome import Figure, Goal, Outcome, Settings
from .timing import added, median, take_turns

_SHOWN = (sites.BARE, sites.ONE)
#: What is Python's own work from one end to the other, so that its instructions tell something.
_COUNTED = (sites.BARE, sites.ONE, sites.TEN, sites.LEAST_TEN, sites.NOTED_TEN)
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
        counts = {name: instructions_of(run) for name, run in runs.items() if name in _COUNTED}
        bare, whole = figures.pop(sites.BARE), counts.pop(sites.BARE)
        counts = {name: count - whole for name, count in counts.items()}
        took = median(bare) * 1e6
        note = f"the whole; {each(whole, took)}"
        rows.append(Figure(f"{framework}, bare", took, "µs", None, note))
        ours = added(figures[sites.TEN], bare) * 1e6
        for name, turns in figures.items():
            theirs = added(turns, bare) * 1e6
            note = "added, no integration"
            if name in (sites.ONE, sites.TEN, sites.FURAGU_TEN):
                note = "added"
            if name in _LEAST:
                note = _LEAST[name]
            if name in counts:
                note += f"; {each(counts[name], theirs)}"
            rows.append(Figure(f"{framework}, {name}", theirs, "µs", ours / theirs, note))
        rows.extend(
            Figure(f"{framework}, {name}", None, "µs", note=why) for name, why in missing.items()
        )
        goals.append(Goal(f"{framework}: ten reads ≤ 6 µs added", ours, 6.0))
    alone = take_turns({"alone": by_themselves}, settings, most=MOST)["alone"]
    what = "the core, ten reads, in a loop of its own"
    rows.append(Figure(what, median(alone) * 1e6, "µs", None, "the whole, no framework"))
    return Outcome(rows, goals)


def instructions_of(run: Run) -> int:
    """How many instructions of Python one request takes, after some like it."""
    run.handle([run.prepare() for _ in range(AHEAD)])
    CLIENT.flush()
    requests = [run.prepare()]
    return instructions(lambda: run.handle(requests))


def each(count: int, took: float) -> str:
    """How many instructions of Python that are, and what one takes with all that it calls.

    Args:
        count: Of a request.
        took: Microseconds.
    """
    return f"{count:,} instructions, {took * 1e3 / count:.1f} ns each"


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
