"""One request and the connection under it, with the means to misbehave on it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus

from starlette.types import Message, Receive, Scope, Send

__all__ = ["Exchange", "RawAnswer"]


@dataclass(slots=True)
class Exchange:
    """A request whose body has been read, and what is needed to answer it or not to.

    ``transport`` is the connection itself; ``stopping`` is set when the service
    is to end, and every wait here ends with it.
    """

    scope: Scope
    receive: Receive
    send: Send
    body: bytes
    transport: asyncio.Transport
    stopping: asyncio.Event
    _replayed: bool = field(default=False, init=False)

    async def replay(self) -> Message:
        """An ASGI ``receive`` that begins with the body that has been read already."""
        if not self._replayed:
            self._replayed = True
            return {"type": "http.request", "body": self.body, "more_body": False}
        return await self.receive()

    async def gone(self) -> None:
        """Return when the client has left."""
        while (await self.receive())["type"] != "http.disconnect":
            pass

    async def pause(self, seconds: float | None) -> bool:
        """Wait. True when the time has passed; False when the client left or the
        service is stopping, whichever comes first. None is for ever."""
        waits = [asyncio.ensure_future(self.gone()), asyncio.ensure_future(self.stopping.wait())]
        done, _ = await asyncio.wait(waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        for wait in waits:
            wait.cancel()
        for wait in waits:
            with contextlib.suppress(asyncio.CancelledError):
                await wait
        return not done

    async def abort(self) -> None:
        """Close the connection without another byte."""
        self.transport.abort()
        await self.gone()


class RawAnswer:
    """An answer written to the connection byte by byte, past the HTTP server.

    `send` is an ASGI ``send``. Bytes go out one per ``interval`` seconds: those of
    the body, and with ``head_too`` those of the status line and headers.
    """

    def __init__(self, exchange: Exchange, interval: float, head_too: bool) -> None:
        self._exchange = exchange
        self._interval = interval
        self._head_too = head_too
        self._over = False

    async def send(self, message: Message) -> None:
        """Drip one ASGI message; does nothing once the client has left."""
        if message["type"] == "http.response.start":
            head = _head(message["status"], message["headers"])
            if self._head_too:
                await self._drip(head)
            else:
                self._exchange.transport.write(head)
        else:
            await self._drip(message.get("body", b""))

    async def _drip(self, data: bytes) -> None:
        for index in range(len(data)):
            if self._over:
                return
            self._exchange.transport.write(data[index : index + 1])
            self._over = not await self._exchange.pause(self._interval)

    async def close(self) -> None:
        """End the answer: nothing but the end of the connection says so."""
        self._exchange.transport.close()
        await self._exchange.gone()


def _head(status: int, headers: list[tuple[bytes, bytes]]) -> bytes:
    lines = [f"HTTP/1.1 {status} {_PHRASES.get(status, 'Status')}".encode()]
    lines += [name + b": " + value for name, value in headers]
    return b"\r\n".join([*lines, b"connection: close", b"", b""])


_PHRASES: Mapping[int, str] = {status.value: status.phrase for status in HTTPStatus}
