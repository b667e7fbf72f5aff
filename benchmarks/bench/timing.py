"""Turns, medians and ratios.

Everything that is compared takes turns in short rounds in one process, in an order that is
turned round each time. A figure is the median of its rounds, and a ratio the median of the
ratios of the same rounds: a machine that is busy, or changes its speed, disturbs both alike.
Time is this thread's processor time, unless waiting is what is measured.
"""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .outcome import Settings

__all__ = ["added", "median", "over", "percentile", "ratio", "repeated", "take_turns"]

#: Runs something so many times, and gives the seconds that it took.
Work = Callable[[int], float]

_UNROLLED = 20


def repeated(statement: str, names: Mapping[str, Any], unrolled: int = _UNROLLED) -> Work:
    """A statement that can be run again and again.

    Args:
        statement: What is run.
        names: What it uses.
        unrolled: How often it stands in the loop, so that this costs next to nothing.
    """
    clock = time.thread_time
    lines = "\n".join([f"        {statement}"] * unrolled)
    source = f"def run(times, clock, {', '.join(names)}):\n"
    source += f"    began = clock()\n    for _ in times:\n{lines}\n    return clock() - began\n"
    made: dict[str, Any] = {}
    exec(source, made)
    run, values = made["run"], tuple(names.values())

    def work(count: int) -> float:
        rounds = max(1, count // unrolled)
        return float(run(range(rounds), clock, *values)) * count / (rounds * unrolled)

    return work


def over(
    make: Callable[[], Any],
    statement: str,
    names: Mapping[str, Any],
    after: Callable[[], object] = lambda: None,
    most: int = 1_000,
    alive: int = 100,
    clock: Callable[[], float] = time.thread_time,
) -> Work:
    """A statement that is run once for each `held` of its own, made outside of the figures.

    Args:
        make: Makes what the statement reads from.
        statement: Uses it as `held`.
        names: What else it uses.
        after: Cleans up after so many, outside of the figures.
        most: So many are made at most in one turn.
        alive: So many of them are there at once, as on a busy server; the next use their memory.
        clock: Tells the seconds.
    """
    source = f"def run(helds, clock, {', '.join(names)}):\n    began = clock()\n"
    source += f"    for held in helds:\n        {statement}\n    return clock() - began\n"
    made: dict[str, Any] = {}
    exec(source, made)
    run, values = made["run"], tuple(names.values())

    def work(count: int) -> float:
        wanted = min(count, most)
        took = 0.0
        for begun in range(0, wanted, alive):
            helds = [make() for _ in range(min(alive, wanted - begun))]
            took += float(run(helds, clock, *values))
            after()
        return took * count / wanted

    return work


def take_turns(
    works: Mapping[str, Work], settings: Settings, most: int = 100_000
) -> dict[str, list[float]]:
    """Seconds of one run of each, round by round.

    Args:
        works: What takes turns.
        settings: How long.
        most: So many runs in a turn at most.
    """
    counts: dict[str, int] = {}
    for name, work in works.items():
        probe, took = 1, work(1)
        while took < settings.seconds / 20 and probe < most:
            probe = min(most, probe * 4)
            took = work(probe)
        counts[name] = max(1, min(most, int(probe * settings.seconds / max(took, 1e-9))))
    figures: dict[str, list[float]] = {name: [] for name in works}
    # What is there by now is no part of it, and would be looked through again before each turn.
    gc.collect()
    gc.freeze()
    for number in range(settings.rounds):
        order = list(works) if number % 2 else list(works)[::-1]
        for name in order:
            gc.collect()
            gc.disable()
            try:
                figures[name].append(works[name](counts[name]) / counts[name])
            finally:
                gc.enable()
    return figures


def median(figures: Sequence[float]) -> float:
    """The middle one."""
    return statistics.median(figures)


def ratio(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """How many times theirs is ours, as the median of the rounds."""
    pairs = zip(ours, theirs, strict=True)
    return statistics.median(one / max(other, 1e-12) for one, other in pairs)


def added(ours: Sequence[float], base: Sequence[float]) -> float:
    """What ours takes more than the base, as the median of the rounds."""
    return statistics.median(one - other for one, other in zip(ours, base, strict=True))


def percentile(figures: Sequence[float], share: float) -> float:
    """The figure that this share of all are not above."""
    ordered = sorted(figures)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
