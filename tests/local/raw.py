"""A bare connection, for what an HTTP client would hide: bytes, their times and the end."""

import json
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from shipsilently_local import LocalService


def request(service: LocalService, path: str, body: Any, **headers: str) -> bytes:
    """The bytes of one POST with JSON."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    fields = {
        "Host": f"127.0.0.1:{service.port}",
        "X-API-Key": service.key,
        "Content-Type": "application/json",
        "Content-Length": str(len(content)),
        **{name.replace("_", "-"): value for name, value in headers.items()},
    }
    head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    return f"POST {path} HTTP/1.1\r\n{head}\r\n".encode() + content


@contextmanager
def connection(service: LocalService, timeout: float = 10.0) -> Iterator[socket.socket]:
    """A connection to the service."""
    with socket.create_connection(("127.0.0.1", service.port), timeout) as sock:
        yield sock


def pieces(sock: socket.socket) -> Iterator[tuple[float, bytes]]:
    """What arrives, piece by piece with its time, until the other side closes."""
    while True:
        try:
            data = sock.recv(65536)
        except ConnectionResetError:
            return
        if not data:
            return
        yield time.monotonic(), data
