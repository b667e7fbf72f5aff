"""For ASGI servers: `with_lifespan` starts and ends the client with the server."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import suppress
from typing import Any

from shipsilently_core import ClientClosedError

from .setup import get_client, take_setup

__all__ = ["with_lifespan"]

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[..., Any]


def with_lifespan(application: Application) -> Application:
    """Django's ASGI application, with an answer to the server's lifespan messages.

    Django has none: without this the client starts with the first flag that is read, and
    what it still has to tell the service is lost when uvicorn is told to stop.
    """

    async def wrapped(scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await _live(receive, send)
        else:
            await application(scope, receive, send)

    return wrapped


async def _live(receive: Receive, send: Send) -> None:
    # A server sends two messages: when it starts, and when it has been told to stop.
    await receive()
    with suppress(ClientClosedError):
        # Offline, or with broken settings, there is nothing to start.
        get_client().start()
    await send({"type": "lifespan.startup.complete"})
    await receive()
    setup = take_setup()
    if setup is not None:
        await setup.client.aclose()
    await send({"type": "lifespan.shutdown.complete"})
