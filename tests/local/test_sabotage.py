"""Faults carried out, as a client feels them."""

import threading
import time
from typing import Any

import httpx
import pytest

from shipsilently_local import LocalService

from .conftest import connect
from .raw import connection, pieces, request

BODY = {"flagKey": "banner", "context": {}}


def test_a_status_fault_answers_in_the_services_place(
    service: LocalService, client: httpx.Client
) -> None:
    """A scripted answer has its status, headers and body, for as many calls as asked."""
    service.fault("evaluate", status=429, headers={"Retry-After": "3"}, body={"a": 1}, times=1)
    answer = client.post("/v1/evaluate", json=BODY)
    assert (answer.status_code, answer.headers["retry-after"], answer.json()) == (
        429,
        "3",
        {"a": 1},
    )
    assert client.post("/v1/evaluate", json=BODY).status_code == 200


def test_a_status_fault_needs_no_body(service: LocalService, client: httpx.Client) -> None:
    """Without a body of its own the answer is JSON that says it was asked for."""
    service.fault("ticket", status=402)
    answer = client.post("/v1/stream/ticket")
    assert answer.status_code == 402
    assert answer.headers["content-type"] == "application/json"
    assert answer.json() == {"error": "fault", "message": "a fault was asked for: 402"}


def test_a_text_body_is_sent_as_it_is(service: LocalService, client: httpx.Client) -> None:
    """A string is the body itself, so that an answer may be no JSON, or half of it."""
    service.fault("batch", status=200, body='{"flags":', headers={"Content-Type": "text/plain"})
    answer = client.post("/v1/evaluate/batch", json={"context": {}})
    assert answer.text == '{"flags":'
    assert answer.headers.get_list("content-type") == ["text/plain"]


@pytest.mark.parametrize("fields", [{"status": 204, "body": "x"}, {"status": 200, "body": ""}])
def test_an_answer_can_be_empty(
    service: LocalService, client: httpx.Client, fields: dict[str, Any]
) -> None:
    """A 204 never has a body, and a 200 with an empty one can be asked for."""
    service.fault("analytics", **fields)
    answer = client.post("/v1/analytics/events", json={"events": []})
    assert answer.status_code == fields["status"]
    assert answer.content == b""
    assert "content-type" not in answer.headers


def test_garbage_is_a_page_of_some_proxy(service: LocalService, client: httpx.Client) -> None:
    """Garbage is a 200 with HTML."""
    service.fault("*", garbage=True)
    answer = client.post("/v1/evaluate", json=BODY)
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/html")
    assert answer.text.startswith("<!doctype html>")


def test_a_delay_comes_before_the_normal_answer(
    service: LocalService, client: httpx.Client
) -> None:
    """A delay alone only makes the answer late."""
    service.fault("evaluate", delay=0.2)
    start = time.monotonic()
    assert client.post("/v1/evaluate", json=BODY).json()["value"] == "Welcome"
    assert time.monotonic() - start >= 0.2


def test_a_delay_can_come_before_another_fault(service: LocalService, client: httpx.Client) -> None:
    """A delay and a status together give a late failure."""
    service.fault("evaluate", delay=0.1, status=503)
    start = time.monotonic()
    assert client.post("/v1/evaluate", json=BODY).status_code == 503
    assert time.monotonic() - start >= 0.1


def test_a_client_that_leaves_ends_the_delay(service: LocalService) -> None:
    """A client that gives up during a delay leaves no work behind."""
    service.fault("evaluate", delay=30)
    with connect(service) as client, pytest.raises(httpx.ReadTimeout):
        client.post("/v1/evaluate", json=BODY, timeout=0.1)
    service.clear_faults()
    with connect(service) as client:
        assert client.post("/v1/evaluate", json=BODY).status_code == 200


def test_drop_closes_the_connection_without_an_answer(
    service: LocalService, client: httpx.Client
) -> None:
    """A dropped connection has not carried a single byte back."""
    service.fault("evaluate", drop=True, times=1)
    with connection(service) as sock:
        sock.sendall(request(service, "/v1/evaluate", BODY))
        assert list(pieces(sock)) == []
    service.fault("evaluate", drop=True, times=1)
    with pytest.raises(httpx.RemoteProtocolError):
        client.post("/v1/evaluate", json=BODY)
    assert client.post("/v1/evaluate", json=BODY).status_code == 200


def test_silence_accepts_and_never_answers(service: LocalService) -> None:
    """A silent endpoint takes the request and says nothing until the service ends."""
    service.fault("evaluate", silence=True)
    outcome: list[object] = []

    def ask() -> None:
        with connection(service) as sock:
            sock.sendall(request(service, "/v1/evaluate", BODY))
            sock.settimeout(0.2)
            try:
                sock.recv(1)
            except TimeoutError:
                outcome.append("silence")
            sock.settimeout(10)
            outcome.append(list(pieces(sock)))

    thread = threading.Thread(target=ask)
    thread.start()
    while not outcome:
        thread.join(0.01)
    service.stop()
    thread.join(10)
    assert outcome == ["silence", []]


def test_a_body_drips_byte_by_byte(service: LocalService, client: httpx.Client) -> None:
    """Dripping sends the head at once, then the body one byte at a time, whole in the end."""
    service.fault("evaluate", drip=0.005, times=1)
    with connection(service) as sock:
        sock.sendall(request(service, "/v1/evaluate", BODY))
        arrived = list(pieces(sock))
    head, _, body = b"".join(data for _, data in arrived).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 OK\r\n")
    assert b"connection: close" in head
    assert b'"value":"Welcome"' in body
    assert len(arrived) > len(body) / 2
    service.fault("evaluate", drip=0.001, status=503, times=1)
    assert client.post("/v1/evaluate", json=BODY).json()["error"] == "fault"


def test_a_head_can_drip_too(service: LocalService) -> None:
    """With drip_headers even the status line comes one byte at a time."""
    service.fault("evaluate", drip=0.005, drip_headers=True, garbage=True)
    with connection(service) as sock:
        sock.sendall(request(service, "/v1/evaluate", BODY))
        first = next(data for _, data in pieces(sock))
        assert len(first) < 5
        second = next(data for _, data in pieces(sock))
        assert (first + second).startswith(b"HT"[: len(first + second)])


def test_a_client_that_leaves_ends_the_drip(service: LocalService) -> None:
    """A client that gives up on a dripping answer leaves no work behind."""
    service.fault("batch", drip=5)
    with connect(service) as client, pytest.raises(httpx.ReadTimeout):
        client.post("/v1/evaluate/batch", json={"context": {}}, timeout=0.1)
    service.clear_faults()
    with connect(service) as client:
        assert client.post("/v1/evaluate", json=BODY).status_code == 200


def test_a_stream_can_drip(service: LocalService, client: httpx.Client) -> None:
    """A dripping stream sends its events one byte at a time."""
    ticket = client.post("/v1/stream/ticket").json()["ticket"]
    service.fault("stream", drip=0.002)
    with client.stream("GET", "/v1/stream", params={"ticket": ticket}) as response:
        text = b""
        for data in response.iter_raw():
            text += data
            if text.endswith(b"\n\n"):
                break
    assert text.startswith(b"event: connected\ndata: {")


def test_a_dripping_status_without_a_name_is_still_http(
    service: LocalService, client: httpx.Client
) -> None:
    """A status that HTTP gives no phrase to drips as a right status line."""
    service.fault("evaluate", drip=0, status=599)
    assert client.post("/v1/evaluate", json=BODY).status_code == 599
