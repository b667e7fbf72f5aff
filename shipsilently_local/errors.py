"""What can go wrong, as exceptions::

    LocalServiceError
    ├── FlagsFileError      the flags file cannot be read or is not right
    ├── FaultError          a fault that was asked for makes no sense
    ├── BadRequestError     a request body that the protocol does not allow
    └── PortInUseError      another program listens on the port

No message ever holds the SDK key.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable
from dataclasses import dataclass

__all__ = [
    "BadRequestError",
    "FaultError",
    "FlagsFileError",
    "LocalServiceError",
    "Place",
    "PortInUseError",
    "did_you_mean",
    "quoted",
]


class LocalServiceError(Exception):
    """The root of everything that this package raises on purpose."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where in a flags file something is: as exact as is known.

    ``rule`` and ``condition`` count from 1, as people do.
    """

    source: str
    flag: str | None = None
    rule: int | None = None
    condition: int | None = None
    field: str | None = None
    line: int | None = None

    def __str__(self) -> str:
        head = self.source if self.line is None else f"{self.source}, line {self.line}"
        parts = []
        if self.flag is not None:
            parts.append(f"flag {quoted(self.flag)}")
        if self.rule is not None:
            parts.append(f"rule {self.rule}")
        if self.condition is not None:
            parts.append(f"condition {self.condition}")
        if self.field is not None:
            parts.append(f"field {quoted(self.field)}")
        return f"{head}: {', '.join(parts)}" if parts else head


class FlagsFileError(LocalServiceError):
    """The flags file cannot be read, is not well-formed, or says something wrong.

    ``place`` says where, ``problem`` what was expected there and what was found.
    """

    def __init__(self, place: Place, problem: str) -> None:
        super().__init__(f"{place}: {problem}")
        self.place = place
        self.problem = problem


class FaultError(LocalServiceError):
    """A fault specification that makes no sense; the text says why."""


class BadRequestError(LocalServiceError):
    """A request body that the protocol does not allow; the text says why."""


class PortInUseError(LocalServiceError):
    """Another program already listens on ``port`` of 127.0.0.1."""

    def __init__(self, port: int) -> None:
        super().__init__(f"port {port} of 127.0.0.1 is already in use")
        self.port = port


def quoted(text: str) -> str:
    """``text`` in double quotes, whatever characters it holds, on one line."""
    return json.dumps(text, ensure_ascii=not text.isprintable())


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A ready-made ``; did you mean "…"?``, or nothing when no name is near."""
    near = difflib.get_close_matches(word.lower(), list(known), n=1, cutoff=0.6)
    return f"; did you mean {quoted(near[0])}?" if near else ""
