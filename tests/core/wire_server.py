"""A service on a loopback socket that answers exactly as scripted, byte by byte if need be."""

from __future__ import annotations

import json
import socket
import ssl
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Answer", "Received", "WireServer", "batch_of", "row_of"]

EVALUATE = "/v1/evaluate"
BATCH = "/v1/evaluate/batch"


@dataclass(frozen=True)
class Answer:
    """How one request is answered.

    ``delay`` comes before the first byte. ``step`` bytes are written at once with
    ``pause`` seconds between them: of the body, and with ``drip_head`` of the head
    too. ``silent`` never answers; ``drop`` closes the connection without a word;
    ``close`` closes it after the answer; ``length`` says another length than the
    body has; ``raw`` is sent as it is instead of everything else.
    """

    status: int = 200
    body: bytes = b""
    headers: Sequence[tuple[str, str]] = (("Content-Type", "application/json"),)
    delay: float = 0.0
    step: int = 0
    pause: float = 0.0
    drip_head: bool = False
    silent: bool = False
    drop: bool = False
    close: bool = False
    length: int | None = None
    raw: bytes | None = None


@dataclass(frozen=True)
class Received:
    """One request as it came."""

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes
    client_port: int
    at: float = field(default_factory=time.monotonic)

    @property
    def path(self) -> str:
        """The target without the scheme and host that a request to a proxy has."""
        _, _, rest = self.target.rpartition("://")
        return "/" + rest.partition("/")[2]

    @property
    def context(self) -> dict[str, Any]:
        """The context asked for."""
        context: dict[str, Any] = json.loads(self.body)["context"]
        return context


Script = Answer | Callable[[Received], Answer]


def row_of(key: str, value: Any, reason: str = "default") -> dict[str, Any]:
    """One evaluation result."""
    return {"flagKey": key, "value": value, "reason": reason}


def batch_of(flags: Mapping[str, Any], reason: str = "default", **how: Any) -> Answer:
    """A batch's answer with these values."""
    rows = {key: row_of(key, value, reason) for key, value in flags.items()}
    return Answer(body=json.dumps({"flags": rows}).encode(), **how)


class WireServer:
    """A threaded HTTP/1.1 server on a free port of the loopback interface.

    Attributes:
        received: Every request, oldest first.
        connections: How many connections were accepted.
    """

    def __init__(
        self,
        *scripts: Script,
        host: str = "127.0.0.1",
        port: int = 0,
        context: ssl.SSLContext | None = None,
    ) -> None:
        self._any: list[Script] = list(scripts)
        self._by_path: dict[str, list[Script]] = {}
        self._context = context
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []
        self.received: list[Received] = []
        self.connections = 0
        self.closed_by_client = threading.Event()
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._listener = socket.create_server((host, port), family=family, backlog=256)
        self.port: int = self._listener.getsockname()[1]
        self._start(self._accept)

    @property
    def url(self) -> str:
        """The address for a client."""
        return f"{'http' if self._context is None else 'https'}://127.0.0.1:{self.port}"

    def on(self, path: str, *scripts: Script) -> None:
        """Answer requests for `path` like this, one after the other; the last one stays."""
        with self._lock:
            self._by_path[path] = list(scripts)

    def always(self, *scripts: Script) -> None:
        """Answer every request like this from now on; the last one stays."""
        with self._lock:
            self._by_path.clear()
            self._any = list(scripts)

    def paths(self) -> list[str]:
        """The path of each request, oldest first."""
        return [received.path for received in self.received]

    def __enter__(self) -> WireServer:
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Close the port and every connection at once, as a killed process does."""
        self._stopping.set()
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        with self._lock:
            connections = list(self._open)
        for connection in connections:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(5)

    def _start(self, work: Callable[..., None], *args: Any) -> None:
        thread = threading.Thread(target=work, args=args, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while not self._stopping.is_set():
            try:
                connection, address = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self._lock:
                self._open.add(connection)
            self._start(self._serve, connection, address[1])

    def _serve(self, connection: socket.socket, client_port: int) -> None:
        plain = connection
        try:
            if self._context is not None:
                connection.settimeout(5)
                connection = self._context.wrap_socket(connection, server_side=True)
                connection.settimeout(None)
                with self._lock:
                    self._open.discard(plain)
                    self._open.add(connection)
            with connection, connection.makefile("rb") as stream:
                while self._answer_one(connection, stream, client_port):
                    pass
        except (OSError, ValueError):
            pass
        finally:
            with self._lock:
                self._open.discard(plain)
                self._open.discard(connection)
            plain.close()
            self.closed_by_client.set()

    def _answer_one(self, connection: socket.socket, stream: Any, client_port: int) -> bool:
        first = stream.readline().split()
        if len(first) != 3:
            return False
        headers = {}
        while line := stream.readline().strip():
            name, _, value = line.decode("latin-1").partition(":")
            headers[name.lower()] = value.strip()
        body = stream.read(int(headers.get("content-length", 0)))
        received = Received(first[0].decode(), first[1].decode(), headers, body, client_port)
        with self._lock:
            self.received.append(received)
            scripts = self._by_path.get(received.path, self._any)
            script = scripts.pop(0) if len(scripts) > 1 else scripts[0]
        answer = script(received) if callable(script) else script
        return self._send(connection, answer)

    def _send(self, connection: socket.socket, answer: Answer) -> bool:
        if answer.silent:
            self._stopping.wait()
            return False
        if answer.drop or self._stopping.wait(answer.delay):
            return False
        if answer.raw is not None:
            connection.sendall(answer.raw)
            return not answer.close
        length = len(answer.body) if answer.length is None else answer.length
        lines = [f"HTTP/1.1 {answer.status} Scripted"]
        lines += [f"{name}: {value}" for name, value in answer.headers]
        if answer.status != 204:
            lines.append(f"Content-Length: {length}")
        head = "\r\n".join([*lines, "", ""]).encode("latin-1")
        self._write(connection, head, answer if answer.drip_head else None)
        self._write(connection, answer.body, answer if answer.step else None)
        return not answer.close

    def _write(self, connection: socket.socket, data: bytes, drip: Answer | None) -> None:
        if drip is None:
            connection.sendall(data)
            return
        step = drip.step or 1
        for start in range(0, len(data), step):
            connection.sendall(data[start : start + step])
            if self._stopping.wait(drip.pause):
                return
