"""The front door: who is let in, what is recorded."""

import time

import httpx
import pytest

from shipsilently_local import LocalService
from shipsilently_local.frontdoor import MAX_BODY, is_local_host, is_local_origin

from .conftest import connect
from .raw import connection, pieces, request


@pytest.mark.parametrize(
    ("host", "local"),
    [
        ("127.0.0.1", True),
        ("127.0.0.1:4400", True),
        ("localhost:1", True),
        ("LOCALHOST", True),
        ("[::1]:4400", True),
        ("", False),
        ("example.org", False),
        ("127.0.0.1.example.org", False),
        ("localhost:4400.example.org", False),
        ("127.0.0.1:", False),
        ("127.0.0.1\n", False),
        ("0.0.0.0", False),
        ("127.0.0.2", False),
    ],
)
def test_local_hosts(host: str, local: bool) -> None:
    """Only the three names of this machine are local, with any port."""
    assert is_local_host(host) is local


@pytest.mark.parametrize(
    ("origin", "local"),
    [
        ("http://localhost:8000", True),
        ("https://127.0.0.1", True),
        ("http://[::1]:3000", True),
        ("null", False),
        ("", False),
        ("http://example.org", False),
        ("http://localhost.example.org", False),
        ("http://localhost:8000/path", False),
        ("file://", False),
    ],
)
def test_local_origins(origin: str, local: bool) -> None:
    """Only pages of this machine are local, also not those without an origin."""
    assert is_local_origin(origin) is local


@pytest.mark.parametrize("path", ["/v1/evaluate", "/v1/stream", "/local/faults", "/nothing"])
def test_a_foreign_host_is_refused_everywhere(client: httpx.Client, path: str) -> None:
    """A name that a stranger made point here (DNS rebinding) gets a 403 with the reason."""
    answer = client.post(path, headers={"Host": "evil.example:4400"}, json={})
    assert answer.status_code == 403
    assert answer.json()["error"] == "foreign_host"
    assert "Host header" in answer.json()["message"]


@pytest.mark.parametrize("path", ["/v1/evaluate", "/v1/stream", "/local/state"])
def test_a_foreign_origin_is_refused_everywhere(client: httpx.Client, path: str) -> None:
    """A page from elsewhere gets a 403, and nothing that would let it read an answer."""
    answer = client.get(path, headers={"Origin": "https://evil.example"})
    assert answer.status_code == 403
    assert answer.json()["error"] == "foreign_origin"
    assert not [name for name in answer.headers if name.startswith("access-control")]


def test_a_local_origin_is_let_in(client: httpx.Client) -> None:
    """A page that an app on this machine serves may speak to the service."""
    answer = client.post(
        "/v1/evaluate/batch", json={"context": {}}, headers={"Origin": "http://localhost:8000"}
    )
    assert answer.status_code == 200
    assert not [name for name in answer.headers if name.startswith("access-control")]


def test_two_hosts_are_refused(service: LocalService) -> None:
    """A request with a local and a foreign Host is refused, whichever comes first."""
    data = request(service, "/v1/evaluate", {}).replace(
        b"X-API-Key", b"Host: evil.example\r\nX-API-Key"
    )
    with connection(service) as sock:
        sock.sendall(data)
        assert next(data for _, data in pieces(sock)).startswith((b"HTTP/1.1 403", b"HTTP/1.1 400"))


def test_a_request_without_a_host_is_refused(service: LocalService) -> None:
    """HTTP/1.0 lets the Host out; this service does not."""
    with connection(service) as sock:
        sock.sendall(b"GET /local/state HTTP/1.0\r\n\r\n")
        assert b"".join(data for _, data in pieces(sock)).startswith(b"HTTP/1.1 403")


def test_a_body_up_to_the_limit_is_read(client: httpx.Client) -> None:
    """A body of exactly the limit is let in, one byte more is a 413."""
    fill = MAX_BODY - len(b'{"context":{"a":""}}')
    body = b'{"context":{"a":"' + b"x" * fill + b'"}}'
    assert len(body) == MAX_BODY
    assert client.post("/v1/evaluate/batch", content=body).status_code == 200
    answer = client.post("/v1/evaluate/batch", content=body + b" ")
    assert answer.status_code == 413
    assert answer.json() == {"error": "too_large", "message": "the body is larger than 1024 KiB"}


def test_a_body_without_a_length_has_the_same_limit(client: httpx.Client) -> None:
    """A chunked body is cut at the same limit, and the connection goes on."""
    chunks = (b"x" * 65536 for _ in range(40))
    assert client.post("/v1/evaluate/batch", content=chunks).status_code == 413
    assert client.post("/v1/evaluate/batch", json={"context": {}}).status_code == 200


def test_requests_are_recorded_as_they_came(service: LocalService, client: httpx.Client) -> None:
    """A recorded request has method, path, query, lower-case headers, body, time and port."""
    before = time.monotonic()
    client.post("/v1/evaluate/batch?x=1", content=b"not json", headers={b"X-Other": "Ä".encode()})
    client.post("/v1/evaluate", json={"flagKey": "banner", "context": {}})
    first, second = service.requests
    assert (first.method, first.path, first.query) == ("POST", "/v1/evaluate/batch", "x=1")
    assert first.headers["x-api-key"] == service.key
    assert "x-other" in first.headers
    assert first.body == b"not json"
    assert before <= first.at <= second.at <= time.monotonic()
    assert first.client_port == second.client_port > 0


def test_the_services_own_requests_are_not_recorded(
    service: LocalService, client: httpx.Client
) -> None:
    """Looking at the state or setting a fault is no request of a client."""
    client.get("/local/state")
    client.delete("/local/faults")
    client.get("/other")
    assert [request.path for request in service.requests] == ["/other"]


def test_a_request_that_meets_a_fault_is_recorded(
    service: LocalService, client: httpx.Client
) -> None:
    """A request that was dropped was made all the same, and is counted."""
    service.fault("evaluate", drop=True)
    with pytest.raises(httpx.RemoteProtocolError):
        client.post("/v1/evaluate", json={})
    assert len(service.requests) == 1
    assert service.state()["requests"]["evaluate"] == 1


def test_only_the_last_requests_are_kept() -> None:
    """The record is bounded; the oldest goes first."""
    with LocalService({}, max_recorded=2) as service, connect(service) as client:
        for number in range(3):
            client.get(f"/{number}")
        assert [request.path for request in service.requests] == ["/1", "/2"]


def test_a_client_that_leaves_in_its_request_does_no_harm(service: LocalService) -> None:
    """A request that breaks off before its end is let go."""
    with connection(service) as sock:
        sock.sendall(request(service, "/v1/evaluate", b"{}", Content_Length="100"))
    with connect(service) as client:
        assert client.get("/local/state").status_code == 200
