"""Kept connections of our own: who gets one, when one is used again, and when it is closed."""

from __future__ import annotations

import asyncio
import contextlib
import select
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from shipsilently_core import Config, Failure
from shipsilently_core._connection import Pool
from shipsilently_core._http import HttpTransport
from shipsilently_core._network import CONNECTIONS, KEPT
from shipsilently_core._tasks import TaskPool, _attempt, _discard
from shipsilently_core._wire import Reply, Request
from tests.core.lines import ASK, OWN, line
from tests.core.support import KEY
from tests.core.wire_server import Answer, Received, WireServer

BODY = b'{"flags":{}}'
OK = Answer(body=BODY)
HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\n"


def transport_to(server: WireServer, **settings: Any) -> HttpTransport:
    return HttpTransport(Config(**{"api_key": KEY, "api_url": server.url, **settings}))


def soon(condition: Callable[[], object], seconds: float = 5.0) -> bool:
    """Whether it comes true."""
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        threading.Event().wait(0.01)
    return bool(condition())


async def soon_in_loop(condition: Callable[[], object], seconds: float = 5.0) -> bool:
    """Whether it comes true while the loop goes on."""
    for _ in range(int(seconds * 100)):
        if condition():
            break
        await asyncio.sleep(0.01)
    return bool(condition())


def tasks_of(transport: HttpTransport) -> TaskPool:
    """The connections of the one event loop there is."""
    (held,) = transport._task_calls().loops.values()
    assert isinstance(held.pool, TaskPool)
    return held.pool


def threads_of(transport: HttpTransport) -> Pool:
    """The connections of threads."""
    assert isinstance(transport._pool, Pool)
    return transport._pool


AGAIN = {
    "early hints": Answer(raw=b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n" + HEAD + BODY),
    "continue": Answer(raw=b"HTTP/1.1 100 Continue\r\n\r\n" * 3 + HEAD + BODY),
    "chunked": Answer(
        raw=b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
        b"5\r\n" + BODY[:5] + b"\r\n7;x=y\r\n" + BODY[5:] + b"\r\n0\r\nTrailer: x\r\n\r\n"
    ),
}
ONCE = {
    "close": Answer(
        raw=b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 12\r\n\r\n" + BODY
    ),
    "close without a length": Answer(raw=b"HTTP/1.1 200 OK\r\n\r\n" + BODY, close=True),
    "1.0": Answer(raw=b"HTTP/1.0 200 OK\r\nContent-Length: 12\r\n\r\n" + BODY),
    "1.0 without a length": Answer(raw=b"HTTP/1.0 200 OK\r\n\r\n" + BODY, close=True),
}
BROKEN = {
    "no hexadecimal size": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
    "chunk without an end": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}!!",
    "cut in a chunk": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\n{}",
    "two lengths": b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n{}",
    "another protocol": b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n",
}


@pytest.mark.parametrize("way", OWN)
class TestAnswers:
    """What an answer's form means for its connection."""

    @pytest.mark.parametrize("kind", AGAIN)
    def test_after_a_whole_answer_a_connection_is_used_again(
        self, kind: str, way: str, server: WireServer
    ) -> None:
        """Whatever comes before the answer, and however its length is told."""
        server.always(AGAIN[kind])
        with line(way, server.url) as send:
            assert [send(ASK).body for _ in range(3)] == [BODY] * 3
        assert server.connections == 1

    @pytest.mark.parametrize("kind", ONCE)
    def test_an_answer_that_ends_its_connection_is_the_last_on_it(
        self, kind: str, way: str, server: WireServer
    ) -> None:
        """It is whole all the same, and the next call has a connection of its own."""
        server.always(ONCE[kind])
        with line(way, server.url) as send:
            assert [send(ASK).body for _ in range(3)] == [BODY] * 3
        assert server.connections == 3

    @pytest.mark.parametrize("kind", BROKEN)
    def test_what_is_no_answer_is_a_network_failure(
        self, kind: str, way: str, server: WireServer
    ) -> None:
        """It ends its connection, and the next call finds another one."""
        server.always(Answer(raw=BROKEN[kind], close=True), OK)
        with line(way, server.url) as send:
            reply = send(ASK)
            assert (reply.failure, reply.connected) == (Failure.NETWORK, True)
            assert reply.cause == "RemoteProtocolError"
            assert send(ASK).status == 200
        assert server.connections == 2

    def test_a_connection_that_is_reset_is_a_network_failure(
        self, way: str, server: WireServer
    ) -> None:
        """Also where that happens within the answer."""
        with Resetting() as resetting, line(way, resetting.url) as send:
            reply = send(ASK)
            assert (reply.failure, reply.connected) == (Failure.NETWORK, True)
            assert reply.cause == "ReadError"

    def test_an_answer_before_the_question_was_read_counts(self, way: str) -> None:
        """A service that refuses a large body, and closes, has answered."""
        with Refusing() as refusing, line(way, refusing.url, timeout=20) as send:
            reply = send(Request("/v1/evaluate", b" " * 30_000_000))
        if way == "plain":
            assert (reply.status, reply.failure) == (413, None)
        else:
            # What has come may be lost with a write that failed.
            assert reply.status == 413 or reply.failure is Failure.NETWORK

    def test_a_question_that_nobody_reads_ends_in_time(self, way: str) -> None:
        """The deadline holds for writing too."""
        with socket.create_server(("127.0.0.1", 0)) as listener:
            url = f"http://127.0.0.1:{listener.getsockname()[1]}"
            with line(way, url, timeout=0.3) as send:
                reply = send(Request("/v1/evaluate", b" " * 30_000_000))
        assert (reply.failure, reply.connected) == (Failure.TIMEOUT, True)

    def test_a_question_is_never_sent_twice(self, way: str, server: WireServer) -> None:
        """Where a kept connection is closed at the very moment, the call fails, once."""
        server.always(OK, Answer(drop=True), OK)
        with line(way, server.url) as send:
            assert [send(ASK).status for _ in range(3)] == [200, None, 200]
        assert (len(server.received), server.connections) == (3, 2)

    def test_what_comes_between_answers_ends_the_connection(
        self, way: str, server: WireServer
    ) -> None:
        """A word that nobody asked for is no answer to the next question."""
        late = Answer(body=BODY + HEAD + b'{"secret":1}', length=12, step=12, pause=0.1)
        server.always(late, OK)
        with line(way, server.url) as send:
            assert send(ASK).body == BODY
            threading.Event().wait(0.3)
            assert send(ASK).body == BODY
        assert server.connections == 2

    def test_without_poll_a_closed_connection_is_noticed_as_well(
        self, way: str, server: WireServer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Windows has `select` alone."""
        monkeypatch.delattr(select, "poll")
        server.always(OK, Answer(body=BODY, close=True), OK)
        with line(way, server.url) as send:
            assert [send(ASK).status for _ in range(2)] == [200, 200]
            assert server.connections == 1
            assert server.closed_by_client.wait(5)
            assert send(ASK).status == 200
        assert server.connections == 2


@pytest.mark.parametrize("way", OWN)
class TestTls:
    """The same by TLS."""

    @pytest.fixture
    def secure(
        self, tls_server: WireServer, certificate: Path, monkeypatch: pytest.MonkeyPatch
    ) -> WireServer:
        """A server behind TLS that is trusted."""
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        return tls_server

    def test_a_connection_is_used_again_until_it_is_closed(
        self, way: str, secure: WireServer
    ) -> None:
        """Small answers, large ones and hints share one; one that was closed is noticed."""
        large = b" " * 3_000_000
        closing = Answer(body=BODY, close=True)
        secure.always(OK, Answer(body=large), AGAIN["early hints"], AGAIN["chunked"], closing, OK)
        with line(way, secure.url, timeout=20) as send:
            replies = [send(ASK) for _ in range(5)]
            assert [reply.body for reply in replies] == [BODY, large, BODY, BODY, BODY]
            assert secure.connections == 1
            assert secure.closed_by_client.wait(5)
            assert send(ASK).body == BODY
        assert secure.connections == 2

    def test_a_second_answer_is_nobody_s(self, way: str, secure: WireServer) -> None:
        """What came behind an answer ends its connection, in one piece with it or later."""
        twice = Answer(raw=(HEAD + BODY) * 2)
        late = Answer(body=BODY + HEAD + b'{"secret":1}', length=12, step=12, pause=0.1)
        secure.always(twice, late, OK)
        with line(way, secure.url, timeout=20) as send:
            for _ in range(3):
                assert send(ASK).body == BODY
                threading.Event().wait(0.3)
        assert secure.connections == 3

    def test_an_answer_that_breaks_off_or_drips_ends_the_connection(
        self, way: str, secure: WireServer
    ) -> None:
        """A failure each, and the next call finds another connection."""
        cut = Answer(body=BODY[:5], length=12, close=True)
        secure.always(cut, Answer(drop=True), Answer(body=b" " * 1_000, step=1, pause=0.02), OK)
        with line(way, secure.url, timeout=0.5) as send:
            failures = [send(ASK).failure for _ in range(4)]
        assert failures == [Failure.NETWORK, Failure.NETWORK, Failure.TIMEOUT, None]

    def test_a_handshake_that_is_not_answered_ends_in_time(self, way: str) -> None:
        """The deadline holds while TLS is agreed on."""
        with socket.create_server(("127.0.0.1", 0)) as listener:
            url = f"https://127.0.0.1:{listener.getsockname()[1]}"
            with line(way, url, timeout=0.3) as send:
                assert send(ASK).failure is Failure.TIMEOUT

    def test_a_service_without_tls_is_no_connection(self, way: str) -> None:
        """What answers in the clear is not believed."""
        with Refusing() as refusing:
            url = refusing.url.replace("http", "https")
            with line(way, url, timeout=5) as send:
                reply = send(ASK)
        assert (reply.failure, reply.connected) == (Failure.NETWORK, False)


@pytest.mark.parametrize("way", OWN)
def test_an_address_of_the_new_kind_works(way: str) -> None:
    """The service's address may be one of IPv6."""
    try:
        answering = Answering(socket.create_server(("::1", 0), family=socket.AF_INET6))
    except OSError:
        pytest.skip("this machine has no IPv6")
    with answering, line(way, f"http://[::1]:{answering.port}") as send:
        assert send(ASK).body == BODY


class Resetting(contextlib.AbstractContextManager["Resetting"]):
    """Begins an answer, and resets the connection."""

    def __init__(self, listener: socket.socket | None = None) -> None:
        self._listener = listener or socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        connection, _ = self._listener.accept()
        with connection:
            self.answer(connection)

    def answer(self, connection: socket.socket) -> None:
        connection.recv(65_536)
        connection.sendall(HEAD + BODY[:5])
        threading.Event().wait(0.1)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    def __exit__(self, *error: object) -> None:
        self._thread.join()
        self._listener.close()


class Refusing(Resetting):
    """Answers before it has read anything, and closes."""

    def answer(self, connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n")
        threading.Event().wait(0.2)


class Answering(Resetting):
    """Answers as it should."""

    def answer(self, connection: socket.socket) -> None:
        connection.recv(65_536)
        connection.sendall(HEAD + BODY)


class Together:
    """Answers when so many are there at once."""

    def __init__(self, count: int) -> None:
        self._barrier = threading.Barrier(count)

    def __call__(self, received: Received) -> Answer:
        self._barrier.wait(20)
        return OK


@pytest.fixture
def transport(server: WireServer) -> Iterator[HttpTransport]:
    """A transport for threads."""
    made = transport_to(server, timeout=20)
    yield made
    made.close()


class TestThreads:
    """The pool of threads."""

    def test_so_many_are_kept_and_no_more(
        self, transport: HttpTransport, server: WireServer
    ) -> None:
        """After a rush some connections stay, and serve the next one."""
        many = KEPT + 5
        server.always(Together(many))
        with ThreadPoolExecutor(many) as pool:
            assert {r.status for r in pool.map(transport.send, [ASK] * many)} == {200}
        assert len(transport._sockets._living()) == KEPT
        server.always(Together(KEPT))
        with ThreadPoolExecutor(KEPT) as pool:
            assert {r.status for r in pool.map(transport.send, [ASK] * KEPT)} == {200}
        assert server.connections == many

    def test_who_finds_all_taken_waits_until_the_deadline(
        self, transport: HttpTransport, server: WireServer
    ) -> None:
        """There are never more than so many; a call that gets none is a timeout."""
        server.always(OK)
        assert transport.send(ASK).status == 200
        free = threads_of(transport)._free
        for _ in range(CONNECTIONS):
            assert free.take(0)
        reply = transport.send(Request("/", b"{}", timeout=0.1))
        assert (reply.failure, reply.cause) == (Failure.TIMEOUT, "PoolTimeout")
        free.give_back()
        assert transport.send(ASK).status == 200

    def test_calls_that_fail_take_no_place(
        self, transport: HttpTransport, server: WireServer, free_port: int
    ) -> None:
        """However many end badly, connected or not, as many as before can be under way."""
        server.always(Answer(drop=True))
        for _ in range(5):
            assert transport.send(ASK).failure is Failure.NETWORK
        assert threads_of(transport)._free._free == CONNECTIONS
        assert transport._sockets._living() == []
        nobody = HttpTransport(Config(api_key=KEY, api_url=f"http://127.0.0.1:{free_port}"))
        assert nobody.send(ASK).failure is Failure.NETWORK
        assert threads_of(nobody)._free._free == CONNECTIONS

    def test_one_that_was_idle_for_long_is_not_used(
        self, transport: HttpTransport, server: WireServer
    ) -> None:
        """Those whose time is over are closed, by the call that would have had one."""
        server.always(Together(3))
        with ThreadPoolExecutor(3) as pool:
            list(pool.map(transport.send, [ASK] * 3))
        server.always(OK)
        waiting = threads_of(transport)._idle._waiting
        for connection in waiting[:2]:
            connection.expires = 0.0
        del connection
        assert transport.send(ASK).status == 200
        assert (server.connections, len(transport._sockets._living())) == (3, 1)
        waiting[0].expires = 0.0
        assert transport.send(ASK).status == 200
        assert (server.connections, len(transport._sockets._living())) == (4, 1)

    def test_one_that_comes_back_to_a_closed_pool_is_closed(
        self, transport: HttpTransport, server: WireServer
    ) -> None:
        """A call that is under way while the transport is closed ends well and leaves nothing."""
        server.always(Answer(body=BODY, delay=0.3))
        replies: list[Reply] = []
        thread = threading.Thread(target=lambda: replies.append(transport.send(ASK)))
        thread.start()
        assert soon(lambda: server.received)
        transport.close()
        thread.join()
        assert [reply.status for reply in replies] == [200]
        assert transport._sockets._living() == []

    def test_what_was_interrupted_is_not_used_again(
        self, transport: HttpTransport, server: WireServer
    ) -> None:
        """A connection that another thread has ended while it was idle costs no call."""
        server.always(OK)
        assert transport.send(ASK).status == 200
        transport.interrupt()
        assert transport.send(ASK).status == 200
        assert server.connections == 2

    def test_one_whose_socket_is_gone_is_not_used_again(
        self, transport: HttpTransport, server: WireServer
    ) -> None:
        """So it is in a child, if somebody there has closed what the parent had open."""
        server.always(OK)
        assert transport.send(ASK).status == 200
        transport._sockets.forget()
        assert transport.send(ASK).status == 200
        assert server.connections == 2


class TestTasks:
    """The pool of an event loop."""

    async def test_so_many_are_kept_and_no_more(self, server: WireServer) -> None:
        """After a rush some connections stay, and serve the next one."""
        transport, many = transport_to(server, timeout=20), KEPT + 5
        server.always(Together(many))
        replies = await asyncio.gather(*(transport.asend(ASK) for _ in range(many)))
        assert {reply.status for reply in replies} == {200}
        assert await soon_in_loop(lambda: len(tasks_of(transport)._open) == KEPT)
        server.always(Together(KEPT))
        replies = await asyncio.gather(*(transport.asend(ASK) for _ in range(KEPT)))
        assert {reply.status for reply in replies} == {200}
        assert server.connections == many
        await transport.aclose()

    async def test_who_is_cancelled_leaves_a_closed_connection(self, server: WireServer) -> None:
        """At once, whoever waits for its place; the next call has a new one."""
        server.always(Answer(silent=True))
        transport = transport_to(server, timeout=20)
        tasks = [asyncio.create_task(transport.asend(ASK)) for _ in range(CONNECTIONS + 1)]
        assert await soon_in_loop(lambda: len(server.received) == CONNECTIONS)
        assert len(tasks_of(transport).in_use) == CONNECTIONS
        server.always(OK)
        tasks[0].cancel()
        assert (await tasks[-1]).status == 200
        for task in tasks[:-1]:
            task.cancel()
        assert await asyncio.gather(*tasks[:-1], return_exceptions=True)
        assert await soon_in_loop(lambda: not tasks_of(transport).in_use)
        assert (await transport.asend(ASK)).status == 200
        await transport.aclose()

    async def test_who_is_cancelled_while_it_connects_leaves_nothing(
        self, server: WireServer
    ) -> None:
        """No socket stays open, and no place is taken."""
        server.always(OK)
        transport = transport_to(server, timeout=20)
        assert (await transport.asend(ASK)).status == 200
        await tasks_of(transport).let_go()
        for turns in range(12):
            task = asyncio.create_task(transport.asend(ASK))
            for _ in range(turns):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait([task])
        pool = tasks_of(transport)
        assert pool._free._value == CONNECTIONS
        assert await soon_in_loop(lambda: not pool.in_use)
        await transport.aclose()

    async def test_closing_ends_what_is_under_way(self, server: WireServer) -> None:
        """A task that waits for an answer gets a failure, not its deadline."""
        server.always(Answer(silent=True))
        transport = transport_to(server, timeout=60)
        task = asyncio.create_task(transport.asend(ASK))
        assert await soon_in_loop(lambda: server.received)
        pool = tasks_of(transport)
        await transport.aclose()
        assert (await asyncio.wait_for(task, 10)).failure is Failure.NETWORK
        assert pool._open == set()

    async def test_one_that_comes_back_to_a_closed_pool_is_closed(self, server: WireServer) -> None:
        """Closing while a call is still connecting leaves nothing either."""
        server.always(OK)
        transport = transport_to(server, timeout=20)
        task = asyncio.create_task(transport.asend(ASK))
        for _ in range(2):
            await asyncio.sleep(0)
        pool = tasks_of(transport)
        assert pool._open == set()
        await transport.aclose()
        assert (await task).status == 200
        assert await soon_in_loop(lambda: not pool._open)

    async def test_a_connection_that_the_service_closes_is_let_go_of_at_once(
        self, server: WireServer
    ) -> None:
        """The loop sees it, without a further call."""
        server.always(Answer(body=BODY, close=True))
        transport = transport_to(server)
        assert (await transport.asend(ASK)).status == 200
        assert await soon_in_loop(lambda: not tasks_of(transport)._open)
        assert (await transport.asend(ASK)).status == 200
        await transport.aclose()

    async def test_calls_by_tls_that_are_cut_short_leave_nothing(
        self, tls_server: WireServer, certificate: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Wherever in a call or its handshake that happens."""
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        tls_server.always(Answer(body=BODY * 1_000, step=4_000, pause=0.001))
        transport = transport_to(tls_server, timeout=20)
        assert (await transport.asend(ASK)).status == 200
        for pause in range(25):
            if pause % 3 == 0:
                await tasks_of(transport).let_go()
            task = asyncio.create_task(transport.asend(ASK))
            await asyncio.sleep(pause / 2_000)
            task.cancel()
            await asyncio.wait([task])
        pool = tasks_of(transport)
        assert pool._free._value == CONNECTIONS
        assert await soon_in_loop(lambda: not pool.in_use)
        assert (await transport.asend(ASK)).status == 200
        await transport.aclose()
        assert pool._open == set()

    async def test_a_child_has_connections_of_its_own(self, server: WireServer) -> None:
        """`forget` leaves those of the loop to the parent."""
        server.always(OK)
        transport = transport_to(server)
        assert (await transport.asend(ASK)).status == 200
        transport.forget()
        assert (await transport.asend(ASK)).status == 200
        assert server.connections == 2
        await transport.aclose()

    async def test_a_connection_that_came_too_late_is_closed(self, server: WireServer) -> None:
        """Where two addresses take the connection, one is used."""
        attempt = asyncio.create_task(_attempt(socket.AF_INET, ("127.0.0.1", server.port)))
        sock = await attempt
        _discard(attempt)
        assert sock.fileno() == -1
        failed = asyncio.create_task(_attempt(socket.AF_INET, ("127.0.0.1", 1)))
        await asyncio.wait([failed])
        _discard(failed)


def two_at_once(transport: HttpTransport, requests: list[Request]) -> list[Reply]:
    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(transport.send, requests))


@pytest.mark.parametrize("way", OWN)
def test_doubt_is_cast_on_connections_to_a_proxy_as_well(
    way: str, server: WireServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a call fails after a while of silence, the idle connections beside it are closed."""
    monkeypatch.setenv("HTTP_PROXY", server.url)
    server.always(Together(2))
    transport = HttpTransport(Config(api_key=KEY, api_url="http://flags.invalid", timeout=20))

    async def both() -> list[Reply]:
        return list(await asyncio.gather(transport.asend(ASK), transport.asend(ASK)))

    with asyncio.Runner() as runner:
        replies = two_at_once(transport, [ASK] * 2) if way == "plain" else runner.run(both())
        assert [reply.status for reply in replies] == [200, 200]
        threading.Event().wait(1.1)
        server.always(Answer(drop=True), OK)
        for expected in (None, 200):
            call = transport.send if way == "plain" else lambda r: runner.run(transport.asend(r))
            assert call(ASK).status == expected
        assert server.connections == 3
        runner.run(transport.aclose())
