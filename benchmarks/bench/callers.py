"""The same call to the service by ours, decoding included, and by bare transports, without."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from importlib import import_module
from typing import Any
from urllib.parse import urlsplit

__all__ = ["acallers", "callers", "request_body"]

Call = Callable[[], object]
AsyncCall = Callable[[], Awaitable[object]]

PATH = "/v1/evaluate/batch"
HEADERS = {"X-API-Key": "bench", "Content-Type": "application/json", "Accept": "application/json"}


def request_body(number: int) -> bytes:
    """What is sent for one user."""
    return b'{"context":{"userId":"user-%d"}}' % number


@contextlib.contextmanager
def callers(url: str, *, own: bool) -> Iterator[tuple[dict[str, Call], dict[str, str]]]:
    """Blocking calls, each for a new user, and what is missing."""
    numbers = itertools.count()
    found: dict[str, Call] = {}
    missing: dict[str, str] = {}
    with contextlib.ExitStack() as stack:
        client = _ours(url)
        stack.callback(client.close)

        def ours() -> object:
            return client.flags({"userId": f"user-{next(numbers)}"}).get("some-feature-001")

        assert str(ours()).startswith("variant-")
        found["shipsilently"] = ours

        def raw_socket() -> Call:
            import socket

            parts = urlsplit(url)
            sock = socket.create_connection((parts.hostname, parts.port))
            stack.callback(sock.close)
            return lambda: _raw(sock, next(numbers))

        def urllib3() -> Call:
            pool = import_module("urllib3").PoolManager(maxsize=20)
            stack.callback(pool.clear)

            def call() -> object:
                body = request_body(next(numbers))
                return pool.request("POST", url + PATH, body=body, headers=HEADERS).data

            return call

        def httpx() -> Call:
            pool = stack.enter_context(import_module("httpx").Client(trust_env=False))

            def call() -> object:
                body = request_body(next(numbers))
                return pool.post(url + PATH, content=body, headers=HEADERS).content

            return call

        def httpx2() -> Call:
            pool = stack.enter_context(import_module("httpx2").Client(trust_env=False))

            def call() -> object:
                body = request_body(next(numbers))
                return pool.post(url + PATH, content=body, headers=HEADERS).content

            return call

        chosen = [raw_socket, httpx] if own else [raw_socket, urllib3, httpx, httpx2]
        for make in chosen:
            name = make.__name__.replace("_", " ")
            try:
                found[name] = make()
            except ImportError:
                missing[name] = "is not installed"
        yield found, missing


def _raw(sock: Any, number: int) -> bytes:
    body = request_body(number)
    head = f"POST {PATH} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
    sock.sendall(head.encode() + body)
    received = sock.recv(65_536)
    end = received.index(b"\r\n\r\n") + 4
    length = int(received[received.index(b"Content-Length:") + 15 : end].split(b"\r\n")[0])
    parts = [received]
    left = end + length - len(received)
    while left > 0:
        part = sock.recv(65_536)
        parts.append(part)
        left -= len(part)
    return b"".join(parts)


@contextlib.asynccontextmanager
async def acallers(
    url: str, *, own: bool
) -> AsyncIterator[tuple[dict[str, AsyncCall], dict[str, str]]]:
    """Awaitable calls, each for a new user, and what is missing."""
    import asyncio

    numbers = itertools.count()
    found: dict[str, AsyncCall] = {}
    missing: dict[str, str] = {}
    async with contextlib.AsyncExitStack() as stack:
        client = _ours(url)
        stack.push_async_callback(client.aclose)

        async def ours() -> object:
            return await client.flags({"userId": f"user-{next(numbers)}"}).aget("some-feature-001")

        assert str(await ours()).startswith("variant-")
        found["shipsilently"] = ours

        async def streams() -> AsyncCall:
            parts = urlsplit(url)
            idle: list[Any] = []

            async def call() -> object:
                pair = (
                    idle.pop()
                    if idle
                    else await asyncio.open_connection(parts.hostname, parts.port, limit=1 << 20)
                )
                reader, writer = pair
                body = request_body(next(numbers))
                head = f"POST {PATH} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
                writer.write(head.encode() + body)
                headers = await reader.readuntil(b"\r\n\r\n")
                length = int(headers[headers.index(b"Content-Length:") + 15 :].split(b"\r\n")[0])
                answer = await reader.readexactly(length)
                idle.append(pair)
                return answer

            async def close() -> None:
                for _, writer in idle:
                    writer.close()

            stack.push_async_callback(close)
            return call

        async def aiohttp() -> AsyncCall:
            session = await stack.enter_async_context(import_module("aiohttp").ClientSession())

            async def call() -> object:
                body = request_body(next(numbers))
                async with session.post(url + PATH, data=body, headers=HEADERS) as answer:
                    return await answer.read()

            return call

        def by_httpx(name: str) -> Any:
            async def make() -> AsyncCall:
                pool = await stack.enter_async_context(
                    import_module(name).AsyncClient(trust_env=False)
                )

                async def call() -> object:
                    body = request_body(next(numbers))
                    return (await pool.post(url + PATH, content=body, headers=HEADERS)).content

                return call

            return make

        others: dict[str, Any] = {"asyncio streams": streams, "httpx": by_httpx("httpx")}
        if not own:
            others |= {"aiohttp": aiohttp, "httpx2": by_httpx("httpx2")}
        for name, make in others.items():
            try:
                found[name] = await make()
            except ImportError:
                missing[name] = "is not installed"
        yield found, missing


def _ours(url: str) -> Any:
    from shipsilently_core import AnalyticsConfig, ShipSilentlyClient

    return ShipSilentlyClient(
        api_key="bench",
        api_url=url,
        background=False,
        max_age=1e9,
        max_contexts=1_000,
        timeout=10.0,
        analytics=AnalyticsConfig(enabled=False),
    )
