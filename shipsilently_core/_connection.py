"""HTTP/1.1 on kept connections of our own: what goes over one, and who has it when.

h11 writes and reads the protocol, as it does within httpcore; everything around it that
a call to one service needs is here. What a call has left half done is closed, never kept.
"""

from __future__ import annotations

import asyncio
import select
import socket
import threading
import time
from typing import Any, Generic, Protocol, TypeVar, cast

import h11
import httpcore

from ._network import (
    CONNECTIONS,
    KEPT,
    KEPT_FOR,
    Answering,
    Backend,
    Question,
    Target,
    is_address,
    time_left,
)

__all__ = ["Pool", "TaskPool"]

#: Bytes that are read at once. More than a TLS record has, so that nothing stays behind in it.
_AT_ONCE = 64 * 1024

#: Bytes of a head, or of a chunk's line.
_LARGEST_HEAD = 100 * 1024

#: Seconds after which another address is tried beside the one that has not answered.
_NEXT_ADDRESS = 0.25

#: Seconds that an event loop may take to close its connections.
_CLOSING = 1.0

#: What h11 is told of each question: it shall read the answers, which no question changes.
_QUESTION = h11.Request(method=b"POST", target=b"/", headers=[(b"Host", b"")])
_NO_MORE = h11.EndOfMessage()


class _Wire:
    """What is said on one connection, without the connection."""

    def __init__(self) -> None:
        self._h11 = h11.Connection(h11.CLIENT, max_incomplete_event_size=_LARGEST_HEAD)

    def ask(self) -> None:
        """A question is being sent."""
        self._h11.send(_QUESTION)
        self._h11.send(_NO_MORE)

    def take(self, data: bytes, answer: Answering) -> bool:
        """Take in what has come, nothing at the connection's end; whether the answer is whole."""
        machine = self._h11
        if not data and machine.their_state is h11.SEND_RESPONSE:
            raise httpcore.RemoteProtocolError("the connection was closed without an answer")
        machine.receive_data(data)
        while True:
            event = machine.next_event()
            if event is h11.NEED_DATA:
                return False
            if isinstance(event, h11.Data):
                answer.feed(event.data)
            elif isinstance(event, h11.Response):
                answer.begin(event.status_code, event.headers.raw_items())
            elif isinstance(event, h11.EndOfMessage):
                return True

    def renew(self) -> bool:
        """After a whole answer: get ready for the next question, or say that there can be none.

        Whatever came behind the answer would be taken for the next one, which may be
        about somebody else.
        """
        machine = self._h11
        if machine.their_state is not h11.DONE or machine.trailing_data[0]:
            return False
        machine.start_next_cycle()
        return True


class _Heads:
    """The heads of questions, which differ in their length alone."""

    def __init__(self) -> None:
        self._known: dict[bytes, bytes] = {}

    def whole(self, question: Question) -> bytes:
        """All that is sent for a question.

        Raises:
            h11.LocalProtocolError: It has a header that cannot be sent.
        """
        head = self._known.get(question.target)
        if head is None:
            writer = h11.Connection(h11.CLIENT)
            written = writer.send(
                h11.Request(method=b"POST", target=question.target, headers=question.headers)
            )
            assert written is not None
            head = self._known[question.target] = written.removesuffix(b"\r\n")
        return b"%bContent-Length: %d\r\n\r\n%b" % (head, len(question.body), question.body)


class _Kept(Protocol):
    expires: float

    def fileno(self) -> int: ...

    def drop(self) -> object: ...


C = TypeVar("C", bound=_Kept)


class _Idle(Generic[C]):
    """The connections that nobody uses just now, the one that was used longest ago first."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: list[C] = []
        self._closed = False

    def __contains__(self, connection: C) -> bool:
        return connection in self._waiting

    def take(self) -> C | None:
        """The one that was used last; one that the other side has closed or spoken on is no use."""
        now = time.monotonic()
        while True:
            with self._lock:
                if not self._waiting:
                    return None
                connection = self._waiting.pop()
            if connection.expires > now and not _is_readable(connection.fileno()):
                return connection
            connection.drop()

    def put(self, connection: C) -> None:
        """Keep it for a while."""
        now = time.monotonic()
        connection.expires = now + KEPT_FOR
        with self._lock:
            waiting = self._waiting
            waiting.append(connection)
            ended = len(waiting) if self._closed else max(0, len(waiting) - KEPT)
            while ended < len(waiting) and waiting[ended].expires <= now:
                ended += 1
            dropped = waiting[:ended]
            del waiting[:ended]
        for one in dropped:
            one.drop()

    def clear(self) -> None:
        """Close them all."""
        with self._lock:
            dropped, self._waiting = self._waiting, []
        for one in dropped:
            one.drop()

    def close(self) -> None:
        """Close them all, and from now on whatever comes back."""
        self._closed = True
        self.clear()


def _is_readable(descriptor: int) -> bool:
    """Whether something has come, be it the end; what is closed counts as that."""
    if descriptor < 0:
        return True
    if hasattr(select, "poll"):
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        return bool(poll.poll(0))
    return bool(select.select([descriptor], [], [], 0)[0])


# Blocking.


class _Connection:
    """A connection that one thread uses at a time."""

    def __init__(self, stream: httpcore.NetworkStream) -> None:
        self._stream = stream
        self._socket: socket.socket = stream.get_extra_info("socket")
        self._wire = _Wire()
        self.expires = 0.0

    def fileno(self) -> int:
        return self._socket.fileno()

    def drop(self) -> None:
        self._stream.close()

    def exchange(self, data: bytes, answer: Answering) -> bool:
        """Send this, and wait for the answer; whether the connection can be used again."""
        sock = self._socket
        self._wire.ask()
        left, sent = memoryview(data), True
        try:
            while left:
                sock.settimeout(time_left())
                left = left[sock.send(left) :]
        except TimeoutError:
            raise httpcore.WriteTimeout from None
        except OSError:
            # A service may refuse a question before it has read it, and then the answer counts.
            sent = False
        while True:
            sock.settimeout(time_left())
            try:
                data = sock.recv(_AT_ONCE)
            except TimeoutError:
                raise httpcore.ReadTimeout from None
            except OSError:
                raise httpcore.ReadError from None
            if self._wire.take(data, answer):
                return self._wire.renew() and sent


class Pool:
    """Connections to one service, for threads.

    Args:
        target: The service.
        backend: Opens them.
    """

    def __init__(self, target: Target, backend: Backend) -> None:
        self._target = target
        self._backend = backend
        self._heads = _Heads()
        self._free = threading.Semaphore(CONNECTIONS)
        self._idle: _Idle[_Connection] = _Idle()

    def exchange(self, question: Question, answer: Answering) -> None:
        """Ask, and wait for the answer, until this thread's deadline."""
        if not self._free.acquire(timeout=time_left()):
            raise httpcore.PoolTimeout
        try:
            connection = self._idle.take() or self._connect()
            again = False
            try:
                again = connection.exchange(self._heads.whole(question), answer)
            finally:
                if again:
                    self._idle.put(connection)
                else:
                    connection.drop()
        finally:
            self._free.release()

    def _connect(self) -> _Connection:
        host, port, context = self._target
        stream = self._backend.connect_tcp(host, port)
        if context is not None:
            stream = stream.start_tls(context, host)
        return _Connection(stream)

    def let_go(self) -> None:
        """Close what nobody uses."""
        self._idle.clear()

    def close(self) -> None:
        """Close what nobody uses, and the others when they come back."""
        self._idle.close()


# In tasks.


class _LoopConnection(asyncio.Protocol):
    """A connection of an event loop, which one task uses at a time.

    Args:
        others: Those that are open; it is among them for as long as it is.
    """

    _transport: asyncio.Transport
    lost: asyncio.Future[None]

    def __init__(self, others: set[_LoopConnection]) -> None:
        self._others = others
        self._wire = _Wire()
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

    async def exchange(self, data: bytes, answer: Answering) -> bool:
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
            answered.set_exception(httpcore.ReadError())


class TaskPool:
    """Connections to one service, for the tasks of one event loop."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._heads = _Heads()
        self._free = asyncio.Semaphore(CONNECTIONS)
        self._idle: _Idle[_LoopConnection] = _Idle()
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
            raise httpcore.ConnectError("TLS could not be agreed on") from None
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
                raise httpcore.ConnectError("no address of the name takes connections")
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
        answers = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        raise httpcore.ConnectError("the name could not be resolved") from None
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
