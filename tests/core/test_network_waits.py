"""Waits of the network that have an end: names, addresses, and reads that others end."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from shipsilently_core import Config, Failure
from shipsilently_core._http import HttpTransport
from shipsilently_core._network import ConnectTimeout, Sockets, Target, connect, deadline
from shipsilently_core._wire import Reply
from tests.core.lines import ASK
from tests.core.support import KEY
from tests.core.wire_server import Answer, WireServer, batch_of

CONNECTED = b'event: connected\ndata: {"connectionId":"c1"}\n\n'
STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"


def names(monkeypatch: pytest.MonkeyPatch, *addresses: str) -> None:
    """Let every name have these addresses."""
    real = socket.getaddrinfo

    def getaddrinfo(host: str, port: int, *rest: Any, **kinds: Any) -> list[Any]:
        if not host.endswith(".invalid"):
            return list(real(host, port, *rest, **kinds))
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (one, port)) for one in addresses]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)


@pytest.fixture
def swallowing(server: WireServer) -> Iterator[str]:
    """An address on which the server's port takes no connection and refuses none."""
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.socket())
        listener.bind(("127.0.0.2", server.port))
        listener.listen(0)
        # Its queue is full from now on, so that further attempts are not even answered.
        for _ in range(4):
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(("127.0.0.2", server.port))
        yield "127.0.0.2"


def test_a_name_that_is_not_resolved_in_time_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """A resolver that does not answer holds a call no longer than its deadline."""
    answered = threading.Event()

    def getaddrinfo(*_: Any, **__: Any) -> list[Any]:
        answered.wait(30)
        return []

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    transport = HttpTransport(Config(api_key=KEY, api_url="http://slow.invalid", timeout=0.2))
    began = time.monotonic()
    reply = transport.send(ASK)
    assert time.monotonic() - began < 5
    assert (reply.failure, reply.connected) == (Failure.TIMEOUT, False)
    answered.set()
    transport.close()


def test_an_address_that_swallows_packets_leaves_time_for_the_next(
    server: WireServer, swallowing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first of two addresses may take half of the time, no more; the second one answers."""
    names(monkeypatch, swallowing, "127.0.0.1")
    server.always(batch_of({"a": 1}))
    transport = HttpTransport(
        Config(api_key=KEY, api_url=f"http://two.invalid:{server.port}", timeout=2)
    )
    assert transport.send(ASK).status == 200
    transport.close()


def test_addresses_that_all_swallow_packets_end_with_the_deadline(
    server: WireServer, swallowing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three silent addresses cost one deadline, not three."""
    names(monkeypatch, *[swallowing] * 3)
    began = time.monotonic()
    with deadline(0.3), pytest.raises(ConnectTimeout):
        connect(Target("three.invalid", server.port, None), Sockets())
    assert time.monotonic() - began < 5


@pytest.fixture(params=["plain", "TLS"])
def any_server(
    request: pytest.FixtureRequest, certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[WireServer]:
    """A scripted server that is trusted, with TLS and without."""
    context = None
    if request.param == "TLS":
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    with WireServer(context=context) as server:
        yield server


def ended_by_interrupt(transport: HttpTransport, wait: Any, begun: Any) -> list[Any]:
    """What `wait` gives when it is interrupted once it has `begun`."""
    found: list[Any] = []

    def work() -> None:
        try:
            found.append(wait())
        except Exception as error:
            found.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    end = time.monotonic() + 10
    while not begun() and time.monotonic() < end:
        thread.join(0.01)
    thread.join(0.05)
    assert thread.is_alive()
    transport.interrupt()
    thread.join(5)
    assert not thread.is_alive()
    return found


def test_a_call_that_waits_for_headers_is_ended_at_once(any_server: WireServer) -> None:
    """Another thread ends a call before its headers have come, with TLS and without."""
    any_server.always(Answer(silent=True))
    transport = HttpTransport(Config(api_key=KEY, api_url=any_server.url, timeout=60))
    (reply,) = ended_by_interrupt(
        transport, lambda: transport.send(ASK), lambda: any_server.received
    )
    assert reply.failure is Failure.NETWORK
    transport.close()


def test_a_stream_that_waits_for_headers_is_ended_at_once(any_server: WireServer) -> None:
    """So it is with a stream whose headers have not come."""
    any_server.always(Answer(silent=True))
    transport = HttpTransport(Config(api_key=KEY, api_url=any_server.url, timeout=60))
    (reply,) = ended_by_interrupt(
        transport, lambda: transport.open_stream("t"), lambda: any_server.received
    )
    assert isinstance(reply, Reply)
    assert reply.failure is Failure.NETWORK
    transport.close()


def test_a_stream_that_is_read_is_ended_at_once(any_server: WireServer) -> None:
    """So it is with a read of an open stream."""
    any_server.always(Answer(raw=STREAM + CONNECTED))
    transport = HttpTransport(Config(api_key=KEY, api_url=any_server.url, timeout=60))
    opened = transport.open_stream("t")
    assert not isinstance(opened, Reply)
    assert opened.read(10) == CONNECTED
    (error,) = ended_by_interrupt(transport, lambda: opened.read(60), lambda: True)
    assert type(error).__name__ == "StreamBroken"
    opened.close()
    transport.close()


def test_a_child_that_forgets_leaves_no_descriptor_behind(any_server: WireServer) -> None:
    """`forget` closes this process's copy of each socket; the pool is made anew afterwards."""
    any_server.always(batch_of({"a": 1}))
    transport = HttpTransport(Config(api_key=KEY, api_url=any_server.url, timeout=10))
    assert transport.send(ASK).status == 200
    (sock,) = transport._sockets._living()
    assert sock.fileno() >= 0
    transport.forget()
    assert sock.fileno() == -1
    assert transport._sockets._living() == []
    assert transport.send(ASK).status == 200
    assert any_server.connections == 2
    transport.close()
