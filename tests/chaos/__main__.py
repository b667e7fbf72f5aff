"""Try every fault, and print what held.

    make chaos ARGS="--only gzip-bomb"

The exit status is 1 when anything did not hold.
"""

from __future__ import annotations

import argparse
import functools
import json
import sys
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from rich.console import Console
from rich.table import Table

from tests.core.certificate import Authority

from .faults import FAULTS
from .load import TASKS, THREADS
from .subject import LONGEST, RECOVERY
from .trial import INVARIANTS, MOST_MEGABYTES, Fault, Outcome, run

__all__ = ["console", "main", "show"]


def _arguments(given: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make chaos", description=__doc__)
    parser.add_argument("--only", action="append", metavar="FAULT", help="may be repeated")
    parser.add_argument("--list", action="store_true", help="show the faults there are")
    parser.add_argument("--json", action="store_true", help="print JSON in the table's place")
    parser.add_argument("--jobs", type=int, default=2, help="faults at the same time (2)")
    arguments = parser.parse_args(given)
    unknown = [name for name in arguments.only or () if name not in FAULTS]
    if unknown:
        parser.error(f"there is no fault {unknown[0]!r}; --list shows those there are")
    return arguments


def console() -> Console:
    """For the table, which is wide also where nobody looks at it."""
    return Console(width=None if sys.stdout.isatty() else 150)


def main(given: Sequence[str] | None = None) -> int:
    """Run it as the command line says; the exit status."""
    arguments = _arguments(given)
    out = console()
    if arguments.list:
        for fault in FAULTS.values():
            out.print(f"{fault.name:23} {fault.about}", markup=False, highlight=False)
        return 0
    chosen = [FAULTS[name] for name in arguments.only or FAULTS]
    begin = time.monotonic()
    outcomes = _try_all(chosen, arguments.jobs, Console(stderr=True))
    held = sum(outcome.held for outcome in outcomes)
    took = time.monotonic() - begin
    if arguments.json:
        report = {
            "tried": len(outcomes),
            "held": held,
            "seconds": round(took, 1),
            "bounds": {
                "read_seconds": LONGEST,
                "recovery_seconds": RECOVERY,
                "megabytes": MOST_MEGABYTES,
            },
            "faults": [outcome.as_json() for outcome in outcomes],
        }
        print(json.dumps(report, indent=2))
    else:
        show(out, outcomes)
        out.print(f"{len(outcomes)} faults tried, {held} held, in {took:.0f} s")
    return 0 if held == len(outcomes) else 1


def _try_all(faults: Sequence[Fault], jobs: int, console: Console) -> list[Outcome]:
    lock = threading.Lock()

    @functools.cache
    def made() -> Authority:
        return Authority()

    def authority() -> Authority:
        with lock:
            return made()

    def one(fault: Fault) -> Outcome:
        outcome = run(fault, authority)
        word = "held" if outcome.held else f"NOT HELD: {outcome.broken}"
        console.print(f"{fault.name:23} {word}", markup=False, highlight=False)
        return outcome

    with ThreadPoolExecutor(max(1, jobs)) as pool:
        return list(pool.map(one, faults))


def show(out: Console, outcomes: Sequence[Outcome]) -> None:
    """Print the table, and what did not hold."""
    table = Table(
        title=f"{THREADS} threads and {TASKS} tasks",
        caption=(
            "yes: no read raised; none gave a value older than before; none gave another user's; "
            f"none took longer than {LONGEST:g} s; a fault that leaves answers whole kept "
            f"none back; the process grew by at most {MOST_MEGABYTES:g} MB; it streamed and "
            f"everybody was current at most {RECOVERY:g} s "
            "after the fault's end; the client could be closed"
        ),
    )
    table.add_column("fault", no_wrap=True)
    table.add_column("reads", justify="right")
    table.add_column("met", justify="right")
    table.add_column("failures", max_width=36)
    for title in INVARIANTS.values():
        table.add_column(title)
    for title in ("longest", "MB", "recovery"):
        table.add_column(title, justify="right")
    for outcome in outcomes:
        table.add_row(
            outcome.fault,
            f"{outcome.reads:,}",
            f"{sum(outcome.hits.values()):,}",
            ", ".join(f"{count:,} {kind}" for kind, count in sorted(outcome.failures.items())),
            *("NO" if what in outcome.broken else "yes" for what in INVARIANTS),
            f"{outcome.slowest:.2f} s",
            f"{outcome.growth:.0f}",
            "never" if outcome.recovery is None else f"{outcome.recovery:.2f} s",
        )
    out.print(table)
    for outcome in outcomes:
        for what, why in outcome.broken.items():
            out.print(f"{outcome.fault}: {what}: {why}", markup=False, highlight=False)
        for example in outcome.examples:
            out.print(f"{outcome.fault}: {example}", markup=False, highlight=False)


if __name__ == "__main__":
    sys.exit(main())
