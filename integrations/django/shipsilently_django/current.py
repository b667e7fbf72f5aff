"""The request that is being handled, for code that does not have it at hand.

A context variable, so each thread and task sees its own, as do `sync_to_async`,
`asyncio.to_thread` and new tasks. A bare thread sees none.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

from django.http import HttpRequest

from .flags import RequestFlags, flags_of
from .readable import KnownFlags

__all__ = ["aflag_enabled", "flag_enabled"]

_current: ContextVar[HttpRequest | None] = ContextVar("shipsilently_request", default=None)
#: Handed back to `leave`: a plain value, since a token is bound to one context, and the end of a
#: request may be in another than its start.
get_request: Callable[[], HttpRequest | None] = _current.get
set_request: Callable[[HttpRequest | None], object] = _current.set


def flag_enabled(key: str, request: HttpRequest | None = None) -> bool:
    """Whether a flag is on for a request, by default the one being handled.

    Outside of a request: what is known of everybody, else the declared default, else ``False``.
    """
    request = request or _current.get()
    flags: Any = KnownFlags() if request is None else flags_of(request)
    return bool(flags.is_enabled(key))


async def aflag_enabled(key: str, request: HttpRequest | None = None) -> bool:
    """`flag_enabled`, waiting in a task."""
    request = request or _current.get()
    if request is None:
        return KnownFlags().is_enabled(key)
    flags: RequestFlags = flags_of(request)
    return await flags.ais_enabled(key)
