"""What can be asked for a flag, with a request and without one."""

from __future__ import annotations

from typing import Any, Protocol

from shipsilently_core import EvaluationResult

from .setup import get_client

__all__ = ["KnownFlags", "ReadableFlags", "is_on", "unmarked"]


class ReadableFlags(Protocol):
    """What can be asked for a flag: `RequestFlags`, the core's `Flags`, or neither of them."""

    def get(self, key: str, /, *default: Any) -> Any:
        """The flag's value."""
        ...

    def is_enabled(self, key: str, /) -> bool:
        """Whether the flag is on."""
        ...

    def evaluate_all(self) -> dict[str, EvaluationResult]:
        """Every flag."""
        ...


class KnownFlags:
    """The flags where there is no request: what is known of everybody, without asking."""

    def get(self, key: str, /, *default: Any) -> Any:
        """The flag's value for nobody in particular, else the default."""
        return get_client().get(key, *default)

    def is_enabled(self, key: str, /) -> bool:
        """Whether the flag is on for nobody in particular."""
        return self.get(key) is True

    def evaluate_all(self) -> dict[str, EvaluationResult]:
        """Every flag that is known."""
        return get_client().get_all()


def is_on(flags: ReadableFlags, key: object, expected: object = True) -> bool:
    """Whether a flag has the value that a tag or a decorator asks for.

    ``True`` and ``False`` ask whether it is on; anything else is compared by value and
    JSON type, so that ``1`` is not ``True``.
    """
    if not isinstance(key, str):
        return False
    plain: str = unmarked(key)
    if isinstance(expected, bool):
        return flags.is_enabled(plain) is expected
    value = flags.get(plain)
    return not isinstance(value, bool) and bool(value == expected)


def unmarked(value: Any) -> Any:
    """A string of a template without the mark that it is safe; anything else as it is."""
    return str.__str__(value) if isinstance(value, str) else value
