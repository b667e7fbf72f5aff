"""HTTP/1.1 on kept connections of our own: what goes over one, and who has it when.

h11 writes and reads the protocol, as it does within httpcore; everything around it that
a call to one service needs is here. What a call has left half done is closed, never kept.
"""

from __future__ import annotations

import contextlib
import select
import socket
import time
from collections.abc import Iterator
from typing import Generic, Protocol, TypeVar

import h11

from ._network import (
    CONNECTIONS,
    KEPT,
    KEPT_FOR,
    Answering,
    PoolTimeout,
    Question,
    ReadError,
    ReadTimeout,
    RemoteProtocolError,
    Sockets,
    Target,
    WriteError,
    WriteTimeout,
    connect,
    time_left,
)
from ._process import Lock, Places

__all__ = ["Heads", "Idle", "Listening", "Pool", "Wire", "listen"]

#: Bytes that are read at once. More than a TLS record has, so that nothing stays behind in it.
_AT_ONCE = 64 * 1024

#: Bytes of a head, or of a chunk's line.
_LARGEST_HEAD = 100 * 1024

#: What h11 is told of each question: it shall read the answers, which no question changes.
_QUESTION = h11.Request(method=b"POST", target=b"/", headers=[(b"Host", b"")])
_NO_MORE = h11.EndOfMessage()


class Wire:
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
            raise RemoteProtocolError("the connection was closed without an answer")
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


class Heads:
    """The heads of questions, which differ in their length alone."""

    def __init__(self) -> None:
        self._known: dict[bytes, bytes] = {}

    def whole(self, question: Question) -> memoryview:
        """All that is sent for a question, in a form whose repr tells nothing of it.

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
        return memoryview(
            b"%bContent-Length: %d\r\n\r\n%b" % (head, len(question.body), question.body)
        )


class _Kept(Protocol):
    expires: float

    def fileno(self) -> int: ...

    def drop(self) -> object: ...


C = TypeVar("C", bound=_Kept)


class Idle(Generic[C]):
    """The connections that nobody uses just now, the one that was used longest ago first."""

    def __init__(self) -> None:
        self._lock = Lock()
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


class _Connection:
    """A connection that one thread uses at a time."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._wire = Wire()
        self.expires = 0.0

    def fileno(self) -> int:
        return self._socket.fileno()

    def drop(self) -> None:
        self._socket.close()

    def exchange(self, data: memoryview, answer: Answering) -> bool:
        """Send this, and wait for the answer; whether the connection can be used again."""
        self._wire.ask()
        sent = True
        try:
            _send(self._socket, data)
        except WriteError:
            # A service may refuse a question before it has read it, and then the answer counts.
            sent = False
        while True:
            if self._wire.take(_receive(self._socket), answer):
                return self._wire.renew() and sent


def _send(sock: socket.socket, data: bytes | memoryview) -> None:
    left = memoryview(data)
    try:
        while left:
            sock.settimeout(time_left())
            left = left[sock.send(left) :]
    except TimeoutError:
        raise WriteTimeout from None
    except OSError:
        raise WriteError from None


def _receive(sock: socket.socket) -> bytes:
    sock.settimeout(time_left())
    try:
        return sock.recv(_AT_ONCE)
    except TimeoutError:
        raise ReadTimeout from None
    except OSError:
        raise ReadError from None


class Pool:
    """Connections to one service, for threads.

    Args:
        target: The service.
        sockets: Where they are remembered.
    """

    def __init__(self, target: Target, sockets: Sockets) -> None:
        self._target = target
        self._sockets = sockets
        self._heads = Heads()
        self._free = Places(CONNECTIONS)
        self._idle: Idle[_Connection] = Idle()

    def exchange(self, question: Question, answer: Answering) -> None:
        """Ask, and wait for the answer, until this thread's deadline."""
        if not self._free.take(time_left()):
            raise PoolTimeout
        try:
            connection = self._idle.take() or _Connection(connect(self._target, self._sockets))
            again = False
            try:
                again = connection.exchange(self._heads.whole(question), answer)
            finally:
                if again:
                    self._idle.put(connection)
                else:
                    connection.drop()
        finally:
            self._free.give_back()

    def let_go(self) -> None:
        """Close what nobody uses."""
        self._idle.clear()

    def close(self) -> None:
        """Close what nobody uses, and the others when they come back."""
        self._idle.close()


class Listening:
    """What comes on a connection of its own as the answer to one question, and does not end.

    Attributes:
        status: The answer's status.
        headers: Its headers.
    """

    def __init__(
        self, sock: socket.socket, path: bytes, headers: list[tuple[bytes, bytes]]
    ) -> None:
        self._socket = sock
        self._h11 = h11.Connection(h11.CLIENT, max_incomplete_event_size=_LARGEST_HEAD)
        question = h11.Request(method=b"GET", target=path, headers=headers)
        # A service may refuse a question before it has read it, and then the answer counts.
        with contextlib.suppress(WriteError):
            _send(sock, self._h11.send(question) or b"")
        self._h11.send(_NO_MORE)
        head = self._next()
        while isinstance(head, h11.InformationalResponse):
            head = self._next()
        assert isinstance(head, h11.Response)
        self.status = head.status_code
        self.headers = head.headers.raw_items()

    def _next(self) -> object:
        while (event := self._h11.next_event()) is h11.NEED_DATA:
            self._h11.receive_data(_receive(self._socket))
        return event

    def chunks(self) -> Iterator[bytes]:
        """What comes, until the other side ends it."""
        while isinstance(event := self._next(), h11.Data):
            yield bytes(event.data)

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()


def listen(
    target: Target, sockets: Sockets, path: bytes, headers: list[tuple[bytes, bytes]]
) -> Listening:
    """Ask for what does not end.

    Args:
        target: The service.
        sockets: Where the connection is remembered.
        path: Where it is there.
        headers: The question's.
    """
    sock = connect(target, sockets)
    try:
        return Listening(sock, path, headers)
    except BaseException:
        sock.close()
        raise
