"""What a call looks like on the wire, and every way it can end."""

from __future__ import annotations

import asyncio
import gzip
import sys
import threading
import tracemalloc
import zlib
from collections.abc import Iterator
from typing import Any

import httpx
import httpx2
import pytest

from shipsilently_core import Config, ConfigurationError, Failure, __version__
from shipsilently_core._http import HttpTransport
from shipsilently_core._stream import Silence, StreamBroken
from shipsilently_core._wire import Reply, Request
from tests.core.lines import ASK, MODULES, OWN, WAYS, line
from tests.core.support import KEY
from tests.core.wire_server import Answer, WireServer, batch_of

JSON = ("Content-Type", "application/json")
BODY = b'{"flags":{}}'
OK = Answer(body=BODY)


def encoded(encoding: str, body: bytes, **how: Any) -> Answer:
    return Answer(body=body, headers=(JSON, ("Content-Encoding", encoding)), **how)


PAGE = b"<html>slow down</html>"
#: Bodies that cannot be had, by their headers and what else there is to them.
UNREADABLE: dict[str, tuple[tuple[tuple[str, str], ...], dict[str, Any]]] = {
    "unknown encoding": ((("Content-Encoding", "br"),), {"body": PAGE}),
    "no gzip": ((("Content-Encoding", "gzip"),), {"body": PAGE}),
    "cut gzip": ((("Content-Encoding", "gzip"),), {"body": gzip.compress(PAGE * 100)[:-9]}),
    "two of gzip": ((("Content-Encoding", "gzip"),), {"body": gzip.compress(PAGE) * 2}),
    "cut off": ((), {"body": PAGE, "length": 1_000, "close": True}),
    "too large": ((), {"body": b"x" * 5_000}),
    "dripping": ((), {"body": b" " * 1_000, "step": 1, "pause": 0.02}),
}


@pytest.mark.parametrize("way", WAYS)
class TestOneCall:
    """One call, in every way to carry it out."""

    def test_the_request_is_the_protocol_s(self, way: str, server: WireServer) -> None:
        """A POST with the JSON body, the key in its header, and no cookie."""
        server.always(OK)
        with line(way, f"{server.url}/base") as send:
            assert send(ASK).status == 200
        (received,) = server.received
        assert (received.method, received.target) == ("POST", "/base/v1/evaluate/batch")
        assert received.body == ASK.body
        assert received.headers["x-api-key"] == KEY
        assert received.headers["content-type"] == "application/json"
        assert received.headers["host"] == f"127.0.0.1:{server.port}"
        assert received.headers["user-agent"] == f"shipsilently-python/{__version__}"
        assert "cookie" not in received.headers

    def test_the_reply_holds_the_headers_that_matter(self, way: str, server: WireServer) -> None:
        """Status, body and a few headers by lower-case name; several of one name are joined."""
        server.always(
            Answer(
                503,
                b"busy",
                (("CONTENT-TYPE", "text/plain"), ("Retry-After", "2"), ("Retry-After", "5")),
            )
        )
        with line(way, server.url) as send:
            assert send(ASK) == Reply(
                503, b"busy", {"content-type": "text/plain", "retry-after": "2, 5"}
            )

    def test_a_connection_is_used_again(self, way: str, server: WireServer) -> None:
        """Calls that follow each other share one connection."""
        server.always(OK)
        with line(way, server.url) as send:
            assert [send(ASK).status for _ in range(5)] == [200] * 5
        assert len({received.client_port for received in server.received}) == 1

    def test_an_idle_connection_that_was_closed_is_noticed(
        self, way: str, server: WireServer
    ) -> None:
        """A server that closes after its answer costs the next call nothing."""
        server.always(Answer(body=BODY, close=True))
        with line(way, server.url) as send:
            for _ in range(3):
                server.closed_by_client.clear()
                assert send(ASK).status == 200
                assert server.closed_by_client.wait(5)
        assert server.connections == 3

    def test_where_nobody_listens_there_is_no_connection(self, way: str, free_port: int) -> None:
        """A refused connection is a network failure, and known for one without a connection."""
        with line(way, f"http://127.0.0.1:{free_port}") as send:
            reply = send(ASK)
        assert (reply.failure, reply.connected, reply.status) == (Failure.NETWORK, False, None)

    @pytest.mark.parametrize(
        "answer",
        [
            Answer(drop=True),
            Answer(body=BODY[:5], length=len(BODY), close=True),
            Answer(raw=b"HTTP/1.1 200 OK\r\nContent-Le", close=True),
            Answer(raw=b"\x00\x01\x02 what is this\r\n\r\n", close=True),
            Answer(raw=b"HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n", close=True),
            Answer(raw=b"HTTP/1.1 200 OK\r\nA: " + b"x" * 200_000, close=True),
        ],
        ids=["dropped", "body cut off", "head cut off", "no HTTP", "broken header", "endless head"],
    )
    def test_an_answer_that_breaks_off_is_a_network_failure(
        self, way: str, answer: Answer, server: WireServer
    ) -> None:
        """Whatever comes that is no whole answer, there was a connection and nothing raises."""
        server.always(answer)
        with line(way, server.url) as send:
            reply = send(ASK)
        assert (reply.failure, reply.connected, reply.status) == (Failure.NETWORK, True, None)
        assert reply.cause

    def test_a_redirect_is_not_followed(self, way: str, server: WireServer) -> None:
        """The key goes to no other host; the redirect is an answer like any other."""
        with WireServer(OK) as elsewhere:
            server.always(Answer(307, headers=(("Location", f"{elsewhere.url}/v1/evaluate"),)))
            with line(way, server.url) as send:
                assert send(ASK).status == 307
            assert elsewhere.received == []
        assert len(server.received) == 1

    def test_cookies_are_not_kept(self, way: str, server: WireServer) -> None:
        """What one answer sets does not travel with the next question."""
        server.always(Answer(body=BODY, headers=(JSON, ("Set-Cookie", "session=secret; Path=/"))))
        with line(way, server.url) as send:
            for _ in range(2):
                assert send(ASK).status == 200
        assert ["cookie" in received.headers for received in server.received] == [False, False]

    def test_a_compressed_answer_is_read(self, way: str, server: WireServer) -> None:
        """gzip and deflate are understood, in small pieces too."""
        body = batch_of({"a": "x" * 10_000}).body
        for encoding, packed in (
            ("gzip", gzip.compress(body)),
            ("X-GZIP", gzip.compress(body)),
            ("deflate", zlib.compress(body)),
            ("identity", body),
        ):
            server.always(encoded(encoding, packed, step=7))
            with line(way, server.url) as send:
                assert send(ASK).body == body

    @pytest.mark.parametrize(
        "answer",
        [
            encoded("gzip", b"not gzip at all"),
            encoded("gzip", gzip.compress(BODY * 100)[:-9]),
            encoded("gzip", gzip.compress(BODY) + gzip.compress(BODY), step=30),
            encoded("gzip", gzip.compress(BODY) + b"junk" * 10, step=50),
            encoded("br", BODY),
            encoded("gzip, gzip", gzip.compress(gzip.compress(BODY))),
        ],
        ids=["no gzip", "cut off", "two members", "junk behind", "unknown", "twice"],
    )
    def test_a_broken_encoding_is_a_wrong_answer(
        self, way: str, answer: Answer, server: WireServer
    ) -> None:
        """What cannot be unpacked for certain is not taken for an answer."""
        server.always(answer)
        with line(way, server.url) as send:
            reply = send(ASK)
        assert (reply.failure, reply.status) == (Failure.PROTOCOL, None)
        assert reply.cause in ("broken compression", "unknown content encoding")

    @pytest.mark.parametrize("kind", UNREADABLE)
    def test_a_refusal_counts_by_its_head(self, way: str, kind: str, server: WireServer) -> None:
        """Where its body cannot be had, an answer that refuses says so, and for how long."""
        headers, how = UNREADABLE[kind]
        head = (("Retry-After", "30"), *headers)
        server.always(Answer(429, headers=head, **how), OK)
        with line(way, server.url, max_response_bytes=4_096, timeout=0.5) as send:
            reply = send(ASK)
            assert (reply.status, reply.failure, reply.body) == (429, None, b"")
            assert reply.headers["retry-after"] == "30"
            assert reply.connected
            assert send(ASK).body == BODY
        # Another connection, since the rest may come yet; in one case all of it has come.
        assert server.connections == (1 if kind == "cut gzip" else 2)

    @pytest.mark.parametrize("kind", UNREADABLE)
    def test_a_success_does_not_count_by_its_head(
        self, way: str, kind: str, server: WireServer
    ) -> None:
        """Where its body cannot be had, an answer with 200 is a failure."""
        headers, how = UNREADABLE[kind]
        server.always(Answer(headers=headers, **how))
        with line(way, server.url, max_response_bytes=4_096, timeout=0.5) as send:
            reply = send(ASK)
        expected = {"cut off": Failure.NETWORK, "dripping": Failure.TIMEOUT}
        assert (reply.status, reply.failure) == (None, expected.get(kind, Failure.PROTOCOL))

    def test_a_head_that_breaks_off_refuses_nothing(self, way: str, server: WireServer) -> None:
        """A status counts only once its whole head has come."""
        server.always(Answer(raw=b"HTTP/1.1 429 Slow Down\r\nRetry-After: 30\r\n", close=True))
        with line(way, server.url) as send:
            assert (reply := send(ASK)).failure is Failure.NETWORK
        assert reply.status is None

    def test_an_answer_up_to_the_cap_is_taken(self, way: str, server: WireServer) -> None:
        """The cap is the largest size that is accepted, compressed or not."""
        for size, failure in ((5_000, None), (5_001, Failure.PROTOCOL)):
            for answer in (
                Answer(body=b"x" * size),
                Answer(body=b"x" * size, step=1_000),
                encoded("gzip", gzip.compress(b"x" * size)),
            ):
                server.always(answer)
                with line(way, server.url, max_response_bytes=5_000) as send:
                    reply = send(ASK)
                assert reply.failure is failure
                assert len(reply.body) == (0 if failure else size)
                assert reply.cause == ("more than 5000 bytes" if failure else "")

    def test_a_gzip_bomb_does_not_go_off(self, way: str, server: WireServer, bomb: bytes) -> None:
        """200 KB that unpack to 200 MiB are a failure, and memory stays about at the cap."""
        server.always(encoded("gzip", bomb))
        cap = 4 * 1024 * 1024
        with line(way, server.url, max_response_bytes=cap, timeout=20) as send:
            send(Request("/warm-up", b"{}"))
            tracemalloc.start()
            reply = send(ASK)
            _, peak = tracemalloc.get_traced_memory()
            tracemalloc.stop()
        assert (reply.failure, reply.cause) == (Failure.PROTOCOL, f"more than {cap} bytes")
        assert peak < cap + 4 * 1024 * 1024

    def test_junk_behind_a_compressed_answer_is_not_gathered(
        self, way: str, server: WireServer
    ) -> None:
        """Bytes without end after the end of the gzip data cost no memory."""
        server.always(encoded("gzip", gzip.compress(BODY) + b"\x00" * 20_000_000))
        with line(way, server.url, max_response_bytes=1_000_000, timeout=20) as send:
            tracemalloc.start()
            reply = send(ASK)
            _, peak = tracemalloc.get_traced_memory()
            tracemalloc.stop()
        assert reply.failure is Failure.PROTOCOL
        assert peak < 45_000_000 - 20_000_000


@pytest.fixture(scope="module")
def bomb() -> bytes:
    """200 MiB of nothing, packed."""
    packer = zlib.compressobj(9, wbits=zlib.MAX_WBITS | 16)
    block = bytes(1024 * 1024)
    packed = b"".join([*(packer.compress(block) for _ in range(200)), packer.flush()])
    assert len(packed) < 300_000
    return packed


@pytest.mark.parametrize("way", OWN)
@pytest.mark.parametrize("kind", UNREADABLE)
def test_a_refusal_by_way_of_a_proxy_counts_by_its_head(
    kind: str, way: str, server: WireServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So it is where the answer, or the proxy's own, comes by way of one."""
    headers, how = UNREADABLE[kind]
    server.always(Answer(429, headers=(("Retry-After", "30"), *headers), **how))
    monkeypatch.setenv("HTTP_PROXY", server.url)
    with line(way, "http://flags.invalid", max_response_bytes=4_096, timeout=0.5) as send:
        reply = send(ASK)
    assert (reply.status, reply.failure) == (429, None)
    assert reply.headers["retry-after"] == "30"


@pytest.mark.parametrize("way", OWN)
def test_our_own_calls_are_not_logged_by_the_library_below(
    way: str, server: WireServer, caplog: pytest.LogCaptureFixture
) -> None:
    """At INFO, where httpx would print a line for each call, there is none."""
    server.always(OK)
    with caplog.at_level("INFO"), line(way, server.url) as send:
        send(ASK)
    assert caplog.records == []


def test_eight_threads_share_one_transport(server: WireServer) -> None:
    """Each thread gets the answers to its own questions."""
    server.always(lambda received: Answer(body=received.body))
    transport = HttpTransport(Config(api_key=KEY, api_url=server.url))
    wrong: list[object] = []

    def work(name: int) -> None:
        for number in range(50):
            body = b'{"thread":%d,"call":%d}' % (name, number)
            reply = transport.send(Request("/v1/evaluate", body))
            if reply.body != body:
                wrong.append(reply)

    threads = [threading.Thread(target=work, args=(name,)) for name in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    transport.close()
    assert wrong == []
    assert server.connections <= 8


async def test_many_tasks_share_one_transport(server: WireServer) -> None:
    """Each task gets the answer to its own question."""
    server.always(lambda received: Answer(body=received.body))
    transport = HttpTransport(Config(api_key=KEY, api_url=server.url, timeout=10))
    requests = [Request("/v1/evaluate", b'{"call":%d}' % number) for number in range(200)]
    replies = await asyncio.gather(*(transport.asend(request) for request in requests))
    await transport.aclose()
    assert [reply.body for reply in replies] == [request.body for request in requests]


def test_two_threads_make_one_pool(server: WireServer) -> None:
    """Whoever comes second to the lock finds the pool there."""
    transport = HttpTransport(Config(api_key=KEY, api_url=server.url))
    made = transport._blocking_pool()

    class Late:
        def __enter__(self) -> None:
            transport._pool = made

        def __exit__(self, *error: object) -> None:
            pass

    transport._pool = None
    transport._lock = Late()  # type: ignore[assignment]
    assert transport._blocking_pool() is made


def test_two_loops_share_what_makes_calls_in_tasks(server: WireServer) -> None:
    """Whoever comes second to the lock finds it there."""
    transport = HttpTransport(Config(api_key=KEY, api_url=server.url))
    made = transport._task_calls()

    class Late:
        def __enter__(self) -> None:
            transport._tasks = made

        def __exit__(self, *error: object) -> None:
            pass

    transport._tasks = None
    transport._lock = Late()  # type: ignore[assignment]
    assert transport._task_calls() is made


async def test_a_transport_from_before_asyncio_is_awaited_like_any_other(
    server: WireServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where nothing has imported asyncio yet, what tasks need is made by the first of them."""
    server.always(OK)
    with monkeypatch.context() as patched:
        patched.delitem(sys.modules, "asyncio")
        transport = HttpTransport(Config(api_key=KEY, api_url=server.url))
    await transport.aclose()
    assert (await transport.asend(ASK)).status == 200
    await transport.aclose()


def test_a_closed_transport_can_be_closed_and_used_again(server: WireServer) -> None:
    """Closing drops connections; what is sent afterwards opens a new one."""
    server.always(OK)
    transport = HttpTransport(Config(api_key=KEY, api_url=server.url))
    for _ in range(2):
        transport.close()
        transport.close()
        assert transport.send(ASK).status == 200
    transport.close()
    assert server.connections == 2


@pytest.mark.parametrize("module", [httpx, httpx2], ids=lambda module: module.__name__)
class TestClientOfOnesOwn:
    """A client that the application gives."""

    def test_its_own_settings_hold(self, module: Any, server: WireServer) -> None:
        """Its headers are sent beside ours, and ours win; its redirects and cookies do not."""
        server.always(OK)
        settings = {
            "headers": {"X-Own": "1", "X-API-Key": "other", "User-Agent": "own"},
            "cookies": {"session": "secret"},
            "follow_redirects": True,
        }
        with line(module.__name__, server.url, client=settings) as send:
            send(ASK)
        (received,) = server.received
        assert received.headers["x-own"] == "1"
        assert received.headers["x-api-key"] == KEY
        assert received.headers["user-agent"].startswith("shipsilently-python/")
        assert "cookie" not in received.headers

    def test_one_without_a_network_will_do(self, module: Any) -> None:
        """A mock transport, as in tests, answers in one piece."""

        def answer(request: Any) -> Any:
            return module.Response(200, json={"flags": {}}, headers={"date": "now"})

        made = {"transport": module.MockTransport(answer)}
        with line(module.__name__, "http://flags.invalid", client=made) as send:
            reply = send(ASK)
        assert reply.status == 200
        assert reply.body.replace(b" ", b"") == BODY
        assert reply.headers["date"] == "now"

    def test_one_without_a_network_keeps_to_the_cap(self, module: Any) -> None:
        """An answer in one piece is no larger than any other may be."""
        made = {"transport": module.MockTransport(lambda _: module.Response(200, content=BODY))}
        with line(
            module.__name__, "http://flags.invalid", client=made, max_response_bytes=5
        ) as send:
            reply = send(ASK)
        assert (reply.failure, reply.cause) == (Failure.PROTOCOL, "more than 5 bytes")

    def test_one_without_a_network_refuses_by_the_head(self, module: Any) -> None:
        """So it is with a refusal in one piece that is larger than an answer may be."""

        def refuse(request: Any) -> Any:
            return module.Response(429, content=BODY, headers={"Retry-After": "30"})

        made = {"transport": module.MockTransport(refuse)}
        with line(
            module.__name__, "http://flags.invalid", client=made, max_response_bytes=5
        ) as send:
            assert send(ASK) == Reply(429, headers={"retry-after": "30"})

    def test_one_that_was_closed_is_a_failure(self, module: Any, server: WireServer) -> None:
        """What the application did to its client costs no request an exception."""
        client = module.Client()
        client.close()
        transport = HttpTransport(Config(api_key=KEY, api_url=server.url, http_client=client))
        assert transport.send(ASK).failure is Failure.NETWORK

    @pytest.mark.parametrize("error", ["ConnectError", "ReadTimeout", "DecodingError"])
    def test_what_it_raises_is_a_class_of_failure(self, module: Any, error: str) -> None:
        """Its own exceptions are understood by name, whichever of the libraries it is of."""
        expected = {
            "ConnectError": (Failure.NETWORK, False),
            "ReadTimeout": (Failure.TIMEOUT, True),
            "DecodingError": (Failure.PROTOCOL, True),
        }

        def fail(request: Any) -> Any:
            raise getattr(module, error)("http://secret.invalid")

        made = {"transport": module.MockTransport(fail)}
        with line(module.__name__, "http://flags.invalid", client=made) as send:
            reply = send(ASK)
        assert (reply.failure, reply.connected) == expected[error]
        assert reply.cause == error

    def test_a_function_makes_one_when_it_is_needed(self, module: Any, server: WireServer) -> None:
        """It is called once, at the first call, and again in a forked child."""
        server.always(OK)
        made: list[Any] = []

        def make() -> Any:
            made.append(module.Client())
            return made[-1]

        transport = HttpTransport(Config(api_key=KEY, api_url=server.url, http_client=make))
        assert made == []
        assert [transport.send(ASK).status for _ in range(2)] == [200, 200]
        assert len(made) == 1
        transport.forget()
        assert transport.send(ASK).status == 200
        assert len(made) == 2
        for client in made:
            client.close()


EVENT = b"event: heartbeat\ndata: {}\n\n"
STREAM_TYPE = ("Content-Type", "Text/Event-Stream; charset=utf-8")


@pytest.mark.parametrize("kind", ["own", "httpx", "httpx2"])
class TestStream:
    """Opening the stream that a ticket is for, and reading it."""

    @pytest.fixture
    def transport(self, kind: str, server: WireServer) -> Iterator[HttpTransport]:
        """A transport with connections of its own, or with a client of one's own."""
        client = MODULES[kind].Client() if kind in MODULES else None
        made = HttpTransport(
            Config(api_key=KEY, api_url=f"{server.url}/base", timeout=1, http_client=client)
        )
        yield made
        made.close()
        if client is not None:
            client.close()

    def opened(self, transport: HttpTransport) -> Any:
        stream = transport.open_stream("t/1&x=ü")
        assert not isinstance(stream, Reply)
        return stream

    def test_the_ticket_is_all_it_shows(self, transport: HttpTransport, server: WireServer) -> None:
        """The ticket stands in the address, and the key is not sent at all."""
        server.always(Answer(body=EVENT, headers=(STREAM_TYPE,)))
        stream = self.opened(transport)
        assert stream.read(5) == EVENT
        with pytest.raises(StreamBroken, match="the server ended it"):
            stream.read(5)
        stream.close()
        stream.close()
        (received,) = server.received
        assert (received.method, received.path) == (
            "GET",
            "/base/v1/stream?ticket=t%2F1%26x%3D%C3%BC",
        )
        assert received.headers["accept"] == "text/event-stream"
        assert KEY not in str(received.headers)
        assert "cookie" not in received.headers

    def test_silence_is_told_from_an_end(
        self, transport: HttpTransport, server: WireServer
    ) -> None:
        """Nothing within the time given is silence; a broken connection is an end with a cause."""
        server.always(Answer(body=EVENT, headers=(STREAM_TYPE,), length=1_000))
        stream = self.opened(transport)
        assert stream.read(5) == EVENT
        with pytest.raises(Silence):
            stream.read(0.1)
        stream.close()
        server.always(Answer(body=EVENT, headers=(STREAM_TYPE,), length=1_000, close=True))
        stream = self.opened(transport)
        assert stream.read(5) == EVENT
        with pytest.raises(StreamBroken, match=r"Error$"):
            stream.read(5)
        stream.close()

    def test_silence_is_measured_from_the_read(
        self, transport: HttpTransport, server: WireServer
    ) -> None:
        """A stream lives on for longer than one call may take."""
        server.always(Answer(body=EVENT * 3, headers=(STREAM_TYPE,), step=len(EVENT), pause=0.6))
        stream = self.opened(transport)
        assert [stream.read(5) for _ in range(3)] == [EVENT] * 3
        stream.close()

    @pytest.mark.parametrize(
        ("answer", "status", "failure"),
        [
            (Answer(401), 401, None),
            (Answer(402), 402, None),
            (Answer(503, headers=(("Retry-After", "5"),)), 503, None),
            (Answer(302, headers=(("Location", "http://127.0.0.1:9"),)), 302, None),
            (Answer(body=EVENT), 200, Failure.PROTOCOL),
            (Answer(silent=True), None, Failure.TIMEOUT),
            (Answer(body=EVENT, drip_head=True, pause=0.1), None, Failure.TIMEOUT),
            (Answer(drop=True), None, Failure.NETWORK),
        ],
        ids=["401", "402", "503", "302", "no stream", "silent", "dripping", "dropped"],
    )
    def test_what_is_no_stream_is_a_reply(
        self,
        answer: Answer,
        status: int | None,
        failure: Failure | None,
        transport: HttpTransport,
        server: WireServer,
    ) -> None:
        """A refusal has its status and pause, everything else its failure; nothing raises."""
        server.always(answer)
        reply = transport.open_stream("t")
        assert isinstance(reply, Reply)
        assert (reply.status, reply.failure) == (status, failure)
        if status == 503:
            assert reply.headers["retry-after"] == "5"

    def test_another_thread_ends_a_read(self, transport: HttpTransport, server: WireServer) -> None:
        """`interrupt` unblocks the reader at once."""
        server.always(Answer(body=EVENT, headers=(STREAM_TYPE,), length=1_000))
        stream = self.opened(transport)
        assert stream.read(5) == EVENT
        timer = threading.Timer(0.1, transport.interrupt)
        timer.start()
        with pytest.raises(StreamBroken):
            stream.read(30)
        timer.join()
        stream.close()


def test_a_function_that_makes_no_client_is_a_failure_of_the_call() -> None:
    """What it made is neither used nor closed."""
    transport = HttpTransport(Config(api_key=KEY, http_client=lambda: 5))
    reply = transport.send(ASK)
    assert (reply.failure, reply.cause) == (Failure.NETWORK, "TypeError")
    transport.close()


def test_an_asynchronous_client_is_refused_up_front() -> None:
    """It could not be used from a thread."""
    with pytest.raises(ConfigurationError):
        Config(api_key=KEY, http_client=httpx.AsyncClient())


def test_all_libraries_are_covered() -> None:
    """The ways to carry out a call include both libraries."""
    assert {way.split()[0] for way in WAYS} == {*OWN, *MODULES}
