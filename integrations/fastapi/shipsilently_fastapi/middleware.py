"""The ASGI middleware that gives each request and each socket its flags."""

from __future__ import annotations

from contextvars import Token
from typing import TYPE_CHECKING

from starlette.types import ASGIApp, Receive, Scope, Send

from shipsilently_core._seen import NOTHING

from .connection import SCOPE_KEY, RequestFlags
from .lookup import flags_in, reset_current, set_current
from .person import UNASKED
from .timing import TimedFlags, timed

if TYPE_CHECKING:
    from .extension import ShipSilently

__all__ = ["FlagsMiddleware"]


class FlagsMiddleware:
    """Puts the flags of each request and socket into its scope; nothing is evaluated here.

    ``app.add_middleware(FlagsMiddleware, shipsilently=shipsilently)``, which
    `ShipSilently.install` does for you. `get_flags`, `current_flags` and
    ``Depends(flags)`` find them there.

    Args:
        app: The ASGI app within.
        shipsilently: Whose client to use.
        server_timing: Tell browsers' developer tools what the flags have cost, in the
            header ``Server-Timing``.
    """

    def __init__(
        self, app: ASGIApp, shipsilently: ShipSilently, *, server_timing: bool = False
    ) -> None:
        self.app = app
        self.shipsilently = shipsilently
        self._within = timed(app) if server_timing else app
        self._kind = TimedFlags if server_timing else RequestFlags

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        # Each request pays for what stands here, also one that reads no flag.
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        # What is an attribute of an object, not of its class, is called sooner by a name.
        shipsilently, kind, within = self.shipsilently, self._kind, self._within
        if SCOPE_KEY not in scope and shipsilently.running and "router" not in scope:
            # What `flags_in` would find in nearly every request: there is no app around this one.
            outer = None
            flags = scope[SCOPE_KEY] = kind(
                shipsilently.made or shipsilently.client,
                UNASKED,
                NOTHING,
                _shipsilently=shipsilently,
                _connection=scope,
                app=scope.get("app"),
            )
        else:
            outer = scope.get(SCOPE_KEY)
            flags = flags_in(scope, shipsilently, kind)
        token = set_current(scope)
        try:
            await within(scope, receive, send)
        finally:
            try:
                reset_current(token)
            except ValueError:
                # A server may end what it has begun in another context.
                set_current(None if token.old_value is Token.MISSING else token.old_value)
            left: RequestFlags = scope.pop(SCOPE_KEY, flags)
            if left._connection is None:
                # What was read stays for whoever is around, as the handler of unexpected errors.
                scope[SCOPE_KEY] = left
            # The others and their scope know each other: left so, both would stay until the next
            # collection.
            elif outer is not None:
                scope[SCOPE_KEY] = outer
