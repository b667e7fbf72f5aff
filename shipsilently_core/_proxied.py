"""By way of a proxy: httpx's lower half, httpcore, which takes long to import and is here alone."""

from __future__ import annotations

import contextlib
import ssl
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import anyio
import httpcore

from ._network import (
    CONNECTIONS,
    KEPT,
    KEPT_FOR,
    Answering,
    ConnectError,
    Question,
    Route,
    Sockets,
    first_reached,
    give_up_if_more_came,
    resolve,
    time_left,
)
from ._process import in_thread

if TYPE_CHECKING:
    import httpx

__all__ = ["Backend", "ProxyPool", "ProxyTaskPool", "listen"]


class ProxyPool:
    """Connections by way of a proxy, for threads."""

    def __init__(self, route: Route, proxy: httpx.Proxy, sockets: Sockets) -> None:
        self._route = route
        self._pool = _pool(route, proxy, sockets)

    def exchange(self, question: Question, answer: Answering) -> None:
        """Ask, and wait for the answer, until this thread's deadline."""
        response = self._pool.handle_request(_request(self._route, question))
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
        settings = _settings(route) | {"network_backend": _TaskBackend()}
        kind = httpcore.AsyncSOCKSProxy if _is_socks(proxy) else httpcore.AsyncHTTPProxy
        self._pool: httpcore.AsyncConnectionPool = kind(**_proxy_settings(proxy), **settings)

    async def exchange(self, question: Question, answer: Answering) -> None:
        """Ask, and wait for the answer, within the question's limit."""
        # Not asyncio's: of anyio's limits httpcore shields what it does to let go of a
        # connection, which is left in use for ever if that is interrupted.
        with anyio.fail_after(question.limit):
            response = await self._pool.handle_async_request(_request(self._route, question))
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


def listen(
    route: Route,
    proxy: httpx.Proxy,
    sockets: Sockets,
    target: str,
    headers: list[tuple[bytes, bytes]],
) -> tuple[int, list[tuple[bytes, bytes]], Iterator[bytes], Callable[[], object]]:
    """Ask for what does not end.

    Args:
        route: To the service.
        proxy: On the way there.
        sockets: Where the connection is remembered.
        target: The whole address.
        headers: The question's.

    Returns:
        The status, the headers, what comes, and what ends it.
    """
    # A pool of its own: it occupies a connection for good.
    pool = _pool(route, proxy, sockets)
    try:
        response = pool.handle_request(httpcore.Request("GET", target, headers=headers))
    except BaseException:
        pool.close()
        raise
    return response.status, response.headers, response.iter_stream(), pool.close


def _request(route: Route, question: Question) -> httpcore.Request:
    """A question in httpcore's form."""
    parts, limit = route.parts, question.limit
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


def _pool(route: Route, proxy: httpx.Proxy, sockets: Sockets) -> httpcore.ConnectionPool:
    """Connections for threads."""
    kind = httpcore.SOCKSProxy if _is_socks(proxy) else httpcore.HTTPProxy
    settings = _settings(route) | {"network_backend": Backend(sockets)}
    return kind(**_proxy_settings(proxy), **settings)


def _settings(route: Route) -> dict[str, Any]:
    return {
        "ssl_context": route.context(),
        "max_connections": CONNECTIONS,
        "max_keepalive_connections": KEPT,
        "keepalive_expiry": KEPT_FOR,
    }


def _is_socks(proxy: httpx.Proxy) -> bool:
    return proxy.url.scheme.startswith("socks")


def _proxy_settings(proxy: httpx.Proxy) -> dict[str, Any]:
    url = httpcore.URL(
        scheme=proxy.url.raw_scheme, host=proxy.url.raw_host, port=proxy.url.port, target=b"/"
    )
    return {"proxy_url": url, "proxy_auth": proxy.raw_auth}


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
        def reach(address: str, seconds: float) -> _Stream:
            inner = self._inner.connect_tcp(
                address,
                port,
                timeout=seconds,
                local_address=local_address,
                socket_options=socket_options,
            )
            return _Stream(inner, self._sockets)

        refused = (httpcore.ConnectError, httpcore.ConnectTimeout)
        return first_reached(host, port, reach, refused, timeout)


class _TaskBackend(httpcore.AnyIOBackend):
    """Connections for tasks, whose names are not looked up in the event loop's executor."""

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        limit = time_left(timeout)
        addresses = await in_thread(lambda: resolve(host, port, limit))
        for left, address in zip(range(len(addresses), 0, -1), addresses, strict=True):
            try:
                # An address that swallows packets must leave time for the next.
                return await super().connect_tcp(
                    address, port, limit / left, local_address, socket_options
                )
            except (httpcore.ConnectError, httpcore.ConnectTimeout):
                if left == 1:
                    raise
        raise ConnectError("the name has no address")


class _Stream(httpcore.NetworkStream):
    """A connection whose every step is bounded by the deadline."""

    def __init__(self, inner: httpcore.NetworkStream, sockets: Sockets) -> None:
        self._inner = inner
        self._sockets = sockets
        sockets.add_below(inner)

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
