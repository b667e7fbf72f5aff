"""A service in a process of its own, on the loopback address, that costs as little as it can.

It answers every POST with a batch of 200 flags, each time with a body that was not seen
before; ``GET /v1/stream`` gives events as fast as they are taken. What it costs is not in the
figures: those are of the client's process.
"""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from .decode import body_for

__all__ = ["EVENT", "service"]

ROOT = Path(__file__).resolve().parents[2]

#: 110 bytes, as the service sends them.
EVENT = (
    b"event: flags.updated\nid: 1700000000000-0\n"
    b'data: {"environmentId":"0123456789abcdef","version":1234567890}\n\n'
)
#: Events that are sent at once.
_BLOCK = 100


class _Service(asyncio.Protocol):
    count = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._received = b""
        self._streaming: asyncio.Task[None] | None = None
        self._flowing = asyncio.Event()
        self._flowing.set()

    def data_received(self, data: bytes) -> None:
        self._received += data
        while (end := self._received.find(b"\r\n\r\n")) >= 0:
            head = self._received[:end]
            length = 0
            position = head.lower().find(b"content-length:")
            if position >= 0:
                length = int(head[position + 15 :].split(b"\r\n", 1)[0])
            if len(self._received) < end + 4 + length:
                return
            self._received = self._received[end + 4 + length :]
            if head.startswith(b"GET /v1/stream"):
                self._streaming = asyncio.ensure_future(self._stream())
            else:
                self._answer()

    def _answer(self) -> None:
        _Service.count += 1
        # Of the same length each time, so nothing else has to be made anew.
        self._transport.write(
            _HEAD + _BODY.replace(b"variant-10000000", b"variant-%08d" % _Service.count)
        )

    async def _stream(self) -> None:
        self._transport.write(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
            b"Transfer-Encoding: chunked\r\n\r\n"
        )
        block = EVENT * _BLOCK
        chunk = b"%x\r\n%b\r\n" % (len(block), block)
        while not self._transport.is_closing():
            await self._flowing.wait()
            self._transport.write(chunk)
            await asyncio.sleep(0)

    def pause_writing(self) -> None:
        self._flowing.clear()

    def resume_writing(self) -> None:
        self._flowing.set()

    def connection_lost(self, error: Exception | None) -> None:
        if self._streaming is not None:
            self._streaming.cancel()


_BODY = body_for(10_000_000)
_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(
    _BODY
)


async def _serve() -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(_Service, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    # It ends when nobody holds its standard input any more.
    await loop.run_in_executor(None, sys.stdin.read)
    server.close()


@contextlib.contextmanager
def service() -> Iterator[str]:
    """The address of a service in a process of its own."""
    command = [sys.executable, "-m", __name__]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield f"http://127.0.0.1:{int(process.stdout.readline())}"
    finally:
        process.stdin.close()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()


if __name__ == "__main__":
    asyncio.run(_serve())
