"""What a large fleet asks of the service and of Redis after one change: a model in simulated time.

    make fleet-model

A thousand processes cannot be run here, so this plays them: requests of users arrive at random
processes, some users come more often than others, each process hears of the change a little
earlier or later, an evaluation and a look into the store take their time. What a process does
with a request is what `shipsilently_core` does: it serves what it asked for since the change;
otherwise it asks the service, or, with a store, it looks there first, asks the service if it is
the one to, and else waits for who does. `tests/stores/test_fleet_model.py` holds the model against
real processes (`make bench-fleet`).

It begins when the service tells of a change, with every process warm.
"""

from __future__ import annotations

import heapq
import random
from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import accumulate

import click
from rich.console import Console
from rich.table import Table

from shipsilently_core._saved import SavedContext, Seal, body_of
from shipsilently_core._snapshot import Row, Snapshot

#: Seconds of one slice of time in which calls are counted.
SLICE = 0.1
#: The client's own context has a number below those of the users.
BASELINE = -1


@dataclass(frozen=True)
class Fleet:
    """What is played.

    Attributes:
        workers: Processes.
        users: Users who have come before, and come again.
        rate: Requests a second and process.
        skew: The exponent of the users' popularity: the n-th comes 1/n^skew as often as the first;
            0 for all the same.
        rounds: Instead, each process serves all users again and again, in an order of its own.
        seconds: How long after the change.
        spread: Seconds within which all processes have heard of the change.
        latency: Seconds of an evaluation by the service, on average; half of it is fixed.
        trip: Seconds of a round trip to the store.
        lease: Seconds for which one process keeps the others from asking.
        patience: Seconds for which they wait.
        pauses: Seconds between two looks of who waits: the first, and the longest.
        seed: Of all that is random.
    """

    workers: int = 1_000
    users: int = 100_000
    rate: float = 20.0
    skew: float = 0.8
    rounds: bool = False
    seconds: float = 60.0
    spread: float = 0.25
    latency: float = 0.03
    trip: float = 0.001
    # With the client's timeout of 2 s.
    lease: float = 0.5
    patience: float = 1.0
    pauses: tuple[float, float] = (0.005, 0.1)
    seed: int = 1


@dataclass
class Outcome:
    """What came of it.

    Attributes:
        requests: How many requests arrived.
        calls: Evaluations for users that reached the service, in each slice of time.
        baseline: Evaluations of the processes' own context.
        operations: Calls to the store, in each slice.
        most: The most evaluations of one user.
        given_up: Requests that were served what was known before, since another process that was
            about to know took too long.
        waits: Seconds that requests waited, of those that had to wait at all.
    """

    requests: int = 0
    calls: list[int] = field(default_factory=list)
    baseline: int = 0
    operations: list[int] = field(default_factory=list)
    most: int = 0
    given_up: int = 0
    waits: list[float] = field(default_factory=list)

    def calls_within(self, seconds: float) -> int:
        """How many evaluations for users reached the service in the first seconds."""
        return sum(self.calls[: round(seconds / SLICE)])

    @property
    def peak(self) -> float:
        """The most evaluations for users in one second of the service's time."""
        return _busiest(self.calls)

    @property
    def store_peak(self) -> float:
        """The most calls to the store in one second."""
        return _busiest(self.operations)


def _busiest(slices: list[int]) -> float:
    """The most in one second, wherever it begins."""
    length = round(1 / SLICE)
    return max(
        (sum(slices[begin : begin + length]) for begin in range(max(1, len(slices) - length + 1))),
        default=0,
    )


class Simulation:
    """One run, with a store or without.

    Args:
        fleet: What is played.
        store: Whether the processes share one.
    """

    def __init__(self, fleet: Fleet, *, store: bool) -> None:
        self._fleet = fleet
        self._shared = store
        self._rng = random.Random(fleet.seed)
        self._events: list[tuple[float, int, Callable[[float], None]]] = []
        self._count = 0
        slices = int(fleet.seconds / SLICE) + 1
        self._outcome = Outcome(calls=[0] * slices, operations=[0] * slices)
        #: When each process hears of the change.
        self._heard = [self._rng.uniform(0, fleet.spread) for _ in range(fleet.workers)]
        #: What the store's clock says then.
        self._marks = [heard + fleet.trip for heard in self._heard]
        self._fresh: set[tuple[int, int]] = set()
        self._in_flight: dict[tuple[int, int], list[float]] = {}
        self._stamps: dict[int, float] = {}
        self._leases: dict[int, float] = {}
        self._asked: dict[int, int] = {}

    def run(self) -> Outcome:
        """Play it to its end."""
        for worker, heard in enumerate(self._heard):
            # The clock of the store is read once in each process, and the baseline evaluated.
            self._operation(heard)
            self._at(heard, self._request(worker, BASELINE))
        for moment, worker, user in self._arrivals():
            while self._events and self._events[0][0] <= moment:
                self._next()
            self._outcome.requests += 1
            if moment >= self._heard[worker]:
                self._request(worker, user)(moment)
        while self._events:
            self._next()
        self._outcome.baseline = self._asked.pop(BASELINE, 0)
        self._outcome.most = max(self._asked.values(), default=0)
        return self._outcome

    # Time.

    def _at(self, moment: float, what: Callable[[float], None]) -> None:
        self._count += 1
        heapq.heappush(self._events, (moment, self._count, what))

    def _next(self) -> None:
        moment, _, what = heapq.heappop(self._events)
        what(moment)

    def _arrivals(self) -> Iterator[tuple[float, int, int]]:
        """When a request arrives, at which process, of which user."""
        fleet, rng = self._fleet, self._rng
        if fleet.rounds:
            yield from self._in_rounds()
            return
        bounds = list(accumulate(1 / (rank**fleet.skew) for rank in range(1, fleet.users + 1)))
        moment, pace = 0.0, fleet.workers * fleet.rate
        while (moment := moment + rng.expovariate(pace)) < fleet.seconds:
            user = bisect_left(bounds, rng.random() * bounds[-1])
            yield moment, rng.randrange(fleet.workers), user

    def _in_rounds(self) -> Iterator[tuple[float, int, int]]:
        fleet, rng = self._fleet, self._rng
        ways = []
        for worker in range(fleet.workers):
            begin, users = rng.random() / fleet.rate, []
            for _ in range(int(fleet.seconds * fleet.rate / fleet.users) + 1):
                users += rng.sample(range(fleet.users), fleet.users)
            ways.append(
                [(begin + place / fleet.rate, worker, user) for place, user in enumerate(users)]
            )
        for arrival in heapq.merge(*ways):
            if arrival[0] >= fleet.seconds:
                return
            yield arrival

    # A request.

    def _request(self, worker: int, user: int) -> Callable[[float], None]:
        def arrive(now: float) -> None:
            key = (worker, user)
            if key in self._fresh:
                return
            waiting = self._in_flight.get(key)
            if waiting is not None:
                waiting.append(now)
                return
            self._in_flight[key] = [now]
            if self._shared:
                self._look(key, now, now + self._fleet.patience, self._fleet.pauses[0])
            else:
                self._ask(key, now, None)

        return arrive

    def _end(self, key: tuple[int, int], now: float, *, fresh: bool) -> None:
        if fresh:
            self._fresh.add(key)
        begun = self._in_flight.pop(key)
        if key[1] != BASELINE:
            self._outcome.waits.extend(now - moment for moment in begun)
            self._outcome.given_up += 0 if fresh else len(begun)

    def _ask(self, key: tuple[int, int], now: float, stamp: float | None) -> None:
        fleet, user = self._fleet, key[1]
        self._asked[user] = self._asked.get(user, 0) + 1
        if user != BASELINE:
            self._slice(self._outcome.calls, now)
        took = fleet.latency / 2 + self._rng.expovariate(2 / fleet.latency)

        def answered(moment: float) -> None:
            self._end(key, moment, fresh=True)
            if stamp is not None:
                self._operation(moment)
                self._at(moment + fleet.trip / 2, put)

        def put(moment: float) -> None:
            self._leases.pop(user, None)
            self._stamps[user] = max(self._stamps.get(user, -1.0), stamp or 0.0)

        self._at(now + took, answered)

    def _look(self, key: tuple[int, int], now: float, end: float, pause: float) -> None:
        trip = self._fleet.trip

        def looked(moment: float) -> None:
            worker, user = key
            if self._stamps.get(user, -1.0) > self._marks[worker]:
                self._at(moment + trip / 2, lambda then: self._end(key, then, fresh=True))
            elif self._leases.get(user, 0.0) <= moment:
                self._leases[user] = moment + self._fleet.lease
                self._at(moment + trip / 2, lambda then: self._ask(key, then, moment))
            elif moment >= end and user != BASELINE:
                self._at(moment + trip / 2, lambda then: self._end(key, then, fresh=False))
            elif moment >= end:
                # The background has patience, too, but then it wants to know.
                self._at(moment + trip / 2, lambda then: self._ask(key, then, moment))
            else:
                longer = min(2 * pause, self._fleet.pauses[1])
                self._at(moment + trip / 2 + pause, lambda then: self._look(key, then, end, longer))

        self._operation(now)
        self._at(now + trip / 2, looked)

    def _operation(self, now: float) -> None:
        if self._shared:
            self._slice(self._outcome.operations, now)

    def _slice(self, slices: list[int], now: float) -> None:
        place = int(now / SLICE)
        if place < len(slices):
            slices[place] += 1


def play(fleet: Fleet) -> tuple[Outcome, Outcome]:
    """Without a store, and with one."""
    return Simulation(fleet, store=False).run(), Simulation(fleet, store=True).run()


#: Bytes that Redis 7 takes for a key with a time to live, beside the value.
PER_KEY = 215
#: Bytes of the value beside the sealed flags: their stamp, and what Redis puts before a string.
PER_VALUE = 26


def allotted(size: int) -> int:
    """What jemalloc gives for so many bytes: four sizes for each power of two."""
    step = max(16, 1 << max(0, (size - 1).bit_length() - 3))
    return -(-size // step) * step


def bytes_in_redis(length: int) -> int:
    """What a context takes whose sealed flags are so long."""
    return PER_KEY + allotted(PER_VALUE + length)


def bytes_per_context(flags: int) -> int:
    """What a context with so many flags takes in Redis: its sealed value, its key and the rest."""
    rows = {
        f"feature-number-{number}": Row(
            ("on", "off", True, False, number)[number % 5], "rule_match", f"rule-{number * 7919}"
        )
        for number in range(flags)
    }
    seal = Seal("sk_live_0123456789", "https://flags.example")
    kept = SavedContext(1.8e9, 1.8e9, body_of(Snapshot(rows, complete=True)))
    return bytes_in_redis(len(seal.close(seal.name_of(b"context"), kept)))


def calls_table(fleet: Fleet, without: Outcome, shared: Outcome) -> Table:
    """What reaches the service."""
    title = (
        f"{fleet.workers:,} processes, {fleet.users:,} users, "
        f"{fleet.workers * fleet.rate:,.0f} requests/s: what reaches the service after one change"
    )
    table = Table(title=title)
    table.add_column("")
    table.add_column("without a store", justify="right")
    table.add_column("with Redis", justify="right")

    def row(name: str, of: Callable[[Outcome], float], form: str = ",.0f") -> None:
        table.add_row(name, format(of(without), form), format(of(shared), form))

    for seconds in (1.0, 10.0, 60.0, 600.0):
        if seconds <= fleet.seconds:
            row(f"calls in the first {seconds:.0f} s", lambda o, s=seconds: o.calls_within(s))  # type: ignore[misc]
    table.add_row(
        "calls until everybody was everywhere",
        f"{fleet.workers * fleet.users:,}",
        f"{fleet.users:,}",
    )
    row("calls/s, the busiest second", lambda o: o.peak)
    row("the most calls for one user", lambda o: o.most)
    row("calls for the baseline", lambda o: o.baseline)
    row("a miss waits, p50 in ms", lambda o: 1000 * _quantile(o.waits, 0.5), ".1f")
    row("a miss waits, p99 in ms", lambda o: 1000 * _quantile(o.waits, 0.99), ".1f")
    row("requests served the value before", lambda o: o.given_up)
    return table


def store_table(fleet: Fleet, shared: Outcome) -> Table:
    """What Redis has to take."""
    table = Table(title="What Redis has to take")
    table.add_column("")
    table.add_column("", justify="right")
    table.add_row("calls/s, the busiest second", f"{shared.store_peak:,.0f}")
    table.add_row(
        f"calls/s, on average over {fleet.seconds:.0f} s",
        f"{sum(shared.operations) / fleet.seconds:,.0f}",
    )
    table.add_row("calls for a request", f"{sum(shared.operations) / max(1, shared.requests):.2f}")
    for flags in (10, 50, 200):
        each = bytes_per_context(flags)
        table.add_row(
            f"bytes, with {flags} flags",
            f"{each:,} × {fleet.users:,} = {each * fleet.users / 1e6:,.0f} MB",
        )
    table.add_row("connections", f"{fleet.workers:,}")
    return table


def _quantile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0


@click.command()
@click.option("--workers", default=Fleet.workers, show_default=True, help="Processes.")
@click.option("--users", default=Fleet.users, show_default=True, help="Users.")
@click.option("--rate", default=Fleet.rate, show_default=True, help="Requests/s of a process.")
@click.option("--skew", default=Fleet.skew, show_default=True, help="Of the users' popularity.")
@click.option("--seconds", default=Fleet.seconds, show_default=True, help="To be played.")
@click.option("--spread", default=Fleet.spread, show_default=True, help="All have heard, in s.")
@click.option("--latency", default=Fleet.latency, show_default=True, help="An evaluation, in s.")
@click.option("--trip", default=Fleet.trip, show_default=True, help="To the store, in s.")
@click.option("--lease", default=Fleet.lease, show_default=True, help="One asks for all, in s.")
@click.option("--patience", default=Fleet.patience, show_default=True, help="Others wait, in s.")
@click.option("--seed", default=Fleet.seed, show_default=True, help="Another course of events.")
@click.option("--rounds", is_flag=True, help="Each process serves all users in turn.")
def main(**options: float) -> None:
    """Play a fleet, and print what it costs."""
    fleet = replace(Fleet(), **options)  # type: ignore[arg-type]
    without, shared = play(fleet)
    console = Console()
    console.print(calls_table(fleet, without, shared))
    console.print(store_table(fleet, shared))


if __name__ == "__main__":
    main()
