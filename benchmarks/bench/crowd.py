"""New users, 16 at once: how many are answered in a second, and how long the slowest wait."""

from __future__ import annotations

import asyncio
import statistics
import threading
import time

from .callers import AsyncCall, Call, acallers, callers
from .loopback import service
from .outcome import Figure, Goal, Outcome, Settings, missing_figures
from .timing import median, percentile

AT_ONCE = 16


def run(settings: Settings) -> Outcome:
    """Measure."""
    rounds = 1 if settings.quick else 9
    count = 5 if settings.quick else 30
    loop = asyncio.new_event_loop()
    with service() as url:
        opened = acallers(url, own=settings.own)
        calls, missing = loop.run_until_complete(opened.__aenter__())
        rates: dict[str, list[float]] = {name: [] for name in calls}
        waits: dict[str, list[float]] = {name: [] for name in calls}
        for call in calls.values():
            loop.run_until_complete(_tasks(call, 2))
        for number in range(rounds):
            for name in calls if number % 2 else reversed(calls):
                began = time.perf_counter()
                took = loop.run_until_complete(_tasks(calls[name], count))
                rates[name].append(len(took) / (time.perf_counter() - began))
                waits[name].append(percentile(took, 0.99))
        loop.run_until_complete(opened.__aexit__(None, None, None))
    loop.close()
    rows = _rows("async", rates, waits)
    rows.extend(missing_figures({f"{name}, async": why for name, why in missing.items()}, "/s"))
    faster = [a / b for a, b in zip(rates["shipsilently"], rates["httpx"], strict=True)]
    slowest = [a / b for a, b in zip(waits["shipsilently"], waits["httpx"], strict=True)]
    goals = [
        Goal("16 at once, async ≥ 6 × httpx's rate", statistics.median(faster), 6.0, at_least=True),
        Goal("16 at once, async: p99 ≤ a tenth of httpx's", statistics.median(slowest), 0.1),
    ]
    with service() as url, callers(url, own=settings.own) as (blocking, missing):
        rates = {name: [] for name in blocking if name != "raw socket"}
        waits = {name: [] for name in rates}
        for name in rates:
            _threads(blocking[name], 2)
        for number in range(rounds):
            for name in rates if number % 2 else reversed(rates):
                began = time.perf_counter()
                took = _threads(blocking[name], max(1, count // 3))
                rates[name].append(len(took) / (time.perf_counter() - began))
                waits[name].append(percentile(took, 0.99))
    rows.extend(_rows("threads", rates, waits))
    return Outcome(rows, goals)


def _rows(how: str, rates: dict[str, list[float]], waits: dict[str, list[float]]) -> list[Figure]:
    rows = []
    for name, rate in rates.items():
        ours = [a / b for a, b in zip(rates["shipsilently"], rate, strict=True)]
        wait = [a / b for a, b in zip(waits["shipsilently"], waits[name], strict=True)]
        rows.append(Figure(f"{name}, {how}", median(rate), "/s", statistics.median(ours)))
        rows.append(
            Figure(f"{name}, {how}, p99", median(waits[name]) * 1e3, "ms", statistics.median(wait))
        )
    return rows


async def _tasks(call: AsyncCall, count: int) -> list[float]:
    """The seconds that each of so many calls took, in each of 16 tasks."""
    took: list[float] = []

    async def one() -> None:
        for _ in range(count):
            began = time.perf_counter()
            await call()
            took.append(time.perf_counter() - began)

    await asyncio.gather(*(one() for _ in range(AT_ONCE)))
    return took


def _threads(call: Call, count: int) -> list[float]:
    """The same in 16 threads."""
    took: list[float] = []

    def one() -> None:
        for _ in range(count):
            began = time.perf_counter()
            call()
            took.append(time.perf_counter() - began)

    threads = [threading.Thread(target=one) for _ in range(AT_ONCE)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return took
