"""Which flags a browser may see: those that ``CLIENT_FLAGS`` names, by key or by pattern."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from fnmatch import fnmatchcase

__all__ = ["is_pattern", "may_see", "named"]


def is_pattern(text: str) -> bool:
    """Whether this stands for more than one key: ``public-*``, ``page-?``, ``step-[123]``."""
    return any(sign in text for sign in "*?[")


def may_see(key: str, patterns: Sequence[str]) -> bool:
    """Whether a key is among keys and patterns; capitals count."""
    return key in patterns or any(fnmatchcase(key, pattern) for pattern in patterns)


def named(patterns: Sequence[str], known: Callable[[], Iterable[str]]) -> list[str]:
    """The keys that keys and patterns name, each once: in their order, those of one pattern sorted.

    Args:
        patterns: Keys and patterns.
        known: Gives the keys of all flags; called only where there is a pattern.
    """
    if not any(map(is_pattern, patterns)):
        return list(patterns)
    every = sorted(known())
    found: dict[str, None] = {}
    for pattern in patterns:
        found.update(dict.fromkeys(key for key in every if may_see(key, (pattern,))))
    return list(found)
