"""The service is away, and the gate has closed: what a request then pays for its flags."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Iterator

from .outcome import Figure, Goal, Outcome, Settings
from .timing import median, percentile

TIMEOUT = 0.2


def run(settings: Settings) -> Outcome:
    """Measure."""
    count = 200 if settings.quick else 5_000
    rows: list[Figure] = []
    goals: list[Goal] = []
    for what, address in (("refuses", refusing), ("never answers", silent)):
        with address() as url:
            took, before, gate = requests(url, count)
        worst = percentile(took, 0.99) * 1e3
        rows.append(Figure(f"a service that {what}: median", median(took) * 1e3, "ms"))
        rows.append(Figure(f"a service that {what}: p99", worst, "ms"))
        note = f"{before} requests asked before the gate closed for {gate}"
        rows.append(Figure(f"a service that {what}: most", max(took) * 1e3, "ms", note=note))
        goals.append(Goal(f"a service that {what}: p99 ≤ 1 ms", worst, 1.0))
    return Outcome(rows, goals)


@contextlib.contextmanager
def refusing() -> Iterator[str]:
    """An address that nothing listens on."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{held.getsockname()[1]}"


@contextlib.contextmanager
def silent() -> Iterator[str]:
    """An address that takes connections and says nothing."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        held.listen(128)
        yield f"http://127.0.0.1:{held.getsockname()[1]}"


def requests(url: str, count: int) -> tuple[list[float], int, str]:
    """Seconds of requests after the gate has closed, how many it took, and why it is closed.

    Half of the people are known from before, half are new; the background probes meanwhile.
    """
    from shipsilently_core import ShipSilentlyClient

    client = ShipSilentlyClient(api_key="bench", api_url=url, timeout=TIMEOUT)
    before = 0
    while client.status().gate is None and before < 50:
        client.flags({"userId": f"first-{before}"}).get("flag-0", False)
        before += 1
    gate = client.status().gate
    assert gate is not None
    took = []
    for number in range(count):
        person = f"first-{number % before}" if number % 2 else f"user-{number}"
        began = time.perf_counter()
        client.flags({"userId": person}).get("flag-0", False)
        took.append(time.perf_counter() - began)
    client.close(0.5)
    return took, before, gate.value
