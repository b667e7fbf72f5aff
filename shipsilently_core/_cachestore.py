"""What the stores on a framework's own cache have in common."""

from __future__ import annotations

import errno
import logging
from abc import ABC, abstractmethod
from typing import Any

from ._log import say
from .config import checked_seconds
from .errors import ConfigurationError
from .stores import Found

__all__ = ["CacheStore"]

_WEEK = 7 * 86_400.0
#: Bytes; memcached takes an item of 1 MiB at most, with its key and what it needs itself.
_MOST_BYTES = 1_000_000
#: Characters; memcached takes keys of 250 bytes, of which the site may use some for its own prefix.
_LONGEST_PREFIX = 100


class CacheStore(ABC):
    """A shared store on a cache that has no clock: it keeps last known good values only.

    Only bytes are handed to the cache, and nothing but bytes is taken from it.

    Args:
        deadline: Seconds that a request waits for it at most.
        time_to_live: Seconds after which something is forgotten that nobody has kept again.
        prefix: The beginning of every key, behind what the cache puts before it.
        max_bytes: How large a single value may be.

    Raises:
        ConfigurationError: An argument is wrong.
    """

    #: Seconds that the first request of a process waits, at which the cache may have to connect.
    load_deadline = 1.0

    def __init__(
        self,
        *,
        deadline: float = 0.25,
        time_to_live: float = _WEEK,
        prefix: str = "shipsilently",
        max_bytes: int = _MOST_BYTES,
    ) -> None:
        self.deadline = checked_seconds("store deadline", deadline)
        self._seconds = max(1, round(checked_seconds("store time_to_live", time_to_live)))
        self._prefix = _checked_prefix(prefix)
        self.max_bytes = _checked_bytes(max_bytes)
        self._has_told = False

    @abstractmethod
    def read(self, key: str) -> Any:
        """What the cache holds; ``None`` for nothing."""

    @abstractmethod
    def write(self, key: str, data: bytes, seconds: int) -> None:
        """Put something into the cache for so many seconds."""

    def load(self, name: str) -> bytes | None:
        """See `SnapshotStore`."""
        found = self.read(self._key(name))
        if found is None or isinstance(found, bytes):
            return found
        # Somebody else's. What is empty counts as damaged, and is replaced.
        return b""

    def save(self, name: str, data: bytes) -> None:
        """See `SnapshotStore`.

        Raises:
            OSError: The cache does not have it afterwards.
        """
        self.write(self._key(name), data, self._seconds)
        if self.read(self._key(name)) is None:
            # Many backends say nothing of what they cannot keep.
            raise OSError(errno.EIO, "the cache did not keep it")

    def get(
        self, name: str, *, newer_than: float | None, younger_than: float, lease: float
    ) -> Found:
        """See `SharedStore`; without a clock there is no lease."""
        return Found(self.load(name))

    def put(self, name: str, data: bytes | None, *, stamp: float) -> None:
        """See `SharedStore`; without a clock the last one counts."""
        if data is None:
            return
        if len(data) <= self.max_bytes:
            self.write(self._key(name), data, self._seconds)
        elif not self._has_told:
            self._has_told = True
            say(
                logging.WARNING,
                "flags of one context take %d bytes, more than the %d that the %s takes; such "
                "are not kept",
                len(data),
                self.max_bytes,
                type(self).__name__,
            )

    def clock(self, name: str) -> None:
        """See `SharedStore`: there is none."""
        return

    def _key(self, name: str) -> str:
        return f"{self._prefix}:{name.replace('/', ':')}"


def _checked_bytes(number: Any) -> int:
    if not isinstance(number, int) or isinstance(number, bool) or number < 1:
        raise ConfigurationError("store max_bytes", "must be a whole number, at least 1")
    return number


def _checked_prefix(prefix: Any) -> str:
    if not isinstance(prefix, str) or not prefix:
        raise ConfigurationError("store prefix", "must be a string that is not empty")
    if not prefix.isascii() or not prefix.isprintable() or " " in prefix:
        raise ConfigurationError("store prefix", "must be ASCII without spaces, as memcached asks")
    if len(prefix) > _LONGEST_PREFIX:
        raise ConfigurationError("store prefix", f"must have {_LONGEST_PREFIX} characters at most")
    return prefix
