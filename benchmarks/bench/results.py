"""The table on the screen, and ``results.md``."""

from __future__ import annotations

import datetime
import importlib.metadata
import os
import platform
import re
import shutil
import subprocess
from pathlib import Path

import msgspec
from rich.console import Console
from rich.table import Table

from .causes import CAUSES
from .outcome import Figure, Goal, Outcome
from .page import PEERS
from .registry import MEASUREMENTS
from .yardstick import compared, said

__all__ = ["read_results", "show", "write_results"]

_PACKAGES = (
    *PEERS,
    "aiohttp",
    "urllib3",
    "httpx",
    "httpx2",
    "httpx-sse",
    "msgspec",
    "orjson",
    "Django",
    "Flask",
    "fastapi",
    "starlette",
    "uvicorn",
    "gunicorn",
)
_ABOUT = """\
Written by `make bench`; not to be edited. Absolute figures are of the one machine and the one run
named here; the ratios hold. What was measured, and how, is told in `benchmarks/bench/`, a module
for each part."""
_DATA = re.compile(r"<!-- data: (.*) -->")


def show(outcomes: dict[str, Outcome], console: Console) -> None:
    """Print what was measured, and which goals are met."""
    for name, outcome in outcomes.items():
        table = Table(title=MEASUREMENTS[name].title, title_justify="left")
        table.add_column("what")
        table.add_column("figure", justify="right")
        table.add_column("ours is … times", justify="right")
        table.add_column("how, or why not", overflow="fold")
        for figure in outcome.figures:
            table.add_row(figure.who, shown(figure), times(figure.ratio), figure.note)
        console.print(table)
    table = Table(title="Goals", title_justify="left")
    for heading in ("measurement", "goal", "measured", ""):
        table.add_column(heading, justify="right" if heading == "measured" else "left")
    for name, outcome in outcomes.items():
        for goal in outcome.goals:
            style = {True: "green", False: "red", None: "yellow"}[goal.met]
            table.add_row(name, goal.what, reached(goal), verdict(goal), style=style)
    console.print(table)
    if sentence := said(compared(outcomes)):
        console.print(sentence, highlight=False)


def shown(figure: Figure) -> str:
    """A figure with its unit."""
    if figure.value is None:
        return "—"
    digits = 0 if abs(figure.value) >= 100 else 1 if abs(figure.value) >= 10 else 2
    return f"{figure.value:,.{digits}f} {figure.unit}"


def times(number: float | None) -> str:
    """A ratio, as exact as it can be."""
    if number is None:
        return ""
    return f"{number:.3g}" if number < 100 else f"{number:,.0f}"


def reached(goal: Goal) -> str:
    """What was measured."""
    return "—" if goal.measured is None else times(goal.measured)


def verdict(goal: Goal) -> str:
    """Whether the goal is met, in a word."""
    word = {True: "met", False: "missed", None: "not measured"}[goal.met]
    return f"{word}: {goal.note}" if goal.note else word


def read_results(path: Path) -> dict[str, Outcome]:
    """What ``results.md`` holds; nothing where it is not there yet."""
    found = _DATA.search(path.read_text(encoding="utf-8")) if path.exists() else None
    if found is None:
        return {}
    return msgspec.json.decode(found[1], type=dict[str, Outcome])


def write_results(path: Path, outcomes: dict[str, Outcome]) -> None:
    """Write ``results.md``: goals first, then all figures; the same as data at its end."""
    outcomes = {name: outcomes[name] for name in MEASUREMENTS if name in outcomes}
    python = f"{platform.python_implementation()} {platform.python_version()}"
    lines = [
        "# What it costs, measured",
        "",
        _ABOUT,
        "",
        f"- {datetime.datetime.now(datetime.UTC):%Y-%m-%d}, {python}, {platform.system()}",
        f"- {processor()}, {os.cpu_count()} cores",
        f"- {', '.join(versions())}",
        "",
        "## Goals",
        "",
        *([sentence, ""] if (sentence := said(compared(outcomes))) else []),
        "| measurement | goal | measured | |",
        "|---|---|---:|---|",
    ]
    for name, outcome in outcomes.items():
        lines.extend(
            f"| {name} | {goal.what} | {reached(goal)} | {verdict(goal)} |"
            for goal in outcome.goals
        )
    lines += ["", "## Why", ""]
    lines.extend(
        f"- **{name}**: {CAUSES[name]}"
        for name, outcome in outcomes.items()
        if name in CAUSES and any(goal.met is False for goal in outcome.goals)
    )
    if rows := compared(outcomes):
        lines += [
            "",
            "## This machine beside the one on which goals were set",
            "",
            "| measurement | what | here | there | times as long here |",
            "|---|---|---:|---:|---:|",
        ]
        lines.extend(
            f"| {name} | {who} | {shown(here)} | {shown(there)} | {ratio:.2f} |"
            for (name, who), (here, there, ratio) in rows.items()
        )
    for name, outcome in outcomes.items():
        lines += [
            "",
            f"## {MEASUREMENTS[name].title[0].upper()}{MEASUREMENTS[name].title[1:]}",
            "",
            "| what | figure | ours is … times | how, or why not |",
            "|---|---:|---:|---|",
        ]
        lines.extend(
            f"| {figure.who} | {shown(figure)} | {times(figure.ratio)} | {figure.note} |"
            for figure in outcome.figures
        )
    data = msgspec.json.encode(outcomes).decode()
    path.write_text("\n".join([*lines, "", f"<!-- data: {data} -->", ""]), encoding="utf-8")


def versions() -> list[str]:
    """What was compared, with its versions."""
    found = []
    for name in _PACKAGES:
        try:
            found.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            found.append(f"no {name}")
    wrk = shutil.which("wrk")
    if wrk is None:
        return [*found, "no wrk"]
    said = subprocess.run([wrk, "-v"], capture_output=True, text=True, check=False)
    number = re.search(r"wrk \S*?(\d+\.\d+(?:\.\d+)?)", said.stdout + said.stderr)
    return [*found, f"wrk {number[1]}" if number else "wrk"]


def processor() -> str:
    """The kind of processor."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return platform.machine()
    found = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    return found[1] if found else platform.machine()
