"""One connection as the adversary holds it, and questions and answers as bytes."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NoReturn

__all__ = ["Answer", "Gone", "Question", "Wire", "read_answer", "read_question", "stop_listening"]

_PIECE = 64 * 1024
_LONGEST_HEAD = 64 * 1024

#: The last part of a path, and what it is called here.
_KINDS = {"ticket": "ticket", "stream": "stream", "events": "events", "batch": "batch"}


class Gone(Exception):  # the end of a connection, whoever ended it
    """There is nothing more to do on this connection."""


@dataclass(frozen=True)
class Question:
    """One request as it came in.

    Attributes:
        method: ``POST`` or ``GET``.
        target: The path, with the query.
        raw: All its bytes.
        body: Those of its body.
    """

    method: str
    target: str
    raw: bytes
    body: bytes

    @property
    def kind(self) -> str:
        """``batch``, ``evaluate``, ``ticket``, ``stream`` or ``events``."""
        return _KINDS.get(self.target.partition("?")[0].rpartition("/")[2], "evaluate")

    @property
    def user(self) -> str:
        """Whom flags are asked for; empty where none are."""
        if self.kind not in ("batch", "evaluate"):
            return ""
        return str(json.loads(self.body)["context"].get("userId", ""))

    @property
    def asker(self) -> str:
        """Who asks: a ``thread``, a ``task``, either (``shared``), or the ``background``."""
        whose = self.user.partition("-")[0]
        return whose if whose in ("thread", "task", "shared") else "background"


@dataclass(frozen=True)
class Answer:
    """One answer; its body may be anything, its head says what it says.

    Attributes:
        first: The status line.
        headers: Names and values.
        body: As sent.
    """

    first: str = "HTTP/1.1 200 OK"
    headers: tuple[tuple[str, str], ...] = (("Content-Type", "application/json"),)
    body: bytes = b""

    @property
    def head(self) -> bytes:
        """The status line and the headers, with the empty line."""
        lines = [self.first, *(f"{name}: {value}" for name, value in self.headers), "", ""]
        return "\r\n".join(lines).encode("latin-1")

    @property
    def raw(self) -> bytes:
        """All of it."""
        return self.head + self.body

    def but(
        self,
        *,
        first: str | None = None,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        without: tuple[str, ...] = (),
    ) -> Answer:
        """The same with something else in it; a new body comes with its true length."""
        changed = dict(headers or {})
        if body is not None:
            changed.setdefault("Content-Length", str(len(body)))
        gone = {name.lower() for name in (*changed, *without)}
        kept = [pair for pair in self.headers if pair[0].lower() not in gone]
        added = [pair for pair in changed.items() if pair[0] not in without]
        return Answer(
            self.first if first is None else first,
            (*kept, *added),
            self.body if body is None else body,
        )


async def _head(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.readuntil(b"\r\n\r\n")
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, OSError):
        raise Gone from None


def _fields(head: bytes) -> tuple[str, tuple[tuple[str, str], ...]]:
    first, *lines = head.decode("latin-1").rstrip("\r\n").split("\r\n")
    pairs = (line.partition(":") for line in lines)
    return first, tuple((name, value.strip()) for name, _, value in pairs)


def _length(headers: Iterable[tuple[str, str]]) -> int:
    return next((int(value) for name, value in headers if name.lower() == "content-length"), 0)


async def read_question(reader: asyncio.StreamReader) -> Question:
    """The next request; raises `Gone` where there is none."""
    head = await _head(reader)
    first, headers = _fields(head)
    try:
        method, target, _ = first.split(" ")
        body = await reader.readexactly(_length(headers))
    except (ValueError, asyncio.IncompleteReadError, OSError):
        raise Gone from None
    return Question(method, target, head + body, body)


async def read_answer(reader: asyncio.StreamReader) -> Answer:
    """The next answer, with its body where its length is given."""
    first, headers = _fields(await _head(reader))
    try:
        body = await reader.readexactly(_length(headers))
    except (asyncio.IncompleteReadError, OSError):
        raise Gone from None
    return Answer(first, headers, body)


class Wire:
    """The adversary's end of a connection to a client.

    Attributes:
        served: How many answers it has carried.
        dead: Whether the peer has vanished: whatever is said on it is lost.
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self._writer = writer
        self.served = 0
        self.dead = False

    async def send(self, data: bytes) -> None:
        """Send all of it."""
        view = memoryview(data)
        try:
            for start in range(0, len(view), _PIECE):
                self._writer.write(view[start : start + _PIECE])
                await self._writer.drain()
        except OSError:
            raise Gone from None
        if self._writer.is_closing():
            raise Gone

    async def drip(self, data: bytes, pause: float, step: int = 1) -> None:
        """Send it in small pieces with pauses in between."""
        for start in range(0, len(data), step):
            await self.send(data[start : start + step])
            await asyncio.sleep(pause)

    async def vanish(self) -> NoReturn:
        """Never say anything again, and never end it either."""
        self.dead = True
        await asyncio.Event().wait()
        raise Gone

    def abort(self) -> None:
        """End it with a reset."""
        sock: socket.socket | None = self._writer.get_extra_info("socket")
        if sock is not None:
            with contextlib.suppress(OSError):
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._writer.transport.abort()

    async def reset(self) -> NoReturn:
        """End it with a reset, once what was sent has had the time to arrive."""
        await asyncio.sleep(0.02)
        self.abort()
        raise Gone

    async def close(self) -> NoReturn:
        """End it in the regular way."""
        self._writer.close()
        raise Gone


async def stop_listening(server: asyncio.Server) -> None:
    """Take no more connections.

    asyncio forgets the socket of one that it took in the moment before its server is closed, so
    those are let in first.
    """
    loop = asyncio.get_running_loop()
    for listening in server.sockets:
        loop.remove_reader(listening.fileno())
    await asyncio.sleep(0)
    server.close()
