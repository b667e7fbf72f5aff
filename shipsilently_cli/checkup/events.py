"""Whether the service takes delivered flag checks."""

from __future__ import annotations

from shipsilently_core._wire import EVENTS, Request

from .findings import Checks, failure, ok, skipped
from .session import Session

__all__ = ["check"]

#: A delivery that changes no number of anybody's.
_NOTHING = b'{"events":[]}'


def check(session: Session) -> Checks:
    """Deliver nothing, and see whether that is welcome."""
    if not session.config.analytics.enabled:
        yield skipped("analytics", "flag checks are not counted: analytics is switched off")
        return True
    reply, _ = session.timed(Request(EVENTS, _NOTHING))
    if reply.status == 200:
        yield ok("analytics", "deliveries of flag checks are accepted")
    elif reply.status in (400, 422):
        # It was read, and found to hold nothing.
        yield ok("analytics", f"deliveries are read (HTTP {reply.status} to one without events)")
    else:
        how = reply.cause or reply.failure if reply.status is None else f"HTTP {reply.status}"
        yield failure(
            "analytics",
            f"deliveries of flag checks are not accepted ({how})",
            "Checks wait in a buffer, then the oldest are lost: look at the service's status "
            "page, and at proxies that let only some paths pass.",
        )
    return True
