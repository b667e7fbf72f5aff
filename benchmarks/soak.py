"""Many bad days in a few minutes: faults every second while threads and tasks evaluate.

    make soak MINUTES=30

One client, 8 threads and 50 tasks read flags for users of their own and for shared ones.
A flag holds a version number that grows all the time. The service fails in every way it
can, as a seeded schedule says, with calm in between. Of each read this checks that:

- it is not older than what an earlier read for the same user has returned;
- it is not from the future, and in calm times it was current a moment ago;
- it is nobody else's value, and no default once the user's own value was known.

At the end everything must be as it was after the start: threads, sockets, memory, and the
state `streaming`. The exit status is 1 when anything was violated.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import random
import statistics
import sys
import threading
import time
from array import array
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from shipsilently_core import ConnectionState, RetryConfig, ShipSilentlyClient
from shipsilently_local import LocalService

THREADS, TASKS, SHARED = 8, 50, 4
#: Seconds: between two versions, between two faults, of a storm and of the calm after it.
CHANGE_EVERY, FAULT_EVERY, STORM, CALM = 0.08, 1.0, 12.0, 7.0
#: Seconds after the last fault from which on values must be current.
RECOVERY = 4.0
#: Seconds by which a value may be old in calm times, on a machine that has other work too.
ALLOWED_AGE = 2.0
#: The share of reads that may fail in calm times.
MOST_FAILURES = 0.2
#: What may be there at the end: sockets beyond the most that were there until half-way; and
#: megabytes beyond what was there half-way, in a run of less than `LONG` seconds more, since what
#: is remembered fills up to its bounds first.
MORE_SOCKETS, MORE_MEGABYTES, MORE_AT_FIRST, LONG = 12, 12, 40, 1500.0

ENDPOINTS = ("*", "batch", "evaluate", "ticket", "stream", "analytics")
NOBODY = "nobody"


class Versions:
    """The versions of the flag, and when each began to be current."""

    def __init__(self) -> None:
        self.began = [time.monotonic()] * 2

    @property
    def latest(self) -> int:
        """The current version."""
        return len(self.began) - 1

    def age(self, version: int, moment: float) -> float:
        """For how many seconds a version had no longer been current at a moment."""
        after = version + 1
        return max(0.0, moment - self.began[after]) if after < len(self.began) else 0.0


@dataclass
class User:
    """Whom flags are read for, and what has been seen for them.

    Attributes:
        name: Its ``userId``.
        newest: The newest version that a finished read returned.
        known: Whether its own value has been returned.
    """

    name: str
    newest: int = 0
    known: bool = False


@dataclass
class Report:
    """What was counted and found; each reader has its own, added up at the end."""

    reads: Counter[str] = field(default_factory=Counter)
    violations: list[str] = field(default_factory=list)
    # Of hours there are millions, whose memory is not to look like the client's.
    calm_ages: array[float] = field(default_factory=lambda: array("d"))
    calm_failures: int = 0

    def add(self, other: Report) -> None:
        """Add another's to this."""
        self.reads += other.reads
        self.violations += other.violations
        self.calm_ages += other.calm_ages
        self.calm_failures += other.calm_failures


class Soak:
    """One run.

    Args:
        seconds: How long.
        seed: Of the schedule.
        say: Shows a line.
    """

    def __init__(self, seconds: float, seed: int, say: Callable[[str], None]) -> None:
        self._seconds = seconds
        self._rng = random.Random(seed)
        self._say = say
        self._stop = threading.Event()
        self._versions = Versions()
        self._trouble = self._begin = time.monotonic()
        self._shared = [User(f"shared-{number}") for number in range(SHARED)]
        self._own = [User(f"user-{number}") for number in range(THREADS + TASKS)]
        self.faults: Counter[str] = Counter()
        self._most_sockets = 0
        self.states: Counter[str] = Counter()
        self.report = Report()
        users = [*self._shared, *self._own]
        rules = [
            {
                "when": [{"attribute": "userId", "operator": "equals", "value": user.name}],
                "serve": user.name,
            }
            for user in users
        ]
        self._service = LocalService(
            {"who": {"default": NOBODY, "rules": rules}, "version": 1},
            heartbeat=0.5,
            max_recorded=1_000,
        )
        self._client = ShipSilentlyClient(
            api_url="http://127.0.0.1",
            api_key="sk_local",
        )

    # Reading.

    def _check(self, user: User, verb: str, values: dict[str, Any], before: _Before) -> None:
        report, version, who = before.report, values["version"], values["who"]
        report.reads[verb] += 1
        if version < before.newest:
            report.violations.append(
                f"{verb} for {user.name}: version {version} after {before.newest}"
            )
        if version > self._versions.latest:
            report.violations.append(f"{verb}: version {version} does not exist yet")
        if who not in (user.name, NOBODY, ""):
            report.violations.append(f"{verb} for {user.name}: the value of {who}")
        if before.known and who != user.name:
            report.violations.append(f"{verb} for {user.name}: {who or 'a default'} again")
        if version > user.newest:
            user.newest = version
        user.known = user.known or who == user.name
        if before.calm and self._is_calm(before.begin) and verb != "get":
            if values["failed"]:
                # Also in calm times a busy machine may be too slow for the deadline of a call.
                report.calm_failures += 1
                return
            age = self._versions.age(version, before.begin)
            report.calm_ages.append(age)
            if age > ALLOWED_AGE:
                report.violations.append(
                    f"{verb} for {user.name}: version {version} is {age:.1f} s old in calm times"
                )

    def _before(self, user: User, report: Report) -> _Before:
        begin = time.monotonic()
        return _Before(begin, user.newest, user.known, self._is_calm(begin), report)

    def _is_calm(self, moment: float) -> bool:
        streams = self._client.connection_state is ConnectionState.STREAMING
        return streams and moment - self._trouble > RECOVERY

    def _read(self, own: User, rng: random.Random, report: Report) -> None:
        client = self._client
        while not self._stop.wait(rng.uniform(0.002, 0.03)):
            user = own
            verb = rng.choice(("flags", "flags", "evaluate", "evaluate_all", "get", "guest"))
            if verb == "flags" and rng.random() < 0.5:
                user = rng.choice(self._shared)
            context = {"userId": user.name}
            before = self._before(user, report)
            if verb == "flags":
                values = _values(client.flags(context).evaluate_all())
            elif verb == "evaluate":
                # One after the other, so the second may be newer.
                who = client.evaluate_detail("who", context, "")
                version = client.evaluate_detail("version", context, 0)
                values = _values({"version": version, "who": who})
            elif verb == "evaluate_all":
                values = _values(client.evaluate_all(context))
            elif verb == "get":
                values = {
                    "version": client.get("version", 0, context),
                    "who": client.get("who", "", context),
                    "failed": False,
                }
            else:
                # Somebody who never comes back.
                guest = User(f"guest-{rng.getrandbits(48)}")
                user, before = guest, self._before(guest, report)
                values = _values(client.flags({"userId": guest.name}).evaluate_all())
            self._check(user, verb, values, before)

    async def _aread(self, own: User, rng: random.Random, report: Report) -> None:
        client = self._client
        while not self._stop.is_set():
            await asyncio.sleep(rng.uniform(0.02, 0.2))
            user = own
            verb = rng.choice(("aflags", "aflags", "aevaluate", "aevaluate_all"))
            if verb == "aflags" and rng.random() < 0.5:
                user = rng.choice(self._shared)
            context = {"userId": user.name}
            before = self._before(user, report)
            if verb == "aflags":
                flags = client.flags(context)
                values = _values(await flags.aevaluate_all())
            elif verb == "aevaluate":
                who = await client.aevaluate_detail("who", context, "")
                version = await client.aevaluate_detail("version", context, 0)
                values = _values({"version": version, "who": who})
            else:
                values = _values(await client.aevaluate_all(context))
            self._check(user, verb, values, before)

    async def _read_in_tasks(self, reports: list[Report]) -> None:
        users = self._own[THREADS:]
        async with asyncio.TaskGroup() as group:
            for number, (user, report) in enumerate(zip(users, reports, strict=True)):
                group.create_task(self._aread(user, random.Random(number), report))

    # Trouble.

    def _next_fault(self) -> None:
        rng, service = self._rng, self._service
        endpoint = rng.choice(ENDPOINTS)
        kind = rng.choice(
            (
                *("status", "throttled", "delay", "drop", "garbage", "silence", "drip"),
                *("streams dropped", "streams silent", "restart", "outage"),
            )
        )
        self.faults[kind] += 1
        if kind == "status":
            service.fault(endpoint, status=rng.choice((401, 403, 500, 502, 503)))
        elif kind == "throttled":
            status = rng.choice((429, 503))
            service.fault(endpoint, status=status, headers={"Retry-After": "1"}, times=3)
        elif kind == "delay":
            service.fault(endpoint, delay=rng.uniform(0.05, 0.8))
        elif kind == "drip":
            service.fault(endpoint, drip=rng.uniform(0.0005, 0.01), drip_headers=True)
        elif kind == "streams dropped":
            service.drop_streams()
        elif kind == "streams silent":
            service.fault("stream", silence=True, live=True, times=0)
        elif kind == "restart":
            service.restart()
        elif kind == "outage":
            service.stop()
            self._stop.wait(rng.uniform(0.2, 0.9))
            service.start()
        else:
            service.fault(endpoint, **{kind: True})

    def _change(self) -> None:
        self._versions.began.append(time.monotonic())
        self._service.set_flag("version", default=self._versions.latest)

    def _storm_and_calm(self, until: float) -> None:
        """Change the flag all the time, and let things go wrong for most of it."""
        begin = time.monotonic()
        next_fault = begin + CALM
        shown = begin
        while (now := time.monotonic()) < until:
            self._change()
            place = (now - begin) % (CALM + STORM)
            if place > CALM:
                self._trouble = now
                if now >= next_fault:
                    self._service.clear_faults()
                    self._next_fault()
                    next_fault = now + FAULT_EVERY
            elif now - self._trouble < 1:
                self._service.clear_faults()
            if now >= shown + 10:
                shown = now
                self._most_sockets = max(self._most_sockets, sockets())
                self._show(now - self._begin)
            self._stop.wait(CHANGE_EVERY)
        self._service.clear_faults()

    def _show(self, passed: float) -> None:
        self._say(
            f"{passed:5.0f} s of {self._seconds:.0f}: version {self._versions.latest}, "
            f"{sum(self.faults.values())} faults, {self._client.connection_state}, "
            f"{threading.active_count()} threads, {sockets()} sockets, {megabytes():.0f} MB"
        )

    # The run.

    def run(self) -> list[tuple[str, str, bool]]:
        """Run it.

        Returns:
            What was measured: name, value, and whether it is as it should be.
        """
        self._begin = time.monotonic()
        threads_before = threading.active_count()
        with self._service:
            self._client = ShipSilentlyClient(
                api_url=self._service.url,
                api_key=self._service.key,
                timeout=1.0,
                polling_interval=1.0,
                max_contexts=500,
                retry=RetryConfig(base_delay=0.1, max_delay=1.0, heartbeat_timeout=2.0),
                on_state_change=lambda state: self.states.update([str(state)]),
            )
            self._client.start()
            reports = [Report() for _ in self._own]
            readers = [
                threading.Thread(
                    target=self._read, args=(user, random.Random(1000 + number), report)
                )
                for number, (user, report) in enumerate(
                    zip(self._own[:THREADS], reports, strict=False)
                )
            ]
            readers.append(
                threading.Thread(target=lambda: asyncio.run(self._read_in_tasks(reports[THREADS:])))
            )
            for reader in readers:
                reader.start()
            half = time.monotonic() + self._seconds / 2
            try:
                self._storm_and_calm(half)
                in_between = self._settle()
                # How many are open just then depends on who has asked at once lately.
                most_sockets = max(self._most_sockets, in_between.sockets)
                in_between = replace(in_between, sockets=most_sockets)
                self._storm_and_calm(half + self._seconds / 2)
                at_end = self._settle()
            finally:
                self._stop.set()
                for reader in readers:
                    reader.join(20)
            for report in reports:
                self.report.add(report)
            stuck = sum(reader.is_alive() for reader in readers)
            current = self._all_current()
            self._client.close()
        threads_after = threading.active_count()
        return self._results(in_between, at_end, stuck, current, threads_before, threads_after)

    def _settle(self) -> _Footprint:
        """After the calm that follows the last fault: what the process holds."""
        end = time.monotonic() + 15
        while time.monotonic() < end:
            self._change()
            if time.monotonic() - self._trouble > RECOVERY + 1 and self._is_calm(time.monotonic()):
                break
            self._stop.wait(CHANGE_EVERY)
        samples = []
        for _ in range(10):
            samples.append((threading.active_count(), sockets(), megabytes()))
            self._stop.wait(0.1)
        threads, files, memory = (
            statistics.median(column) for column in zip(*samples, strict=True)
        )
        return _Footprint(threads, files, memory, str(self._client.connection_state))

    def _all_current(self) -> int:
        """How many of the readers' users are served the last version."""
        latest = self._versions.latest
        return sum(
            self._client.flags({"userId": user.name}).get("version", 0) == latest
            for user in [*self._own, *self._shared]
        )

    def _results(
        self,
        middle: _Footprint,
        end: _Footprint,
        stuck: int,
        current: int,
        threads_before: int,
        threads_after: int,
    ) -> list[tuple[str, str, bool]]:
        report, users = self.report, THREADS + TASKS + SHARED
        ages = sorted(report.calm_ages) or [0.0]
        more = end.megabytes - middle.megabytes
        allowed = MORE_MEGABYTES if self._seconds >= LONG else MORE_AT_FIRST
        return [
            ("reads", f"{report.reads.total():,}", report.reads.total() > 0),
            ("reads by verb", ", ".join(f"{k} {v:,}" for k, v in report.reads.items()), True),
            ("reads in calm times", f"{len(report.calm_ages):,}", bool(report.calm_ages)),
            (
                "failed in calm times",
                f"{report.calm_failures:,}",
                report.calm_failures <= MOST_FAILURES * (len(ages) + report.calm_failures),
            ),
            ("their age, p99", f"{ages[int(len(ages) * 0.99)] * 1000:.0f} ms", True),
            ("their age, most", f"{ages[-1] * 1000:.0f} ms", ages[-1] <= ALLOWED_AGE),
            ("versions", f"{self._versions.latest:,}", True),
            ("faults", ", ".join(f"{k} {v}" for k, v in sorted(self.faults.items())), True),
            ("states entered", ", ".join(f"{k} {v}" for k, v in self.states.items()), True),
            ("violations", str(len(report.violations)), not report.violations),
            ("readers that hang", str(stuck), stuck == 0),
            ("users who are current", f"{current} of {users}", current == users),
            ("state at the end", end.state, end.state == "streaming"),
            (
                "threads",
                f"{middle.threads:.0f}, {end.threads:.0f} at the end, {threads_after} after it",
                end.threads <= middle.threads + 1 and threads_after <= threads_before,
            ),
            (
                "sockets and files",
                f"{middle.sockets:.0f} at most until half-way, {end.sockets:.0f} at the end",
                end.sockets <= middle.sockets + MORE_SOCKETS,
            ),
            (
                "memory",
                f"{middle.megabytes:.0f} MB, {end.megabytes:.0f} MB at the end",
                more <= allowed,
            ),
        ]


@dataclass(frozen=True)
class _Before:
    """What was known when a read began."""

    begin: float
    newest: int
    known: bool
    calm: bool
    report: Report


@dataclass(frozen=True)
class _Footprint:
    """What the process holds."""

    threads: float
    sockets: float
    megabytes: float
    state: str


def _values(results: dict[str, Any]) -> dict[str, Any]:
    version, who = results.get("version"), results.get("who")
    return {
        "version": 0 if version is None else version.value,
        "who": "" if who is None else who.value,
        "failed": version is None or version.reason == "error_fallback",
    }


def sockets() -> int:
    """How many files and sockets this process has open; 0 where the system does not tell."""
    folder = Path("/proc/self/fd")
    return len(os.listdir(folder)) if folder.is_dir() else 0


def megabytes() -> float:
    """The memory that this process has in use; 0 where the system does not tell."""
    file = Path("/proc/self/status")
    if not file.is_file():
        return 0.0
    for line in file.read_text(encoding="ascii", errors="replace").splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    return 0.0


def main() -> int:
    """Run it as the command line says; the exit status."""
    parser = argparse.ArgumentParser(description="Let a client live through many bad days.")
    parser.add_argument("--minutes", type=float, default=2.0)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    # It would tell of each kind of fault once a minute.
    logging.getLogger("shipsilently").addHandler(logging.NullHandler())
    logging.getLogger("shipsilently").propagate = False
    console = Console()
    console.print(f"soak: {given.minutes:g} minutes, seed {given.seed}")
    soak = Soak(given.minutes * 60, given.seed, lambda line: print(line, flush=True))
    results = soak.run()
    table = Table(show_header=False)
    for name, value, good in results:
        table.add_row("" if good else "WRONG", name, value)
    console.print(table)
    for violation in soak.report.violations[:20]:
        console.print(violation, markup=False)
    return 0 if all(good for _, _, good in results) else 1


if __name__ == "__main__":
    sys.exit(main())
