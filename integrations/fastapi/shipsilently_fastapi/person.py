"""Whoever is at the other end of a connection, as the app's context function says."""

from __future__ import annotations

import traceback
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any

from starlette.requests import HTTPConnection

from shipsilently_core import Context

if TYPE_CHECKING:
    from shipsilently_core._notices import Notices

    from .extension import ContextFunction

__all__ = ["UNASKED", "UNKNOWN", "ask", "settled"]

#: Stands in before anybody has asked whom to evaluate for.
UNASKED = Context({"shipsilently": "context not asked for"})

#: Stands in where that cannot be found out. Never asked for, so never cached.
UNKNOWN = Context({"shipsilently": "context not known"})


def ask(function: ContextFunction, connection: HTTPConnection, notices: Notices) -> Any:
    """What the context function gives, which may have to be awaited; `UNKNOWN` if it fails."""
    try:
        return function(connection)
    except Exception as error:
        return _failed(error, notices)


async def settled(given: Awaitable[Any], notices: Notices) -> Any:
    """What it gives in the end."""
    try:
        return await given
    except Exception as error:
        return _failed(error, notices)


def _failed(error: Exception, notices: Notices) -> Context:
    # Where, and not what: the message may hold people's data.
    place = traceback.extract_tb(error.__traceback__)[-1]
    notices.warn(
        "context function",
        "the context function raised %s (%s, line %s); what everybody gets is served",
        type(error).__name__,
        place.filename,
        place.lineno,
    )
    return UNKNOWN
