"""HTTP: the one module that knows httpx, sockets and TLS.

It uses httpx's own lower half, httpcore, with httpx's reading of certificates and
proxies: so every step on the socket can keep to the deadline, no answer's cookie
is kept, no redirect followed, and httpx does not log a line for each request.

Every way a call can end becomes a `Reply`; nothing raises. ``timeout`` is a
deadline for the whole call, connecting, headers and body together, also against a
server that sends a byte now and then.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import threading
import time
import zlib
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextvars import ContextVar
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import httpcore
import httpx

from ._version import __version__
from ._wire import Reply, Request
from .config import Config
from .values import Failure

__all__ = ["HttpTransport"]

_CONNECTIONS = 100
_KEPT = 20
#: Seconds. Shorter than what common proxies allow, so that they seldom close one in our hands.
_KEPT_FOR = 15.0

_WANTED_HEADERS = ("content-encoding", "content-type", "date", "retry-after")

#: Seconds that a thread may take to notice its deadline.
_THREAD_GRACE = 0.25

#: Monotonic seconds at which the blocking call under way in this thread or greenlet must end.
_deadline: ContextVar[float] = ContextVar("shipsilently_deadline", default=float("inf"))


class HttpTransport:
    """Calls to one service with one key, blocking and awaitable.

    Connections are kept: one pool for all threads, one for each event loop.

    Args:
        config: The address, the key, the deadline, the size cap, a client to use.
    """

    def __init__(self, config: Config) -> None:
        self._url = config.api_url
        self._timeout = config.timeout
        self._max_bytes = config.max_response_bytes
        self._headers = {
            "X-API-Key": config.api_key,
            "Content-Type": "application/json",
            "Accept": "application/json",
            "Accept-Encoding": "gzip",
            "User-Agent": f"shipsilently-python/{__version__}",
        }
        self._own_headers = [("Host", urlsplit(config.api_url).netloc), *self._headers.items()]
        self._custom = config.http_client
        self._route = _Route(config.api_url)
        self._lock = threading.Lock()
        self._backend = _Backend()
        self._pool: httpcore.ConnectionPool | None = None
        self._loops: dict[asyncio.AbstractEventLoop, _LoopPool] = {}

    # Blocking.

    def send(self, request: Request) -> Reply:
        """Carry out one call within the deadline."""
        token = _deadline.set(time.monotonic() + self._timeout)
        try:
            return self._exchange(request) if self._custom is None else self._exchange_by(request)
        except Exception as error:
            return _reply_to(error)
        finally:
            _deadline.reset(token)

    def _exchange(self, request: Request) -> Reply:
        response = self._blocking_pool().handle_request(self._outgoing(request))
        try:
            headers = _headers(response.headers)
            body = _Body(headers.get("content-encoding", ""), self._max_bytes)
            for chunk in response.iter_stream():
                body.feed(chunk)
        finally:
            response.close()
        return Reply(response.status, body.finish(), headers)

    def _blocking_pool(self) -> httpcore.ConnectionPool:
        pool = self._pool
        if pool is None:
            with self._lock:
                pool = self._pool
                if pool is None:
                    pool = self._pool = self._route.pool(self._backend)
        return pool

    def _exchange_by(self, request: Request) -> Reply:
        """Use the caller's own httpx client, with its proxies, certificates and transports."""
        client = self._custom
        outgoing = client.build_request(
            "POST",
            self._url + request.path,
            content=request.body,
            headers=self._headers,
            timeout=self._timeout,
        )
        # What one answer set must not travel with everybody's next question.
        outgoing.headers.pop("cookie", None)
        outgoing.extensions["trace"] = _hold_to_deadline
        response = client.send(outgoing, stream=True, follow_redirects=False)
        try:
            headers = _headers(response.headers.raw)
            if response.is_stream_consumed:
                # A client without a network, as in tests, has the answer in one piece.
                return Reply(response.status_code, response.content, headers)
            body = _Body(headers.get("content-encoding", ""), self._max_bytes)
            for chunk in response.iter_raw():
                _left(None)
                body.feed(chunk)
        finally:
            response.close()
        return Reply(response.status_code, body.finish(), headers)

    # In a task.

    async def asend(self, request: Request) -> Reply:
        """Carry out one call within the deadline, in the running event loop."""
        try:
            if self._custom is None:
                async with asyncio.timeout(self._timeout):
                    return await self._aexchange(request)
            # That client blocks, so it gets a thread, which keeps to the deadline itself.
            async with asyncio.timeout(self._timeout + _THREAD_GRACE):
                return await asyncio.to_thread(self.send, request)
        except Exception as error:
            return _reply_to(error)

    async def _aexchange(self, request: Request) -> Reply:
        pool = await self._loop_pool()
        response = await pool.handle_async_request(self._outgoing(request))
        try:
            headers = _headers(response.headers)
            body = _Body(headers.get("content-encoding", ""), self._max_bytes)
            async for chunk in response.aiter_stream():
                body.feed(chunk)
        finally:
            await response.aclose()
        return Reply(response.status, body.finish(), headers)

    async def _loop_pool(self) -> httpcore.AsyncConnectionPool:
        loop = asyncio.get_running_loop()
        held = self._loops.get(loop)
        if held is None:
            held = _LoopPool(self._route.async_pool())
            with self._lock:
                # A loop that was dropped without being shut down leaves its entry behind.
                for other in [other for other in self._loops if other.is_closed()]:
                    del self._loops[other]
                self._loops[loop] = held
            await held.open(lambda: self._loops.pop(loop, None))
        return held.pool

    def _outgoing(self, request: Request) -> httpcore.Request:
        limits = dict.fromkeys(("connect", "read", "write", "pool"), self._timeout)
        length = ("Content-Length", str(len(request.body)))
        return httpcore.Request(
            "POST",
            self._url + request.path,
            headers=[*self._own_headers, length],
            content=request.body,
            extensions={"timeout": limits},
        )

    # The end.

    def close(self) -> None:
        """Close the pool of threads; those of event loops are closed by their loops."""
        with self._lock:
            pool, self._pool = self._pool, None
        if pool is not None:
            pool.close()

    async def aclose(self) -> None:
        """Close the pool of threads and that of the running loop."""
        self.close()
        held = self._loops.get(asyncio.get_running_loop())
        if held is not None:
            await held.close()

    def forget(self) -> None:
        """In a forked child: drop the parent's connections without a word on them."""
        self._lock = threading.Lock()
        self._backend.forget()
        self._backend = _Backend()
        self._pool = None
        self._loops = {}


def _headers(pairs: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    """The headers that matter, by name in lower case; several of one name are joined."""
    found: dict[str, str] = {}
    for raw_name, raw_value in pairs:
        name = raw_name.decode("ascii", "replace").lower()
        if name in _WANTED_HEADERS:
            value = raw_value.decode("latin-1").strip()
            found[name] = f"{found[name]}, {value}" if name in found else value
    return found


class _Route:
    """How one service is reached: trust settings and the environment's proxy."""

    def __init__(self, url: str) -> None:
        self._parts = urlsplit(url)
        self._ssl: ssl.SSLContext | None = None

    def pool(self, backend: httpcore.NetworkBackend) -> httpcore.ConnectionPool:
        """A pool for threads."""
        proxy = self._proxy()
        settings: dict[str, Any] = self._settings() | {"network_backend": backend}
        if proxy is None:
            return httpcore.ConnectionPool(**settings)
        kind = httpcore.SOCKSProxy if _is_socks(proxy) else httpcore.HTTPProxy
        return kind(**_proxy_settings(proxy), **settings)

    def async_pool(self) -> httpcore.AsyncConnectionPool:
        """A pool for the tasks of one event loop."""
        proxy = self._proxy()
        settings: dict[str, Any] = self._settings() | {"network_backend": httpcore.AnyIOBackend()}
        if proxy is None:
            return httpcore.AsyncConnectionPool(**settings)
        kind = httpcore.AsyncSOCKSProxy if _is_socks(proxy) else httpcore.AsyncHTTPProxy
        return kind(**_proxy_settings(proxy), **settings)

    def _settings(self) -> dict[str, Any]:
        if self._ssl is None and self._parts.scheme == "https":
            # Once, since it takes 20 ms; it reads SSL_CERT_FILE and SSL_CERT_DIR.
            self._ssl = httpx.create_ssl_context()
        return {
            "ssl_context": self._ssl,
            "max_connections": _CONNECTIONS,
            "max_keepalive_connections": _KEPT,
            "keepalive_expiry": _KEPT_FOR,
        }

    def _proxy(self) -> httpx.Proxy | None:
        proxies = getproxies()
        url = proxies.get(self._parts.scheme) or proxies.get("all")
        if not url or proxy_bypass(self._parts.netloc):
            return None
        try:
            return httpx.Proxy(url if "://" in url else f"http://{url}")
        except (ValueError, httpx.InvalidURL):
            # The text of the original names the address, which may hold a password.
            raise _UnusableProxy from None


class _UnusableProxy(Exception):
    """The environment names a proxy whose address cannot be used."""


def _is_socks(proxy: httpx.Proxy) -> bool:
    return proxy.url.scheme.startswith("socks")


def _proxy_settings(proxy: httpx.Proxy) -> dict[str, Any]:
    url = httpcore.URL(
        scheme=proxy.url.raw_scheme, host=proxy.url.raw_host, port=proxy.url.port, target=b"/"
    )
    return {"proxy_url": url, "proxy_auth": proxy.raw_auth}


class _LoopPool:
    """The connections of one event loop, closed by the loop itself when it shuts down.

    A suspended asynchronous generator sees to that: `asyncio.run`, and what is
    built like it, ends those before the loop is gone and inside the loop.
    """

    def __init__(self, pool: httpcore.AsyncConnectionPool) -> None:
        self.pool = pool
        self._keeper: AsyncGenerator[None, None] | None = None

    async def open(self, gone: Callable[[], object]) -> None:
        """Tie the pool to the running loop; `gone` is called when it has been closed."""
        self._keeper = self._keep(gone)
        await anext(self._keeper)

    async def _keep(self, gone: Callable[[], object]) -> AsyncGenerator[None, None]:
        try:
            yield
        finally:
            gone()
            await self.pool.aclose()

    async def close(self) -> None:
        """Close it now."""
        if self._keeper is not None:
            await self._keeper.aclose()


class _Backend(httpcore.NetworkBackend):
    """Connections for threads that keep to the deadline of the call they are used for.

    Name resolution and every address of the name count against it too.
    """

    def __init__(self) -> None:
        self._inner = httpcore.SyncBackend()
        self._open: set[_Stream] = set()

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        addresses = _resolve(host, port, _left(timeout))
        for left, address in zip(range(len(addresses), 0, -1), addresses, strict=True):
            try:
                inner = self._inner.connect_tcp(
                    # An address that swallows packets must leave time for the next.
                    address,
                    port,
                    timeout=_left(timeout) / left,
                    local_address=local_address,
                    socket_options=socket_options,
                )
            except (httpcore.ConnectError, httpcore.ConnectTimeout):
                if left == 1:
                    raise
            else:
                return _Stream(inner, self._open)
        raise httpcore.ConnectError("the name has no address")

    def forget(self) -> None:
        """Close this process's copies of the sockets, saying nothing on them."""
        for stream in list(self._open):
            raw = stream.get_extra_info("socket")
            with contextlib.suppress(OSError):
                # Not through TLS, which would say goodbye in the parent's name.
                socket.socket(fileno=raw.detach()).close()


class _Stream(httpcore.NetworkStream):
    """A connection whose every step is bounded by the deadline."""

    def __init__(self, inner: httpcore.NetworkStream, register: set[_Stream]) -> None:
        self._inner = inner
        self._register = register
        register.add(self)

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._inner.read(max_bytes, _left(timeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._inner.write(buffer, _left(timeout))

    def close(self) -> None:
        self._register.discard(self)
        self._inner.close()

    def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> httpcore.NetworkStream:
        inner = self._inner.start_tls(ssl_context, server_hostname, _left(timeout))
        self._register.discard(self)
        return _Stream(inner, self._register)

    def get_extra_info(self, info: str) -> Any:
        return self._inner.get_extra_info(info)


def _resolve(host: str, port: int, timeout: float) -> list[str]:
    """The addresses of a name, within `timeout` seconds: a resolver has no limit of its own."""
    found: list[list[str] | Exception] = []

    def look_up() -> None:
        try:
            answers = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            found.append(list(dict.fromkeys(str(answer[4][0]) for answer in answers)))
        except Exception as error:
            found.append(error)

    if _is_address(host):
        return [host]
    thread = threading.Thread(target=look_up, name="shipsilently-resolve", daemon=True)
    try:
        thread.start()
    except RuntimeError:
        # Python starts no thread any more once the interpreter ends; a last flush still resolves.
        look_up()
    else:
        thread.join(timeout)
    if not found:
        raise httpcore.ConnectTimeout("the name was not resolved in time")
    if isinstance(found[0], Exception):
        raise httpcore.ConnectError("the name could not be resolved") from found[0]
    return found[0]


def _is_address(host: str) -> bool:
    for family in (socket.AF_INET, socket.AF_INET6):
        with contextlib.suppress(OSError):
            socket.inet_pton(family, host)
            return True
    return False


def _left(timeout: float | None) -> float:
    """What is left for one step: never more than is left of the whole call.

    Raises:
        httpcore.ReadTimeout: Nothing is left.
    """
    left = min(_deadline.get() - time.monotonic(), 3600.0 if timeout is None else timeout)
    if left <= 0:
        raise httpcore.ReadTimeout("the deadline of the call has passed")
    return left


def _hold_to_deadline(event: str, info: Mapping[str, Any]) -> None:
    """A trace hook that makes the connections of somebody else's client keep to our deadline."""
    if not event.endswith((".connect_tcp.complete", ".start_tls.complete")):
        return
    stream = info["return_value"]
    read = stream.read
    stream.read = lambda max_bytes, timeout=None: read(max_bytes, _left(timeout))


class _BadAnswer(Exception):
    """An answer that is too large, or not in the encoding it claims to be in."""


class _Body:
    """An answer's body as it comes in: decompressed step by step, never beyond the cap."""

    def __init__(self, encoding: str, cap: int) -> None:
        self._cap = cap
        self._parts: list[bytes] = []
        self._size = 0
        self._inflate = None
        name = encoding.strip().lower()
        if name in ("gzip", "x-gzip", "deflate"):
            self._inflate = zlib.decompressobj(wbits=zlib.MAX_WBITS | 32)
        elif name not in ("", "identity"):
            raise _BadAnswer("unknown content encoding")

    def feed(self, chunk: bytes) -> None:
        """Take in what has arrived.

        Raises:
            _BadAnswer: It is too much, or broken.
        """
        if self._inflate is not None:
            try:
                chunk = self._inflate.decompress(chunk, self._cap - self._size + 1)
            except zlib.error:
                raise _BadAnswer("broken compression") from None
        self._parts.append(chunk)
        self._size += len(chunk)
        if self._size > self._cap:
            raise _BadAnswer(f"more than {self._cap} bytes")

    def finish(self) -> bytes:
        """The whole body.

        Raises:
            _BadAnswer: The end is missing.
        """
        if self._inflate is not None and self._size and not self._inflate.eof:
            raise _BadAnswer("broken compression")
        return b"".join(self._parts)


_TIMEOUTS = {"TimeoutException", "TimeoutError"}
_UNSENDABLE = {"LocalProtocolError", "DecodingError", "InvalidURL"}
_UNCONNECTED = {"ConnectError", "ConnectTimeout", "ProxyError", "_UnusableProxy"}


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
