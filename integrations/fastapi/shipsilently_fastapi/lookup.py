"""From a request or a socket to its flags, by way of whatever the app has installed."""

from __future__ import annotations

import logging
from contextvars import ContextVar
from functools import cache
from typing import TYPE_CHECKING, Any

from starlette.requests import HTTPConnection
from starlette.types import Scope

from shipsilently_core._seen import NOTHING

from .connection import RequestFlags
from .lifespan import STATE, Lifespan
from .person import UNASKED

if TYPE_CHECKING:
    from .extension import ShipSilently

__all__ = ["current_flags", "get_flags"]

log = logging.getLogger("shipsilently")

#: Where the flags of a request are kept in its ASGI scope.
SCOPE_KEY = "shipsilently.flags"


#: The flags of the request that this code runs for.
current: ContextVar[RequestFlags | None] = ContextVar("shipsilently_flags", default=None)


def get_flags(connection: HTTPConnection) -> RequestFlags:
    """The flags of a request or a socket, the same object to its end.

    For code that has the connection at hand: middleware, plain Starlette endpoints,
    exception handlers. In a coroutine, ``await`` them, or one of the
    awaitable verbs, before a plain one: ``flags = await get_flags(request)``.

    Args:
        connection: A ``Request``, a ``WebSocket`` or an ``HTTPConnection``.
    """
    scope = connection.scope
    flags: RequestFlags | None = scope.get(SCOPE_KEY)
    app = scope.get("app")
    if flags is None or flags.app is not app:
        state = scope.get("state")
        outer: ShipSilently | None = state.get(STATE) if state else None
        if flags is None and outer is not None and outer.app is app:
            # What `flags_in` would find, in nearly every request without a middleware.
            made = RequestFlags(
                outer.made or outer.client,
                UNASKED,
                NOTHING,
                _shipsilently=outer,
                _connection=connection,
                app=app,
            )
            # Another thread of this request may be at it: the first one's are everybody's.
            first: RequestFlags = scope.setdefault(SCOPE_KEY, made)
            return first
        own = _installed(app)
        flags = flags_in(scope, own)
        flags.app = app
        if own is not None and own is outer:
            own.app = app
    if flags._context is UNASKED:
        # Once it is known whom for, the connection does not matter.
        flags._connection = connection
    return flags


def current_flags() -> RequestFlags:
    """The flags of the request or the socket that this code runs for.

    For code far from the endpoint, that no connection is handed to. It sees them in
    the app's tasks and in threads that the framework or ``asyncio.to_thread`` starts,
    not in threads and pools of your own. Needs `FlagsMiddleware`.

    Raises:
        LookupError: This code runs for no request, or there is no middleware.
    """
    flags = current.get()
    if flags is None:
        raise LookupError(
            "there are no current flags: this code runs for no request (hand it the flags), or "
            "the app has no FlagsMiddleware (call shipsilently.install(app))"
        )
    return flags


def flags_in(scope: Scope, own: ShipSilently | None) -> RequestFlags:
    """The flags of a scope, put there where there are none.

    A mounted app uses the client of the app around it, whose lifespan runs while its own
    never does, with a context function of its own if it has one; a client of its own only
    for another environment.

    Args:
        scope: Of a request or a socket. Copies that middleware makes share its flags.
        own: What the app at hand was made with.
    """
    found: RequestFlags | None = scope.get(SCOPE_KEY)
    if found is None:
        state = scope.get("state")
        outer: ShipSilently | None = state.get(STATE) if state else None
    else:
        outer = found.shipsilently
    client = None
    if own is None or own is outer or (own.context is None and own.joins(outer)):
        if found is not None:
            return found
        own = outer or _without_client(type(scope.get("app")).__name__)
    elif outer is not None and own.joins(outer):
        client = outer.client
    made = RequestFlags(
        client or own.client,
        UNASKED,
        NOTHING,
        _shipsilently=own,
        _connection=scope,
        app=scope.get("app"),
    )
    if found is not None:
        scope[SCOPE_KEY] = made
        return made
    # Another thread of this request may be at it: the first one's are everybody's.
    flags: RequestFlags = scope.setdefault(SCOPE_KEY, made)
    return flags


def _installed(app: Any) -> ShipSilently | None:
    state = getattr(app, "state", None)
    installed: ShipSilently | None = None
    # To ask a `State` for what is not there takes longer than all the rest, and to ask whether it
    # is there goes through all that is. Where it keeps that is Starlette's own affair.
    kept = getattr(state, "__dict__", {}).get("_state")
    if kept is None or STATE in kept:
        installed = getattr(state, STATE, None)
    if installed is None:
        lifespan = getattr(getattr(app, "router", None), "lifespan_context", None)
        if isinstance(lifespan, Lifespan):
            installed = lifespan.shipsilently
    return installed


@cache
def _without_client(app: str) -> ShipSilently:
    """Serves defaults, having said so once."""
    from shipsilently_core import ShipSilentlyClient

    from .extension import ShipSilently

    log.error(
        "no client reaches the requests of this %s, so flags have their defaults: give the app "
        "lifespan=shipsilently.lifespan, or call shipsilently.install(app)",
        app,
    )
    client = ShipSilentlyClient(api_key="none")
    client.close()
    return ShipSilently(client=client)
