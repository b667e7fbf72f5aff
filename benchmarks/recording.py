"""What it costs to count a flag check, to read a flag, and to have signals that nobody hears.

    python benchmarks/recording.py

Each number is the median of several repeats; the last column compares it with one look-up
in a dictionary on the same machine. Nothing here touches the network.
"""

from __future__ import annotations

import gc
import statistics
import sys
import timeit
from collections.abc import Callable
from typing import Any

from rich.console import Console
from rich.table import Table

from shipsilently_core import AnalyticsConfig, Flags, ShipSilentlyClient, signals
from shipsilently_core.testing import ScriptedService

REPEATS = 15
WHO = {"userId": "u1"}


def nanoseconds(work: Callable[[], Any], number: int = 20_000) -> float:
    """The median time of one call."""
    times = timeit.Timer(work).repeat(REPEATS, number)
    return statistics.median(times) / number * 1e9


def first_read(client: ShipSilentlyClient, number: int = 5_000) -> float:
    """The median time of the first read of a flag in a request that has its flags already."""

    def one_repeat() -> float:
        sets: list[Flags] = [client.flags(WHO) for _ in range(number)]
        for flags in sets:
            flags.evaluate_all()
        return timeit.timeit(lambda: sets.pop().get("new", False), number=number)

    return statistics.median(one_repeat() for _ in range(REPEATS)) / number * 1e9


def client_of(**analytics: Any) -> ShipSilentlyClient:
    """A client that knows its flags."""
    client = ShipSilentlyClient(
        api_key="sk_benchmark",
        transport=ScriptedService({"new": True, "layout": {"columns": 2}}),
        analytics=AnalyticsConfig(max_batch_size=1_000_000, **analytics),
        max_age=1e6,
    )
    client.evaluate_all(WHO)
    return client


def measure() -> list[tuple[str, float]]:
    """What was measured, and its nanoseconds."""
    client, silent = client_of(), client_of(enabled=False)
    record = client.evaluator.analytics.record
    flags = client.flags(WHO)
    flags.get("new", False)
    plain = {"new": True}
    rows = [
        ("dict.get", nanoseconds(lambda: plain.get("new", False))),
        ("record one event", nanoseconds(lambda: record("new", True, "default"))),
        ("first read in a request, counted", first_read(client)),
        ("first read in a request, analytics off", first_read(silent)),
        ("second read in a request", nanoseconds(lambda: flags.get("new", False))),
        ("client.get, counted", nanoseconds(lambda: client.get("new", False, WHO), 5_000)),
        (
            "a signal without receivers",
            nanoseconds(lambda: client._emitter.emit(signals.flags_updated, client, changed=None)),
        ),
    ]

    def receiver(sender: Any, **arguments: Any) -> None: ...

    with signals.flag_evaluated.connected_to(receiver, sender=client):
        rows.append(("first read in a request, one receiver", first_read(client)))
    rows.append(("client.status()", nanoseconds(client.status, 5_000)))
    return rows


def main() -> None:
    """Measure and show it."""
    gc.freeze()
    table = Table(title=f"What counting costs, Python {sys.version.split()[0]}")
    table.add_column("what")
    table.add_column("ns", justify="right")
    table.add_column("x dict.get", justify="right")
    rows = measure()
    base = rows[0][1]
    for what, cost in rows:
        table.add_row(what, f"{cost:,.0f}", f"{cost / base:,.1f}")
    Console().print(table)


if __name__ == "__main__":
    main()
