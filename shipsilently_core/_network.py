"""Sockets, TLS and proxies, with a deadline on every step and a way to end them from outside."""

from __future__ import annotations

import contextlib
import os
import socket
import ssl
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextvars import ContextVar
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from msgspec import Struct

if TYPE_CHECKING:
    import httpx

__all__ = [
    "CONNECTIONS",
    "KEPT",
    "KEPT_FOR",
    "Answering",
    "ConnectError",
    "ConnectTimeout",
    "PoolTimeout",
    "Question",
    "ReadError",
    "ReadTimeout",
    "RemoteProtocolError",
    "Route",
    "Sockets",
    "Target",
    "TimeoutException",
    "UnusableProxy",
    "WriteError",
    "WriteTimeout",
    "connect",
    "deadline",
    "first_reached",
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


# What can go wrong, by the names that httpcore and httpx have for it.


class ConnectError(Exception):
    """There is no connection."""


class ReadError(Exception):
    """The connection broke while something was awaited."""


class WriteError(Exception):
    """The connection broke while something was sent."""


class RemoteProtocolError(Exception):
    """What has come is no HTTP."""


class TimeoutException(Exception):
    """A step was not done in time."""


class ConnectTimeout(TimeoutException):
    """No connection was there in time."""


class PoolTimeout(TimeoutException):
    """No connection was free in time."""


class ReadTimeout(TimeoutException):
    """What was awaited did not come in time."""


class WriteTimeout(TimeoutException):
    """What was sent was not taken in time."""


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
        ReadTimeout: Nothing is left.
    """
    left = min(_deadline.get() - time.monotonic(), _UNLIMITED if step is None else step)
    if left <= 0:
        raise ReadTimeout("the deadline of the call has passed")
    return left


class Target(NamedTuple):
    """Where the service is; with TLS where there is a context for it."""

    host: str
    port: int
    context: ssl.SSLContext | None


class Question(Struct, frozen=True):  # error trackers look into a tuple, whatever its repr
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

    def add(self, sock: socket.socket) -> None:
        """Remember it for as long as it exists."""
        key = id(sock)
        self._open[key] = weakref.ref(sock, lambda _: self._open.pop(key, None))

    def add_below(self, stream: Any) -> None:
        """Remember the socket of an httpcore stream."""
        sock = stream.get_extra_info("socket")
        if sock is not None:
            self.add(sock)

    def interrupt(self) -> None:
        """End every read and write on them at once; closing them would leave readers waiting."""
        for sock in self._living():
            with contextlib.suppress(OSError):
                # Not TLS's own, which lets go of the encryption first: a thread that is just about
                # to send would send a question in the clear.
                socket.socket.shutdown(sock, socket.SHUT_RDWR)

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
        self.add_below(stream)


class Route:
    """How one service is reached: trust settings and the environment's proxy.

    Attributes:
        parts: The service's address.
    """

    def __init__(self, url: str) -> None:
        self.parts = urlsplit(url)
        self._ssl: ssl.SSLContext | None = None

    def load(self) -> None:
        """Read and import ahead what takes long; what is wrong becomes each call's failure."""
        with contextlib.suppress(Exception):
            self.context()
        with contextlib.suppress(Exception):
            if self.proxy() is not None:
                import_module("._proxied", __package__)

    def target(self) -> Target:
        """Where it is, for whom no proxy is between."""
        context = self.context()
        port = self.parts.port or (80 if context is None else 443)
        return Target(str(self.parts.hostname), port, context)

    def context(self) -> ssl.SSLContext | None:
        """Whom to trust; ``None`` where there is no TLS."""
        if self._ssl is None and self.parts.scheme == "https":
            # Once, since it takes 20 ms.
            self._ssl = _trusting()
        return self._ssl

    def proxy(self) -> httpx.Proxy | None:
        """The environment's proxy for this service; raises `UnusableProxy`."""
        proxies = getproxies()
        url = proxies.get(self.parts.scheme) or proxies.get("all")
        # With its port, as `NO_PROXY` may have it, and alone, as it has addresses of IPv6.
        if not url or any(map(proxy_bypass, (self.parts.netloc, str(self.parts.hostname)))):
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
        # Here, since it is not needed otherwise.
        import certifi

        context = ssl.create_default_context(cafile=certifi.where())
    context.set_alpn_protocols(["http/1.1"])
    return context


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


R = TypeVar("R")


def first_reached(
    host: str,
    port: int,
    reach: Callable[[str, float], R],
    refused: tuple[type[Exception], ...],
    timeout: float | None = None,
) -> R:
    """What `reach` gives for the first of a name's addresses that takes a connection.

    Name resolution and every address count against this thread's deadline.

    Args:
        host: The name.
        port: The port.
        reach: Connects to an address, within so many seconds.
        refused: What it raises where that cannot be done.
        timeout: Seconds; for each step.
    """
    addresses = resolve(host, port, time_left(timeout))
    for left, address in zip(range(len(addresses), 0, -1), addresses, strict=True):
        try:
            # An address that swallows packets must leave time for the next.
            return reach(address, time_left(timeout) / left)
        except refused:
            if left == 1:
                raise
    raise ConnectError("the name has no address")


def connect(target: Target, sockets: Sockets) -> socket.socket:
    """A connection within this thread's deadline, with TLS where the target has it.

    Args:
        target: Where to.
        sockets: Where it is remembered.
    """
    host, port, context = target

    def reach(address: str, seconds: float) -> socket.socket:
        with _as_no_connection():
            return socket.create_connection((address, port), seconds)

    sock = first_reached(host, port, reach, (ConnectError, ConnectTimeout))
    try:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sockets.add(sock)
        if context is not None:
            sock.settimeout(time_left())
            with _as_no_connection():
                sock = context.wrap_socket(sock, server_hostname=host)
            sockets.add(sock)
    except BaseException:
        sock.close()
        raise
    return sock


@contextlib.contextmanager
def _as_no_connection() -> Iterator[None]:
    try:
        yield
    except TimeoutError:
        raise ConnectTimeout from None
    except OSError:
        raise ConnectError from None


#: What names were resolved to last; ``None`` where that had not come in time.
_addresses: dict[str, list[str] | None] = {}
#: So many, since few processes ask more than one service, by more than one proxy.
_MOST_NAMES = 100


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
        # Python starts no thread any more once the interpreter ends; a last flush still resolves,
        # where that is not known to take longer than an end may.
        known = _addresses.get(host, [])
        if known:
            return known
        if known is not None:
            look_up()
    else:
        thread.join(timeout)
    if not found:
        _remember(host, None)
        raise ConnectTimeout("the name was not resolved in time")
    if isinstance(found[0], Exception):
        raise ConnectError("the name could not be resolved") from found[0]
    _remember(host, found[0])
    return found[0]


def _remember(host: str, addresses: list[str] | None) -> None:
    if host in _addresses or len(_addresses) < _MOST_NAMES:
        _addresses[host] = addresses


def is_address(host: str) -> bool:
    for family in (socket.AF_INET, socket.AF_INET6):
        with contextlib.suppress(OSError):
            socket.inet_pton(family, host)
            return True
    return False
