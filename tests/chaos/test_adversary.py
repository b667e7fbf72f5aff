"""The adversary does what it says, as a plain socket and a plain client see it."""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.core.certificate import Authority

from .adversary import Stage, Toxic
from .faults import FAULTS
from .secure import Expires
from .service import FLAG
from .toxics import (
    AnsweredTwice,
    Bandwidth,
    Bomb,
    Breaks,
    Delays,
    Drips,
    Ends,
    HalfOpen,
    LongEvent,
    Refuses,
    Reorders,
    StaleKeepAlive,
    StopsInMidEvent,
    Swallows,
    Vanishes,
)
from .trial import Fault

#: Seconds; an answer without a toxic takes far less, one that does not come costs so much.
SHORT = 0.3
#: Seconds in which everything comes that comes at all.
LONG = 10.0


@pytest.fixture
def stage() -> Iterator[Stage]:
    """A service that changes nothing by itself, behind an adversary."""
    with Stage(changes=3600) as running:
        yield running


def question(user: str = "thread-0", path: str = "/v1/evaluate/batch") -> bytes:
    """A question as bytes."""
    body = json.dumps({"context": {"userId": user}}).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


@contextlib.contextmanager
def connection(stage: Stage, timeout: float = LONG) -> Iterator[socket.socket]:
    """A plain connection."""
    with socket.create_connection(("127.0.0.1", stage.adversary.port), timeout) as sock:
        yield sock


def heard(sock: socket.socket, most: int = 1_000_000, seconds: float = LONG) -> bytes:
    """All that comes until the end, a reset, a silence, so many bytes, or so many seconds."""
    parts: list[bytes] = []
    end = time.monotonic() + seconds
    with contextlib.suppress(OSError):
        while sum(map(len, parts)) < most and time.monotonic() < end:
            if not (part := sock.recv(65536)):
                break
            parts.append(part)
    return b"".join(parts)


def ask(client: httpx.Client, stage: Stage, user: str = "thread-0") -> Any:
    """A user's value."""
    answer = client.post(f"{stage.url}/v1/evaluate/batch", json={"context": {"userId": user}})
    return answer.json()["flags"][FLAG]["value"]


@pytest.fixture
def client() -> Iterator[httpx.Client]:
    """A plain client."""
    with httpx.Client(timeout=LONG, trust_env=False) as made:
        yield made


def follow(stage: Stage, sock: socket.socket) -> None:
    """Open the stream."""
    sock.sendall(question(path="/v1/stream/ticket"))
    head, body = sock.recv(65536).split(b"\r\n\r\n")
    assert b" 200 " in head
    ticket = json.loads(body)["ticket"]
    sock.sendall(f"GET /v1/stream?ticket={ticket} HTTP/1.1\r\nHost: x\r\n\r\n".encode())


def test_without_a_toxic_each_user_gets_its_own_value(stage: Stage, client: httpx.Client) -> None:
    """The truth gets through: whose the value is, and a version that grows with each change."""
    assert [ask(client, stage, user) for user in ("ada", "bob")] == ["ada:1", "bob:1"]
    assert stage.change() == 2
    assert ask(client, stage, "ada") == "ada:2"


def test_without_a_toxic_the_stream_tells_of_each_change(stage: Stage) -> None:
    """A ticket opens the stream once, and each change is an event on it."""
    with connection(stage) as sock:
        follow(stage, sock)
        stream = sock.makefile("rb")
        lines = iter(stream.readline, b"")
        assert any(line == b"event: connected\n" for line in lines)
        stage.change()
        assert any(line == b"event: flags.updated\n" for line in lines)


def test_answers_come_late(stage: Stage, client: httpx.Client) -> None:
    """A delay is longer than the patience of a client that has less."""
    stage.use(Delays(1.0, 1.0))
    with pytest.raises(httpx.ReadTimeout):
        client.post(f"{stage.url}/v1/evaluate/batch", content=b'{"context":{}}', timeout=SHORT)


@pytest.mark.parametrize(
    ("toxic", "size"), [(Drips(0.002), 1), (Bandwidth(2_000), 100)], ids=["drip", "bandwidth"]
)
def test_answers_come_in_many_pieces(stage: Stage, toxic: Toxic, size: int) -> None:
    """Headers too come one byte at a time, or as many as the line carries."""
    stage.use(toxic)
    with connection(stage) as sock:
        sock.sendall(question())
        pieces = [sock.recv(65536) for _ in range(4)]
    assert b"".join(pieces).startswith(b"HTTP")
    assert min(map(len, pieces)) == size


def test_a_half_open_connection_stays_silent(stage: Stage) -> None:
    """It is made and takes the question, and neither an answer nor an end comes."""
    stage.use(HalfOpen())
    with connection(stage, SHORT) as sock:
        sock.sendall(question())
        with pytest.raises(TimeoutError):
            sock.recv(1)


def test_a_vanished_peer_stays_so(stage: Stage, client: httpx.Client) -> None:
    """What was open is dead for good, and what is made afterwards works."""
    assert ask(client, stage) == "thread-0:1"
    stage.use(Vanishes())
    stage.use(None)
    with pytest.raises(httpx.ReadTimeout):
        client.post(f"{stage.url}/v1/evaluate/batch", content=b'{"context":{}}', timeout=SHORT)
    assert ask(client, stage) == "thread-0:1"


@pytest.mark.parametrize(
    ("toxic", "error"),
    [
        (Refuses, ConnectionRefusedError),
        (Swallows, TimeoutError),
    ],
)
def test_the_port_is_closed_or_swallows_and_comes_back(
    stage: Stage, client: httpx.Client, toxic: Callable[[], Toxic], error: type[OSError]
) -> None:
    """A connection is refused, or never made; afterwards it is, on the same port."""
    stage.use(toxic())
    with pytest.raises(error), connection(stage, SHORT):
        pass
    stage.use(None)
    assert ask(client, stage) == "thread-0:1"


def test_connections_are_ended_at_once(stage: Stage) -> None:
    """They are made, and over."""
    stage.use(Ends())
    with connection(stage) as sock:
        assert heard(sock) == b""


@pytest.mark.parametrize("reset", [True, False])
def test_an_answer_breaks_off(stage: Stage, reset: bool) -> None:
    """So many bytes come, and then a reset or a regular end."""
    stage.use(Breaks(lambda answer: 20, reset=reset))
    with connection(stage) as sock:
        sock.sendall(question())
        assert sock.recv(20, socket.MSG_WAITALL) == b"HTTP/1.1 200 OK\r\nCont"[:20]
        if reset:
            with pytest.raises(ConnectionResetError):
                sock.recv(1)
        else:
            assert sock.recv(1) == b""


def test_an_event_breaks_off(stage: Stage) -> None:
    """After the first event, half of the next one comes, and a reset."""
    with connection(stage) as sock:
        follow(stage, sock)
        while b"connected" not in (came := sock.recv(65536)):
            pass
        stage.use(StopsInMidEvent(reset=True))
        stage.change()
        came = heard(sock)
    assert came.startswith(b"event: flags.up")
    assert not came.endswith(b"\n\n")


def test_a_line_has_no_end(stage: Stage) -> None:
    """A line of megabytes comes on the stream."""
    with connection(stage) as sock:
        follow(stage, sock)
        stage.use(LongEvent(8 * 1024 * 1024))
        stage.change()
        assert heard(sock, 4 * 1024 * 1024).rpartition(b"\n")[2].count(b"x") > 3 * 1024 * 1024


def test_an_idle_connection_ends_when_it_is_used(stage: Stage) -> None:
    """The first answer comes, the second does not."""
    stage.use(StaleKeepAlive(reset=False))
    with connection(stage) as sock:
        sock.sendall(question())
        assert sock.recv(65536).startswith(b"HTTP/1.1 200")
        sock.sendall(question())
        assert not heard(sock).startswith(b"HTTP")


def test_an_answer_comes_twice(stage: Stage) -> None:
    """Both are in what comes."""
    stage.use(AnsweredTwice())
    with connection(stage, SHORT) as sock:
        sock.sendall(question())
        assert heard(sock).count(b"HTTP/1.1 200 OK") == 2


def test_answers_overtake_each_other(stage: Stage) -> None:
    """Of many questions at once, some are answered after younger ones."""
    toxic = Reorders()
    stage.use(toxic)

    def once(number: int) -> None:
        with connection(stage) as sock:
            sock.sendall(question("shared-0"))
            assert sock.recv(1)

    with ThreadPoolExecutor(24) as pool:
        list(pool.map(once, range(48)))
    assert toxic.hits["shared"] > 0


def test_a_bomb_goes_off_in_a_client_that_has_no_measure(stage: Stage) -> None:
    """A small answer becomes a large one."""
    stage.use(Bomb(8 * 1024 * 1024))
    with httpx.stream(
        "POST", f"{stage.url}/v1/evaluate/batch", content=b'{"context":{}}', trust_env=False
    ) as answer:
        packed = int(answer.headers["content-length"])
        assert len(answer.read()) > 8 * 1024 * 1024
    assert packed < 100_000


def seen(stage: Stage) -> tuple[bytes, ...]:
    """What a plain client sees of two questions on one connection, and of the stream."""
    with contextlib.ExitStack() as stack:
        try:
            following = stack.enter_context(connection(stage, SHORT))
            follow(stage, following)
            asking = stack.enter_context(connection(stage, SHORT))
            asking.sendall(question())
            first = heard(asking, seconds=2 * SHORT)
            asking.sendall(question())
            answers = [first, heard(asking, seconds=2 * SHORT)]
        except (OSError, ValueError, AssertionError) as error:
            return (type(error).__name__.encode(),)
        stage.change()
        stream = heard(following, seconds=2 * SHORT)
        return (*answers, b"".join(line for line in stream.splitlines() if b"Id" not in line))


def is_seen(fault: Fault, clean: tuple[bytes, ...]) -> bool:
    """Whether a plain client sees that a fault is there, knowing what there is without."""
    with Stage(changes=3600) as stage, connection(stage, SHORT) as there:
        # Some faults are done to connections that are there.
        there.sendall(question())
        assert there.recv(65536)
        stage.use(fault.toxic())
        on_it = b""
        with contextlib.suppress(OSError):
            there.sendall(question())
            on_it = there.recv(65536)
        return not on_it or seen(stage) != clean


@pytest.fixture
def clean() -> tuple[bytes, ...]:
    """What is seen without a fault."""
    with Stage(changes=3600) as stage:
        return seen(stage)


#: Those that change the time at which something comes, and not what comes.
IN_TIME_ONLY = ("reordered", "bandwidth")
#: So often is one looked at that is another one each time, and some of these change nothing.
LOOKS = 10
VISIBLE = [
    fault for fault in FAULTS.values() if fault.tls is None and fault.name not in IN_TIME_ONLY
]


def test_every_fault_can_be_seen(clean: tuple[bytes, ...]) -> None:
    """Each makes a difference to a plain client, and not only to ours."""

    def is_seen_once(fault: Fault) -> bool:
        looks = LOOKS if fault.name == "mixed" else 1
        return any(is_seen(fault, clean) for _ in range(looks))

    with ThreadPoolExecutor(16) as pool:
        found = list(pool.map(is_seen_once, VISIBLE))
    assert [f.name for f, there in zip(VISIBLE, found, strict=True) if not there] == []


def test_no_fault_is_seen_where_none_is(clean: tuple[bytes, ...]) -> None:
    """The look for differences finds none without a toxic."""
    assert len(clean) == 3
    assert not is_seen(Fault("none", "nothing", Toxic), clean)


def test_who_comes_at_the_very_end_leaves_no_socket_open() -> None:
    """A connection that arrives together with the end of a stage is closed, not forgotten."""
    busy, stage = threading.Event(), Stage(changes=3600)

    def hold() -> None:
        busy.set()
        time.sleep(0.1)

    with contextlib.ExitStack() as stack:
        with stage:
            stage._loop.call_soon_threadsafe(hold)
            assert busy.wait(10)
            there = stack.enter_context(connection(stage))
        assert heard(there) == b""


def test_a_certificate_expires_in_mid_run(tmp_path: Path) -> None:
    """Handshakes succeed, then fail for the one reason that it has expired, and succeed again."""
    authority = Authority()
    trusted, served = tmp_path / "trusted.pem", tmp_path / "served.pem"
    trusted.write_text(authority.certificate(), encoding="ascii")
    served.write_text(authority.leaf(), encoding="ascii")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(served)
    trust = ssl.create_default_context(cafile=trusted)

    def shake(stage: Stage) -> None:
        with connection(stage) as sock, trust.wrap_socket(sock, server_hostname="127.0.0.1"):
            pass

    with Stage(context, changes=3600) as stage:
        shake(stage)
        stage.use(Expires(authority, -60))
        with pytest.raises(ssl.SSLCertVerificationError, match="certificate has expired"):
            shake(stage)
        stage.use(None)
        shake(stage)
