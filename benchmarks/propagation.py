"""How long a change takes from the service's event to `flags.get` in 1 and in 8 processes.

    make bench-propagation

Each process reads a flag in a loop, as requests would: one `Flags` per read, for one
user. The service, in this process, changes the flag 200 times. The clock starts just
before the service is told of a change, so its own work is in the figures; all
processes share the machine, so with more of them than cores they wait for each other.
"""

from __future__ import annotations

import multiprocessing
import os
import statistics
import sys
import threading
import time
from multiprocessing.connection import Connection

from rich.console import Console
from rich.table import Table

from shipsilently_core import ShipSilentlyClient
from shipsilently_local import LocalService

CHANGES = int(os.environ.get("CHANGES", "200"))
PROCESSES = (1, 8)
#: Seconds between two reads of one process: what else a server does.
PAUSE = 0.0005
#: Seconds for all changes of one row; afterwards the row shows those that were measured.
LIMIT = 25.0


def read(url: str, key: str, name: str, results: Connection) -> None:
    """Read the flag until told to end; send each new value with the moment it was seen."""
    client = ShipSilentlyClient(api_url=url, api_key=key)
    client.wait_ready(10)
    seen: int = 0
    pause = threading.Event()
    while not results.poll():
        value = client.flags({"userId": name}).get("version", 0)
        now = time.monotonic()
        if value != seen:
            seen = int(value)
            results.send((value, now))
        pause.wait(PAUSE)
    client.close()


def measure(processes: int) -> list[float]:
    """The milliseconds that each change took to reach each process."""
    spawn = multiprocessing.get_context("spawn")
    pipes: list[Connection] = []
    workers = []
    took: list[float] = []
    with LocalService({"version": 1}) as service:
        for number in range(processes):
            ours, theirs = spawn.Pipe()
            arguments = (service.url, service.key, f"user-{number}", theirs)
            worker = spawn.Process(target=read, args=arguments, daemon=True)
            worker.start()
            pipes.append(ours)
            workers.append(worker)
        for pipe in pipes:
            assert pipe.poll(20), "a process does not begin"
            pipe.recv()
        assert service.wait_for_streams(processes, 20)
        end = time.monotonic() + LIMIT
        for version in range(2, CHANGES + 2):
            begin = time.monotonic()
            service.set_flag("version", default=version)
            for pipe in pipes:
                took.append((_arrived(pipe, version) - begin) * 1000)
            if time.monotonic() > end:
                break
        for pipe in pipes:
            pipe.send("end")
        for worker in workers:
            worker.join(10)
    return took


def _arrived(pipe: Connection, version: int) -> float:
    """The moment at which a process has seen this version."""
    while pipe.poll(10):
        seen, moment = pipe.recv()
        if seen == version:
            return float(moment)
    raise TimeoutError(f"version {version} does not arrive")


def main() -> int:
    """Measure and print; 1 when nothing could be measured."""
    table = Table(title="From the service's change to the new value in flags.get, in ms")
    for heading in ("processes", "changes", "p50", "p99", "most"):
        table.add_column(heading, justify="right")
    for processes in PROCESSES:
        took = measure(processes)
        cuts = statistics.quantiles(took, n=100)
        figures = (statistics.median(took), cuts[98], max(took))
        changes = len(took) // processes
        table.add_row(str(processes), str(changes), *(f"{figure:.1f}" for figure in figures))
    Console().print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
