"""The ASGI middleware that gives each request and each socket its flags."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.datastructures import MutableHeaders
from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Message, Receive, Scope, Send

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
        server_timing: Tell browsers' developer tools what the flags have cost, in the
            header ``Server-Timing``.
    """

    def __init__(
        self, app: ASGIApp, shipsilently: ShipSilently, *, server_timing: bool = False
    ) -> None:
        self.app = app
        self.shipsilently = shipsilently
        self._timed = server_timing

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] in ("http", "websocket"):
            if SCOPE_KEY in scope:
                self._within(scope)
            else:
                scope[SCOPE_KEY] = RequestFlags(self.shipsilently, HTTPConnection(scope))
            if self._timed and scope["type"] == "http":
                send = _timing(scope, send)
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


def _timing(scope: Scope, send: Send) -> Send:
    async def timed(message: Message) -> None:
        if message["type"] == "http.response.start":
            took = scope[SCOPE_KEY].took
            if took is not None:
                value = f"flags;dur={took * 1_000:.1f}"
                MutableHeaders(scope=message).append("Server-Timing", value)
        await send(message)

    return timed
