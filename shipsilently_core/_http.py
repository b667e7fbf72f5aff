"""HTTP: what a call looks like on the wire, and every way it can end.

Below it are connections of our own, or httpx's lower half, httpcore, where a proxy is in
between and for the stream: so every step on the socket can keep to the deadline, no
answer's cookie is kept, no redirect followed, and no line is logged for each request.

Every way a call can end becomes a `Reply`; nothing raises. ``timeout`` is a
deadline for the whole call, connecting, headers and body together, also against a
server that sends a byte now and then.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import logging
import re
import threading
import time
import zlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any
from urllib.parse import quote, urlsplit

import httpcore

from ._connection import Pool, TaskPool
from ._network import (
    Backend,
    LoopPool,
    ProxyPool,
    ProxyTaskPool,
    Question,
    Route,
    Sockets,
    deadline,
    give_up_if_more_came,
    time_left,
)
from ._stream import Silence, StreamBroken
from ._version import __version__
from ._wire import STREAM, Reply, Request
from .config import Config
from .values import Failure

__all__ = ["HttpTransport"]

_WANTED_HEADERS = ("content-encoding", "content-type", "date", "retry-after")

_STREAM_HEADERS = {
    "Accept": "text/event-stream",
    "Accept-Encoding": "identity",
    "Cache-Control": "no-store",
    "User-Agent": f"shipsilently-python/{__version__}",
}

#: Bytes that are unpacked at once.
_STEP = 64 * 1024

#: Bytes; what an answer may take without asking what others take at the same time.
_SMALL = 256 * 1024

#: Seconds without any answer after which a failed call casts doubt on the other connections.
_QUIET = 1.0

#: Seconds that a thread may take to notice its deadline.
_THREAD_GRACE = 0.25


class HttpTransport:
    """Calls to one service with one key, blocking and awaitable.

    Connections are kept: one pool for all threads, one for each event loop.

    Args:
        config: The address, the key, the deadline, the size cap, a client to use.
    """

    def __init__(self, config: Config) -> None:
        self._url = config.api_url
        self._timeout = config.timeout
        self._room = _Room(config.max_response_bytes)
        self._headers = {
            "X-API-Key": config.api_key,
            "Content-Type": "application/json",
            "Accept": "application/json",
            "Accept-Encoding": "gzip",
            "User-Agent": f"shipsilently-python/{__version__}",
        }
        parts = urlsplit(config.api_url)
        self._path = parts.path
        self._host = ("Host", parts.netloc)
        headers = [self._host, *self._headers.items()]
        self._own_headers = [(name.encode(), value.encode()) for name, value in headers]
        self._given = config.http_client
        self._route = Route(config.api_url)
        if self._given is None:
            self._route.load()
        self._custom: Any = None
        self._sockets = Sockets()
        self._lock = threading.Lock()
        self._backend = Backend(self._sockets)
        self._pool: Pool | ProxyPool | None = None
        #: Monotonic seconds of the last answer that came by it.
        self._heard = 0.0
        self._loops: dict[asyncio.AbstractEventLoop, LoopPool[TaskPool | ProxyTaskPool]] = {}
        #: Kept, since an event loop holds its tasks only weakly.
        self._under_way: set[asyncio.Task[Reply]] = set()

    # Blocking.

    def send(self, request: Request) -> Reply:
        """Carry out one call within the deadline."""
        begin = time.monotonic()
        try:
            with deadline(self._limit(request)):
                if self._given is None:
                    return self._exchange(request)
                return self._exchange_by(request)
        except Exception as error:
            reply = _reply_to(error)
            pool = self._pool
            if pool is not None and _is_doubtful(reply, begin, self._heard):
                pool.let_go()
            return reply

    def _limit(self, request: Request) -> float:
        return self._timeout if request.timeout is None else min(request.timeout, self._timeout)

    def _exchange(self, request: Request) -> Reply:
        with _Answer(self._room) as answer:
            self._blocking_pool().exchange(self._question(request), answer)
            self._heard = time.monotonic()
            return answer.reply()

    def _blocking_pool(self) -> Pool | ProxyPool:
        pool = self._pool
        if pool is None:
            with self._lock:
                pool = self._pool
                if pool is None:
                    pool = self._pool = self._new_pool()
        return pool

    def _new_pool(self) -> Pool | ProxyPool:
        if self._route.proxy() is None:
            return Pool(self._route.target(), self._backend)
        return ProxyPool(self._route, self._backend)

    def _exchange_by(self, request: Request) -> Reply:
        """Use the caller's own httpx client, with its proxies, certificates and transports."""
        client = self._custom_client()
        outgoing = client.build_request(
            "POST",
            self._url + request.path,
            content=request.body,
            headers=self._headers,
            timeout=self._limit(request),
        )
        # What one answer set must not travel with everybody's next question.
        outgoing.headers.pop("cookie", None)
        outgoing.extensions["trace"] = self._sockets.trace
        response = client.send(outgoing, stream=True, follow_redirects=False)
        stream: Any = response.stream
        try:
            with _Answer(self._room) as answer:
                if response.is_stream_consumed:
                    # A client without a network, as in tests, has it unpacked in one piece.
                    answer.begin(response.status_code, response.headers.raw, unpacked=True)
                    answer.feed(response.content)
                else:
                    answer.begin(response.status_code, response.headers.raw)
                    # Not `iter_raw`, which lets go of the connection before it can be looked at.
                    for chunk in stream:
                        time_left()
                        answer.feed(chunk)
                give_up_if_more_came(stream)
                return answer.reply()
        finally:
            response.close()

    def _custom_client(self) -> Any:
        """The caller's client; made now where a function that makes one was given."""
        if hasattr(self._given, "send") and not inspect.isclass(self._given):
            return self._given
        with self._lock:
            if self._custom is None:
                self._custom = self._given()
            return self._custom

    # In a task.

    async def asend(self, request: Request) -> Reply:
        """Carry out one call within the deadline, in the running event loop."""
        if self._given is None:
            try:
                held = await self._loop_pool()
            except Exception as error:
                return _reply_to(error)
            if isinstance(held.pool, TaskPool):
                return await self._atimed(request, held)
            # In a task of its own: a caller that is cancelled must not take the connection along
            # half used. The call then goes on to its end, which the deadline bounds.
            work = asyncio.create_task(self._atimed(request, held))
            self._under_way.add(work)
            work.add_done_callback(self._under_way.discard)
            return await asyncio.shield(work)
        try:
            # That client blocks, so it gets a thread, which keeps to the deadline itself.
            async with asyncio.timeout(self._limit(request) + _THREAD_GRACE):
                return await asyncio.to_thread(self.send, request)
        except Exception as error:
            return _reply_to(error)

    async def _atimed(self, request: Request, held: LoopPool[TaskPool | ProxyTaskPool]) -> Reply:
        begin = time.monotonic()
        try:
            with _Answer(self._room) as answer:
                await held.pool.exchange(self._question(request), answer)
                held.heard = time.monotonic()
                return answer.reply()
        except Exception as error:
            reply = _reply_to(error)
            if _is_doubtful(reply, begin, held.heard):
                await held.pool.let_go()
            return reply

    async def _loop_pool(self) -> LoopPool[TaskPool | ProxyTaskPool]:
        loop = asyncio.get_running_loop()
        held = self._loops.get(loop)
        if held is None:
            held = LoopPool(self._new_loop_pool(), lambda: self._loops.pop(loop, None))
            with self._lock:
                # A loop that was dropped without being shut down leaves its entry behind.
                for other in list(self._loops):
                    if other.is_closed():
                        self._loops.pop(other, None)
                self._loops[loop] = held
            await held.open()
        return held

    def _new_loop_pool(self) -> TaskPool | ProxyTaskPool:
        proxy = self._route.proxy()
        if proxy is None:
            return TaskPool(self._route.target())
        return ProxyTaskPool(self._route, proxy)

    def _question(self, request: Request) -> Question:
        target = (self._path + request.path).encode()
        return Question(target, self._own_headers, request.body, self._limit(request))

    # The stream.

    def open_stream(self, ticket: str) -> _OpenStream | Reply:
        """Open the stream that a ticket is for; connecting and its headers keep to the deadline."""
        target = f"{self._url}{STREAM}?ticket={quote(ticket, safe='')}"
        try:
            with deadline(self._timeout):
                opened = self._open_own(target) if self._given is None else self._open_by(target)
        except Exception as error:
            return _reply_to(error)
        kind = opened.headers.get("content-type", "").partition(";")[0].strip().lower()
        encoding = opened.headers.get("content-encoding", "identity")
        if opened.status == 200 and kind == "text/event-stream" and encoding == "identity":
            return opened
        opened.close()
        failure = Failure.PROTOCOL if opened.status == 200 else None
        return Reply(opened.status, b"", opened.headers, failure, cause="no event stream")

    def _open_own(self, target: str) -> _OpenStream:
        _hide_tickets("httpcore.http11")
        # A pool of its own: the stream occupies a connection for good.
        pool = self._route.pool(self._backend)
        try:
            response = pool.handle_request(
                httpcore.Request("GET", target, headers=[self._host, *_STREAM_HEADERS.items()])
            )
        except BaseException:
            pool.close()
            raise
        return _OpenStream(
            response.status, _headers(response.headers), response.iter_stream(), pool.close
        )

    def _open_by(self, target: str) -> _OpenStream:
        client = self._custom_client()
        _hide_tickets(type(client).__module__.partition(".")[0])
        limit = self._timeout
        outgoing = client.build_request(
            "GET", target, headers=_STREAM_HEADERS, timeout=(limit, None, limit, limit)
        )
        outgoing.headers.pop("cookie", None)
        outgoing.extensions["trace"] = self._sockets.trace
        response = client.send(outgoing, stream=True, follow_redirects=False)
        return _OpenStream(
            response.status_code,
            _headers(response.headers.raw),
            response.iter_raw(),
            response.close,
        )

    # The end.

    def interrupt(self) -> None:
        """End every blocking exchange and the stream at once, from another thread."""
        self._sockets.interrupt()

    def close(self) -> None:
        """Close the pool of threads; those of event loops are closed by their loops."""
        with self._lock:
            pool, self._pool = self._pool, None
            made, self._custom = self._custom, None
        for ours in (pool, made):
            if ours is not None:
                ours.close()

    async def aclose(self) -> None:
        """Close the pool of threads and that of the running loop."""
        self.close()
        held = self._loops.get(asyncio.get_running_loop())
        if held is not None:
            await held.close()

    def forget(self) -> None:
        """In a forked child: drop the parent's connections without a word on them."""
        self._sockets.forget()
        self._lock = threading.Lock()
        self._room = _Room(self._room.cap)
        self._pool = None
        self._loops = {}
        self._under_way = set()
        self._custom = None


class _OpenStream:
    """A stream whose headers have arrived.

    Attributes:
        status: The HTTP status.
        headers: Those that matter.
    """

    def __init__(
        self,
        status: int,
        headers: dict[str, str],
        chunks: Iterator[bytes],
        close: Callable[[], object],
    ) -> None:
        self.status = status
        self.headers = headers
        self._chunks = chunks
        self._close = close

    def read(self, timeout: float) -> bytes:
        """The next bytes.

        Raises:
            Silence: None came within `timeout` seconds.
            StreamBroken: None will come any more.
        """
        try:
            with deadline(timeout):
                return next(self._chunks)
        except StopIteration:
            raise StreamBroken("the server ended it") from None
        except Exception as error:
            reply = _reply_to(error)
            if reply.failure is Failure.TIMEOUT:
                raise Silence from None
            raise StreamBroken(reply.cause) from None

    def close(self) -> None:
        """Let go of it."""
        with contextlib.suppress(Exception):
            self._close()


class _TicketFilter(logging.Filter):
    """Blots out tickets in the log of others.

    httpx logs the address of each request of a client, and httpcore the headers of each
    answer, which may repeat the address.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        if isinstance(record.msg, str):
            record.msg = _TICKET.sub("ticket=…", record.msg)
        if isinstance(record.args, tuple):
            record.args = tuple(
                _TICKET.sub("ticket=…", str(value)) if "ticket=" in str(value) else value
                for value in record.args
            )
        return True


_TICKET = re.compile(r"ticket=[^&\s\"']*")
_ticket_filter = _TicketFilter()


def _hide_tickets(logger: str) -> None:
    # Added once, since a logger takes the same filter only once.
    logging.getLogger(logger).addFilter(_ticket_filter)


def _headers(pairs: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    """The headers that matter, by name in lower case; several of one name are joined."""
    found: dict[str, str] = {}
    for raw_name, raw_value in pairs:
        name = raw_name.decode("ascii", "replace").lower()
        if name in _WANTED_HEADERS:
            value = raw_value.decode("latin-1").strip()
            found[name] = f"{found[name]}, {value}" if name in found else value
    return found


class _BadAnswer(Exception):
    """An answer that is too large, or not in the encoding it claims to be in."""


def _is_doubtful(reply: Reply, begin: float, heard: float) -> bool:
    """Whether other connections have probably gone the way of the one that a call has failed on.

    A router that has forgotten them says nothing, or resets each one when it is used: a call
    would be lost for every single one of them. Where anything is heard, they are kept.
    """
    if not reply.connected or heard > min(begin, time.monotonic() - _QUIET):
        return False
    return reply.failure in (Failure.TIMEOUT, Failure.NETWORK)


class _Room:
    """What the answers that come in at the same time may take together.

    Args:
        cap: Bytes; for one answer, and for all of them beyond what is small in each.
    """

    def __init__(self, cap: int) -> None:
        self.cap = cap
        self._taken = 0
        self._lock = threading.Lock()

    def take(self, size: int) -> None:
        """Raises `_BadAnswer` where so many bytes are not left."""
        with self._lock:
            if self._taken + size > self.cap:
                raise _BadAnswer("too many large answers at once")
            self._taken += size

    def give_back(self, size: int) -> None:
        """They are not needed any more."""
        with self._lock:
            self._taken -= size


class _Body:
    """An answer's body as it comes in: decompressed step by step, never beyond the cap."""

    def __init__(self, encoding: str, room: _Room) -> None:
        self._room = room
        self._taken = 0
        # One piece of memory that grows: many small ones stay with each thread's allocator.
        self._content = bytearray()
        self._size = 0
        self._inflate = None
        name = encoding.strip().lower()
        if name in ("gzip", "x-gzip", "deflate"):
            self._inflate = zlib.decompressobj(wbits=zlib.MAX_WBITS | 32)
        elif name not in ("", "identity"):
            raise _BadAnswer("unknown content encoding")

    def close(self) -> None:
        """Give its room back."""
        self._content.clear()
        if self._taken:
            self._room.give_back(self._taken)
            self._taken = 0

    def feed(self, chunk: bytes) -> None:
        """Take in what has arrived.

        Raises:
            _BadAnswer: It is too much, or broken.
        """
        if self._inflate is None:
            self._keep(chunk)
            return
        while chunk:
            try:
                self._keep(self._inflate.decompress(chunk, _STEP))
            except zlib.error:
                raise _BadAnswer("broken compression") from None
            if self._inflate.unused_data:
                # Something follows the end, and zlib would gather it without a bound.
                raise _BadAnswer("broken compression")
            chunk = self._inflate.unconsumed_tail

    def _keep(self, part: bytes) -> None:
        self._content += part
        self._size += len(part)
        if self._size > self._room.cap:
            raise _BadAnswer(f"more than {self._room.cap} bytes")
        more = self._size - _SMALL - self._taken
        if more > 0:
            self._room.take(more)
            self._taken += more

    def finish(self) -> bytes:
        """The whole body.

        Raises:
            _BadAnswer: The end is missing.
        """
        if self._inflate is not None and self._size and not self._inflate.eof:
            raise _BadAnswer("broken compression")
        return bytes(self._content)


class _Answer:
    """An answer as it comes in."""

    def __init__(self, room: _Room) -> None:
        self._room = room
        self._status = 0
        self._headers: dict[str, str] = {}
        self._body: _Body | None = None

    def __enter__(self) -> _Answer:
        return self

    def __exit__(self, *error: object) -> None:
        if self._body is not None:
            self._body.close()

    def begin(
        self, status: int, headers: Iterable[tuple[bytes, bytes]], *, unpacked: bool = False
    ) -> None:
        """The head has come.

        Raises:
            _BadAnswer: The body will be in an unknown encoding.
        """
        self._status = status
        self._headers = _headers(headers)
        encoding = "" if unpacked else self._headers.get("content-encoding", "")
        self._body = _Body(encoding, self._room)

    def feed(self, chunk: bytes) -> None:
        """More of the body has come; raises `_BadAnswer`."""
        assert self._body is not None
        try:
            self._body.feed(chunk)
        except _BadAnswer:
            # At once, since the task that waits for it runs later and others need the room now.
            self._body.close()
            raise

    def reply(self) -> Reply:
        """The whole; raises `_BadAnswer` where the end of the body is missing."""
        assert self._body is not None
        return Reply(self._status, self._body.finish(), self._headers)


_TIMEOUTS = {"TimeoutException", "TimeoutError"}
_UNSENDABLE = {"LocalProtocolError", "DecodingError", "InvalidURL"}
_UNCONNECTED = {"ConnectError", "ConnectTimeout", "ProxyError", "UnusableProxy"}


def _reply_to(error: BaseException) -> Reply:
    """The reply that an exception stands for.

    By the names of its classes: httpx, httpcore and httpx2 use the same ones. Its
    text is not kept, since it may hold an address or a header.
    """
    if isinstance(error, _BadAnswer):
        return Reply(failure=Failure.PROTOCOL, cause=str(error))
    names = {kind.__name__ for kind in type(error).__mro__}
    if names & _TIMEOUTS:
        failure = Failure.TIMEOUT
    elif names & _UNSENDABLE:
        failure = Failure.PROTOCOL
    else:
        failure = Failure.NETWORK
    return Reply(
        failure=failure,
        connected=not names & _UNCONNECTED,
        cause=type(error).__name__.lstrip("_"),
    )
