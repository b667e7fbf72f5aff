"""From a request or a socket to its flags, by way of whatever the app has installed."""

from __future__ import annotations

import logging
from contextvars import ContextVar
from functools import cache
from typing import TYPE_CHECKING, Any
from weakref import ref

from starlette.requests import HTTPConnection
from starlette.types import Scope

from shipsilently_core._log import say
from shipsilently_core._seen import NOTHING

from .apps import between, installed, installed_on
from .connection import SCOPE_KEY, RequestFlags
from .lifespan import STATE
from .person import UNASKED

if TYPE_CHECKING:
    from shipsilently_core import ShipSilentlyClient

    from .extension import ShipSilently

__all__ = ["current_flags", "get_flags"]

#: The scope of the request that this code runs for. It knows which app is at it, so which flags.
current: ContextVar[Scope | None] = ContextVar("shipsilently_scope", default=None)
#: Looked up once: each request needs them.
get_current, set_current, reset_current = current.get, current.set, current.reset


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
        own = installed(app)
        flags = flags_in(scope, own)
        flags.app = app
        # Without a context function, it depends on what a mounted app is in.
        if (
            own is not None
            and own is outer
            and (own.context is not None or not _is_mounted(scope, app))
        ):
            own.app = app
    if flags._context is UNASKED and not flags._reloads:
        # Once it is known whom for, the connection does not matter; and after a login, it is the
        # one that knows of that.
        flags._connection = connection
    return flags


def current_flags() -> RequestFlags:
    """The flags of the request or the socket that this code runs for.

    For code far from the endpoint, that no connection is handed to. It sees them in
    the app's tasks and in threads that the framework or ``asyncio.to_thread`` starts,
    not in threads and pools of your own. Needs `FlagsMiddleware`, in a mounted app or in
    one around it. Outside of that runs the handler of unexpected errors, for ``Exception``
    or 500: it has the request, and finds them with `get_flags`.

    Raises:
        LookupError: This code runs for no request, or there is no middleware.
    """
    scope = get_current()
    if scope is None:
        raise LookupError(
            "there are no current flags: this code runs for no request (hand it the flags), or "
            "the app has no FlagsMiddleware (call shipsilently.install(app))"
        )
    # As `_of`, without its call in nearly every request.
    flags: RequestFlags | None = scope.get(SCOPE_KEY)
    return flags if flags is not None and flags.app is scope.get("app") else _of(scope)


def flags_here() -> RequestFlags | None:
    """`current_flags`; ``None`` where there are none."""
    scope = get_current()
    return None if scope is None else _of(scope)


def _of(scope: Scope) -> RequestFlags:
    """What `get_flags` gives for a request or a socket with this scope."""
    flags: RequestFlags | None = scope.get(SCOPE_KEY)
    app = scope.get("app")
    if flags is None or flags.app is not app:
        flags = flags_in(scope, installed(app))
        flags.app = app
    return flags


def flags_in(
    scope: Scope, own: ShipSilently | None, kind: type[RequestFlags] = RequestFlags
) -> RequestFlags:
    """The flags of a scope, put there where there are none.

    A mounted app uses the client of the app around it, whose lifespan runs while its own
    never does, with a context function of its own if it has one; a client of its own only
    for another environment. In the same way, the app around may be mounted itself.

    Args:
        scope: Of a request or a socket. Copies that middleware makes share its flags.
        own: What the app at hand was made with.
        kind: What to make, and what those become that are there and go on to be used.
    """
    found: RequestFlags | None = scope.get(SCOPE_KEY)
    app = scope.get("app")
    mounted = _is_mounted(scope, app)
    last = None if found is None else found.app
    around = between(scope, last) if mounted and (found is None or last is not app) else ()
    client: ShipSilentlyClient | None = None
    if found is None:
        state = scope.get("state")
        used: ShipSilently | None = state.get(STATE) if state else None
        if used is None and mounted:
            used = installed_on(scope["router"])
    else:
        used, client = found.shipsilently, found.client
    first = used
    for app_around in around:
        used, client = _inside(used, client, installed(app_around))
    if used is None:
        used = own
    elif own is not None:
        used, client = _inside(used, client, own)
    if found is not None:
        if used is first:
            if not isinstance(found, kind):
                # They stay the same object, since whoever is around may have read them.
                found.__class__ = kind
            return found
        kind = kind if issubclass(kind, type(found)) else type(found)
    if used is None:
        used = _without_client(type(app).__name__)
    made = kind(
        client or used.client, UNASKED, NOTHING, _shipsilently=used, _connection=scope, app=app
    )
    # Another thread of this request may be at it: the first one's are everybody's.
    if found is not None:
        # A login in the mounted app is one for the app around, too.
        made._others = (ref(found),)
        # Nothing is called from this look to the next lines, so no other thread comes between.
        if SCOPE_KEY in scope and scope[SCOPE_KEY] is not found:
            inner: RequestFlags = scope[SCOPE_KEY]
            return inner
        scope[SCOPE_KEY] = made
        return made
    flags: RequestFlags = scope.setdefault(SCOPE_KEY, made)
    return flags


def _is_mounted(scope: Scope, app: Any) -> bool:
    router = scope.get("router")
    return router is not None and router is not getattr(app, "router", None)


def _inside(
    used: ShipSilently | None, client: ShipSilentlyClient | None, own: ShipSilently | None
) -> tuple[ShipSilently | None, ShipSilentlyClient | None]:
    """What is used in a mounted app, and whose client if not its own.

    Args:
        used: What is used in the app around.
        client: The client there, if not its own.
        own: What the mounted app was made with.
    """
    if own is None or own is used:
        return used, client
    if used is None or not own.joins(used):
        return own, None
    if own.context is None:
        return used, client
    # Its own lifespan never runs, and need not.
    own.unannounced = own.unannounced and used.unannounced
    return own, client or used.client


@cache
def _without_client(app: str) -> ShipSilently:
    """Serves defaults, having said so once."""
    say(
        logging.ERROR,
        "no client reaches the requests of this %s, so flags have their defaults: give the app "
        "lifespan=shipsilently.lifespan, or call shipsilently.install(app)",
        app,
    )
    return defaults_only()


@cache
def defaults_only() -> ShipSilently:
    """Serves defaults, by a client that has ended before it could start."""
    from shipsilently_core import ShipSilentlyClient

    from .extension import ShipSilently

    client = ShipSilentlyClient(api_key="none")
    client.close()
    shipsilently = ShipSilently(client=client)
    # There is nothing that a request could start.
    shipsilently.unannounced = False
    return shipsilently
