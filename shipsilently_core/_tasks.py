"""Calls in tasks: connections that an event loop drives, one pool for each loop."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import AsyncGenerator, Callable
from typing import TYPE_CHECKING, Any, cast

from ._answers import Answer, Room, is_doubtful, reply_to
from ._connection import Heads, Idle, Wire
from ._network import (
    CONNECTIONS,
    Answering,
    ConnectError,
    Question,
    ReadError,
    Route,
    Target,
    is_address,
)
from ._process import Lock, in_thread
from ._wire import Reply

if TYPE_CHECKING:
    from ._proxied import ProxyTaskPool

__all__ = ["LoopPool", "TaskCalls", "TaskPool"]

#: Seconds after which another address is tried beside the one that has not answered.
_NEXT_ADDRESS = 0.25

#: Seconds that an event loop may take to close its connections.
_CLOSING = 1.0


class TaskCalls:
    """Calls of one service in the tasks of any event loops.

    Args:
        route: To the service.
        room: For answers.

    Attributes:
        loops: The connections of each loop.
    """

    def __init__(self, route: Route, room: Room) -> None:
        self._route = route
        self._room = room
        self._lock = Lock()
        self.loops: dict[asyncio.AbstractEventLoop, LoopPool] = {}
        #: Kept, since an event loop holds its tasks only weakly.
        self._under_way: set[asyncio.Task[Reply]] = set()

    async def send(self, question: Question) -> Reply:
        """Carry out one call within its limit, in the running event loop."""
        try:
            held = await self._loop_pool()
        except Exception as error:
            return reply_to(error)
        if isinstance(held.pool, TaskPool):
            return await self._atimed(question, held)
        # In a task of its own: a caller that is cancelled must not take the connection along
        # half used. The call then goes on to its end, which the deadline bounds.
        work = asyncio.create_task(self._atimed(question, held))
        self._under_way.add(work)
        work.add_done_callback(self._under_way.discard)
        return await asyncio.shield(work)

    async def send_in_thread(self, send: Callable[[], Reply], limit: float) -> Reply:
        """Carry out a call that blocks, within so many seconds."""
        try:
            async with asyncio.timeout(limit):
                return await in_thread(send)
        except Exception as error:
            return reply_to(error)

    async def close(self) -> None:
        """Close the connections of the running loop."""
        held = self.loops.get(asyncio.get_running_loop())
        if held is not None:
            await held.close()

    async def _atimed(self, question: Question, held: LoopPool) -> Reply:
        begin = time.monotonic()
        try:
            with Answer(self._room) as answer:
                try:
                    await held.pool.exchange(question, answer)
                    reply = answer.reply()
                except Exception as error:
                    reply = answer.cut_off(error)
                held.heard = time.monotonic()
                return reply
        except Exception as error:
            reply = reply_to(error)
            if is_doubtful(reply, begin, held.heard):
                await held.pool.let_go()
            return reply

    async def _loop_pool(self) -> LoopPool:
        loop = asyncio.get_running_loop()
        held = self.loops.get(loop)
        if held is None:
            held = LoopPool(self._new_loop_pool(), lambda: self.loops.pop(loop, None))
            with self._lock:
                # A loop that was dropped without being shut down leaves its entry behind.
                for other in list(self.loops):
                    if other.is_closed():
                        self.loops.pop(other, None)
                self.loops[loop] = held
            await held.open()
        return held

    def _new_loop_pool(self) -> TaskPool | ProxyTaskPool:
        proxy = self._route.proxy()
        if proxy is None:
            return TaskPool(self._route.target())
        # There already, unless the environment has changed; see `Route.load`.
        from ._proxied import ProxyTaskPool

        return ProxyTaskPool(self._route, proxy)


class LoopPool:
    """The connections of one event loop, closed by the loop itself when it shuts down.

    A suspended asynchronous generator sees to that: `asyncio.run`, and what is
    built like it, ends those before the loop is gone and inside the loop.

    Args:
        pool: The connections.
        gone: Called when they are about to be closed.

    Attributes:
        heard: Monotonic seconds of the last answer that came by them.
    """

    def __init__(self, pool: TaskPool | ProxyTaskPool, gone: Callable[[], object]) -> None:
        self.pool = pool
        self.heard = 0.0
        self._keeper = self._keep(gone)

    async def open(self) -> None:
        """Tie the pool to the running loop."""
        await anext(self._keeper)

    async def _keep(self, gone: Callable[[], object]) -> AsyncGenerator[None, None]:
        try:
            yield
        finally:
            gone()
            await self.pool.aclose()

    async def close(self) -> None:
        """Close it now."""
        await self._keeper.aclose()


class _LoopConnection(asyncio.Protocol):
    """A connection of an event loop, which one task uses at a time.

    Args:
        others: Those that are open; it is among them for as long as it is.
    """

    _transport: asyncio.Transport
    lost: asyncio.Future[None]

    def __init__(self, others: set[_LoopConnection]) -> None:
        self._others = others
        self._wire = Wire()
        self._answered: asyncio.Future[bool] | None = None
        self._answer: Answering | None = None
        self.expires = 0.0

    def fileno(self) -> int:
        if self.lost.done() or self._transport.is_closing():
            return -1
        return cast(int, self._transport.get_extra_info("socket").fileno())

    def drop(self) -> asyncio.Future[None]:
        """Close it now, with no goodbye; what is returned is done once it is closed."""
        self._transport.abort()
        return self.lost

    async def exchange(self, data: memoryview, answer: Answering) -> bool:
        """Send this, and wait for the answer; whether the connection can be used again."""
        self._wire.ask()
        self._answer = answer
        self._answered = asyncio.get_running_loop().create_future()
        self._transport.write(data)
        try:
            return await self._answered
        finally:
            self._answered = self._answer = None

    # What the loop calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self.lost = asyncio.get_running_loop().create_future()
        self._others.add(self)

    def data_received(self, data: bytes) -> None:
        answered, answer = self._answered, self._answer
        if answer is None or answered is None or answered.done():
            # Nobody has asked.
            self._transport.abort()
            return
        try:
            if self._wire.take(data, answer):
                answered.set_result(self._wire.renew())
        except Exception as error:
            # Its traceback would refer to what refers to it.
            answered.set_exception(error.with_traceback(None))

    def eof_received(self) -> None:
        self.data_received(b"")

    def connection_lost(self, error: Exception | None) -> None:
        self._others.discard(self)
        self.lost.set_result(None)
        answered = self._answered
        if answered is not None and not answered.done():
            answered.set_exception(ReadError())


class TaskPool:
    """Connections to one service, for the tasks of one event loop."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._heads = Heads()
        self._free = asyncio.Semaphore(CONNECTIONS)
        self._idle: Idle[_LoopConnection] = Idle()
        self._open: set[_LoopConnection] = set()

    @property
    def in_use(self) -> list[object]:
        """The connections on which a call is under way."""
        return [connection for connection in self._open if connection not in self._idle]

    async def exchange(self, question: Question, answer: Answering) -> None:
        """Ask, and wait for the answer, within the question's limit."""
        async with asyncio.timeout(question.limit), self._free:
            connection = self._idle.take() or await self._connect()
            again = False
            try:
                again = await connection.exchange(self._heads.whole(question), answer)
            finally:
                if again:
                    self._idle.put(connection)
                else:
                    connection.drop()

    async def _connect(self) -> _LoopConnection:
        host, port, context = self._target
        sock = await _reach(host, port)
        try:
            _, connection = await asyncio.get_running_loop().create_connection(
                lambda: _LoopConnection(self._open),
                sock=sock,
                ssl=context,
                server_hostname=None if context is None else host,
            )
        except OSError:
            raise ConnectError("TLS could not be agreed on") from None
        return connection

    async def let_go(self) -> None:
        """Close what nobody uses."""
        self._idle.clear()

    async def aclose(self) -> None:
        """Close them all, those in use as well."""
        self._idle.close()
        lost = [connection.drop() for connection in list(self._open)]
        if lost:
            await asyncio.wait(lost, timeout=_CLOSING)


async def _reach(host: str, port: int) -> socket.socket:
    """A connection to one of a name's addresses: the first one that takes it.

    One that keeps silent is waited for while the next ones are tried.
    """
    addresses = iter(await _addresses(host, port))
    attempts: set[asyncio.Task[socket.socket]] = set()
    try:
        while True:
            address = next(addresses, None)
            if address is not None:
                attempts.add(asyncio.create_task(_attempt(*address)))
            elif not attempts:
                raise ConnectError("no address of the name takes connections")
            ended, _ = await asyncio.wait(
                attempts,
                timeout=None if address is None else _NEXT_ADDRESS,
                return_when=asyncio.FIRST_COMPLETED,
            )
            for attempt in ended:
                attempts.discard(attempt)
                if attempt.exception() is None:
                    return attempt.result()
    finally:
        for attempt in attempts:
            attempt.cancel()
            attempt.add_done_callback(_discard)


async def _addresses(host: str, port: int) -> list[tuple[int, Any]]:
    if is_address(host):
        return [(socket.AF_INET6 if ":" in host else socket.AF_INET, (host, port))]
    try:
        # Not in the loop's executor, which is the application's.
        answers = await in_thread(
            lambda: socket.getaddrinfo(host, port, type=socket.SOCK_STREAM), "shipsilently-resolve"
        )
    except (OSError, UnicodeError):
        raise ConnectError("the name could not be resolved") from None
    return list(dict.fromkeys((answer[0], answer[4]) for answer in answers))


async def _attempt(family: int, address: Any) -> socket.socket:
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        await asyncio.get_running_loop().sock_connect(sock, address)
    except BaseException:
        sock.close()
        raise
    return sock


def _discard(attempt: asyncio.Task[socket.socket]) -> None:
    if not attempt.cancelled() and attempt.exception() is None:
        attempt.result().close()
