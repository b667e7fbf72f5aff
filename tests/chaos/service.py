"""A service that tells the truth: for each user a value that says whose it is, and since when."""

from __future__ import annotations

import asyncio
import contextlib
import json
import secrets
from typing import Any

from .wire import Answer, Gone, Question, read_question, stop_listening

__all__ = ["FLAG", "Service", "value_of"]

#: The flag that is read.
FLAG = "who"

_PADDING = "x" * 3_000
_JSON = ("Content-Type", "application/json")


def value_of(user: str, version: int) -> str:
    """What the flag is for a user at a version."""
    return f"{user}:{version}"


class Service:
    """Answers from memory on a socket of its own; a change makes a new version.

    Args:
        heartbeat: Seconds between two heartbeats.
    """

    def __init__(self, heartbeat: float = 0.5) -> None:
        self.version = 1
        self.port = 0
        self._heartbeat = heartbeat
        self._tickets: set[str] = set()
        self._streams: set[asyncio.StreamWriter] = set()
        self._server: asyncio.Server | None = None
        #: Kept, since an event loop holds its tasks only weakly.
        self._tasks: set[asyncio.Task[Any] | None] = set()

    async def start(self) -> None:
        """Listen."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Listen no more."""
        if self._server is not None:
            await stop_listening(self._server)

    def change(self) -> int:
        """Make a new version, and tell of it; the version."""
        self.version += 1
        self._tell("flags.updated", {"envId": "env"})
        return self.version

    async def live(self, interval: float) -> None:
        """Change something again and again, with heartbeats in between."""
        loop = asyncio.get_running_loop()
        beat = loop.time()
        while True:
            await asyncio.sleep(interval)
            self.change()
            if loop.time() - beat >= self._heartbeat:
                beat = loop.time()
                self._tell("heartbeat", {})

    def _tell(self, name: str, data: dict[str, Any]) -> None:
        for writer in list(self._streams):
            with contextlib.suppress(OSError):
                writer.write(_event(name, data))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._tasks.add(asyncio.current_task())
        try:
            while True:
                question = await read_question(reader)
                if question.kind == "stream":
                    await self._stream(question, reader, writer)
                    break
                writer.write(self._answer(question).raw)
                await writer.drain()
        except (Gone, OSError):
            pass
        finally:
            self._tasks.discard(asyncio.current_task())
            writer.close()

    def _answer(self, question: Question) -> Answer:
        if question.kind == "ticket":
            ticket = secrets.token_hex(8)
            self._tickets.add(ticket)
            return _json({"ticket": ticket, "expiresIn": 60})
        if question.kind == "events":
            return _json({"accepted": len(json.loads(question.body)["events"])})
        value = value_of(question.user, self.version)
        row = {"flagKey": FLAG, "value": value, "reason": "rule_match"}
        if question.kind == "evaluate":
            return _json(row)
        padding = {"flagKey": "padding", "value": _PADDING, "reason": "default"}
        return _json({"flags": {FLAG: row, "padding": padding}})

    async def _stream(
        self, question: Question, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        ticket = question.target.partition("ticket=")[2]
        if ticket not in self._tickets:
            writer.write(_json({}, "HTTP/1.1 401 Unauthorized").raw)
            return
        self._tickets.discard(ticket)
        head = Answer(headers=(("Content-Type", "text/event-stream"), ("Connection", "close")))
        writer.write(head.raw + _event("connected", {"connectionId": ticket}))
        self._streams.add(writer)
        try:
            await reader.read(1)
        finally:
            self._streams.discard(writer)


def _json(content: object, first: str = "HTTP/1.1 200 OK") -> Answer:
    body = json.dumps(content).encode()
    return Answer(first, (_JSON, ("Content-Length", str(len(body)))), body)


def _event(name: str, data: dict[str, Any]) -> bytes:
    return f"event: {name}\ndata: {json.dumps(data)}\n\n".encode()
