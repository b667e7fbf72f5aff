"""The ASGI middleware that gives each request and each socket its flags."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Receive, Scope, Send

from .connection import RequestFlags
from .lookup import SCOPE_KEY

if TYPE_CHECKING:
    from .extension import ShipSilently

__all__ = ["FlagsMiddleware"]


class FlagsMiddleware:
    """Puts lazy flags into the scope of each request and socket; nothing is evaluated here.

    ``app.add_middleware(FlagsMiddleware, shipsilently=shipsilently)``, which
    `ShipSilently.install` does for you. `get_flags` and ``Depends(flags)`` find them.

    Args:
        app: The ASGI app within.
        shipsilently: Whose client to use.
    """

    def __init__(self, app: ASGIApp, shipsilently: ShipSilently) -> None:
        self.app = app
        self.shipsilently = shipsilently

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] in ("http", "websocket"):
            if SCOPE_KEY in scope:
                self._within(scope)
            else:
                scope[SCOPE_KEY] = RequestFlags(self.shipsilently, HTTPConnection(scope))
        await self.app(scope, receive, send)

    def _within(self, scope: Scope) -> None:
        """In a mounted app: its parent's client, or its own for another environment."""
        outer: RequestFlags = scope[SCOPE_KEY]
        own = self.shipsilently
        if outer.shipsilently is own:
            return
        if not own.same_environment(outer.shipsilently):
            scope[SCOPE_KEY] = RequestFlags(own, HTTPConnection(scope))
        elif own.context is not None:
            scope[SCOPE_KEY] = RequestFlags(own, HTTPConnection(scope), client=outer.client)
