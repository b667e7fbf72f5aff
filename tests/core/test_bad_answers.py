"""Answers that are not the promised JSON, as proxies and login pages give them, on a real wire."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Any

import httpx
import pytest

from shipsilently_core import (
    Config,
    ConnectionState,
    Failure,
    Reason,
    ShipSilentlyClient,
    Source,
)
from shipsilently_core._http import HttpTransport
from shipsilently_core._wire import EVENTS, TICKET, Reply, Request, failure_of, ticket_request
from tests.core.running import eventually
from tests.core.support import DOORS, KEY, Door, Heard, listening
from tests.core.wire_server import Answer, WireServer

WHO = {"userId": "u1"}
HTML = (("Content-Type", "text/html; charset=utf-8"),)
PAGE = b"<!doctype html><title>Sign in</title> secret-body"
ROW = {"flagKey": "a", "value": "new", "reason": "default"}


def client_of(server: WireServer, **settings: Any) -> ShipSilentlyClient:
    return ShipSilentlyClient(
        **{
            "api_key": KEY,
            "api_url": server.url,
            "timeout": 10,
            "max_age": 0,
            "background": False,
            "analytics": {"enabled": False},
            **settings,
        }
    )


def right(door: Door) -> bytes:
    return json.dumps({"flags": {"a": ROW}} if door.batch else ROW).encode()


def nested(door: Door, depth: int) -> bytes:
    row = b'{"flagKey":"a","reason":"default","value":' + b"[" * depth + b"]" * depth + b"}"
    return b'{"flags":{"a":' + row + b"}}" if door.batch else row


WRONG = {
    "login page": Answer(body=PAGE, headers=HTML),
    "empty": Answer(),
    "no content": Answer(204),
    "bad gateway page": Answer(502, PAGE, HTML),
    "array": Answer(body=b"[]"),
    "string": Answer(body=b'"x"'),
    "null": Answer(body=b"null"),
    "empty object": Answer(body=b"{}"),
    "other object": Answer(body=b'{"error":"secret-body"}'),
    "binary": Answer(body=bytes(range(256)) * 10),
    "no content type": Answer(body=b"secret-body", headers=()),
}


@pytest.fixture(params=[True, False], ids=["known", "unknown"])
def known(request: pytest.FixtureRequest) -> bool:
    """Whether the context's values are known before."""
    return bool(request.param)


def read(
    server: WireServer, door: Door, answer: Answer, known: bool
) -> tuple[Any, list[Heard], ShipSilentlyClient]:
    client = client_of(server)
    if known:
        old = {"flagKey": "a", "value": "old", "reason": "default"}
        server.always(Answer(body=json.dumps({"flags": {"a": old}}).encode()))
        client.evaluate_all(WHO)
    server.always(answer)
    with listening(client) as heard:
        result = door.read(client, WHO, "a", "default")
    return result, heard, client


@pytest.mark.parametrize("door", DOORS, ids=str)
@pytest.mark.parametrize("kind", [*WRONG, "cut off", "too deep for any reader"])
def test_a_page_instead_of_json_is_a_failure_like_any_other(
    kind: str, door: Door, known: bool, server: WireServer, lines: list[logging.LogRecord]
) -> None:
    """What is known is served, the cache stays, one line gives status and type, never the body."""
    if kind == "cut off":
        answer = Answer(body=right(door)[:-5])
    elif kind == "too deep for any reader":
        answer = Answer(body=nested(door, 200_000))
    else:
        answer = WRONG[kind]
    result, heard, client = read(server, door, answer, known)
    failure = Failure.SERVER if answer.status == 502 else Failure.PROTOCOL
    if known:
        assert (result.value, result.reason) == ("old", Reason.ERROR_FALLBACK)
        assert result.source is Source.CACHE
        assert client.get("a", "", WHO) == "old"
    elif result is not None:
        assert (result.value, result.error) == ("default", failure)
    assert heard == [Heard(failure, answer.status, None if door.batch else "a")]
    (line,) = lines
    message = line.getMessage()
    assert f"HTTP {answer.status}" in message
    assert "secret-body" not in message
    if kind == "login page":
        assert "text/html" in message
    client.close()


@pytest.mark.parametrize("door", DOORS, ids=str)
@pytest.mark.parametrize("kind", ["plain text", "BOM", "spaces", "no length", "new fields"])
def test_right_json_in_an_odd_wrapping_is_right(kind: str, door: Door, server: WireServer) -> None:
    """Under another content type, after a BOM or with fields of tomorrow, values are values."""
    body = right(door)
    answer = {
        "plain text": Answer(body=body, headers=(("Content-Type", "text/plain"),)),
        "BOM": Answer(body=b"\xef\xbb\xbf" + body),
        "spaces": Answer(body=b"\r\n " + body + b"\n"),
        "no length": Answer(raw=b"HTTP/1.1 200 OK\r\n\r\n" + body, close=True),
        "new fields": Answer(body=body.replace(b'"reason"', b'"next":[{}],"reason"')),
    }[kind]
    result, heard, client = read(server, door, answer, known=True)
    assert (result.value, result.source) == ("new", Source.SERVER)
    assert heard == []
    client.close()


@pytest.mark.parametrize("door", DOORS, ids=str)
def test_fifty_levels_are_a_value(door: Door, server: WireServer) -> None:
    """Depth that a configuration might have is served."""
    result, _, client = read(server, door, Answer(body=nested(door, 50)), known=False)
    if door.typed:
        # A text is expected here, so the value arrived and is of another type.
        assert result.error is Failure.TYPE_MISMATCH
    else:
        assert json.dumps(result.value) == "[" * 50 + "]" * 50
    client.close()


@pytest.mark.parametrize("door", DOORS, ids=str)
@pytest.mark.parametrize("code", [301, 302, 303, 307, 308])
def test_the_key_does_not_follow_a_redirect(door: Door, code: int, server: WireServer) -> None:
    """A redirect to another host is a failure, and that host hears nothing."""
    with WireServer(Answer(body=right(door))) as elsewhere:
        answer = Answer(code, headers=(("Location", elsewhere.url + "/v1/evaluate"),))
        result, heard, client = read(server, door, answer, known=True)
        assert elsewhere.received == []
    assert result.value == "old"
    assert heard == [Heard(Failure.PROTOCOL, code, None if door.batch else "a")]
    client.close()


@pytest.mark.parametrize("code", [301, 302, 303, 307, 308])
@pytest.mark.parametrize(
    "request_", [ticket_request(), Request(EVENTS, b'{"events":[]}')], ids=["ticket", "events"]
)
def test_no_other_call_follows_a_redirect_either(
    request_: Request, code: int, server: WireServer
) -> None:
    """Neither ticket nor events are taken from another host, and the key stays at home."""
    promised = Answer(body=b'{"ticket":"theirs","accepted":1}')
    with WireServer(promised) as elsewhere:
        server.always(Answer(code, headers=(("Location", elsewhere.url + request_.path),)))
        transport = HttpTransport(Config(api_key=KEY, api_url=server.url))
        reply = transport.send(request_)
        opened = transport.open_stream("t")
        assert elsewhere.received == []
    assert (failure_of(reply), reply.status) == (Failure.PROTOCOL, code)
    assert isinstance(opened, Reply)
    assert (failure_of(opened), opened.status) == (Failure.PROTOCOL, code)
    transport.close()


#: Bodies that cannot be had.
UNREADABLE: dict[str, dict[str, Any]] = {
    "unknown encoding": {"headers": (*HTML, ("Content-Encoding", "br")), "body": PAGE},
    "broken encoding": {"headers": (*HTML, ("Content-Encoding", "gzip")), "body": PAGE},
    "cut off": {"headers": HTML, "body": PAGE, "length": 1_000, "close": True},
    "too large": {"headers": HTML, "body": b"x" * 5_000},
    "dripping": {"headers": HTML, "body": b" " * 1_000, "step": 1, "pause": 0.02},
}


@pytest.mark.parametrize(
    ("door", "custom"),
    [*((door, False) for door in DOORS), (DOORS[0], True)],
    ids=lambda given: {False: "own", True: "httpx"}.get(given, str(given)),
)
@pytest.mark.parametrize("kind", UNREADABLE)
def test_a_pause_that_is_asked_for_is_kept_whatever_stands_below(
    kind: str, door: Door, custom: bool, server: WireServer
) -> None:
    """A 429 with `Retry-After` is told, and obeyed by all, although its page is unreadable."""
    answer = UNREADABLE[kind]
    headers = (("Retry-After", "30"), *answer["headers"])
    server.always(Answer(429, **{**answer, "headers": headers}))
    own = httpx.Client() if custom else None
    client = client_of(server, timeout=0.5, max_response_bytes=4_096, http_client=own)
    with listening(client) as heard:
        for user in ("u1", "u2", "u3"):
            door.read(client, {"userId": user}, "a", "default")
    assert heard[0] == Heard(Failure.THROTTLED, 429, None if door.batch else "a")
    assert len(server.received) == 1
    assert 20 < client.status().retry_after <= 30
    asyncio.run(client.aclose())
    if own is not None:
        own.close()


@pytest.mark.parametrize("door", DOORS, ids=str)
@pytest.mark.parametrize("kind", [kind for kind in UNREADABLE if kind != "dripping"])
@pytest.mark.parametrize(
    ("status", "failure"),
    [(401, Failure.AUTH), (503, Failure.SERVER), (400, Failure.PROTOCOL)],
    ids=["401", "503", "400"],
)
def test_a_refusal_is_told_by_its_status_whatever_stands_below(
    status: int,
    failure: Failure,
    kind: str,
    door: Door,
    server: WireServer,
    lines: list[logging.LogRecord],
) -> None:
    """A wrong key looks like one, although a proxy has put a page there that cannot be read."""
    server.always(Answer(status, **UNREADABLE[kind]))
    client = client_of(server, timeout=0.5, max_response_bytes=4_096)
    with listening(client) as heard:
        door.read(client, WHO, "a", "default")
    assert heard == [Heard(failure, status, None if door.batch else "a")]
    assert f"HTTP {status}" in lines[0].getMessage()
    client.close()


@pytest.mark.parametrize("kind", UNREADABLE)
def test_a_plan_without_streaming_is_told_by_its_status(
    kind: str, server: WireServer, lines: list[logging.LogRecord]
) -> None:
    """A 402 for the ticket means polling and no other ticket, although its page is unreadable."""
    server.always(Answer(body=b'{"flags":{}}'))
    server.on(TICKET, Answer(402, **UNREADABLE[kind]))
    client = client_of(server, background=True, timeout=0.5, max_response_bytes=4_096)
    assert client.wait_ready(10)
    eventually(lambda: client.connection_state is ConnectionState.POLLING)
    client.close()
    assert server.paths().count(TICKET) == 1
    assert "the plan has no streaming (HTTP 402): polling instead" in [
        record.getMessage() for record in lines
    ]


def test_one_line_a_minute_for_a_thousand_pages(
    server: WireServer, lines: list[logging.LogRecord]
) -> None:
    """A proxy that shows its login page to everybody does not fill the log."""
    server.always(WRONG["login page"])
    client = client_of(server)
    for number in range(200):
        client.evaluate("a", {"userId": f"u{number}"}, False)
    asyncio.run(client.aclose())
    assert len(lines) == 1
