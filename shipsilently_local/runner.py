"""uvicorn in a thread of its own, with an end that does not wait for anybody."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import socket
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from .app import create_app
from .errors import LocalServiceError, PortInUseError
from .state import ServiceState

__all__ = ["HOST", "Runner", "listen"]

#: The only address the service ever listens on.
HOST = "127.0.0.1"

#: Seconds between two looks at the time.
_TICK = 0.5

_START_LIMIT = 10.0
#: Turns of the event loop between accepting a connection and making it known, and some more.
_TURNS_TO_ACCEPT = 5
_STOP_LIMIT = 5.0
_T = TypeVar("_T")


def listen(port: int) -> socket.socket:
    """A socket bound to ``port`` of 127.0.0.1; 0 picks a free one.

    Raises `PortInUseError`, and `LocalServiceError` where the system refuses otherwise.
    """
    # Named as TCP, for only then does asyncio switch Nagle's algorithm off: with it,
    # the body of each answer would come 40 ms after its head.
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        # Elsewhere it would let two programs share the port.
        if os.name == "posix":  # pragma: no branch
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((HOST, port))
        # SO_REUSEADDR lets two sockets be bound, but only one listen.
        sock.listen(128)
    except (OSError, OverflowError) as error:
        sock.close()
        if getattr(error, "errno", None) == errno.EADDRINUSE:
            raise PortInUseError(port) from None
        reason = getattr(error, "strerror", None) or str(error)
        raise LocalServiceError(f"cannot listen on port {port} of {HOST}: {reason}") from None
    return sock


class _Protocol(H11Protocol):
    """Puts the connection's transport where the application finds it."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.app_state = {**self.app_state, "transport": transport}


class _Server(uvicorn.Server):
    """Starts and stops at once instead of looking every 100 ms."""

    def __init__(self, state: ServiceState, ready: Callable[[], None]) -> None:
        super().__init__(
            uvicorn.Config(
                create_app(state),
                http=_Protocol,
                ws="none",
                lifespan="off",
                loop="asyncio",
                log_config=None,
                access_log=False,
                proxy_headers=False,
                server_header=False,
            )
        )
        self._state = state
        self._ready = ready

    async def main_loop(self) -> None:
        await self.on_tick(0)
        self._ready()
        while not self._state.stopping.is_set():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_TICK):
                    await self._state.stopping.wait()
            # Every answer's `Date` is the one of the last tick.
            await self.on_tick(0)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        loop = asyncio.get_running_loop()
        for server in self.servers:
            for listening in server.sockets:
                # No more are accepted; a server that is closed loses those on their way to it.
                loop.remove_reader(listening.fileno())
        # What was just told to end gets a moment to say so to its client.
        await self._wait_for_tasks(0.02)
        await self._abort_connections()
        await self._wait_for_tasks(1.0)
        for server in self.servers:
            server.close()
            await server.wait_closed()

    async def _abort_connections(self) -> None:
        """Abort all of them, those included that were accepted but not made known yet."""
        connections = self.server_state.connections
        quiet_turns = 0
        while quiet_turns < _TURNS_TO_ACCEPT:
            quiet_turns = 0 if connections else quiet_turns + 1
            for connection in list(connections):
                connection.transport.abort()
            await asyncio.sleep(0)

    async def _wait_for_tasks(self, seconds: float) -> None:
        if self.server_state.tasks:
            await asyncio.wait(list(self.server_state.tasks), timeout=seconds)


class Runner:
    """One run of the service: a daemon thread with an event loop of its own."""

    def __init__(self, state: ServiceState, sock: socket.socket) -> None:
        self._state = state
        self._sock = sock
        self._loop: asyncio.AbstractEventLoop
        self._ready: Future[None] = Future()
        self._thread = threading.Thread(target=self._run, name="shipsilently-local", daemon=True)

    def start(self) -> None:
        """Return when requests are answered; raises what kept it from that."""
        self._thread.start()
        self._ready.result(_START_LIMIT)

    def stop(self) -> None:
        """End every connection and the thread."""
        self.call(self._state.end)
        self._thread.join(_STOP_LIMIT)

    def call(self, function: Callable[[], _T]) -> _T:
        """Run ``function`` on the service's loop; its result."""
        future: Future[_T] = Future()

        def run() -> None:
            try:
                future.set_result(function())
            except Exception as error:
                future.set_exception(error)

        self._loop.call_soon_threadsafe(run)
        return future.result(_STOP_LIMIT)

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as error:
            if self._ready.done():
                raise
            self._ready.set_exception(error)

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._state.begin()
        await _Server(self._state, lambda: self._ready.set_result(None)).serve(sockets=[self._sock])
