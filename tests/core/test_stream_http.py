"""The stream over real sockets: what is sent for it, what is accepted, and how it ends."""

from __future__ import annotations

import gzip
import logging
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import httpx
import httpx2
import pytest

from shipsilently_core import Config, ConnectionState, Failure, ShipSilentlyClient
from shipsilently_core._http import HttpTransport
from shipsilently_core._stream import Silence, StreamBroken
from shipsilently_core._wire import Reply
from tests.core.running import QUICK, eventually
from tests.core.support import KEY
from tests.core.wire_server import Answer, WireServer, batch_of

TICKET = "tk-s3cr3t/+&=é"
QUOTED = "tk-s3cr3t%2F%2B%26%3D%C3%A9"
CONNECTED = b'event: connected\ndata: {"connectionId":"c1"}\n\n'
WAYS = {"own": None, "proxy": None, "httpx": httpx.Client, "httpx2": httpx2.Client}


def stream_of(*chunks: bytes, headers: str = "", close: bool = False) -> Answer:
    """A stream that stays open after these bytes, or is closed."""
    head = f"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n{headers}\r\n"
    return Answer(raw=head.encode() + b"".join(chunks), close=close)


@contextmanager
def transport(server: WireServer, way: str, **settings: Any) -> Iterator[HttpTransport]:
    """A transport to the server, on connections of its own or a client of the user's."""
    with ExitStack() as stack:
        make, url = WAYS[way], server.url
        client = None if make is None else stack.enter_context(make())
        if way == "proxy":
            url = "http://flags.invalid"
            stack.enter_context(pytest.MonkeyPatch.context()).setenv("HTTP_PROXY", server.url)
        made = HttpTransport(Config(api_key=KEY, api_url=url, http_client=client, **settings))
        stack.callback(made.close)
        yield made


@pytest.mark.parametrize("way", WAYS)
def test_the_stream_is_asked_for_with_the_ticket_alone(
    way: str, server: WireServer, caplog: pytest.LogCaptureFixture
) -> None:
    """The ticket stands in the address, the key nowhere; neither is in anybody's log."""
    server.on("/v1/stream?ticket=" + QUOTED, stream_of(CONNECTED))
    with caplog.at_level(logging.DEBUG), transport(server, way) as made:
        opened = made.open_stream(TICKET)
        assert not isinstance(opened, Reply)
        assert opened.read(5) == CONNECTED
        opened.close()
    (received,) = server.received
    assert received.method == "GET"
    assert received.path == f"/v1/stream?ticket={QUOTED}"
    assert received.headers["accept"] == "text/event-stream"
    assert received.headers["accept-encoding"] == "identity"
    assert received.headers["cache-control"] == "no-store"
    assert KEY not in str(received.headers) + received.target
    assert "x-api-key" not in received.headers
    assert received.body == b""
    for record in caplog.records:
        assert "s3cr3t" not in record.getMessage()
        assert KEY not in record.getMessage()


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("answer", "status", "failure"),
    [
        (Answer(200, b"<html>", [("Content-Type", "text/html")]), 200, Failure.PROTOCOL),
        (Answer(200, b"{}"), 200, Failure.PROTOCOL),
        (Answer(200, b"", []), 200, Failure.PROTOCOL),
        (
            stream_of(gzip.compress(CONNECTED), headers="Content-Encoding: gzip\r\n"),
            200,
            Failure.PROTOCOL,
        ),
        (Answer(204), 204, None),
        (Answer(302, headers=[("Location", "/elsewhere")]), 302, None),
        (Answer(401, b"{}"), 401, None),
        (Answer(503, b"", [("Retry-After", "7")]), 503, None),
        (Answer(500, CONNECTED, [("Content-Type", "text/event-stream")]), 500, None),
        (Answer(drop=True), None, Failure.NETWORK),
        (Answer(silent=True), None, Failure.TIMEOUT),
    ],
    ids=[
        "a page of HTML",
        "JSON",
        "no type",
        "compressed",
        "204",
        "302",
        "401",
        "503",
        "500 with a stream",
        "dropped",
        "silent",
    ],
)
def test_what_is_no_stream_is_a_refusal(
    way: str, answer: Answer, status: int | None, failure: Failure | None, server: WireServer
) -> None:
    """Anything but a 200 with a plain event stream is a refusal, which says what came."""
    server.always(answer)
    with transport(server, way, timeout=0.5) as made:
        reply = made.open_stream("t")
        assert isinstance(reply, Reply)
        assert (reply.status, reply.failure) == (status, failure)
        assert reply.headers.get("retry-after") == ("7" if status == 503 else None)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    "kind", ["text/event-stream; charset=utf-8", "Text/Event-Stream", "text/event-stream ;x=y"]
)
def test_the_content_type_is_read_as_the_standard_says(
    kind: str, way: str, server: WireServer
) -> None:
    """Case and parameters of the content type make no difference."""
    server.always(
        Answer(raw=f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\n\r\n".encode() + CONNECTED)
    )
    with transport(server, way) as made:
        opened = made.open_stream("t")
        assert not isinstance(opened, Reply)
        assert opened.read(5) == CONNECTED
        opened.close()


@pytest.mark.parametrize("way", WAYS)
def test_the_end_and_silence_of_a_stream_are_told_apart(way: str, server: WireServer) -> None:
    """Reading waits as long as it is told; what the server ends is an end with its cause."""
    server.always(stream_of(CONNECTED), stream_of(CONNECTED, close=True))
    with transport(server, way, timeout=5) as made:
        opened = made.open_stream("t")
        assert not isinstance(opened, Reply)
        assert opened.read(5) == CONNECTED
        began = time.monotonic()
        with pytest.raises(Silence):
            opened.read(0.1)
        assert 0.09 < time.monotonic() - began < 4
        opened.close()
        opened = made.open_stream("t")
        assert not isinstance(opened, Reply)
        assert opened.read(5) == CONNECTED
        with pytest.raises(StreamBroken, match="the server ended it"):
            opened.read(5)
        opened.close()


@pytest.mark.parametrize("way", WAYS)
def test_a_stream_that_breaks_in_the_middle_is_broken(way: str, server: WireServer) -> None:
    """A chunked stream that ends without its last chunk is an end like any other."""
    server.always(
        Answer(
            raw=b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
            b"Transfer-Encoding: chunked\r\n\r\n5\r\n:\n:\n\n\r\n9\r\nev",
            close=True,
        )
    )
    with transport(server, way) as made:
        opened = made.open_stream("t")
        assert not isinstance(opened, Reply)
        assert opened.read(5) == b":\n:\n\n"

        def read_to_the_end() -> None:
            while True:
                opened.read(5)

        with pytest.raises(StreamBroken, match="RemoteProtocolError"):
            read_to_the_end()
        opened.close()


@pytest.mark.parametrize("way", WAYS)
def test_a_read_is_ended_from_another_thread_at_once(way: str, server: WireServer) -> None:
    """`interrupt` ends a blocked read of the stream without waiting for its limit."""
    server.always(stream_of(CONNECTED))
    with transport(server, way) as made:
        opened = made.open_stream("t")
        assert not isinstance(opened, Reply)
        opened.read(5)
        ended: list[Exception] = []

        def read() -> None:
            try:
                opened.read(60)
            except StreamBroken as error:
                ended.append(error)

        reader = threading.Thread(target=read)
        reader.start()
        reader.join(0.05)
        assert reader.is_alive()
        made.interrupt()
        reader.join(5)
        assert not reader.is_alive()
        assert len(ended) == 1
        opened.close()


def test_a_client_lives_through_drops_and_expired_tickets(server: WireServer) -> None:
    """Over real sockets: five drops, an expired ticket and a failed one, each made good anew."""
    tickets = iter(range(1000))

    def give(_: Any) -> Answer:
        number = next(tickets)
        if number == 6:
            return Answer(500)
        return Answer(body=b'{"ticket":"t%d","expiresIn":60}' % number)

    for number in range(5):
        server.on(f"/v1/stream?ticket=t{number}", stream_of(CONNECTED, close=True))
    server.on("/v1/stream/ticket", give)
    server.on("/v1/stream?ticket=t5", Answer(401))
    server.on("/v1/stream?ticket=t7", stream_of(CONNECTED))
    server.on("/v1/evaluate/batch", batch_of({"a": 1}))
    states: list[ConnectionState] = []
    client = ShipSilentlyClient(
        api_key=KEY, api_url=server.url, retry=QUICK, on_state_change=states.append
    )
    try:
        client.start()
        eventually(lambda: "/v1/stream?ticket=t7" in server.paths())
        eventually(lambda: states[-1:] == [ConnectionState.STREAMING])
        streams = [path for path in server.paths() if path.startswith("/v1/stream?")]
        assert streams == [f"/v1/stream?ticket=t{number}" for number in (0, 1, 2, 3, 4, 5, 7)]
        assert set(states) == {ConnectionState.STREAMING, ConnectionState.RECONNECTING}
    finally:
        client.close()


def test_what_comes_before_the_answer_is_passed_over(server: WireServer) -> None:
    """An interim answer, as proxies in front of a service send them, is not taken for it."""
    hints = b"HTTP/1.1 103 Early Hints\r\nLink: </>\r\n\r\n"
    raw = stream_of(CONNECTED).raw
    assert raw is not None
    server.always(Answer(raw=hints + raw))
    with transport(server, "own") as made:
        opened = made.open_stream(TICKET)
        assert not isinstance(opened, Reply)
        assert opened.read(5) == CONNECTED
        opened.close()
