"""The doctor's report on a terminal: in colours and columns, with a sign of life while it waits."""

from __future__ import annotations

from rich.console import Console
from rich.status import Status
from rich.table import Table
from rich.text import Text

from .checkup import Finding, Level, Subject, examine, exit_code
from .checkup.report import verdict

__all__ = ["print_rich"]

_STYLES = {
    Level.OK: "green",
    Level.WARNING: "bold yellow",
    Level.FAILURE: "bold red",
    Level.SKIPPED: "dim",
}


def print_rich(subject: Subject, *, quick: bool, console: Console | None = None) -> int:
    """Examine, and print each finding as soon as it is known; the exit code."""
    console = console or Console()
    seen: list[Finding] = []
    with console.status("looking") as status:
        for finding in examine(subject, quick=quick, progress=lambda text: _say(status, text)):
            seen.append(finding)
            console.print(_row(finding))
            status.update("looking")
    worst = (Level.OK, Level.WARNING, Level.FAILURE)[exit_code(seen)]
    console.print()
    console.print(Text(verdict(seen), style=_STYLES[worst]))
    return exit_code(seen)


def _say(status: Status, text: str) -> None:
    status.update(Text(text))


def _row(finding: Finding) -> Table:
    row = Table.grid(padding=(0, 2, 0, 0), expand=False)
    row.add_column(width=7)
    row.add_column(width=13)
    # An address or a path has no blank to wrap it at, and its end may be what counts.
    row.add_column(overflow="fold")
    row.add_row(
        Text(finding.level.value, style=_STYLES[finding.level]),
        Text(finding.check, style="bold"),
        Text(finding.text, style="dim" if finding.level is Level.SKIPPED else ""),
    )
    if finding.advice:
        row.add_row("", "", Text(f"→ {finding.advice}", style=_STYLES[finding.level]))
    return row
