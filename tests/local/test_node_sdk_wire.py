"""What the official Node SDK says on the wire, byte for byte, and what it reads from the answers.

The SDK speaks through Node's ``fetch`` and an ``EventSource``; the requests here were written
down from a run of it. It is not in the npm registry, so it cannot be run from here.
"""

import json
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from shipsilently_local import LocalService

from .conftest import FLAGS
from .raw import connection


@pytest.fixture
def node(service: LocalService) -> Iterator[socket.socket]:
    """A kept-alive connection, as Node's fetch uses one."""
    with connection(service) as sock:
        yield sock


def fetch(service: LocalService, sock: socket.socket, path: str, body: str | None) -> None:
    """Send a POST as the SDK has fetch send it; the ticket request has no body."""
    content = (body or "").encode()
    head = (
        f"POST {path} HTTP/1.1\r\n"
        f"host: 127.0.0.1:{service.port}\r\n"
        "connection: keep-alive\r\n"
        "Content-Type: application/json\r\n"
        f"X-API-Key: {service.key}\r\n"
        "accept: */*\r\n"
        "accept-language: *\r\n"
        "sec-fetch-mode: cors\r\n"
        "user-agent: node\r\n"
        "accept-encoding: gzip, deflate\r\n"
        f"content-length: {len(content)}\r\n\r\n"
    )
    sock.sendall(head.encode() + content)


def answer(sock: socket.socket) -> tuple[int, dict[str, Any]]:
    """The status and JSON of the next answer on the connection."""
    with sock.makefile("rb", buffering=0) as file:
        status = int(file.readline().split()[1])
        length = 0
        while (line := file.readline()) != b"\r\n":
            name, _, text = line.decode().partition(":")
            if name.lower() == "content-length":
                length = int(text)
        content = b""
        while len(content) < length:
            content += file.read(length - len(content)) or b""
    data: dict[str, Any] = json.loads(content)
    return status, data


def test_evaluate(service: LocalService, node: socket.socket) -> None:
    """``evaluate`` reads ``value`` from a 200, and takes a 404 for an unknown flag."""
    fetch(
        service,
        node,
        "/v1/evaluate",
        '{"flagKey":"checkout-v2","context":{"userId":"u1","plan":"pro"}}',
    )
    status, data = answer(node)
    assert status == 200
    assert data["value"] is True
    assert {"flagKey", "value", "reason"} <= set(data)
    fetch(service, node, "/v1/evaluate", '{"flagKey":"nope","context":{"userId":"u1"}}')
    assert answer(node)[0] == 404


def test_evaluate_all(service: LocalService, node: socket.socket) -> None:
    """``evaluateAll`` keeps ``flags`` as its cache: each entry needs flagKey, value and reason."""
    fetch(
        service,
        node,
        "/v1/evaluate/batch",
        '{"context":{"userId":"u1","plan":"free","n":5,"ok":true}}',
    )
    status, data = answer(node)
    assert status == 200
    assert list(data["flags"]) == list(FLAGS)
    for key, entry in data["flags"].items():
        assert entry["flagKey"] == key
        assert entry["reason"] in ("default", "rule_match", "rollout", "flag_disabled")
        assert "value" in entry


def test_stream_with_ticket(service: LocalService, node: socket.socket) -> None:
    """The ticket goes on the EventSource's URL; ``connected`` and ``flags.updated`` are heard."""
    fetch(service, node, "/v1/stream/ticket", None)
    status, data = answer(node)
    assert status == 200
    assert isinstance(data["ticket"], str)
    with connection(service) as source:
        source.sendall(
            (
                f"GET /v1/stream?ticket={data['ticket']} HTTP/1.1\r\n"
                f"host: 127.0.0.1:{service.port}\r\n"
                "connection: keep-alive\r\n"
                "accept: text/event-stream\r\n"
                "accept-language: *\r\n"
                "sec-fetch-mode: cors\r\n"
                "user-agent: node\r\n"
                "pragma: no-cache\r\n"
                "cache-control: no-cache\r\n"
                "accept-encoding: gzip, deflate\r\n\r\n"
            ).encode()
        )
        heard = b""
        while b"event: connected\ndata: " not in heard:
            heard += source.recv(4096)
        assert heard.startswith(b"HTTP/1.1 200")
        assert b"\r\ncontent-type: text/event-stream" in heard
        service.set_flag("banner", default="Hello")
        while b"event: flags.updated\ndata: " not in heard:
            heard += source.recv(4096)


def test_a_plan_without_streaming(service: LocalService, node: socket.socket) -> None:
    """A refused ticket sends the SDK to polling: any answer that is not a success does."""
    service.fault("ticket", status=402)
    fetch(service, node, "/v1/stream/ticket", None)
    assert answer(node)[0] == 402


def test_flush_analytics(service: LocalService, node: socket.socket) -> None:
    """A flush sends whole events, up to 1,000 a request, and wants a success only."""
    event = (
        '{"flagKey":"checkout-v2","variationKey":"false","reason":"default",'
        '"latencyMs":0.0029170000034355326,"timestamp":1764465600}'
    )
    missing = (
        '{"flagKey":"nope","variationKey":"\\"dflt\\"","reason":"flag_not_found",'
        '"latencyMs":3.4402499999996508,"timestamp":1764465600}'
    )
    events = ",".join([missing] + [event] * 999)
    fetch(service, node, "/v1/analytics/events", f'{{"events":[{events}]}}')
    assert answer(node) == (200, {"accepted": 1_000})
    assert service.state()["events"]["byFlag"]["nope"] == {'"dflt"': {"flag_not_found": 1}}
