"""What one bad answer may do to the calls beside it and after it."""

from __future__ import annotations

import asyncio
import itertools
import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from shipsilently_core import Config, Context, Failure
from shipsilently_core._http import HttpTransport
from shipsilently_core._wire import Request, batch_request
from tests.core.lines import ASK, WAYS, line
from tests.core.support import KEY
from tests.core.wire_server import Answer, Received, WireServer

#: Bytes; an answer that is not small, and the cap.
LARGE, CAP = 900_000, 1_000_000


def echo(received: Received) -> Answer:
    """Says who asked."""
    body = json.dumps(received.context).encode()
    return Answer(raw=b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))


def twice(received: Received) -> Answer:
    """Says it twice, in one piece."""
    once = echo(received).raw
    assert once is not None
    return Answer(raw=once * 2)


def about(user: str) -> Request:
    """The question of one user."""
    return batch_request(Context(user_id=user))


@pytest.mark.parametrize("way", WAYS)
def test_a_second_answer_is_not_taken_for_that_of_the_next_question(
    way: str, server: WireServer
) -> None:
    """A server that answers twice gives nobody another one's values."""
    server.always(twice)
    with line(way, server.url) as send:
        bodies = [send(about(user)).body for user in ("ada", "bob", "eve")]
    assert [json.loads(body)["userId"] for body in bodies] == ["ada", "bob", "eve"]
    assert len({received.client_port for received in server.received}) == 3


@pytest.mark.parametrize("way", ["plain", "httpx"])
def test_nor_is_it_when_threads_wait_for_the_connection(way: str, server: WireServer) -> None:
    """A connection with a second answer on it is given to none of many threads."""
    turns = itertools.cycle([echo, echo, twice])
    server.always(lambda received: next(turns)(received))
    users = [f"user-{number}" for number in range(8)]
    with line(way, server.url, timeout=20) as send, ThreadPoolExecutor(len(users)) as pool:

        def others(user: str) -> list[str]:
            bodies = [send(about(user)).body for _ in range(150)]
            return [name for body in bodies if (name := json.loads(body)["userId"]) != user]

        assert list(pool.map(others, users)) == [[]] * len(users)


@pytest.mark.parametrize("way", WAYS)
def test_bytes_behind_an_answer_cost_the_next_call_nothing(way: str, server: WireServer) -> None:
    """An answer that is longer than it says leaves nothing behind for the next one."""
    server.always(Answer(body=b'{"flags":{}} and more', length=12))
    with line(way, server.url) as send:
        assert [send(ASK).body for _ in range(3)] == [b'{"flags":{}}'] * 3


@pytest.mark.parametrize("way", ["plain", "httpx"])
def test_large_answers_share_what_one_may_take(way: str, server: WireServer) -> None:
    """While one large answer comes in slowly there is no room for a second, but for small ones."""
    large = Answer(body=b"x" * LARGE)
    server.on("/slow", Answer(body=large.body, step=LARGE - 1, pause=60))
    server.on("/small", Answer(body=b"{}"))
    server.on("/large", large)
    with line(way, server.url, max_response_bytes=CAP, timeout=20) as send:
        enough = threading.Event()

        def ask_slowly() -> None:
            # Again, where the other one has had the room first.
            while not enough.is_set():
                send(Request("/slow", b"{}", timeout=2))

        slow = threading.Thread(target=ask_slowly)
        slow.start()
        while (reply := send(Request("/large", b"{}"))).failure is None:
            pass
        assert (reply.failure, reply.cause) == (Failure.PROTOCOL, "too many large answers at once")
        assert send(Request("/small", b"{}")).body == b"{}"
        enough.set()
        slow.join()
        assert send(Request("/large", b"{}")).body == large.body


async def test_large_answers_of_tasks_share_it_too(server: WireServer) -> None:
    """Of many tasks at once, some get a large answer and the others a failure, and all end."""
    server.always(Answer(body=b"x" * LARGE, step=LARGE - 1, pause=0.2))
    transport = HttpTransport(
        Config(api_key=KEY, api_url=server.url, timeout=20, max_response_bytes=CAP)
    )
    replies = await asyncio.gather(*(transport.asend(ASK) for _ in range(8)))
    assert {reply.failure for reply in replies} == {None, Failure.PROTOCOL}
    assert (await transport.asend(ASK)).failure is None
    await transport.aclose()


class Middleman:
    """Stops to pass on what comes by the connections that it knows.

    Args:
        how: What becomes of that.
    """

    def __init__(self, how: Answer) -> None:
        self._how = how
        self.known: set[int] = set()
        self.lost: set[int] = set()

    def __call__(self, received: Received) -> Answer:
        if received.path == "/lost" or received.client_port in self.lost:
            return self._how
        self.known.add(received.client_port)
        return Answer(body=b"{}", delay=0.3 if received.path == "/slow" else 0.0)


SLOW, LOST = Request("/slow", b"{}"), Request("/lost", b"{}")
HASTY = Request("/hasty", b"{}", timeout=1.0)
HOWS = {"silent": Answer(silent=True), "ended": Answer(drop=True)}


@pytest.fixture(params=HOWS)
def middleman(request: pytest.FixtureRequest, server: WireServer) -> Middleman:
    """Between client and service."""
    middleman = Middleman(HOWS[request.param])
    server.always(middleman)
    return middleman


@pytest.fixture
def transport(server: WireServer) -> Iterator[HttpTransport]:
    """With a deadline that a busy machine meets."""
    transport = HttpTransport(Config(api_key=KEY, api_url=server.url, timeout=3))
    yield transport
    transport.close()


def test_dead_connections_cost_one_call(transport: HttpTransport, middleman: Middleman) -> None:
    """Where all connections have died unseen, the first call on one of them is the last."""
    with ThreadPoolExecutor(5) as pool:
        assert {reply.status for reply in pool.map(transport.send, [SLOW] * 5)} == {200}
    middleman.lost = set(middleman.known)
    assert len(middleman.lost) > 1
    threading.Event().wait(1.1)
    assert transport.send(HASTY).failure in (Failure.TIMEOUT, Failure.NETWORK)
    assert [transport.send(ASK).status for _ in range(5)] == [200] * 5


async def test_dead_connections_cost_one_call_in_tasks_too(
    transport: HttpTransport, middleman: Middleman
) -> None:
    """The same for the connections of an event loop."""
    replies = await asyncio.gather(*(transport.asend(SLOW) for _ in range(5)))
    assert {reply.status for reply in replies} == {200}
    middleman.lost = set(middleman.known)
    assert len(middleman.lost) > 1
    await asyncio.sleep(1.1)
    assert (await transport.asend(HASTY)).failure in (Failure.TIMEOUT, Failure.NETWORK)
    assert [(await transport.asend(ASK)).status for _ in range(5)] == [200] * 5
    await transport.aclose()


def test_a_call_that_breaks_alone_leaves_the_others_their_connections(
    transport: HttpTransport, server: WireServer
) -> None:
    """A question that the service cannot stand costs no connection but its own."""
    middleman = Middleman(HOWS["ended"])
    server.always(middleman)
    with ThreadPoolExecutor(5) as pool:
        assert {reply.status for reply in pool.map(transport.send, [SLOW] * 5)} == {200}
    for _ in range(10):
        before = set(middleman.known)
        assert transport.send(ASK).status == 200
        assert transport.send(LOST).failure is Failure.NETWORK
        assert transport.send(ASK).status == 200
        if middleman.known == before:
            return
        # A busy machine took a second for the two: long enough for doubts.
    pytest.fail("every time a new connection was made")
