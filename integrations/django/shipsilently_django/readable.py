"""What can be asked for a flag, with a request and without one."""

from __future__ import annotations

from typing import Any, Protocol

from django.utils.functional import Promise

from shipsilently_core import EvaluationResult, ShipSilentlyClient

from .setup import get_client

__all__ = ["KnownFlags", "ReadableFlags", "asked_of", "is_on", "unmarked"]


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
    """The flags where there is no request: what is known of everybody, without waiting for it.

    The first read starts the client, which learns it in the background.
    """

    def get(self, key: str, /, *default: Any) -> Any:
        """The flag's value for nobody in particular, else the default."""
        return _started().get(key, *default)

    def is_enabled(self, key: str, /) -> bool:
        """Whether the flag is on for nobody in particular."""
        return self.get(key) is True

    def evaluate_all(self) -> dict[str, EvaluationResult]:
        """Every flag that is known."""
        return _started().get_all()


def _started() -> ShipSilentlyClient:
    """The client, started as by a request: a process without any would never learn anything."""
    client = get_client()
    client.fresh(client.evaluator.baseline)
    return client


def asked_of(key: str) -> tuple[str, bool]:
    """The flag that a key names, and whether it is to be so: ``"!x"`` asks for the opposite."""
    bare = key.lstrip("!")
    return bare, (len(key) - len(bare)) % 2 == 0


def is_on(flags: ReadableFlags, key: object, expected: object = True) -> bool:
    """Whether a flag has the value that a tag or a decorator asks for; for ``"!x"`` the opposite.

    ``True`` asks whether it is on; anything else is compared by value and JSON type, so that
    ``1`` is not ``True``. A flag of which nothing is known has no value at all.
    """
    key = unmarked(key)
    if not isinstance(key, str):
        return False
    if not key.startswith("!"):
        return _has(flags, key, unmarked(expected))
    key, wanted = asked_of(key)
    # A key that is nothing but marks names no flag.
    return key != "" and _has(flags, key, unmarked(expected)) is wanted


def _has(flags: ReadableFlags, key: str, expected: Any) -> bool:
    if expected is True:
        return flags.is_enabled(key)
    # Without a default of the value's type: a flag of another type is only not it.
    value = flags.get(key)
    if isinstance(value, bool) or isinstance(expected, bool):
        return value is expected
    return bool(value == expected)


def unmarked(value: Any) -> Any:
    """A string of a template without the mark that it is safe, a lazy one in the language in use.

    Anything else comes back as it is.
    """
    if isinstance(value, str):
        return str.__str__(value)
    return str(value) if isinstance(value, Promise) else value
