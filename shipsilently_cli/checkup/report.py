"""Findings as lines for people, and as JSON for programs."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator

from shipsilently_core import __version__

from .findings import Finding, Level, exit_code

__all__ = ["lines", "print_report", "verdict"]

_WIDTH = max(map(len, Level))
_NAMES = 13


def print_report(
    findings: Iterable[Finding],
    write: Callable[[str], object],
    *,
    as_json: bool,
    paint: Callable[[Level, str], str] = lambda _, text: text,
) -> int:
    """Print each finding as soon as it is known, or in the end all of them as JSON.

    Args:
        findings: What is found.
        write: Prints one line.
        as_json: For programs.
        paint: Colours a word of a level.

    Returns:
        The exit code: 0 all well, 1 warnings, 2 failures.
    """
    seen: list[Finding] = []
    if as_json:
        seen += findings
        write(_document(seen))
        return exit_code(seen)

    def remember() -> Iterator[Finding]:
        for finding in findings:
            seen.append(finding)
            yield finding

    for line in lines(remember(), paint):
        write(line)
    write("")
    write(verdict(seen))
    return exit_code(seen)


def lines(
    findings: Iterable[Finding], paint: Callable[[Level, str], str] = lambda _, text: text
) -> Iterator[str]:
    """A line for each finding and one for its advice; what was skipped for one reason is one."""
    waiting: list[Finding] = []
    for finding in findings:
        if waiting and (finding.level is not Level.SKIPPED or finding.text != waiting[0].text):
            yield _skipped(waiting, paint)
            waiting.clear()
        if finding.level is Level.SKIPPED:
            waiting.append(finding)
            continue
        yield _line(finding.level, finding.check, finding.text, paint)
        if finding.advice:
            yield f"{'':{_WIDTH + _NAMES + 4}}→ {finding.advice}"
    if waiting:
        yield _skipped(waiting, paint)


def _skipped(findings: list[Finding], paint: Callable[[Level, str], str]) -> str:
    first = findings[0]
    if len(findings) == 1:
        return _line(Level.SKIPPED, first.check, first.text, paint)
    names = ", ".join(finding.check for finding in findings)
    return _line(Level.SKIPPED, "", f"{names}: {first.text}", paint)


def _line(level: Level, check: str, text: str, paint: Callable[[Level, str], str]) -> str:
    return f"{paint(level, f'{level.value:{_WIDTH}}')}  {check:{_NAMES}}  {text}"


def verdict(findings: Iterable[Finding]) -> str:
    """What it all comes to, in one line."""
    found = list(findings)
    first = next((finding for finding in found if finding.level is Level.FAILURE), None)
    if first is not None:
        return f"The cause: {first.check}: {first.text}."
    warnings = sum(finding.level is Level.WARNING for finding in found)
    if warnings:
        return f"It works, with {warnings} warning{'' if warnings == 1 else 's'}."
    return "All is well."


def _document(findings: list[Finding]) -> str:
    worst = (Level.OK, Level.WARNING, Level.FAILURE)[exit_code(findings)]
    document = {
        "version": __version__,
        "result": worst.value,
        "checks": [
            {
                "check": finding.check,
                "level": finding.level.value,
                "text": finding.text,
                "advice": finding.advice or None,
            }
            for finding in findings
        ],
    }
    return json.dumps(document, indent=2, ensure_ascii=False)
