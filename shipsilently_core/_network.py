"""Sockets, TLS and proxies, with a deadline on every step and a way to end them from outside."""

from __future__ import annotations

import contextlib
import os
import socket
import ssl
import threading
import time
import weakref
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, TypeVar
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import anyio
import certifi
import httpcore

if TYPE_CHECKING:
    import httpx

__all__ = [
    "CONNECTIONS",
    "KEPT",
    "KEPT_FOR",
    "Answering",
    "Backend",
    "LoopPool",
    "ProxyPool",
    "ProxyTaskPool",
    "Question",
    "Route",
    "Sockets",
    "Target",
    "UnusableProxy",
    "deadline",
    "give_up_if_more_came",
    "is_address",
    "resolve",
    "time_left",
]

#: Connections that a pool has open at most.
CONNECTIONS = 100
#: Those of them that it keeps while nobody uses them.
KEPT = 20
#: Seconds. Shorter than what common proxies allow, so that they seldom close one in our hands.
KEPT_FOR = 15.0

#: Seconds that stand for no limit of one step.
_UNLIMITED = 3600.0

#: Monotonic seconds at which the blocking call under way in this thread or greenlet must end.
_deadline: ContextVar[float] = ContextVar("shipsilently_deadline", default=float("inf"))


@contextlib.contextmanager
def deadline(seconds: float) -> Iterator[None]:
    """Whatever this thread does on a socket in here must be done in so many seconds."""
    token = _deadline.set(time.monotonic() + seconds)
    try:
        yield
    finally:
        _deadline.reset(token)


def time_left(step: float | None = None) -> float:
    """The seconds that one step may take: never more than is left of the whole call.

    Raises:
        httpcore.ReadTimeout: Nothing is left.
    """
    left = min(_deadline.get() - time.monotonic(), _UNLIMITED if step is None else step)
    if left <= 0:
        raise httpcore.ReadTimeout("the deadline of the call has passed")
    return left


class Target(NamedTuple):
    """Where the service is; with TLS where there is a context for it."""

    host: str
    port: int
    context: ssl.SSLContext | None


class Question(NamedTuple):
    """One POST with its headers but for its length, and the seconds that it may take."""

    target: bytes
    headers: list[tuple[bytes, bytes]]
    body: bytes
    limit: float

    def __repr__(self) -> str:
        # It holds the key and people's data, and error trackers show local variables.
        return f"<Question of {len(self.body)} bytes>"


class Answering(Protocol):
    """Takes in an answer as it comes; what this raises ends the call."""

    def begin(self, status: int, headers: Iterable[tuple[bytes, bytes]]) -> None:
        """The head has come."""
        ...

    def feed(self, chunk: bytes) -> None:
        """More of the body has come."""
        ...


class Sockets:
    """The open sockets of this process, so that another thread can end what waits on them."""

    def __init__(self) -> None:
        self._open: dict[int, weakref.ref[socket.socket]] = {}

    def add(self, stream: Any) -> None:
        """Remember the socket of an httpcore stream for as long as it exists."""
        sock = stream.get_extra_info("socket")
        if sock is not None:
            key = id(sock)
            self._open[key] = weakref.ref(sock, lambda _: self._open.pop(key, None))

    def interrupt(self) -> None:
        """End every read and write on them at once; closing them would leave readers waiting."""
        for sock in self._living():
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

    def forget(self) -> None:
        """Close this process's copies, saying nothing on them: a forked child's first duty."""
        for sock in self._living():
            with contextlib.suppress(OSError):
                # Not through TLS, which would say goodbye in the parent's name.
                socket.socket(fileno=sock.detach()).close()
        self._open.clear()

    def _living(self) -> list[socket.socket]:
        return [sock for ref in list(self._open.values()) if (sock := ref()) is not None]

    def trace(self, event: str, info: Mapping[str, Any]) -> None:
        """A trace hook for somebody else's client: its connections keep to our deadline too."""
        if not event.endswith((".connect_tcp.complete", ".start_tls.complete")):
            return
        stream = info["return_value"]
        read = stream.read
        stream.read = lambda max_bytes, timeout=None: read(max_bytes, time_left(timeout))
        self.add(stream)


class Route:
    """How one service is reached: trust settings and the environment's proxy."""

    def __init__(self, url: str) -> None:
        self._parts = urlsplit(url)
        self._ssl: ssl.SSLContext | None = None

    def load(self) -> None:
        """Read the certificates ahead; what is wrong with them becomes each call's failure."""
        with contextlib.suppress(Exception):
            self._settings()

    def target(self) -> Target:
        """Where it is, for whom no proxy is between."""
        parts = self._parts
        context = self._settings()["ssl_context"]
        port = parts.port or (80 if context is None else 443)
        return Target(str(parts.hostname), port, context)

    def request(self, question: Question) -> httpcore.Request:
        """A question in httpcore's form."""
        parts, limit = self._parts, question.limit
        return httpcore.Request(
            "POST",
            httpcore.URL(
                scheme=parts.scheme,
                host=str(parts.hostname),
                port=parts.port,
                target=question.target,
            ),
            headers=[*question.headers, (b"Content-Length", b"%d" % len(question.body))],
            content=question.body,
            extensions={"timeout": dict.fromkeys(("connect", "read", "write", "pool"), limit)},
        )

    def pool(self, backend: httpcore.NetworkBackend) -> httpcore.ConnectionPool:
        """A pool for threads."""
        proxy = self.proxy()
        settings: dict[str, Any] = self._settings() | {"network_backend": backend}
        if proxy is None:
            return httpcore.ConnectionPool(**settings)
        kind = httpcore.SOCKSProxy if _is_socks(proxy) else httpcore.HTTPProxy
        return kind(**_proxy_settings(proxy), **settings)

    def async_pool(self, proxy: httpx.Proxy) -> httpcore.AsyncConnectionPool:
        """A pool for the tasks of one event loop, by way of a proxy."""
        settings: dict[str, Any] = self._settings() | {"network_backend": httpcore.AnyIOBackend()}
        kind = httpcore.AsyncSOCKSProxy if _is_socks(proxy) else httpcore.AsyncHTTPProxy
        return kind(**_proxy_settings(proxy), **settings)

    def _settings(self) -> dict[str, Any]:
        if self._ssl is None and self._parts.scheme == "https":
            # Once, since it takes 20 ms.
            self._ssl = _trusting()
        return {
            "ssl_context": self._ssl,
            "max_connections": CONNECTIONS,
            "max_keepalive_connections": KEPT,
            "keepalive_expiry": KEPT_FOR,
        }

    def proxy(self) -> httpx.Proxy | None:
        """The environment's proxy for this service; raises `UnusableProxy`."""
        proxies = getproxies()
        url = proxies.get(self._parts.scheme) or proxies.get("all")
        if not url or proxy_bypass(self._parts.netloc):
            return None
        # Here, since httpx brings its command line along, and that a library for terminals.
        import httpx

        try:
            return httpx.Proxy(url if "://" in url else f"http://{url}")
        except (ValueError, httpx.InvalidURL):
            # The text of the original names the address, which may hold a password.
            raise UnusableProxy from None


class UnusableProxy(Exception):
    """The environment names a proxy whose address cannot be used."""


def _trusting() -> ssl.SSLContext:
    """A context that trusts whom httpx would; made here, since httpx takes long to import."""
    file, folder = os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR")
    if file:
        context = ssl.create_default_context(cafile=file)
    elif folder:
        context = ssl.create_default_context(capath=folder)
    else:
        context = ssl.create_default_context(cafile=certifi.where())
    context.set_alpn_protocols(["http/1.1"])
    return context


def _is_socks(proxy: httpx.Proxy) -> bool:
    return proxy.url.scheme.startswith("socks")


def _proxy_settings(proxy: httpx.Proxy) -> dict[str, Any]:
    url = httpcore.URL(
        scheme=proxy.url.raw_scheme, host=proxy.url.raw_host, port=proxy.url.port, target=b"/"
    )
    return {"proxy_url": url, "proxy_auth": proxy.raw_auth}


class ProxyPool:
    """Connections by way of a proxy, for threads."""

    def __init__(self, route: Route, backend: httpcore.NetworkBackend) -> None:
        self._route = route
        self._pool = route.pool(backend)

    def exchange(self, question: Question, answer: Answering) -> None:
        """Ask, and wait for the answer, until this thread's deadline."""
        response = self._pool.handle_request(self._route.request(question))
        try:
            answer.begin(response.status, response.headers)
            for chunk in response.iter_stream():
                answer.feed(chunk)
            give_up_if_more_came(response.stream)
        finally:
            response.close()

    def let_go(self) -> None:
        """Close what nobody uses."""
        for connection in [one for one in self._pool.connections if one.is_idle()]:
            with contextlib.suppress(Exception):
                connection.close()

    def close(self) -> None:
        """Close them all."""
        self._pool.close()


class ProxyTaskPool:
    """Connections by way of a proxy, for the tasks of one event loop."""

    def __init__(self, route: Route, proxy: httpx.Proxy) -> None:
        self._route = route
        self._pool = route.async_pool(proxy)

    async def exchange(self, question: Question, answer: Answering) -> None:
        """Ask, and wait for the answer, within the question's limit."""
        # Not asyncio's: of anyio's limits httpcore shields what it does to let go of a
        # connection, which is left in use for ever if that is interrupted.
        with anyio.fail_after(question.limit):
            response = await self._pool.handle_async_request(self._route.request(question))
            try:
                answer.begin(response.status, response.headers)
                async for chunk in response.aiter_stream():
                    answer.feed(chunk)
                give_up_if_more_came(response.stream)
            finally:
                await response.aclose()

    async def let_go(self) -> None:
        """Close what nobody uses."""
        for connection in [one for one in self._pool.connections if one.is_idle()]:
            with contextlib.suppress(Exception):
                await connection.aclose()

    async def aclose(self) -> None:
        """Close them all."""
        await self._pool.aclose()


#: Where each layer of httpx and httpcore keeps the one below it.
_LAYERS = ("_stream", "_httpcore_stream", "_connection")


def give_up_if_more_came(stream: Any) -> None:
    """Use the connection for nothing more where the server has sent more than the answer just read.

    httpcore would take that for the answer to the next question on this connection, which
    may be about somebody else. It offers no way to ask, so this looks into it; where it
    looks different one day, nothing is found. It is h11 that is told: a connection whose
    socket alone is closed can still be given to another thread, and answers from what came.
    """
    while stream is not None:
        protocol = getattr(stream, "_h11_state", None)
        if protocol is not None:
            if protocol.trailing_data[0]:
                protocol.send_failed()
            return
        below = (getattr(stream, name, None) for name in _LAYERS)
        stream = next((layer for layer in below if layer is not None), None)


class Closable(Protocol):
    """Connections of an event loop."""

    async def aclose(self) -> None:
        """Close them."""
        ...


P = TypeVar("P", bound=Closable)


class LoopPool(Generic[P]):
    """The connections of one event loop, closed by the loop itself when it shuts down.

    A suspended asynchronous generator sees to that: `asyncio.run`, and what is
    built like it, ends those before the loop is gone and inside the loop.

    Args:
        pool: The connections.
        gone: Called when they are about to be closed.

    Attributes:
        heard: Monotonic seconds of the last answer that came by them.
    """

    def __init__(self, pool: P, gone: Callable[[], object]) -> None:
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


class Backend(httpcore.NetworkBackend):
    """Connections for threads that keep to the deadline of the call they are used for.

    Name resolution and every address of the name count against it too.

    Args:
        sockets: Where each is remembered.
    """

    def __init__(self, sockets: Sockets) -> None:
        self._inner = httpcore.SyncBackend()
        self._sockets = sockets

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        addresses = resolve(host, port, time_left(timeout))
        for left, address in zip(range(len(addresses), 0, -1), addresses, strict=True):
            try:
                inner = self._inner.connect_tcp(
                    # An address that swallows packets must leave time for the next.
                    address,
                    port,
                    timeout=time_left(timeout) / left,
                    local_address=local_address,
                    socket_options=socket_options,
                )
            except (httpcore.ConnectError, httpcore.ConnectTimeout):
                if left == 1:
                    raise
            else:
                return _Stream(inner, self._sockets)
        raise httpcore.ConnectError("the name has no address")


class _Stream(httpcore.NetworkStream):
    """A connection whose every step is bounded by the deadline."""

    def __init__(self, inner: httpcore.NetworkStream, sockets: Sockets) -> None:
        self._inner = inner
        self._sockets = sockets
        sockets.add(inner)

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._inner.read(max_bytes, time_left(timeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._inner.write(buffer, time_left(timeout))

    def close(self) -> None:
        self._inner.close()

    def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> httpcore.NetworkStream:
        inner = self._inner.start_tls(ssl_context, server_hostname, time_left(timeout))
        return _Stream(inner, self._sockets)

    def get_extra_info(self, info: str) -> Any:
        return self._inner.get_extra_info(info)


def resolve(host: str, port: int, timeout: float) -> list[str]:
    """The addresses of a name, within `timeout` seconds: a resolver has no limit of its own."""
    found: list[list[str] | Exception] = []

    def look_up() -> None:
        try:
            answers = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            found.append(list(dict.fromkeys(str(answer[4][0]) for answer in answers)))
        except Exception as error:
            found.append(error)

    if is_address(host):
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


def is_address(host: str) -> bool:
    for family in (socket.AF_INET, socket.AF_INET6):
        with contextlib.suppress(OSError):
            socket.inet_pton(family, host)
            return True
    return False
