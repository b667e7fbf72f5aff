"""What stands between client and service, and lets pass only what its toxic lets pass."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import threading
from collections import Counter
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any

from .service import Service
from .wire import Answer, Gone, Question, Wire, read_answer, read_question, stop_listening

__all__ = ["Adversary", "Stage", "Toxic"]

_BACKLOG = 256


class Toxic:
    """What is done to whoever speaks through the adversary; this one does nothing.

    Attributes:
        hits: How many times it did something, by whom it was done to.
    """

    def __init__(self) -> None:
        self.hits: Counter[str] = Counter()

    async def begin(self, adversary: Adversary) -> None:
        """It comes into force."""

    async def end(self, adversary: Adversary) -> None:
        """It ends."""

    async def accept(self, wire: Wire) -> None:
        """A connection has been made."""

    async def question(self, wire: Wire, question: Question) -> None:
        """A question has come in, and is about to be passed on."""

    async def answer(self, wire: Wire, question: Question, answer: Answer) -> None:
        """Deliver an answer, or not."""
        await wire.send(answer.raw)

    async def open(self, wire: Wire, question: Question, head: Answer) -> None:
        """Deliver the head of a stream."""
        await wire.send(head.raw)

    async def event(self, wire: Wire, event: bytes) -> None:
        """Deliver an event of the stream."""
        await wire.send(event)

    def hit(self, whom: str) -> None:
        """Count that something was done."""
        self.hits[whom] += 1


class Adversary:
    """Passes questions and answers between clients and a service.

    Args:
        upstream: Gives the service's port.
        context: For TLS.

    Attributes:
        port: Where clients connect to; it stays.
        toxic: What is in force.
        wires: The connections that are open.
        questions: How many came in, by kind.
    """

    def __init__(self, upstream: Callable[[], int], context: ssl.SSLContext | None = None) -> None:
        self._upstream = upstream
        self.context = context
        self.port = 0
        self.toxic = Toxic()
        self.wires: set[Wire] = set()
        self.questions: Counter[str] = Counter()
        self._server: asyncio.Server | None = None
        self._full: list[socket.socket] = []
        #: Kept, since an event loop holds its tasks only weakly.
        self._tasks: set[asyncio.Task[Any] | None] = set()

    async def listen(self) -> None:
        """Take connections, on the same port as before."""
        self._server = await asyncio.start_server(
            self._serve, "127.0.0.1", self.port, ssl=self.context, backlog=_BACKLOG
        )
        self.port = self._server.sockets[0].getsockname()[1]

    async def refuse(self) -> None:
        """Take no connections: they are refused at once."""
        server, self._server = self._server, None
        if server is not None:
            await stop_listening(server)
        for sock in self._full:
            sock.close()
        self._full.clear()

    async def swallow(self) -> None:
        """Take no connections: they are neither refused nor made, as by a host that is off."""
        await self.refuse()
        listener = socket.create_server(("127.0.0.1", self.port), backlog=0)
        self._full.append(listener)
        for _ in range(4):
            sock = socket.socket()
            sock.setblocking(False)
            sock.connect_ex(("127.0.0.1", self.port))
            self._full.append(sock)

    async def use(self, toxic: Toxic | None) -> None:
        """Put another toxic in force; ``None`` for none."""
        before, self.toxic = self.toxic, toxic or Toxic()
        await before.end(self)
        await self.toxic.begin(self)

    def reset_all(self) -> None:
        """Reset every connection."""
        for wire in list(self.wires):
            wire.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        wire = Wire(reader, writer)
        self.wires.add(wire)
        self._tasks.add(asyncio.current_task())
        inner: asyncio.StreamWriter | None = None
        try:
            await self.toxic.accept(wire)
            inner_reader, inner = await asyncio.open_connection("127.0.0.1", self._upstream())
            while True:
                await self._pass_on(wire, inner_reader, inner)
        except (Gone, OSError):
            pass
        finally:
            self._tasks.discard(asyncio.current_task())
            self.wires.discard(wire)
            writer.close()
            if inner is not None:
                inner.close()

    async def _pass_on(
        self, wire: Wire, inner: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        question = await read_question(wire.reader)
        if wire.dead:
            await wire.vanish()
        self.questions[question.kind] += 1
        await self.toxic.question(wire, question)
        writer.write(question.raw)
        answer = await read_answer(inner)
        if question.kind == "stream" and " 200 " in answer.first:
            await self.toxic.open(wire, question, answer)
            await self._follow(wire, inner)
        await self.toxic.answer(wire, question, answer)
        wire.served += 1

    async def _follow(self, wire: Wire, inner: asyncio.StreamReader) -> None:
        while True:
            try:
                event = await inner.readuntil(b"\n\n")
            except asyncio.IncompleteReadError:
                raise Gone from None
            if wire.dead:
                await wire.vanish()
            await self.toxic.event(wire, event)


class Stage:
    """A service and an adversary before it, in a thread of their own.

    Args:
        context: For TLS.
        changes: Seconds between two versions.
    """

    def __init__(self, context: ssl.SSLContext | None = None, changes: float = 0.25) -> None:
        self.service = Service()
        self.adversary = Adversary(lambda: self.service.port, context)
        self._changes = changes
        self._ready: Future[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = Future()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), daemon=True)

    @property
    def url(self) -> str:
        """Where clients find it."""
        scheme = "http" if self.adversary.context is None else "https"
        return f"{scheme}://127.0.0.1:{self.adversary.port}"

    def __enter__(self) -> Stage:
        self._thread.start()
        self._loop, self._stop = self._ready.result(10)
        return self

    def __exit__(self, *error: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(10)

    def use(self, toxic: Toxic | None) -> None:
        """Put a toxic in force; ``None`` for none."""
        self.run(self.adversary.use(toxic))

    def change(self) -> int:
        """Make a new version; which."""

        async def change() -> int:
            return self.service.change()

        version: int = self.run(change())
        return version

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Run something in its loop."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(30)

    async def _run(self) -> None:
        loop, stop = asyncio.get_running_loop(), asyncio.Event()
        # What a client does to its connections is no error here.
        loop.set_exception_handler(lambda loop, context: None)
        await self.service.start()
        await self.adversary.listen()
        living = loop.create_task(self.service.live(self._changes))
        self._ready.set_result((loop, stop))
        await stop.wait()
        living.cancel()
        await self.service.stop()
        await self.adversary.refuse()
        self.adversary.reset_all()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        if others:
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait(others, timeout=5)
        # Transports that were closed just now are gone a moment later, those of TLS a bit more.
        await asyncio.sleep(0.05)
