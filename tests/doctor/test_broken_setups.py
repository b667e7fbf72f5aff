"""The first line that is not `ok` names the cause, for each way in which a set-up is broken."""

import socket
import ssl
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import httpx
import pytest

from shipsilently_cli.checkup import Level, exit_code
from shipsilently_cli.checkup.network import distrusted
from shipsilently_local import LocalService
from tests.core.wire_server import Answer, WireServer

from .setups import (
    FLAGS,
    KEY,
    TICKET,
    WHO,
    Relay,
    as_json,
    buffering,
    findings,
    first_bad,
    levels,
    page,
    scripted,
)


@pytest.fixture
def server() -> Iterator[WireServer]:
    """A scripted service that is well, but without streaming."""
    with WireServer() as running:
        scripted(running)
        yield running


def test_a_wrong_key_is_named(service: LocalService) -> None:
    """A refused key is told as that, and the service itself as well."""
    found = findings(service.url)
    bad = first_bad(found)
    assert (bad.check, bad.level) == ("access", Level.FAILURE)
    assert "the key is refused (HTTP 401)" in bad.text
    assert levels(found)["service"] is Level.OK
    assert exit_code(found) == 2


def test_a_name_without_an_address_is_named() -> None:
    """A host that has no address fails at its name, and nothing behind it is tried."""
    found = findings("https://flags.invalid", timeout=2.0)
    bad = first_bad(found)
    assert bad.check == "dns"
    assert "flags.invalid" in bad.text
    assert levels(found)["tcp"] is levels(found)["analytics"] is Level.SKIPPED


def test_a_refused_connection_is_named(free_port: int) -> None:
    """A port on which nothing listens fails at the connection."""
    bad = first_bad(findings(f"http://127.0.0.1:{free_port}"))
    assert bad.check == "tcp"
    assert "refuses connections" in bad.text


def test_an_address_with_colons_is_told_from_its_port(free_port: int) -> None:
    """An IPv6 address is written as in the URL, whatever keeps it from being reached."""
    bad = first_bad(findings(f"http://[::1]:{free_port}"))
    assert bad.check == "tcp"
    assert f" at [::1]:{free_port}" in bad.text


def test_a_service_that_hangs_is_named(service: LocalService) -> None:
    """A service that accepts connections and says nothing fails after the deadline, once."""
    service.fault(silence=True)
    begin = time.monotonic()
    bad = first_bad(findings(service.url, timeout=0.5))
    assert (bad.check, bad.text) == ("service", "no answer within 500 ms, the deadline")
    assert time.monotonic() - begin < 5


def test_an_untrusted_certificate_is_named(tls_server: WireServer) -> None:
    """A certificate that nobody vouches for is named as such, and the key is not sent."""
    bad = first_bad(findings(tls_server.url))
    assert bad.check == "tls"
    assert "not trusted by certifi's list" in bad.text
    assert tls_server.received == []


def test_a_plan_without_streaming_is_a_warning(server: WireServer) -> None:
    """402 for the ticket is a warning that says how changes arrive then."""
    found = findings(server.url)
    bad = first_bad(found)
    assert (bad.check, bad.level) == ("ticket", Level.WARNING)
    assert "(HTTP 402): changes arrive by polling, every 30 s" in bad.text
    assert exit_code(found) == 1
    assert levels(found)["analytics"] is Level.OK


def test_a_page_for_people_is_named(service: LocalService) -> None:
    """A page of a proxy in the place of the service is told as that."""
    service.fault(garbage=True)
    bad = first_bad(findings(service.url))
    assert bad.check == "service"
    assert "answers with an HTML page (HTTP 200)" in bad.text


@pytest.mark.parametrize(("skew", "word"), [(-3600, "ahead of"), (3600, "behind")])
def test_a_clock_that_is_an_hour_off_is_a_warning(
    server: WireServer, skew: float, word: str
) -> None:
    """A clock that differs from the service's by an hour is told with the direction."""
    scripted(server, skew=skew)
    bad = first_bad(findings(server.url))
    assert (bad.check, bad.level) == ("clock", Level.WARNING)
    assert bad.text == f"this machine's clock is 60 minutes {word} the service's"


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (Answer(403, b"no"), "the proxy refuses the way to flags.invalid:443 (HTTP 403)"),
        (Answer(407, b"who?"), "the proxy wants a user and a password (HTTP 407)"),
        (Answer(raw=b"220 mail\r\n", close=True), "does not speak as a proxy does"),
        (Answer(drop=True), "does not speak as a proxy does"),
        (Answer(silent=True), "the proxy accepted the connection and did not answer"),
    ],
)
def test_a_proxy_that_refuses_is_named(
    answer: Answer, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each way in which a proxy gives no passage is told as the proxy's."""
    with WireServer(answer) as proxy:
        address = proxy.url.removeprefix("http://")
        monkeypatch.setenv("HTTPS_PROXY", f"http://user:recognisable-password@{address}")
        found = findings("https://flags.invalid", timeout=0.5)
    bad = first_bad(found)
    assert bad.check == "proxy"
    assert text in bad.text
    assert not any("recognisable" in str(finding) for finding in found)
    assert len({finding.check for finding in found}) == len(found) - 1


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (Answer(403, b"no"), "the proxy, or what it leads to, refuses (HTTP 403)"),
        (Answer(407, b"who?"), "the proxy wants a user and a password (HTTP 407)"),
        (page(403), "answers with an HTML page (HTTP 403), not with JSON"),
    ],
)
def test_a_proxy_that_refuses_plain_http_is_named(
    answer: Answer, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without TLS a proxy answers in the service's place, which is told from a refused key."""
    with WireServer(answer) as proxy:
        monkeypatch.setenv("http_proxy", proxy.url)
        found = findings("http://flags.invalid")
    bad = first_bad(found)
    assert (bad.check, bad.text) == ("service", text)
    assert len({finding.check for finding in found}) == len(found)


@pytest.mark.skipif(find_spec("socksio") is not None, reason="socksio is installed")
def test_a_socks_proxy_needs_its_library(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the library that speaks SOCKS, its name is told."""
    monkeypatch.setenv("ALL_PROXY", "socks5://127.0.0.1:9")
    bad = first_bad(findings("https://flags.invalid"))
    assert bad.check == "proxy"
    assert "httpx[socks]" in bad.advice


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (10, "is not valid today: why"),
        (9, "is not valid today: why"),
        (19, "is not trusted by certifi's list: why"),
        (64, "is for another name than flags.example"),
        (7, "was not accepted: why"),
    ],
)
def test_each_fault_of_a_certificate_is_told_apart(code: int, text: str) -> None:
    """OpenSSL's verdicts become faults that people can act on."""
    error = ssl.SSLCertVerificationError()
    error.verify_code, error.verify_message = code, "why"
    finding = distrusted(error, "flags.example", "certifi's list")
    assert (finding.check, finding.level) == ("tls", Level.FAILURE)
    assert finding.text.endswith(text)


def test_the_way_of_an_own_http_client_is_its_own(service: LocalService) -> None:
    """With an `http_client` the way is not looked at step by step, and the service all the same."""
    with httpx.Client() as own:
        found = findings(service.url, key=service.key, http_client=own)
    assert levels(found)["tcp"] is levels(found)["tls"] is Level.SKIPPED
    assert levels(found)["access"] is levels(found)["heartbeat"] is Level.OK


def test_a_proxy_that_is_not_there_is_named(
    free_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A proxy on whose port nothing listens is told as the proxy's."""
    monkeypatch.setenv("HTTPS_PROXY", f"127.0.0.1:{free_port}")
    bad = first_bad(findings("https://flags.invalid"))
    assert bad.check == "tcp"
    assert bad.text == f"the proxy refuses connections at 127.0.0.1:{free_port}"


@pytest.mark.parametrize(
    ("part", "check", "text"),
    [
        ("head", "stream", "no byte of the stream came within"),
        ("connected", "stream", "the event that says so did not come"),
        ("heartbeat", "heartbeat", "a heartbeat did not come within"),
    ],
)
def test_a_proxy_that_buffers_the_stream_is_named(
    service: LocalService, part: str, check: str, text: str
) -> None:
    """A stream that is held back after a good ticket is told as a proxy's buffering."""
    with Relay(service.port, buffering(part)) as relay:
        found = findings(relay.url, key=service.key, timeout=1.0, patience=1.0)
    bad = first_bad(found)
    assert (bad.check, bad.level) == (check, Level.FAILURE)
    assert text in bad.text
    assert "buffers answers" in bad.advice
    assert levels(found)["ticket"] is levels(found)["analytics"] is Level.OK


@pytest.mark.parametrize("proxied", [False, True])
def test_all_is_well_over_tls(
    tls_server: WireServer,
    certificate: Path,
    monkeypatch: pytest.MonkeyPatch,
    proxied: bool,
) -> None:
    """With a certificate that the environment trusts, the trust store and the end are told."""
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    scripted(tls_server)
    if proxied:
        with Tunnel(tls_server.port) as tunnel:
            monkeypatch.setenv("https_proxy", tunnel.url)
            found = findings("https://localhost:1")
    else:
        found = findings(tls_server.url)
    (tls,) = (finding for finding in found if finding.check == "tls")
    assert tls.level is Level.OK
    assert tls.text.endswith("trusted by SSL_CERT_FILE")
    assert first_bad(found).check == "ticket"


class Tunnel(Relay):
    """A proxy that gives passage to one server, whichever is asked for."""

    def __init__(self, port: int) -> None:
        super().__init__(port, lambda request, chunks: chunks)

    def _serve(self, here: socket.socket, there: socket.socket) -> None:
        here.recv(65536)
        here.sendall(b"HTTP/1.1 200 Connected\r\n\r\n")
        super()._serve(here, there)


def test_a_certificate_for_another_name_is_named(
    tls_server: WireServer, certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A trusted certificate for another name is told as that."""
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    with Tunnel(tls_server.port) as tunnel:
        monkeypatch.setenv("HTTPS_PROXY", tunnel.url)
        bad = first_bad(findings("https://flags.invalid"))
    assert bad.check == "tls"
    assert "is for another name than flags.invalid" in bad.text


@pytest.mark.parametrize("variable", ["SSL_CERT_FILE", "SSL_CERT_DIR"])
def test_a_trust_store_that_is_not_there_is_named(
    tls_server: WireServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    """A variable that names no certificates is told by its name."""
    monkeypatch.setenv(variable, str(tmp_path / "none"))
    bad = first_bad(findings(tls_server.url))
    assert bad.check == "tls"
    assert variable in bad.text


def test_a_port_without_tls_is_named(service: LocalService) -> None:
    """https to a port that speaks plain HTTP fails at TLS."""
    bad = first_bad(findings(service.url.replace("http://", "https://")))
    assert bad.check == "tls"
    assert "does not speak TLS" in bad.text


def test_a_handshake_that_never_ends_is_named() -> None:
    """A port that accepts and says nothing fails at TLS, within the deadline."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        bad = first_bad(findings(f"https://127.0.0.1:{silent.getsockname()[1]}", timeout=0.3))
    assert (bad.check, bad.text) == ("tls", "the handshake was not finished within 300 ms")


def test_an_unusable_proxy_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """A variable that holds no address of a proxy is told without what it holds."""
    monkeypatch.setenv("HTTPS_PROXY", "http://recognisable:password@[::")
    found = findings("https://flags.invalid")
    assert first_bad(found).check == "proxy"
    assert not any("recognisable" in str(finding) for finding in found)


@pytest.mark.parametrize(
    ("answers", "check", "text"),
    [
        ({"evaluate": Answer(503, b"{}")}, "service", "fails with HTTP 503"),
        ({"evaluate": page(502)}, "service", "fails with HTTP 502"),
        ({"evaluate": page(403)}, "service", "HTML page (HTTP 403)"),
        ({"evaluate": Answer(407, b"")}, "service", "the proxy wants a user"),
        ({"evaluate": Answer(402, b"{}")}, "access", "the plan does not cover this"),
        ({"evaluate": Answer(429, b"{}")}, "access", "asks to be left alone"),
        ({"evaluate": Answer(301, b"")}, "service", "sends us elsewhere"),
        ({"evaluate": Answer(418, b"{}")}, "service", "answers HTTP 418 to /v1/evaluate"),
        ({"evaluate": Answer(drop=True)}, "service", "ended without an answer"),
        ({"evaluate": Answer(raw=b"nonsense\r\n\r\n")}, "service", ""),
        ({"batch": Answer(404, b"{}")}, "service", "answers HTTP 404 to /v1/evaluate/batch"),
        ({"batch": Answer(200, b"[]")}, "service", "but not with the flags"),
        ({"ticket": Answer(500, b"")}, "ticket", "no ticket for the stream: HTTP 500"),
        ({"ticket": page()}, "ticket", "an HTML page"),
        ({"ticket": Answer(200, b"{}")}, "ticket", "HTTP 200"),
        ({"ticket": Answer(200, b'{"ticket":"\xff"}')}, "ticket", "HTTP 200"),
        ({"ticket": Answer(drop=True)}, "ticket", "no answer"),
        ({"analytics": Answer(403, b"{}")}, "analytics", "are not accepted (HTTP 403)"),
        ({"analytics": Answer(drop=True)}, "analytics", "are not accepted"),
    ],
)
def test_each_other_answer_is_named(
    server: WireServer, answers: dict[str, Any], check: str, text: str
) -> None:
    """Whatever else an endpoint may answer fails at its own line."""
    scripted(server, **answers)
    bad = first_bad(findings(server.url))
    assert (bad.check, bad.level) == (check, Level.FAILURE)
    assert text in bad.text


def test_a_delivery_without_events_may_be_refused(server: WireServer) -> None:
    """400 to a delivery without events shows that deliveries are read."""
    scripted(server, analytics=Answer(400, b"{}"))
    assert levels(findings(server.url))["analytics"] is Level.OK


def test_malformed_flags_are_a_warning(server: WireServer) -> None:
    """Flags that cannot be read are told by their keys."""
    rows = {"flags": {"a": {"value": 1, "reason": "default"}, "b": {"reason": "default"}}}
    scripted(server, batch=Answer(200, as_json(rows)))
    bad = first_bad(findings(server.url))
    assert (bad.check, bad.level) == ("service", Level.WARNING)
    assert "1 of 2 flags are malformed: b" in bad.text


@pytest.mark.parametrize(
    ("stream", "text"),
    [
        (Answer(401, b"{}"), "there is no stream: HTTP 401"),
        (Answer(200, b"{}"), "there is no stream: HTTP 200, no event stream"),
        (
            Answer(200, b"", (("Content-Type", "text/event-stream"),)),
            "did not come before the stream ended",
        ),
        (
            Answer(
                200,
                b"data: " + b"x" * 2_000_000,
                (("Content-Type", "text/event-stream"),),
            ),
            "something without an end",
        ),
    ],
)
def test_a_stream_that_is_none_is_named(server: WireServer, stream: Answer, text: str) -> None:
    """A good ticket that leads to no stream fails at the stream, and the ticket is not shown."""
    scripted(server, ticket=Answer(200, as_json({"ticket": TICKET})), stream=stream)
    server.on(f"/v1/stream?ticket={TICKET}", stream)
    found = findings(server.url)
    bad = first_bad(found)
    assert (bad.check, bad.level) == ("stream", Level.FAILURE)
    assert text in bad.text
    assert not any(TICKET in str(finding) for finding in found)


def test_a_slow_service_is_a_warning(service: LocalService) -> None:
    """Answers that come near the deadline are told with how long they took."""
    service.fault("batch", delay=0.3)
    found = findings(service.url, key=service.key, timeout=0.5)
    bad = first_bad(found)
    assert (bad.check, bad.level) == ("latency", Level.WARNING)
    assert "the deadline is 500 ms" in bad.text


def test_calls_that_fail_now_and_then_are_a_warning(server: WireServer) -> None:
    """Failures among the calls that are measured are counted."""
    server.on("/v1/evaluate", Answer(404, b"{}"), Answer(503, b"{}"))
    bad = first_bad(findings(server.url))
    assert (bad.check, bad.level) == ("latency", Level.WARNING)
    assert "10 of 20 calls failed" in bad.text


def test_an_answer_without_a_date_tells_nothing_of_the_clock(server: WireServer) -> None:
    """Without a date, or with one that is none, the clock is not judged."""
    for date in ((), (("Date", "yesterday"),)):
        scripted(server, evaluate=Answer(404, b"{}", date))
        assert levels(findings(server.url))["clock"] is Level.SKIPPED


def test_all_is_well(service: LocalService) -> None:
    """Against the local service every check is well, and nobody's numbers have changed."""
    found = findings(service.url, key=service.key)
    assert exit_code(found) == 0
    assert levels(found)["heartbeat"] is levels(found)["clock"] is Level.OK
    told = {finding.check: finding.text for finding in found}
    assert told["service"] == f"answers with JSON: {len(FLAGS)} flags"
    assert "p50" in told["latency"]
    events = [request for request in service.requests if "analytics" in request.path]
    assert len(events) == 1


def test_streaming_that_is_off_is_a_warning(service: LocalService) -> None:
    """Without streaming no ticket is asked for, and the checklist says so."""
    found = findings(service.url, key=service.key, stream=False)
    assert first_bad(found).check == "streaming"
    assert levels(found)["ticket"] is Level.SKIPPED
    assert not any("ticket" in request.path for request in service.requests)


def test_nothing_secret_is_told(service: LocalService) -> None:
    """Neither the key, nor whom is asked for, nor a flag's value is in any finding."""
    for key in (KEY, service.key):
        told = " ".join(map(str, findings(service.url, key=key)))
        for secret in (key, WHO, str(FLAGS["banner"])):
            assert secret not in told


def test_a_day_of_the_certificate_is_reckoned(
    tls_server: WireServer, certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The days that a certificate is good for are those to its end, the year 2120."""
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    scripted(tls_server)
    (tls,) = (f for f in findings(tls_server.url) if f.check == "tls")
    days = (datetime(2120, 1, 1, tzinfo=UTC) - datetime.now(UTC)).days
    assert any(f"good for {days + shift} days" in tls.text for shift in (-1, 0, 1))
