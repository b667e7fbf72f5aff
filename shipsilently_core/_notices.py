"""The client's log lines: rare, whatever the traffic, and free of secrets."""

from __future__ import annotations

import logging
from collections.abc import Callable

from ._clock import Clock
from ._log import say
from ._process import Lock

__all__ = ["Notices"]

#: Seconds between two lines of one kind.
_QUIET_FOR = 60.0
#: How many kinds are remembered; the oldest goes first.
_MOST_KINDS = 1_000
#: So many lines that differ in their values alone are logged in that time: what is new each time,
#: as a key that somebody sends, is a kind of its own each time.
_MOST_ALIKE = 30


class Notices:
    """At most one line a minute for each kind of thing, saying how often it happened.

    Args:
        clock: For the minute.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = Lock()
        self._told: dict[str, tuple[float, int]] = {}
        #: For each message when its minute began, and how many lines it has had since.
        self._alike: dict[str, tuple[float, int]] = {}
        self._broken_since: float | None = None
        self._silent = False

    def silence(self) -> None:
        """Say nothing from now on: the process ends."""
        self._silent = True

    def renew(self) -> None:
        """New locks, in a forked child."""
        self._lock = Lock()

    def warn(self, kind: str, message: str, *values: object, every: float = _QUIET_FOR) -> None:
        """Log a warning, unless one of this kind was logged in the last `every` seconds.

        Nor where there were too many with this message lately; the last of these says so.

        Args:
            kind: What counts as the same thing.
            message: A format for `values`, as in `logging`; there are few of them.
            values: Never a key, a ticket, a context's value or a body.
            every: Seconds; infinity for once.
        """
        now = self._clock.monotonic()
        with self._lock:
            last, untold = self._told.pop(kind, (float("-inf"), 0))
            quiet = now - last < every
            alike, left = (0, 0.0) if quiet else self._count(message, now)
            quiet = quiet or alike > _MOST_ALIKE
            self._told[kind] = (last, untold + 1) if quiet else (now, 0)
            if len(self._told) > _MOST_KINDS:
                del self._told[next(iter(self._told))]
        if quiet or self._silent:
            return
        if untold:
            message += " (and %d more like it since the last such line)"
            values = (*values, untold)
        if alike == _MOST_ALIKE:
            message += " (others like it are left out for the next %.0f s)"
            values = (*values, left)
        say(logging.WARNING, message, *values)

    def _count(self, message: str, now: float) -> tuple[int, float]:
        """How many lines a message has had in its minute, this one too, and what of it is left."""
        begun, count = self._alike.get(message, (now, 0))
        if now - begun >= _QUIET_FOR:
            begun, count = now, 0
        self._alike[message] = begun, count + 1
        return count + 1, begun + _QUIET_FOR - now

    def once(self, kind: str, message: str, *values: object) -> None:
        """Log a warning the first time."""
        self.warn(kind, message, *values, every=float("inf"))

    def tell(self, message: str, *values: object) -> None:
        """Log that something is well again."""
        if not self._silent:
            say(logging.INFO, message, *values)

    def broken(self) -> None:
        """A call to the service failed."""
        if self._broken_since is None:
            self._broken_since = self._clock.monotonic()

    def working(self, held: Callable[[], int]) -> None:
        """A call to the service succeeded; say so where the last one had not.

        Args:
            held: Counts the contexts that are known.
        """
        since = self._broken_since
        if since is None:
            return
        with self._lock:
            if self._broken_since is None:
                return
            self._broken_since = None
        self.tell(
            "the service answers again after %.0f s; %d contexts are held",
            self._clock.monotonic() - since,
            held(),
        )
