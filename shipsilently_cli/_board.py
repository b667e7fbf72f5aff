"""What the demo shows: a table that fills in a terminal, lines in a log."""

from __future__ import annotations

import enum
import os
from collections.abc import Sequence
from types import TracebackType

from rich.box import SIMPLE_HEAD
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from ._pages import ROUNDS, Timing

__all__ = ["Board", "Step", "make_console", "outage_cell"]

#: Columns of a log, where nobody has said otherwise.
_LOG_WIDTH = 100


class Step(enum.Enum):
    """The steps in their order; the value is the column's head."""

    OFF = "flag\noff"
    ON = "switched on\nin the file"
    REFUSING = "service\nanswers 503"
    KILLED = "service\nkilled"
    BACK = "service back,\nswitched off"

    @property
    def words(self) -> str:
        """The head in one line."""
        return self.value.replace("\n", " ")


def outage_cell(timing: Timing, before: Timing) -> str:
    """How long pages took during an outage, and how much more than before it."""
    return (
        "new page\n"
        f"{timing.median:.1f} ms ({timing.median - before.median:+.1f})\n"
        f"max {timing.worst:.1f} ({timing.worst - before.worst:+.1f})"
    )


def make_console() -> Console:
    """A console that moves its cursor only where a person looks at it."""
    console = Console(highlight=False)
    if console.is_terminal and not console.is_dumb_terminal and "CI" not in os.environ:
        return console
    width = None if "COLUMNS" in os.environ else _LOG_WIDTH
    return Console(highlight=False, force_terminal=False, width=width)


class Board:
    """The table, a row per framework and a column per step, and a line below it.

    In a log each cell is a line when it is known, and the table comes at the end.

    Args:
        frameworks: The rows.
        console: Where it is shown.
    """

    def __init__(self, frameworks: Sequence[str], console: Console) -> None:
        self._cells: dict[str, dict[Step, Text]] = {name: {} for name in frameworks}
        self._console = console
        self._status = ""
        self._live = (
            Live(console=console, get_renderable=self._render, refresh_per_second=10)
            if console.is_terminal
            else None
        )

    def __enter__(self) -> Board:
        if self._live:
            self._live.start(refresh=True)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._status = ""
        if self._live:
            self._live.stop()
        elif any(self._cells.values()):
            self._console.print()
            self._console.print(self._render())

    def say(self, status: str) -> None:
        """What is happening now."""
        self._status = status
        self._changed(status)

    def fill(self, framework: str, step: Step, cell: str) -> None:
        """A step has happened for one framework."""
        self._cells[framework][step] = Text(cell)
        self._changed(f"  {framework:<8} {step.words:<27} {cell.replace(chr(10), ', ')}")

    def fail(self, framework: str, step: Step) -> None:
        """A step has not happened for one framework."""
        self._cells[framework][step] = Text("FAILED", style="bold red")
        self._changed(f"  {framework:<8} {step.words:<27} FAILED")

    def _changed(self, line: str) -> None:
        if self._live:
            self._live.refresh()
        else:
            self._console.print(Text(line), soft_wrap=True)

    def _render(self) -> Group:
        table = Table(box=SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0), leading=1)
        table.add_column("", style="bold", no_wrap=True)
        for step in Step:
            table.add_column(step.value)
        for framework, cells in self._cells.items():
            table.add_row(framework, *(cells.get(step, Text("")) for step in Step))
        key = (
            f"In the outages: median and maximum of {ROUNDS} requests, in brackets how much more\n"
            "than of as many just before."
        )
        status = [Text(self._status)] if self._status else []
        return Group(table, Text(f"\n{key}", style="dim"), *status)
