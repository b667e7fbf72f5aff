"""How fast this machine is beside the one on which the goals in microseconds were set.

What others do takes as long as it takes there, and is no merit of ours here. So a goal in
microseconds that is met on a faster machine, or missed on a slower one, can be seen for what it is.
"""

from __future__ import annotations

import statistics

from .outcome import Figure, Outcome

__all__ = ["KNOWN", "Compared", "compared", "said"]

#: What each of these took on that machine, by measurement and row, in the unit of the row; where
#: it gave a range, the middle.
KNOWN = {
    ("reads", "dict"): 26.0,
    ("cached_request", "FastAPI, furagu, ten reads"): 162.0,
    ("cached_request", "FastAPI, launchdarkly-server-sdk, ten reads"): 154.0,
    ("cached_request", "FastAPI, statsig-python-core, ten reads"): 17.0,
    ("all_flags", "dict, 200"): 0.5,
    ("all_flags", "dict, 1000"): 2.6,
    ("decode", "msgspec, frozen structs"): 43.0,
    ("depends", "an empty async dependency"): 10.5,
    ("new_user", "urllib3"): 262.0,
    ("new_user", "httpx"): 418.0,
    ("new_user", "httpx, async"): 890.0,
    ("new_user", "aiohttp, async"): 240.0,
}

#: What was measured here, the same there, and how many times as long it takes here.
Compared = dict[tuple[str, str], tuple[Figure, Figure, float]]


def compared(outcomes: dict[str, Outcome]) -> Compared:
    """Each of `KNOWN` that was measured here."""
    measured = {
        (name, figure.who): figure
        for name, outcome in outcomes.items()
        for figure in outcome.figures
    }
    rows: Compared = {}
    for row, there in KNOWN.items():
        here = measured.get(row)
        if here is not None and here.value is not None:
            rows[row] = here, Figure(here.who, there, here.unit), here.value / there
    return rows


def said(rows: Compared) -> str:
    """The same in a sentence; empty where nothing of it was measured."""
    if not rows:
        return ""
    ratios = sorted(ratio for _, _, ratio in rows.values())
    return (
        "The goals in microseconds and milliseconds were set on another machine. What others do "
        f"takes {statistics.median(ratios):.2f} times as long here as there: the median of "
        f"{len(ratios)}, which go from {ratios[0]:.2f} to {ratios[-1]:.2f}. Read such "
        "goals with that in mind."
    )
