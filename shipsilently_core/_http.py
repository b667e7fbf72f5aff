"""HTTP: what a call looks like on the wire, and every way it can end.

Below it are connections of our own, or httpx's lower half, httpcore, where a proxy is in
between: so every step on the socket can keep to the deadline, no
answer's cookie is kept, no redirect followed, and no line is logged for each request.

Every way a call can end becomes a `Reply`; nothing raises. ``timeout`` is a
deadline for the whole call, connecting, headers and body together, also against a
server that sends a byte now and then.
"""

from __future__ import annotations

import contextlib
import inspect
import logging
import re
import sys
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from ._answers import Answer, Room, headers_of, is_doubtful, reply_to
from ._connection import Pool, listen
from ._network import Question, Route, Sockets, deadline, give_up_if_more_came, time_left
from ._process import Lock, is_time_limit
from ._stream import Silence, StreamBroken
from ._transport import Transport
from ._version import __version__
from ._wire import STREAM, Reply, Request
from .config import Config
from .values import Failure

if TYPE_CHECKING:
    from ._proxied import ProxyPool
    from ._tasks import TaskCalls

__all__ = ["HttpTransport"]

_STREAM_HEADERS = {
    "Accept": "text/event-stream",
    "Accept-Encoding": "identity",
    "Cache-Control": "no-store",
    "User-Agent": f"shipsilently-python/{__version__}",
}

#: Seconds that a thread may take to notice its deadline.
_THREAD_GRACE = 0.25


class HttpTransport(Transport):
    """Calls to one service with one key, blocking and awaitable.

    Connections are kept: one pool for all threads, one for each event loop.

    Args:
        config: The address, the key, the deadline, the size cap, a client to use.
    """

    def __init__(self, config: Config) -> None:
        self._url = config.api_url
        self._timeout = config.timeout
        self._room = Room(config.max_response_bytes)
        self._headers = {
            "X-API-Key": config.api_key,
            "Content-Type": "application/json",
            "Accept": "application/json",
            "Accept-Encoding": "gzip",
            "User-Agent": f"shipsilently-python/{__version__}",
        }
        parts = urlsplit(config.api_url)
        self._path = parts.path
        self._own_headers = _encoded(parts.netloc, self._headers)
        self._stream_headers = _encoded(parts.netloc, _STREAM_HEADERS)
        self._given = config.http_client
        self._route = Route(config.api_url)
        if self._given is None:
            self._route.load()
        self._custom: Any = None
        self._sockets = Sockets()
        self._lock = Lock()
        self._pool: Pool | ProxyPool | None = None
        #: Monotonic seconds of the last answer that came by it.
        self._heard = 0.0
        self._tasks: TaskCalls | None = None
        if "asyncio" in sys.modules:
            # Ahead, so that no event loop has to wait for that import.
            self._task_calls()

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
            if is_time_limit(error):
                raise
            reply = reply_to(error)
            pool = self._pool
            if pool is not None and is_doubtful(reply, begin, self._heard):
                pool.let_go()
            return reply

    def _limit(self, request: Request) -> float:
        return self._timeout if request.timeout is None else min(request.timeout, self._timeout)

    def _exchange(self, request: Request) -> Reply:
        with Answer(self._room) as answer:
            try:
                self._blocking_pool().exchange(self._question(request), answer)
                reply = answer.reply()
            except Exception as error:
                reply = answer.cut_off(error)
            self._heard = time.monotonic()
            return reply

    def _blocking_pool(self) -> Pool | ProxyPool:
        pool = self._pool
        if pool is None:
            with self._lock:
                pool = self._pool
                if pool is None:
                    pool = self._pool = self._new_pool()
        return pool

    def _new_pool(self) -> Pool | ProxyPool:
        proxy = self._route.proxy()
        if proxy is None:
            return Pool(self._route.target(), self._sockets)
        # There already, unless the environment has changed; see `Route.load`.
        from ._proxied import ProxyPool

        return ProxyPool(self._route, proxy, self._sockets)

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
            with Answer(self._room) as answer:
                try:
                    if response.is_stream_consumed:
                        # A client without a network, as in tests, has it unpacked in one piece.
                        answer.begin(response.status_code, response.headers.raw, unpacked=True)
                        answer.feed(response.content)
                    else:
                        answer.begin(response.status_code, response.headers.raw)
                        # Not `iter_raw`, which lets go of the connection before it can be looked
                        # at.
                        for chunk in stream:
                            time_left()
                            answer.feed(chunk)
                    give_up_if_more_came(stream)
                    return answer.reply()
                except Exception as error:
                    return answer.cut_off(error)
        finally:
            response.close()

    def _custom_client(self) -> Any:
        """The caller's client; made now where a function that makes one was given."""
        if hasattr(self._given, "send") and not inspect.isclass(self._given):
            return self._given
        with self._lock:
            if self._custom is None:
                made = self._given()
                if not hasattr(made, "send"):
                    raise TypeError(f"http_client made a {type(made).__name__}, and no client")
                self._custom = made
            return self._custom

    # In a task.

    async def asend(self, request: Request) -> Reply:
        """Carry out one call within the deadline, in the running event loop."""
        try:
            calls = self._task_calls()
        except Exception as error:
            # The process may open no more files, say. The next call tries it again.
            return reply_to(error)
        if self._given is None:
            return await calls.send(self._question(request))
        # That client blocks, so it gets a thread, which keeps to the deadline itself.
        limit = self._limit(request) + _THREAD_GRACE
        return await calls.send_in_thread(lambda: self.send(request), limit)

    def _task_calls(self) -> TaskCalls:
        calls = self._tasks
        if calls is None:
            # Here, since asyncio takes as long to import as all the rest.
            from ._tasks import TaskCalls

            with self._lock:
                if self._tasks is None:
                    self._tasks = TaskCalls(self._route, self._room)
                calls = self._tasks
        return calls

    def _question(self, request: Request) -> Question:
        target = (self._path + request.path).encode()
        return Question(target, self._own_headers, request.body, self._limit(request))

    # The stream.

    def open_stream(self, ticket: str) -> _OpenStream | Reply:
        """Open the stream that a ticket is for; connecting and its headers keep to the deadline."""
        target = f"{STREAM}?ticket={quote(ticket, safe='')}"
        try:
            with deadline(self._timeout):
                opened = self._open_own(target) if self._given is None else self._open_by(target)
        except Exception as error:
            return reply_to(error)
        kind = opened.headers.get("content-type", "").partition(";")[0].strip().lower()
        encoding = opened.headers.get("content-encoding", "identity")
        if opened.status == 200 and kind == "text/event-stream" and encoding == "identity":
            return opened
        opened.close()
        failure = Failure.PROTOCOL if opened.status == 200 else None
        return Reply(opened.status, b"", opened.headers, failure, cause="no event stream")

    def _open_own(self, target: str) -> _OpenStream:
        proxy = self._route.proxy()
        if proxy is None:
            path = (self._path + target).encode()
            own = listen(self._route.target(), self._sockets, path, self._stream_headers)
            return _OpenStream(own.status, headers_of(own.headers), own.chunks(), own.close)
        from ._proxied import listen as listen_by

        _hide_tickets("httpcore.http11")
        status, headers, chunks, close = listen_by(
            self._route, proxy, self._sockets, self._url + target, self._stream_headers
        )
        return _OpenStream(status, headers_of(headers), chunks, close)

    def _open_by(self, target: str) -> _OpenStream:
        client = self._custom_client()
        _hide_tickets(type(client).__module__.partition(".")[0])
        limit = self._timeout
        outgoing = client.build_request(
            "GET", self._url + target, headers=_STREAM_HEADERS, timeout=(limit, None, limit, limit)
        )
        outgoing.headers.pop("cookie", None)
        outgoing.extensions["trace"] = self._sockets.trace
        response = client.send(outgoing, stream=True, follow_redirects=False)
        return _OpenStream(
            response.status_code,
            headers_of(response.headers.raw),
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
        if self._tasks is not None:
            await self._tasks.close()

    def forget(self) -> None:
        """In a forked child: drop the parent's connections without a word on them."""
        self._sockets.forget()
        self._lock = Lock()
        self._room = Room(self._room.cap)
        self._pool = None
        self._tasks = None
        self._custom = None


def _encoded(host: str, headers: dict[str, str]) -> list[tuple[bytes, bytes]]:
    pairs = [("Host", host), *headers.items()]
    return [(name.encode(), value.encode()) for name, value in pairs]


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
            reply = reply_to(error)
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
