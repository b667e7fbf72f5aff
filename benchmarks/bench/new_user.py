"""A new user, one at a time: one call to the service, and what is made of its answer.

The figures are processor time of the client's process. The bare transports only read the bytes.
"""

from __future__ import annotations

import asyncio
import time

from .callers import AsyncCall, Call, acallers, callers
from .loopback import service
from .outcome import Figure, Goal, Outcome, Settings, missing_figures
from .timing import Work, median, ratio, take_turns

_MOST = 2_000


def run(settings: Settings) -> Outcome:
    """Measure."""
    settings = Settings(settings.quick, settings.own, settings.rounds, settings.seconds * 5)
    with service() as url, callers(url, own=settings.own) as (calls, missing):
        figures = take_turns(
            {name: blocking(call) for name, call in calls.items()}, settings, _MOST
        )
    rows = _rows("", figures)
    rows.extend(missing_figures(missing, "µs"))
    limit = "one call, decoded ≤ 1.3 × urllib3's bare call"
    goals = [_goal(limit, figures, "urllib3", 1.3, missing)]
    loop = asyncio.new_event_loop()
    with service() as url:
        opened = acallers(url, own=settings.own)
        awaited, missing = loop.run_until_complete(opened.__aenter__())
        works = {name: in_loop(loop, call) for name, call in awaited.items()}
        figures = take_turns(works, settings, _MOST)
        loop.run_until_complete(opened.__aexit__(None, None, None))
    loop.close()
    rows.extend(_rows(", async", figures))
    rows.extend(missing_figures({f"{name}, async": why for name, why in missing.items()}, "µs"))
    limit = "async: one call, decoded ≤ 0.45 × httpx.AsyncClient's bare call"
    goals.append(_goal(limit, figures, "httpx", 0.45, missing))
    return Outcome(rows, goals)


def _rows(suffix: str, figures: dict[str, list[float]]) -> list[Figure]:
    ours = figures["shipsilently"]
    return [
        Figure(
            name + suffix,
            median(took) * 1e6,
            "µs",
            ratio(ours, took),
            "decoded" if name == "shipsilently" else "bare call",
        )
        for name, took in figures.items()
    ]


def _goal(
    what: str,
    figures: dict[str, list[float]],
    other: str,
    limit: float,
    missing: dict[str, str],
) -> Goal:
    if other in figures:
        return Goal(what, ratio(figures["shipsilently"], figures[other]), limit)
    return Goal(what, None, limit, note=missing.get(other, "left out"))


def blocking(call: Call) -> Work:
    """Call again and again."""

    def work(count: int) -> float:
        began = time.process_time()
        for _ in range(count):
            call()
        return time.process_time() - began

    return work


def in_loop(loop: asyncio.AbstractEventLoop, call: AsyncCall) -> Work:
    """Await again and again, in one task."""

    async def calls(count: int) -> float:
        began = time.process_time()
        for _ in range(count):
            await call()
        return time.process_time() - began

    return lambda count: loop.run_until_complete(calls(count))
