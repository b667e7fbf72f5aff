"""Names, addresses, TLS and proxies."""

from __future__ import annotations

import asyncio
import base64
import gc
import socket
import ssl
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpcore
import pytest

from shipsilently_core import Config, Failure, _network
from shipsilently_core._http import HttpTransport
from shipsilently_core._network import (
    ConnectError,
    ConnectTimeout,
    ReadTimeout,
    Route,
    Sockets,
    Target,
    connect,
    deadline,
    resolve,
    time_left,
)
from shipsilently_core._proxied import Backend
from tests.core.lines import ASK, OWN, WAYS, line
from tests.core.support import KEY, held_by_nobody
from tests.core.wire_server import Answer, Received, WireServer

OK = Answer(body=b'{"flags":{}}')


class TestDeadline:
    """The time that is left."""

    def test_a_step_gets_no_more_than_is_left(self) -> None:
        """Within a deadline a step is bounded by both, without one by itself or an hour."""
        assert time_left() == 3600
        assert time_left(5) == 5
        with deadline(100):
            assert time_left(5) == 5
            assert 90 < time_left() <= 100
            with deadline(1):
                assert time_left(5) <= 1
            assert 90 < time_left(200) <= 100

    def test_when_nothing_is_left_no_step_begins(self) -> None:
        """A deadline that has passed is a timeout."""
        with deadline(-1), pytest.raises(ReadTimeout):
            time_left(5)


@pytest.mark.parametrize("way", ["straight", "by httpcore"])
class TestAddresses:
    """From a name to a connection, for threads: of our own, and for what goes by way of a proxy."""

    @pytest.fixture(autouse=True)
    def _take(self, way: str) -> None:
        self.straight = way == "straight"

    def connect(self, host: str, port: int) -> None:
        with deadline(5):
            if self.straight:
                connect(Target(host, port, None), Sockets()).close()
            else:
                Backend(Sockets()).connect_tcp(host, port).close()

    def answers(self, monkeypatch: pytest.MonkeyPatch, *addresses: str) -> list[str]:
        asked: list[str] = []
        resolve = socket.getaddrinfo

        def scripted(host: str, port: int, *args: Any, **kwargs: Any) -> Any:
            asked.append(host)
            if host != "flags.invalid":
                return resolve(host, port, *args, **kwargs)
            return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (a, port)) for a in addresses]

        monkeypatch.setattr(socket, "getaddrinfo", scripted)
        return asked

    def test_an_address_is_not_looked_up(
        self, server: WireServer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """What is an address already is looked up by nobody but the socket library itself."""
        asked = self.answers(monkeypatch)
        self.connect("127.0.0.1", server.port)
        assert len(asked) == 1

    def test_a_refusing_address_is_passed_over(
        self, server: WireServer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The next address of the name is tried, each once."""
        self.answers(monkeypatch, "127.0.0.9", "127.0.0.9", "127.0.0.1")
        self.connect("flags.invalid", server.port)

    def test_the_last_refusal_is_the_failure(
        self, free_port: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Where every address refuses, there is no connection."""
        self.answers(monkeypatch, "127.0.0.8", "127.0.0.9")
        with pytest.raises((ConnectError, httpcore.ConnectError)):
            self.connect("flags.invalid", free_port)

    def test_a_name_without_an_address_is_no_connection(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """An empty answer of the resolver is a failure like a refusal."""
        self.answers(monkeypatch)
        with pytest.raises(ConnectError, match="no address"):
            self.connect("flags.invalid", 80)

    def test_a_name_that_is_unknown_is_no_connection(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """What the resolver raises is a failure, plain and awaited."""

        def unknown(host: Any, *args: Any, **kwargs: Any) -> Any:
            raise socket.gaierror(socket.EAI_NONAME, "unknown")

        monkeypatch.setattr(socket, "getaddrinfo", unknown)
        for way in OWN:
            with line(way, "http://flags.invalid") as send:
                reply = send(ASK)
            assert (reply.failure, reply.connected) == (Failure.NETWORK, False)

    def test_without_new_threads_names_are_still_resolved(
        self, server: WireServer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """While the interpreter ends no thread can be started; the look-up is done at once."""
        asked = self.answers(monkeypatch, "127.0.0.1")
        monkeypatch.setattr(_network, "_addresses", {})
        no_more_threads(monkeypatch)
        self.connect("flags.invalid", server.port)
        assert "flags.invalid" in asked

    def test_without_new_threads_a_name_is_where_it_was(
        self, server: WireServer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """What was looked up before is not looked up again, which might take any time."""
        asked = self.answers(monkeypatch, "127.0.0.1")
        monkeypatch.setattr(_network, "_addresses", {})
        self.connect("flags.invalid", server.port)
        no_more_threads(monkeypatch)
        self.connect("flags.invalid", server.port)
        assert asked.count("flags.invalid") == 1

    def test_an_address_of_the_new_kind_works(self) -> None:
        """The address of a service may be one of IPv6."""
        if not socket.has_ipv6:
            pytest.skip("this machine has no IPv6")
        try:
            listener = socket.create_server(("::1", 0), family=socket.AF_INET6)
        except OSError:
            pytest.skip("this machine has no IPv6")
        with listener:
            self.connect("::1", listener.getsockname()[1])


def no_more_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """No thread can be started for a look-up, as while the interpreter ends."""
    start = threading.Thread.start

    def refuse(thread: threading.Thread) -> None:
        if thread.name == "shipsilently-resolve":
            raise RuntimeError("can't create new thread at interpreter shutdown")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", refuse)


class TestLastAddresses:
    """What names were resolved to, for when nobody can wait for a resolver."""

    @pytest.fixture(autouse=True)
    def _take(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.known: dict[str, list[str] | None] = {}
        self.asked: list[str] = []
        self.answer: list[str] | Exception = ["127.0.0.1"]
        self.hangs = False
        self.released = threading.Event()
        monkeypatch.setattr(_network, "_addresses", self.known)

        def scripted(host: str, port: int, *args: Any, **kwargs: Any) -> Any:
            self.asked.append(host)
            if self.hangs:
                self.released.wait(20)
            if isinstance(self.answer, Exception):
                raise self.answer
            return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (a, port)) for a in self.answer]

        monkeypatch.setattr(socket, "getaddrinfo", scripted)

    def test_the_last_answer_counts(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Each look-up replaces what was known, for its name alone."""
        assert resolve("one.invalid", 80, 5) == ["127.0.0.1"]
        self.answer = ["127.0.0.2", "127.0.0.3"]
        assert resolve("two.invalid", 80, 5) == resolve("one.invalid", 80, 5) == self.answer
        self.answer = OSError("unknown")
        with pytest.raises(ConnectError):
            resolve("one.invalid", 80, 5)
        no_more_threads(monkeypatch)
        assert resolve("one.invalid", 80, 5) == ["127.0.0.2", "127.0.0.3"]
        assert self.asked == ["one.invalid", "two.invalid", "one.invalid", "one.invalid"]

    def test_who_hung_last_is_not_asked_where_nobody_can_wait(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A name that was not resolved in time is no connection, at once."""
        self.hangs = True
        with pytest.raises(ConnectTimeout):
            resolve("slow.invalid", 80, 0.05)
        with monkeypatch.context() as patched:
            no_more_threads(patched)
            with pytest.raises(ConnectTimeout):
                resolve("slow.invalid", 80, 5)
        assert self.asked == ["slow.invalid"]
        self.hangs = False
        self.released.set()
        assert resolve("slow.invalid", 80, 5) == ["127.0.0.1"]
        no_more_threads(monkeypatch)
        assert resolve("slow.invalid", 80, 5) == ["127.0.0.1"]
        assert self.asked == ["slow.invalid"] * 2

    @pytest.mark.parametrize("known", [False, True], ids=["never asked", "without an address"])
    def test_a_name_of_which_nothing_is_known_is_looked_up_here(
        self, known: bool, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The look-up may find it, know no such name, or find no address."""
        if known:
            self.known["flags.invalid"] = []
        no_more_threads(monkeypatch)
        self.answer = socket.gaierror(socket.EAI_NONAME, "unknown")
        with pytest.raises(ConnectError):
            resolve("flags.invalid", 80, 5)
        for self.answer in ([], ["127.0.0.1"]):
            assert resolve("flags.invalid", 80, 5) == self.answer
        assert self.asked == ["flags.invalid"] * 3
        assert resolve("flags.invalid", 80, 5) == ["127.0.0.1"]
        assert self.asked == ["flags.invalid"] * 3

    def test_a_bounded_number_of_names_is_remembered(self) -> None:
        """However many there are, and those that are known are kept up to date."""
        for number in range(150):
            resolve(f"{number}.invalid", 80, 5)
        assert len(self.known) == 100
        self.answer = ["127.0.0.2"]
        resolve("0.invalid", 80, 5)
        assert self.known["0.invalid"] == ["127.0.0.2"]
        assert len(self.known) == 100


class TestTls:
    """A service behind TLS whose certificate the machine does not know."""

    @pytest.mark.parametrize("way", OWN)
    def test_a_certificate_from_the_environment_is_trusted(
        self,
        way: str,
        tls_server: WireServer,
        certificate: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        """`SSL_CERT_FILE` names who may vouch for the service."""
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        tls_server.always(OK)
        with line(way, tls_server.url, timeout=10) as send:
            assert [send(ASK).status for _ in range(2)] == [200, 200]
        assert tls_server.connections == 1

    @pytest.mark.parametrize("way", OWN)
    @pytest.mark.parametrize("content", [None, "no certificate"])
    def test_certificates_that_cannot_be_read_are_a_failure(
        self,
        content: str | None,
        way: str,
        tls_server: WireServer,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        """A mistake in `SSL_CERT_FILE` costs no exception, and nothing is sent unchecked."""
        path = tmp_path / "certificates.pem"
        if content is not None:
            path.write_text(content, encoding="ascii")
        monkeypatch.setenv("SSL_CERT_FILE", str(path))
        with line(way, tls_server.url) as send:
            assert send(ASK).failure is Failure.NETWORK
        assert tls_server.received == []

    @pytest.mark.parametrize("way", WAYS)
    def test_an_unknown_certificate_is_no_connection(
        self, way: str, tls_server: WireServer
    ) -> None:
        """Without it there is a network failure, and the key is not sent."""
        tls_server.always(OK)
        with line(way, tls_server.url, timeout=10) as send:
            for _ in range(3):
                reply = send(ASK)
                assert (reply.failure, reply.connected) == (Failure.NETWORK, False)
        assert tls_server.received == []

    def test_failed_handshakes_leave_nothing_behind(self, tls_server: WireServer) -> None:
        """However often it fails, no socket is remembered."""
        transport = HttpTransport(Config(api_key=KEY, api_url=tls_server.url, timeout=10))
        for _ in range(5):
            assert transport.send(ASK).failure is Failure.NETWORK
        # What was raised may refer to itself, and so to them.
        gc.collect()
        assert not list(transport._sockets._living())
        assert len(transport._sockets._open) == 0
        transport.close()

    @pytest.mark.parametrize("way", WAYS)
    def test_a_client_of_ones_own_trusts_whom_it_likes(
        self, way: str, tls_server: WireServer, certificate: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Its own settings decide, and the deadline holds on its TLS connections too."""
        if way in OWN:
            monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        context = ssl.create_default_context(cafile=str(certificate))
        tls_server.always(OK, Answer(body=b" " * 1_000, step=1, pause=0.02))
        with line(way, tls_server.url, client={"verify": context}, timeout=0.5) as send:
            assert send(ASK).status == 200
            assert send(ASK).failure is Failure.TIMEOUT

    def test_plain_http_on_a_tls_port_is_a_failure(self, tls_server: WireServer) -> None:
        """A wrong scheme costs no exception."""
        tls_server.always(OK)
        with line("plain", tls_server.url.replace("https", "http")) as send:
            assert send(ASK).failure is Failure.NETWORK

    def test_a_tls_call_on_a_plain_port_is_a_failure(self, server: WireServer) -> None:
        """The same the other way round."""
        with line("plain", server.url.replace("http", "https"), timeout=1) as send:
            assert send(ASK).failure is not None


@pytest.fixture
def proxy() -> Iterator[WireServer]:
    """A proxy that answers itself; it records what it was asked for."""
    with WireServer(OK) as running:
        yield running


def through(proxy: WireServer, monkeypatch: pytest.MonkeyPatch, name: str = "HTTP_PROXY") -> None:
    monkeypatch.setenv(name, f"http://user:pa%3Ass@127.0.0.1:{proxy.port}")


class TestProxies:
    """What the environment says of proxies."""

    @pytest.mark.parametrize("way", WAYS)
    @pytest.mark.parametrize("name", ["HTTP_PROXY", "http_proxy", "ALL_PROXY"])
    def test_a_proxy_is_used_with_its_credentials(
        self, name: str, way: str, proxy: WireServer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The call goes to the proxy, which is told the whole address and who asks."""
        through(proxy, monkeypatch, name)
        with line(way, "http://flags.invalid:81/base") as send:
            assert send(ASK).status == 200
        (received,) = proxy.received
        assert received.target == "http://flags.invalid:81/base/v1/evaluate/batch"
        assert received.headers["host"] == "flags.invalid:81"
        kind, _, secret = received.headers["proxy-authorization"].partition(" ")
        assert (kind, base64.b64decode(secret)) == ("Basic", b"user:pa:ss")

    @pytest.mark.parametrize("way", OWN)
    def test_a_proxy_may_be_named_without_a_scheme(
        self, way: str, proxy: WireServer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A host and a port are enough."""
        monkeypatch.setenv("HTTP_PROXY", f"127.0.0.1:{proxy.port}")
        with line(way, "http://flags.invalid") as send:
            assert send(ASK).status == 200

    @pytest.mark.parametrize("way", WAYS)
    @pytest.mark.parametrize("exempt", ["127.0.0.1", "*", "elsewhere.invalid, 127.0.0.1"])
    def test_what_is_exempt_goes_straight(
        self,
        way: str,
        exempt: str,
        server: WireServer,
        proxy: WireServer,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        """`NO_PROXY` keeps the proxy out of it."""
        server.always(OK)
        through(proxy, monkeypatch)
        monkeypatch.setenv("NO_PROXY", exempt)
        with line(way, server.url) as send:
            assert send(ASK).status == 200
        assert proxy.received == []
        assert len(server.received) == 1

    @pytest.mark.parametrize("way", OWN)
    @pytest.mark.parametrize("exempt", ["::1", "elsewhere.invalid, ::1", "[::1]", "[::1]:{port}"])
    def test_an_address_of_the_new_kind_is_exempt(
        self, way: str, exempt: str, proxy: WireServer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """`NO_PROXY` may have an address of IPv6 as people write it, or as addresses have it."""
        try:
            server = WireServer(OK, host="::1")
        except OSError:
            pytest.skip("this machine has no IPv6")
        with server:
            through(proxy, monkeypatch)
            monkeypatch.setenv("NO_PROXY", exempt.format(port=server.port))
            with line(way, f"http://[::1]:{server.port}") as send:
                assert send(ASK).status == 200
            assert proxy.received == []
            assert len(server.received) == 1

    @pytest.mark.parametrize(
        ("url", "exempt", "straight"),
        [
            ("http://[::1]:81", "::1", True),
            ("http://[::1]", "::1", True),
            ("http://[::1]:81", "::2", False),
            ("http://[::1]:81", "1", False),
            ("http://flags.invalid:81", "flags.invalid:81", True),
            ("http://flags.invalid:81", "flags.invalid", True),
            ("http://flags.invalid:81", ".invalid", True),
            ("http://flags.invalid:81", "flags.invalid:82", False),
            ("http://flags.invalid:81", "ags.invalid", False),
        ],
    )
    def test_what_is_exempt_is_told_by_host_or_port(
        self, url: str, exempt: str, straight: bool, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """With its port and without, and nothing else that only looks like it."""
        monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
        monkeypatch.setenv("NO_PROXY", exempt)
        assert (Route(url).proxy() is None) is straight

    @pytest.mark.parametrize("way", OWN)
    @pytest.mark.parametrize(
        "address", ["ftp://127.0.0.1:1", "http://[::1", "http://secret:pass@host:port", "://"]
    )
    def test_an_address_that_cannot_be_used_is_a_failure(
        self, way: str, address: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A mistake in the environment costs no exception, and the service is not asked past it."""
        monkeypatch.setenv("HTTP_PROXY", address)
        with line(way, "http://flags.invalid") as send:
            reply = send(ASK)
        assert (reply.failure, reply.connected) == (Failure.NETWORK, False)
        assert reply.cause == "UnusableProxy"

    @pytest.mark.parametrize("way", OWN)
    def test_a_socks_proxy_without_its_library_is_a_failure(
        self, way: str, free_port: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """What cannot be done without another package costs no exception."""
        monkeypatch.setenv("ALL_PROXY", f"socks5://127.0.0.1:{free_port}")
        with line(way, "http://flags.invalid") as send:
            assert send(ASK).failure is Failure.NETWORK

    @pytest.mark.parametrize("way", OWN)
    def test_a_proxy_that_refuses_is_a_failure(
        self, way: str, proxy: WireServer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A proxy that wants other credentials is told from the service's own refusal."""
        proxy.always(Answer(407))
        through(proxy, monkeypatch)
        through(proxy, monkeypatch, "HTTPS_PROXY")
        with line(way, "http://flags.invalid") as send:
            assert send(ASK).status == 407
        with line(way, "https://flags.invalid") as send:
            reply = send(ASK)
        assert (reply.failure, reply.connected) == (Failure.NETWORK, False)

    @pytest.mark.parametrize("way", OWN)
    def test_a_proxy_that_is_gone_is_no_connection(
        self, way: str, free_port: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Where the proxy does not listen, nobody can be reached."""
        monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{free_port}")
        with line(way, "http://flags.invalid") as send:
            reply = send(ASK)
        assert (reply.failure, reply.connected) == (Failure.NETWORK, False)

    @pytest.mark.parametrize("way", OWN)
    def test_a_proxy_that_drips_ends_in_time(
        self, way: str, proxy: WireServer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The deadline holds for the proxy's part too, also while a tunnel is made."""
        proxy.always(Answer(body=b"x" * 1_000, drip_head=True, step=1, pause=0.05))
        through(proxy, monkeypatch)
        through(proxy, monkeypatch, "HTTPS_PROXY")
        for url in ("http://flags.invalid", "https://flags.invalid"):
            with line(way, url, timeout=0.3) as send:
                assert send(ASK).failure is Failure.TIMEOUT


class Tunnel(WireServer):
    """A proxy that connects its callers to one server, whatever they ask for."""

    def __init__(self, target: int) -> None:
        super().__init__(self.answer)
        self.target = target

    def answer(self, received: Received) -> Answer:
        return Answer(raw=b"HTTP/1.1 200 Connected\r\n\r\n")

    def _send(self, connection: socket.socket, answer: Answer) -> bool:
        super()._send(connection, answer)
        with socket.create_connection(("127.0.0.1", self.target)) as onward:

            def back() -> None:
                with suppress(OSError):
                    while data := onward.recv(65536):
                        connection.sendall(data)

            thread = threading.Thread(target=back, daemon=True)
            thread.start()
            try:
                while data := connection.recv(65536):
                    onward.sendall(data)
            finally:
                with suppress(OSError):
                    onward.shutdown(socket.SHUT_RDWR)
                thread.join(5)
        return False


@pytest.mark.parametrize("way", OWN)
def test_tls_goes_through_a_tunnel(
    way: str, tls_server: WireServer, certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a proxy for https the proxy sees the host alone, never the key or the context."""
    tls_server.always(OK)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    with Tunnel(tls_server.port) as tunnel:
        monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{tunnel.port}")
        with line(way, f"https://localhost:{tls_server.port}", timeout=10) as send:
            assert send(ASK).status == 200
        (seen,) = tunnel.received
    assert (seen.method, seen.target) == ("CONNECT", f"localhost:{tls_server.port}")
    assert KEY not in str(seen)
    (received,) = tls_server.received
    assert received.headers["x-api-key"] == KEY


class TestSockets:
    """The open sockets of one transport."""

    def test_a_waiting_call_is_ended_from_outside(self, server: WireServer) -> None:
        """`interrupt` ends a read that would have gone on for long."""
        server.always(Answer(silent=True))
        transport = HttpTransport(Config(api_key=KEY, api_url=server.url, timeout=30))
        replies = []
        thread = threading.Thread(target=lambda: replies.append(transport.send(ASK)))
        thread.start()
        while not server.received:
            threading.Event().wait(0.01)
        transport.interrupt()
        thread.join(10)
        assert [reply.failure for reply in replies] == [Failure.NETWORK]
        transport.close()

    def test_what_is_ended_from_outside_never_sends_in_the_clear(
        self, certificate: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A thread that was about to send on a connection with TLS fails, or sends encrypted.

        Python's own way to shut such a socket down takes the encryption off first.
        """
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        with WireServer(OK, context=context) as tls_server:
            transport = HttpTransport(Config(api_key=KEY, api_url=tls_server.url, timeout=10))
            assert transport.send(ASK).status == 200
            (sock,) = transport._sockets._living()
            assert isinstance(sock, ssl.SSLSocket)
            taken_off = []

            class Watched(ssl.SSLSocket):
                def shutdown(self, how: int) -> None:
                    taken_off.append(how)
                    super().shutdown(how)

            sock.__class__ = Watched
            transport.interrupt()
            assert taken_off == []
            assert sock.version() is not None
            # A broken pipe, a reset or TLS's own word, whichever comes first.
            with pytest.raises((ConnectionError, ssl.SSLError)):
                sock.send(b"a question")
            assert sock.version() is not None
            transport.close()

    def test_sockets_that_are_closed_are_not_remembered(self, server: WireServer) -> None:
        """However many connections there were, only the open ones are known."""
        server.always(Answer(body=b"{}", close=True))
        transport = HttpTransport(Config(api_key=KEY, api_url=server.url))
        for _ in range(5):
            server.closed_by_client.clear()
            assert transport.send(ASK).status == 200
            assert server.closed_by_client.wait(5)
        transport.close()
        assert not list(transport._sockets._living())
        transport.interrupt()

    def test_a_stream_without_a_socket_is_no_trouble(self) -> None:
        """What has no socket cannot be ended, and is not remembered."""

        class NoSocket:
            def get_extra_info(self, name: str) -> None:
                return None

        sockets = Sockets()
        sockets.add_below(NoSocket())
        assert sockets._open == {}

    @pytest.mark.parametrize("secure", [False, True])
    def test_a_child_drops_its_copies_without_a_word(
        self,
        secure: bool,
        server: WireServer,
        tls_server: WireServer,
        certificate: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        """`forget` closes sockets without a goodbye, and the next call opens its own."""
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        peer = tls_server if secure else server
        peer.always(OK)
        transport = HttpTransport(Config(api_key=KEY, api_url=peer.url, timeout=10))
        assert transport.send(ASK).status == 200
        (before,) = transport._sockets._living()
        held_by_nobody(transport._lock)
        transport.forget()
        assert before.fileno() == -1
        assert transport._sockets._living() == []
        assert transport.send(ASK).status == 200
        assert peer.connections == 2
        transport.close()


def test_the_socks_library_is_not_part_of_the_tests() -> None:
    """The test of its absence means something."""
    assert "socksio" not in sys.modules


class TestLoops:
    """Connections of event loops."""

    def test_runs_that_follow_each_other_leave_nothing(self, server: WireServer) -> None:
        """Ten event loops in a row use their own connections and leave no entry."""
        server.always(OK)
        transport = HttpTransport(Config(api_key=KEY, api_url=server.url))
        for _ in range(10):
            assert asyncio.run(transport.asend(ASK)).status == 200
        assert transport._task_calls().loops == {}
        assert server.connections == 10

    def test_a_loop_that_was_dropped_is_swept_up(self, server: WireServer) -> None:
        """A loop that was closed without being shut down loses its entry with the next one."""
        server.always(Answer(body=b"{}", close=True))
        transport = HttpTransport(Config(api_key=KEY, api_url=server.url))
        loop = asyncio.new_event_loop()
        loop.run_until_complete(transport.asend(ASK))
        assert server.closed_by_client.wait(5)
        # Let the loop see that the connection is closed; then drop it.
        loop.run_until_complete(transport._task_calls().loops[loop].pool.aclose())
        loop.run_until_complete(asyncio.sleep(0))
        loop.close()
        assert list(transport._task_calls().loops) == [loop]
        assert asyncio.run(transport.asend(ASK)).status == 200
        assert transport._task_calls().loops == {}

    async def test_loops_may_end_while_others_are_swept_up(self, server: WireServer) -> None:
        """Another thread's loop that ends at this moment costs this one nothing."""
        server.always(OK)
        transport = HttpTransport(Config(api_key=KEY, api_url=server.url))

        class Ending:
            def is_closed(self) -> bool:
                transport._task_calls().loops.clear()
                return True

        class Running:
            def is_closed(self) -> bool:
                return False

        others: Any = transport._task_calls().loops
        running = Running()
        others.update({Ending(): None, Ending(): None, running: None})
        assert (await transport.asend(ASK)).status == 200
        assert list(transport._task_calls().loops) == [asyncio.get_running_loop()]
        others[running] = others.pop(asyncio.get_running_loop())
        assert (await transport.asend(ASK)).status == 200
        assert list(transport._task_calls().loops) == [running, asyncio.get_running_loop()]
        await others.pop(running).close()
        await transport.aclose()

    async def test_closing_ends_the_connections_of_this_loop(self, server: WireServer) -> None:
        """`aclose` closes them now; without any it does nothing."""
        server.always(OK)
        transport = HttpTransport(Config(api_key=KEY, api_url=server.url))
        await transport.aclose()
        await transport.asend(ASK)
        await transport.aclose()
        assert transport._task_calls().loops == {}
        assert server.closed_by_client.wait(5)
