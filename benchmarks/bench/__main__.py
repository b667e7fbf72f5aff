"""The command: ``python -m benchmarks.bench``, or ``make bench``."""

from __future__ import annotations

import argparse
import logging
import subprocess
import sys
import time
from pathlib import Path

import msgspec
from rich.console import Console

from .outcome import Figure, Outcome, Settings
from .page import update_page
from .registry import MEASUREMENTS, Measurement
from .results import read_results, show, write_results

HERE = Path(__file__).resolve().parent
RESULTS = HERE.parent / "results.md"
PAGE = HERE.parent.parent / "docs" / "performance.md"


def main() -> int:
    """Measure, show, write; 1 when a measurement did not come to its end."""
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("--only", action="append", choices=MEASUREMENTS, help="repeatable")
    parser.add_argument("--quick", action="store_true", help="to see that it runs; no figures")
    parser.add_argument("--own", action="store_true", help="without the peers")
    parser.add_argument("--write", action="store_true", help="into results.md with --only too")
    parser.add_argument("--in-process", choices=MEASUREMENTS, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    settings = Settings.of(quick=arguments.quick, own=arguments.own)
    if arguments.in_process:
        logging.disable(logging.CRITICAL)
        outcome = MEASUREMENTS[arguments.in_process].run(settings)
        sys.stdout.buffer.write(b"\n" + msgspec.json.encode(outcome))
        return 0
    console = Console(width=None if sys.stdout.isatty() else 120)
    chosen = [MEASUREMENTS[name] for name in MEASUREMENTS if name in (arguments.only or [name])]
    outcomes: dict[str, Outcome] = {}
    failed = False
    began = time.monotonic()
    for number, measurement in enumerate(chosen, 1):
        console.print(
            f"[dim]{number}/{len(chosen)}, {time.monotonic() - began:.0f} s[/dim] "
            f"{measurement.title}"
        )
        outcome, error = measure(measurement, settings)
        failed = failed or bool(error)
        if error:
            console.print(error, style="red", markup=False, highlight=False)
        outcomes[measurement.name] = outcome
    show(outcomes, console)
    whole = not arguments.only and not arguments.own
    if (whole or arguments.write) and not arguments.quick:
        known = {} if whole else read_results(RESULTS)
        write_results(RESULTS, known | outcomes)
        update_page(PAGE, known | outcomes)
        for path in (RESULTS, PAGE):
            console.print(f"written: {path.relative_to(HERE.parent.parent)}")
    return int(failed)


def measure(measurement: Measurement, settings: Settings) -> tuple[Outcome, str]:
    """One measurement in a process of its own, and what went wrong."""
    command = [sys.executable, "-m", __package__, "--in-process", measurement.name]
    command += ["--quick"] * settings.quick + ["--own"] * settings.own
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=HERE.parent.parent
    )
    try:
        out, err = process.communicate(timeout=measurement.limit)
    except subprocess.TimeoutExpired:
        process.kill()
        out, err = process.communicate()
        err += f"\nnot done after {measurement.limit:g} s".encode()
    try:
        return msgspec.json.decode(out.rpartition(b"\n")[2], type=Outcome), ""
    except msgspec.MsgspecError:
        text = err.decode(errors="replace").strip()
        row = Figure(measurement.title, None, "µs", note=(text.splitlines() or ["no output"])[-1])
        return Outcome([row], []), text


if __name__ == "__main__":
    sys.exit(main())
