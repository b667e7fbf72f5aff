"""What a fleet asks of the service after one change, and how soon a new process serves flags.

    make bench-fleet

Eight processes serve the same 200 users, each in an order of its own, and all of them streaming.
A flag is changed; then this counts the calls that reach the service until every process serves
the new value to every user, with and without a store in Redis. Everything is real: the processes,
Redis, the connections. The service is the local one, in this process; it takes `--latency` for an
evaluation.

After that new processes are started one after the other, with what an old one has left in a
store and without, while the service is up and while it is down: how long, from the first import
on, until a user's flag is right?
"""

from __future__ import annotations

import json
import multiprocessing
import random
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from shipsilently_core import ShipSilentlyClient
from shipsilently_core.stores_redis import RedisStore
from shipsilently_local import LocalService

THREADS = 2
#: Seconds that a request waits for Redis: many processes share few cores here.
DEADLINE = 1.0
#: Seconds for anything that has to happen at all.
LIMIT = 120.0


@contextmanager
def redis_server() -> Iterator[str | None]:
    """The address of a Redis with nothing in it; ``None`` where there is none to start."""
    program = shutil.which("redis-server") or shutil.which("valkey-server")
    if program is None:
        yield None
        return
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        options = ["--bind", "127.0.0.1", "--port", str(port), "--dir", folder, "--save", ""]
        server = subprocess.Popen([program, *options], stdout=subprocess.DEVNULL)
        try:
            _wait_for(port)
            yield f"redis://127.0.0.1:{port}/0"
        finally:
            server.kill()
            server.wait(10)


def _wait_for(port: int) -> None:
    end = time.monotonic() + 20
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            assert time.monotonic() < end, "Redis does not start"
            threading.Event().wait(0.02)
        else:
            return


# One process of the fleet.


class Worker:
    """Serves all users again and again, at a steady rate, and tells when all have a version."""

    def __init__(self, client: ShipSilentlyClient, users: int, rate: float, seed: int) -> None:
        self._client = client
        self._users = users
        self._pause = THREADS / rate
        self._rng = random.Random(seed)
        self._stop = threading.Event()
        self.served = [0] * users
        self.took: list[float] = []

    def _serve(self, seed: int) -> None:
        rng = random.Random(seed)
        mine = list(range(seed % THREADS, self._users, THREADS))
        due = time.monotonic() + rng.random() * self._pause
        while not self._stop.is_set():
            rng.shuffle(mine)
            for user in mine:
                self._stop.wait(max(0.0, due - time.monotonic()))
                due += self._pause
                begin = time.monotonic()
                flags = self._client.flags({"userId": f"user-{user}"})
                self.served[user] = flags.get("version", 0)
                self.took.append(time.monotonic() - begin)

    def run(self, pipe: Connection) -> None:
        """Serve until told to end, and answer each version once everybody has it."""
        first = self._rng.randrange(1_000_000) * THREADS
        threads = [
            threading.Thread(target=self._serve, args=(first + number,))
            for number in range(THREADS)
        ]
        for thread in threads:
            thread.start()
        while version := pipe.recv():
            self.took.clear()
            while min(self.served) < version:
                self._stop.wait(0.01)
            pipe.send(list(self.took))
        self._stop.set()
        for thread in threads:
            thread.join()


def serve(
    url: str, key: str, store: str | None, users: int, rate: float, seed: int, pipe: Connection
) -> None:
    """The whole life of one process."""
    kept = None if store is None else RedisStore(store, deadline=DEADLINE)
    client = ShipSilentlyClient(api_url=url, api_key=key, store=kept)
    client.wait_ready(20)
    pipe.send(True)
    Worker(client, users, rate, seed).run(pipe)
    client.close()


# The fleet.


@dataclass
class Change:
    """What one change has cost.

    Attributes:
        calls: How many calls for users reached the service.
        baseline: How many for the processes' own context.
        most: The most calls for one user.
        peak: The most calls in a tenth of a second.
        seconds: Until everybody was served the new value.
        took: Milliseconds of the requests meanwhile.
        operations: Calls to the store's scripts.
    """

    calls: int
    baseline: int
    most: int
    peak: int
    seconds: float
    took: list[float]
    operations: int


def measure(
    store: str | None, *, workers: int, users: int, rate: float, changes: int, latency: float
) -> list[Change]:
    """Let a fleet live through some changes."""
    spawn = multiprocessing.get_context("spawn")
    found = []
    with LocalService({"version": 1}, max_recorded=1_000_000) as service:
        if latency:
            service.fault("batch", delay=latency)
        pipes: list[Connection] = []
        fleet = []
        for number in range(workers):
            ours, theirs = spawn.Pipe()
            arguments = (service.url, service.key, store, users, rate, number, theirs)
            process = spawn.Process(target=serve, args=arguments, daemon=True)
            process.start()
            pipes.append(ours)
            fleet.append(process)
        _all(pipes)
        assert service.wait_for_streams(workers, LIMIT)
        for version in range(1, changes + 2):
            before, operations = len(service.requests), _operations(store)
            begin = time.monotonic()
            if version > 1:
                service.set_flag("version", default=version)
            for pipe in pipes:
                pipe.send(version)
            took = [item * 1000 for part in _all(pipes) for item in part]
            seconds = time.monotonic() - begin
            requests = service.requests[before:]
            if version > 1:
                # The first is how the fleet gets warm.
                found.append(_counted(requests, seconds, took, _operations(store) - operations))
        for pipe in pipes:
            pipe.send(0)
        for process in fleet:
            process.join(20)
    return found


def _all(pipes: list[Connection]) -> list[Any]:
    answers = []
    for pipe in pipes:
        assert pipe.poll(LIMIT), "a process does not answer"
        answers.append(pipe.recv())
    return answers


def _counted(requests: list[Any], seconds: float, took: list[float], operations: int) -> Change:
    batches = [request for request in requests if request.path.endswith("/batch")]
    asked = Counter(json.loads(request.body)["context"]["userId"] for request in batches)
    baseline = asked.pop("system", 0)
    moments = [int(request.at * 10) for request in batches]
    return Change(
        calls=asked.total(),
        baseline=baseline,
        most=max(asked.values(), default=0),
        peak=max(Counter(moments).values(), default=0),
        seconds=seconds,
        took=took,
        operations=operations,
    )


def _operations(store: str | None) -> int:
    if store is None:
        return 0
    import redis

    with redis.Redis.from_url(store) as known:
        stats: Any = known.info("commandstats")
    return sum(stats.get(f"cmdstat_{name}", {}).get("calls", 0) for name in ("eval", "evalsha"))


# A new process.

FRESH = """
import time
begin = time.perf_counter()
import json, sys
from shipsilently_core import ShipSilentlyClient
url, key, store, count = json.loads(sys.argv[1])
client = ShipSilentlyClient(api_url=url, api_key=key, store=store)
values = [client.flags({"userId": f"user-{n}"}).get("who", "nobody") for n in range(count)]
took = (time.perf_counter() - begin) * 1000
if count > 1:
    client.wait_ready(10)
    time.sleep(0.5)
client.close()
print(json.dumps([values[0] == "user-0", took]))
"""


def fresh(url: str, key: str, store: str | None, users: int = 1) -> tuple[bool, float]:
    """Whether a new process served the right value at once, and the milliseconds to its first."""
    given = json.dumps([url, key, store, users])
    done = subprocess.run(
        [sys.executable, "-c", FRESH, given], capture_output=True, text=True, timeout=60, check=True
    )
    right, took = json.loads(done.stdout)
    return right, took


def cold_starts(redis: str | None, runs: int) -> Table:
    """New processes, each case in turn, so that a busy moment of this machine meets them all."""
    rules = [
        {"when": [{"attribute": "userId", "operator": "equals", "value": name}], "serve": name}
        for name in (f"user-{number}" for number in range(50))
    ]
    flags = {"who": {"default": "nobody", "rules": rules}}
    found: dict[tuple[str, str], list[tuple[bool, float]]] = {}
    with (
        tempfile.TemporaryDirectory() as folder,
        LocalService(flags) as up,
        LocalService(flags) as down,
    ):
        # A folder: each service has a file of its own.
        stores = {"none": None, "a file": f"{folder}/", "Redis": redis}
        cases = {
            (name, state): (service, store)
            for name, store in stores.items()
            for state, service in (("up", up), ("down", down))
            if name != "Redis" or redis is not None
        }
        for service, store in cases.values():
            fresh(service.url, service.key, store, users=50)
        down.stop()
        for _ in range(runs):
            for case, (service, store) in cases.items():
                found.setdefault(case, []).append(fresh(service.url, service.key, store))
    table = Table(title="A new process: from its first import to the first flag, median in ms")
    table.add_column("store")
    for heading in ("service up", "right", "service down", "right"):
        table.add_column(heading, justify="right")
    for name in stores:
        cells = []
        for state in ("up", "down"):
            results = found.get((name, state), [])
            if results:
                cells.append(f"{statistics.median(took for _, took in results):.0f}")
                cells.append(f"{sum(right for right, _ in results)} of {runs}")
        if cells:
            table.add_row(name, *cells)
    return table


def change_table(found: dict[str, list[Change]], title: str) -> Table:
    """The fleets side by side."""
    table = Table(title=title)
    table.add_column("")
    rows: list[list[str]] = [
        ["calls for users"],
        ["  the most for one user"],
        ["calls for the baseline"],
        ["calls in the busiest 0.1 s"],
        ["calls of the store"],
        ["requests, p50 in ms"],
        ["requests, p99 in ms"],
        ["seconds until all are served it"],
    ]
    for name, changes in found.items():
        table.add_column(name, justify="right")

        def middle(values: list[float], form: str = ".0f") -> str:
            return format(statistics.median(values), form)

        cuts = [statistics.quantiles(change.took, n=100) for change in changes]
        for row, cell in zip(
            rows,
            (
                middle([c.calls for c in changes]),
                str(max(c.most for c in changes)),
                middle([c.baseline for c in changes]),
                middle([c.peak for c in changes]),
                middle([c.operations for c in changes]),
                middle([cut[49] for cut in cuts], ".2f"),
                middle([cut[98] for cut in cuts], ".1f"),
                middle([c.seconds for c in changes], ".1f"),
            ),
            strict=True,
        ):
            row.append(cell)
    for row in rows:
        table.add_row(*row)
    return table


@click.command()
@click.option("--workers", default=8, show_default=True, help="Processes.")
@click.option("--users", default=200, show_default=True, help="Hot users, whom all serve.")
@click.option("--rate", default=50.0, show_default=True, help="Requests a second and process.")
@click.option("--changes", default=5, show_default=True, help="Changes; medians are shown.")
@click.option("--latency", default=0.02, show_default=True, help="Seconds of an evaluation.")
@click.option("--starts", default=15, show_default=True, help="New processes for each case.")
def main(workers: int, users: int, rate: float, changes: int, latency: float, starts: int) -> None:
    """Measure and print."""
    console = Console()
    with ExitStack() as stack:
        redis = stack.enter_context(redis_server())
        fleets = {"without a store": None}
        if redis is None:
            console.print("There is no redis-server: its half is left out.")
        else:
            fleets["with Redis"] = redis
        options: dict[str, Any] = {
            "workers": workers,
            "users": users,
            "rate": rate,
            "changes": changes,
            "latency": latency,
        }
        found = {name: measure(store, **options) for name, store in fleets.items()}
        console.print(change_table(found, f"After one change: {workers} processes, {users} users"))
        if starts:
            console.print(cold_starts(redis, starts))


if __name__ == "__main__":
    main()
