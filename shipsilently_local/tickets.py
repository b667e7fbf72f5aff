"""Stream tickets: each opens one stream, once, within its time to live."""

from __future__ import annotations

import secrets
from collections.abc import Callable

__all__ = ["Tickets"]


class Tickets:
    """The tickets given out and not yet used.

    ``ttl`` is in seconds (60 in the protocol); ``clock`` is monotonic.
    """

    def __init__(self, ttl: float, clock: Callable[[], float]) -> None:
        self._ttl = ttl
        self._clock = clock
        self._good_until: dict[str, float] = {}

    @property
    def ttl(self) -> float:
        """Seconds that a ticket lives."""
        return self._ttl

    def issue(self) -> str:
        """A new ticket."""
        now = self._clock()
        # Oldest first, as they all live equally long.
        while self._good_until and next(iter(self._good_until.values())) <= now:
            del self._good_until[next(iter(self._good_until))]
        ticket = secrets.token_urlsafe(24)
        self._good_until[ticket] = now + self._ttl
        return ticket

    def redeem(self, ticket: str) -> bool:
        """Use ``ticket`` up; False when it is unknown, used or too old."""
        good_until = self._good_until.pop(ticket, None)
        return good_until is not None and self._clock() < good_until
