"""From a request or a socket to its flags, by way of whatever the app has installed."""

from __future__ import annotations

import logging
from contextvars import ContextVar
from functools import cache
from typing import TYPE_CHECKING, Any

from starlette.requests import HTTPConnection
from starlette.types import Scope

from .connection import RequestFlags
from .lifespan import STATE, Lifespan

if TYPE_CHECKING:
    from shipsilently_core import ShipSilentlyClient

    from .extension import ShipSilently

__all__ = ["current_flags", "get_flags"]

log = logging.getLogger("shipsilently")

#: Where the flags of a request are kept in its ASGI scope.
SCOPE_KEY = "shipsilently.flags"


class Place:
    """Where the flags of one request or socket are kept: made when they are first wanted.

    Scopes share it, also the copies that middleware makes.

    Attributes:
        shipsilently: What the flags are made by.
        flags: The flags, once they are made.
    """

    flags: RequestFlags | None = None

    def __init__(
        self, shipsilently: ShipSilently, scope: Scope, client: ShipSilentlyClient | None
    ) -> None:
        self.shipsilently = shipsilently
        self._scope: Scope | None = scope
        self._client = client

    def get(self, connection: HTTPConnection | None = None) -> RequestFlags:
        """The flags.

        Args:
            connection: The scope as its endpoint sees it.
        """
        known = self.flags
        if known is None:
            made = RequestFlags(self.shipsilently, connection or self._scope, None, self._client)
            # Another thread of this request may be at it: the first one's are everybody's.
            flags: RequestFlags = vars(self).setdefault("flags", made)
            # The scope knows this place: together they would be garbage to collect.
            self._scope = None
            return flags
        return known if connection is None else known.on(connection)


#: The place of the flags of the request that this code runs for.
current: ContextVar[Place | None] = ContextVar("shipsilently_flags", default=None)


def get_flags(connection: HTTPConnection) -> RequestFlags:
    """The flags of a request or a socket, the same object to its end.

    For code that has the connection at hand: middleware, plain Starlette endpoints,
    exception handlers. In a coroutine, ``await`` one of the awaitable verbs, or
    ``flags.aload()``, before a plain one.

    Args:
        connection: A ``Request``, a ``WebSocket`` or an ``HTTPConnection``.
    """
    scope = connection.scope
    return place_in(scope, _installed(scope.get("app"))).get(connection)


def current_flags() -> RequestFlags:
    """The flags of the request or the socket that this code runs for.

    For code far from the endpoint, that no connection is handed to. It sees them in
    the app's tasks and in threads that the framework or ``asyncio.to_thread`` starts,
    not in threads and pools of your own. Needs `FlagsMiddleware`.

    Raises:
        LookupError: This code runs for no request, or there is no middleware.
    """
    place = current.get()
    if place is None:
        raise LookupError(
            "there are no current flags: this code runs for no request (hand it the flags), or "
            "the app has no FlagsMiddleware (call shipsilently.install(app))"
        )
    return place.get()


def place_in(scope: Scope, own: ShipSilently | None) -> Place:
    """Where the flags of a scope are kept.

    A mounted app uses the client of the app around it, whose lifespan runs while its own
    never does, with a context function of its own if it has one; a client of its own only
    for another environment.

    Args:
        scope: Of a request or a socket.
        own: What the app at hand was made with.
    """
    found: Place | None = scope.get(SCOPE_KEY)
    outer: ShipSilently | None
    if found is None:
        outer = (scope.get("state") or {}).get(STATE)
    else:
        outer = found.shipsilently
    if own is None or own is outer or (own.context is None and own.joins(outer)):
        if found is not None:
            return found
        own, client = outer or _without_client(type(scope.get("app")).__name__), None
    else:
        client = outer.client if outer is not None and own.joins(outer) else None
    made = scope[SCOPE_KEY] = Place(own, scope, client)
    return made


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
