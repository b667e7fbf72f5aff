"""What a gate or a template tag asks of the flags."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec import Struct

from shipsilently_core import Flags

__all__ = ["Condition", "holds"]


class Condition(Struct, frozen=True):
    """Each of these flags has this value; a key with ``!`` before it has another.

    Attributes:
        keys: Flag keys.
        value: The value. ``True`` stands for "is on".
    """

    keys: tuple[str, ...]
    value: Any = True

    def failing(self, flags: Flags) -> str | None:
        """The first key that keeps this from being so; ``None`` where all is so."""
        for key in self.keys:
            if not holds(flags, key, self.value):
                return key
        return None


def holds(flags: Flags, key: str, value: Any = True) -> bool:
    """Whether the flag `key` has this value, or has not where the key begins with ``!``.

    A flag that the service does not know, and has no declared default, has no value at all.
    """
    if key.startswith("!"):
        return not holds(flags, key[1:], value)
    if value is True:
        return flags.is_enabled(key)
    return _same(flags.get(key), value)


def _same(served: Any, wanted: Any) -> bool:
    """Equal as JSON: 1 equals 1.0, but ``True`` is not 1."""
    if isinstance(served, bool) or isinstance(wanted, bool):
        return served is wanted
    return bool(served == wanted)


def checked_keys(keys: Iterable[Any]) -> str | None:
    """What is wrong with these keys, in words; ``None`` if nothing is."""
    for key in keys:
        if not isinstance(key, str):
            return f"a flag key is a string, not a {type(key).__name__}"
        if not key.removeprefix("!"):
            return "a flag key is empty"
    return None
