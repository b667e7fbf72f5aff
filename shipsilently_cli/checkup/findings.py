"""What one check found."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from dataclasses import dataclass
from enum import StrEnum

__all__ = ["Checks", "Finding", "Level", "exit_code", "failure", "ok", "skipped", "warning"]


class Level(StrEnum):
    """How a check ended."""

    OK = "ok"
    WARNING = "warning"
    FAILURE = "failure"
    #: Nothing can be said, since something before it failed or was not asked for.
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the report. It never holds a key, a ticket, a context value or a body.

    Attributes:
        check: The name of the check, as the manual lists it.
        level: How it ended.
        text: What was found.
        advice: What to do about it.
    """

    check: str
    level: Level
    text: str
    advice: str = ""


#: Checks that tell what they find, and in the end whether what follows makes sense.
Checks = Generator[Finding, None, bool]


def ok(check: str, text: str) -> Finding:
    """All is well."""
    return Finding(check, Level.OK, text)


def warning(check: str, text: str, advice: str) -> Finding:
    """It works, but not as it should in production."""
    return Finding(check, Level.WARNING, text, advice)


def failure(check: str, text: str, advice: str) -> Finding:
    """It does not work."""
    return Finding(check, Level.FAILURE, text, advice)


def skipped(check: str, text: str) -> Finding:
    """It was not looked at."""
    return Finding(check, Level.SKIPPED, text)


def exit_code(findings: Iterable[Finding]) -> int:
    """0 where all is well, 1 with warnings, 2 with failures."""
    levels = {finding.level for finding in findings}
    if Level.FAILURE in levels:
        return 2
    return 1 if Level.WARNING in levels else 0
