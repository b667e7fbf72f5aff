"""What must hold of every read, and what was found not to hold."""

from __future__ import annotations

import threading
import time
from collections import Counter
from dataclasses import dataclass

__all__ = ["Ledger", "Read", "User"]

#: How many findings of a kind are kept as text.
_KEPT = 5


@dataclass
class User:
    """Whom flags are read for, by one reader or by several.

    Attributes:
        name: Its ``userId``.
        newest: The newest version that a finished read has returned.
    """

    name: str
    newest: int = 0


@dataclass(frozen=True)
class Read:
    """A read that has begun.

    Attributes:
        user: Whom for.
        newest: What was the newest version then.
        begin: Monotonic seconds.
    """

    user: User
    newest: int
    begin: float


class Ledger:
    """Takes in reads, and finds what breaks the promise.

    Args:
        longest: Seconds that a read may take.

    Attributes:
        reads: How many.
        broken: How many findings there are, by what does not hold: ``raised``,
            ``regressed``, ``crossed`` or ``late``.
        examples: Some of them as text.
        slowest: Seconds that the longest read took.
    """

    def __init__(self, longest: float) -> None:
        self._longest = longest
        self._lock = threading.Lock()
        self.reads = 0
        self.broken: Counter[str] = Counter()
        self.examples: list[str] = []
        self.slowest = 0.0

    def begin(self, user: User) -> Read:
        """A read begins."""
        return Read(user, user.newest, time.monotonic())

    def end(self, read: Read, value: object, error: BaseException | None = None) -> None:
        """It has ended, with a value or an exception."""
        took = time.monotonic() - read.begin
        with self._lock:
            self.reads += 1
            self.slowest = max(self.slowest, took)
            if took > self._longest:
                self._find("late", f"a read for {read.user.name} took {took:.2f} s")
            if error is not None:
                self._find("raised", f"a read for {read.user.name} raised {error!r}")
            else:
                self._check(read, value)

    def _check(self, read: Read, value: object) -> None:
        name = read.user.name
        if value == "":
            # The default: right only where nothing has been known.
            if read.newest:
                self._find("regressed", f"{name} got the default after version {read.newest}")
            return
        whose, _, text = str(value).rpartition(":")
        if whose != name or not text.isdecimal():
            self._find("crossed", f"{name} got {str(value)[:60]!r}")
            return
        version = int(text)
        if version < read.newest:
            self._find("regressed", f"{name} got version {version} after {read.newest}")
        read.user.newest = max(read.user.newest, version)

    def _find(self, what: str, example: str) -> None:
        self.broken[what] += 1
        if self.broken[what] <= _KEPT:
            self.examples.append(example)
