"""From a request or a socket to its flags, by way of whatever the app has installed."""

from __future__ import annotations

import logging
from functools import cache
from typing import TYPE_CHECKING, Any

from starlette.requests import HTTPConnection
from starlette.types import Scope

from .lifespan import STATE, Lifespan

if TYPE_CHECKING:
    from .connection import RequestFlags
    from .extension import ShipSilently

__all__ = ["get_flags"]

log = logging.getLogger("shipsilently")

#: Where the flags of a request are kept in its ASGI scope.
SCOPE_KEY = "shipsilently.flags"


def get_flags(connection: HTTPConnection) -> RequestFlags:
    """The flags of a request or a socket, the same object to its end.

    For code that has the connection at hand: middleware, plain Starlette endpoints,
    exception handlers. In a coroutine, ``await`` one of the awaitable verbs, or
    ``flags.load()``, before a plain one.

    Args:
        connection: A ``Request``, a ``WebSocket`` or an ``HTTPConnection``.
    """
    scope = connection.scope
    found: RequestFlags | None = scope.get(SCOPE_KEY)
    if found is None:
        found = scope[SCOPE_KEY] = _new_flags(scope, connection)
        return found
    return found.on(connection)


def _new_flags(scope: Scope, connection: HTTPConnection) -> RequestFlags:
    app = scope.get("app")
    own = _installed(app)
    outer: ShipSilently | None = (scope.get("state") or {}).get(STATE)
    if own is None or own is outer:
        return (outer or _without_client(type(app).__name__)).flags(connection)
    if outer is not None and own.same_environment(outer):
        # A mounted app's own lifespan never runs: the client of the app around it does.
        return (outer if own.context is None else own).flags(connection, client=outer.client)
    return own.flags(connection)


def _installed(app: Any) -> ShipSilently | None:
    installed: ShipSilently | None = getattr(getattr(app, "state", None), STATE, None)
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
