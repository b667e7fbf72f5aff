"""What the doctor's tests share: a scripted service that is well, and a proxy that is not."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from email.utils import formatdate
from typing import Any

from shipsilently_cli.checkup import Finding, Level, Subject, examine
from shipsilently_core import Config
from tests.core.wire_server import Answer, WireServer, batch_of

__all__ = [
    "FLAGS",
    "KEY",
    "TICKET",
    "WHO",
    "Relay",
    "buffering",
    "findings",
    "first_bad",
    "levels",
    "scripted",
]

FLAGS: dict[str, Any] = {"checkout-v2": True, "banner": "Good morning"}
#: Each can be recognised anywhere.
KEY = "sk_live_0123456789recognisable"
TICKET = "recognisable-ticket"
WHO = "recognisable-user"

HTML = (("Content-Type", "text/html"),)
NOT_FOUND = Answer(404, b'{"error":"flag_not_found"}')


def findings(url: str, *, key: str = KEY, patience: float = 5.0, **settings: Any) -> list[Finding]:
    """Everything that the doctor finds for these settings."""
    config = Config(
        api_key=key, api_url=url, **{"baseline_context": {"userId": WHO}, "timeout": 5, **settings}
    )
    return list(examine(Subject(config=config), patience=patience))


def first_bad(found: list[Finding]) -> Finding:
    """The first failure, else the first warning."""
    for level in (Level.FAILURE, Level.WARNING):
        for finding in found:
            if finding.level is level:
                return finding
    raise AssertionError("all is well")


def levels(found: list[Finding]) -> dict[str, Level]:
    """The level of each check."""
    return {finding.check: finding.level for finding in found}


def scripted(server: WireServer, *, skew: float = 0.0, **paths: Answer) -> None:
    """Let a scripted server be a service that is well, but without streaming."""
    headers = (
        ("Content-Type", "application/json"),
        ("Date", formatdate(time.time() + skew, usegmt=True)),
    )
    endpoints = {
        "evaluate": ("/v1/evaluate", Answer(404, NOT_FOUND.body, headers)),
        "batch": ("/v1/evaluate/batch", batch_of(FLAGS, headers=headers)),
        "ticket": ("/v1/stream/ticket", Answer(402, b'{"error":"plan"}', headers)),
        "stream": ("/v1/stream", Answer(404, b"{}", headers)),
        "analytics": ("/v1/analytics/events", Answer(200, b'{"accepted":0}', headers)),
    }
    for name, (path, answer) in endpoints.items():
        server.on(path, paths.get(name, answer))


#: What a relay lets through of an answer, given the request's first line.
Passage = Callable[[bytes, Iterator[bytes]], Iterator[bytes]]


def buffering(part: str) -> Passage:
    """Hold back what follows the head of a stream's answer, or all of it.

    Args:
        part: ``"head"`` to hold back the head as well, ``"connected"`` all but the head,
            ``"heartbeat"`` all but the head and the first event.
    """

    def passage(request: bytes, chunks: Iterator[bytes]) -> Iterator[bytes]:
        if not request.startswith(b"GET /v1/stream"):
            yield from chunks
            return
        if part == "head":
            for _ in chunks:
                continue
            return
        seen = b""
        passed = False
        for chunk in chunks:
            seen += chunk
            head, end, body = seen.partition(b"\r\n\r\n")
            if passed or not end:
                continue
            if part == "connected":
                passed = True
                yield head + end
            elif b"\n\n" in body:
                passed = True
                yield seen

    return passage


class Relay:
    """A proxy in front of a server on this machine, which lets answers through as it likes.

    Args:
        port: The server's.
        passage: Says what comes through.
    """

    def __init__(self, port: int, passage: Passage) -> None:
        self._to = port
        self._passage = passage
        self._open: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Relay:
        return self

    def __exit__(self, *error: object) -> None:
        for sock in (self._listener, *self._open):
            with suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
            sock.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                here, _ = self._listener.accept()
                there = socket.create_connection(("127.0.0.1", self._to))
                self._open += [here, there]
                threading.Thread(target=self._serve, args=(here, there), daemon=True).start()

    def _serve(self, here: socket.socket, there: socket.socket) -> None:
        with suppress(OSError):
            request = here.recv(65536)
            there.sendall(request)
            onward = threading.Thread(target=self._pump, args=(here, there), daemon=True)
            onward.start()
            for chunk in self._passage(request, iter(lambda: there.recv(65536), b"")):
                here.sendall(chunk)
            here.shutdown(socket.SHUT_RDWR)

    def _pump(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            for chunk in iter(lambda: source.recv(65536), b""):
                target.sendall(chunk)
            target.shutdown(socket.SHUT_WR)


def page(status: int = 200) -> Answer:
    """A page for people."""
    return Answer(status, b"<!doctype html><title>Sign in</title>", HTML)


def as_json(value: object) -> bytes:
    """A body."""
    return json.dumps(value).encode()
