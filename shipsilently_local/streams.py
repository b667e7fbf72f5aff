"""The open streams: who listens, and what they are told."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Mapping
from typing import Any

import msgspec
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

__all__ = ["EventStream", "Streams", "sse"]

#: What ends a stream, in place of an event.
_END = b""


def sse(event: str, data: Mapping[str, Any]) -> bytes:
    """One named server-sent event with JSON data."""
    return b"event: " + event.encode() + b"\ndata: " + msgspec.json.encode(data) + b"\n\n"


class Streams:
    """All the open streams of one run of the service.

    ``heartbeat`` is in seconds (30 in the protocol). Belongs to one event loop.
    """

    def __init__(self, heartbeat: float, env_id: str) -> None:
        self._heartbeat = heartbeat
        self._updated = sse("flags.updated", {"envId": env_id})
        self._numbers = itertools.count(1)
        self._open: dict[str, EventStream] = {}
        #: While set, the open streams say nothing.
        self.muted = False
        self.closed = False

    def __len__(self) -> int:
        return len(self._open)

    def open(self) -> EventStream:
        """A new stream, as a response to serve."""
        return EventStream(self, f"connection-{next(self._numbers)}", self._heartbeat)

    def announce(self) -> None:
        """Tell everybody that the flags have changed."""
        for stream in self._open.values():
            stream.say(self._updated)

    def drop(self) -> None:
        """Break every open stream's connection."""
        for stream in list(self._open.values()):
            stream.transport.abort()

    def close(self) -> None:
        """End every open stream, and each one opened from now on."""
        self.closed = True
        for stream in self._open.values():
            stream.say(_END)

    def add(self, stream: EventStream) -> None:
        """Count ``stream`` among the open ones."""
        self._open[stream.connection_id] = stream
        if self.closed:
            stream.say(_END)

    def remove(self, stream: EventStream) -> None:
        """Forget ``stream``."""
        del self._open[stream.connection_id]


class EventStream(Response):
    """One open stream: ``connected``, then updates and heartbeats until either side ends it."""

    def __init__(self, streams: Streams, connection_id: str, heartbeat: float) -> None:
        super().__init__(
            status_code=200,
            headers={"cache-control": "no-store", "x-accel-buffering": "no"},
            media_type="text/event-stream",
        )
        del self.headers["content-length"]
        self.connection_id = connection_id
        self.transport: asyncio.Transport
        self._streams = streams
        self._heartbeat = heartbeat
        self._waiting: asyncio.Queue[bytes] = asyncio.Queue()
        self._queued: set[bytes] = set()

    def say(self, event: bytes) -> None:
        """Send ``event`` next. Said twice before it could be sent, it is sent once."""
        if event not in self._queued:
            self._queued.add(event)
            self._waiting.put_nowait(event)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.transport = scope["state"]["transport"]
        watch = asyncio.ensure_future(self._end_when_gone(receive))
        self._streams.add(self)
        try:
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            await self._speak(send, sse("connected", {"connectionId": self.connection_id}))
            while (event := await self._next()) is not _END:
                if not self._streams.muted:
                    await self._speak(send, event)
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            self._streams.remove(self)
            watch.cancel()

    async def _next(self) -> bytes:
        try:
            async with asyncio.timeout(self._heartbeat):
                event = await self._waiting.get()
        except TimeoutError:
            return sse("heartbeat", {})
        self._queued.discard(event)
        return event

    async def _end_when_gone(self, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self.say(_END)

    @staticmethod
    async def _speak(send: Send, event: bytes) -> None:
        await send({"type": "http.response.body", "body": event, "more_body": True})
