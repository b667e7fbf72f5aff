"""TLS in front of a service that has none."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path

__all__ = ["tls_front"]


@contextlib.contextmanager
def tls_front(port: int, certificate: Path) -> Iterator[str]:
    """Speak TLS with the certificate and pass everything on to `port`; gives the address."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    ready: Future[tuple[asyncio.AbstractEventLoop, asyncio.Event, int]] = Future()

    async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
        writer.close()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers = [writer]
        open_writers.append(writer)
        with contextlib.suppress(OSError):
            inner_reader, inner_writer = await asyncio.open_connection("127.0.0.1", port)
            writers.append(inner_writer)
            open_writers.append(inner_writer)
            await asyncio.gather(pass_on(reader, inner_writer), pass_on(inner_reader, writer))
        for each in writers:
            each.transport.abort()
            open_writers.remove(each)

    async def serve() -> None:
        stop = asyncio.Event()
        server = await asyncio.start_server(connected, "127.0.0.1", 0, ssl=context)
        ready.set_result((asyncio.get_running_loop(), stop, server.sockets[0].getsockname()[1]))
        await stop.wait()
        server.close()
        for writer in list(open_writers):
            writer.transport.abort()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        if tasks:
            await asyncio.wait(tasks, timeout=5)

    open_writers: list[asyncio.StreamWriter] = []
    thread = threading.Thread(target=lambda: asyncio.run(serve()), daemon=True)
    thread.start()
    loop, stop, front = ready.result(5)
    try:
        yield f"https://127.0.0.1:{front}"
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(5)
