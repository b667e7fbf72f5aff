"""The endpoints, as the protocol describes them."""

from typing import Any

import httpx
import pytest

from shipsilently_local import LocalService

from .conftest import connect

EVENT = {
    "flagKey": "banner",
    "variationKey": '"Welcome"',
    "reason": "default",
    "latencyMs": 1,
    "timestamp": 1_700_000_000,
}


def test_one_flag_is_evaluated(client: httpx.Client) -> None:
    """An evaluation answers with the flag's key, value, reason and rule."""
    body = {"flagKey": "checkout-v2", "context": {"plan": "pro"}}
    answer = client.post("/v1/evaluate", json=body)
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/json"
    assert answer.json() == {
        "flagKey": "checkout-v2",
        "value": True,
        "reason": "rule_match",
        "ruleId": "paying customers",
    }


def test_an_unknown_flag_is_not_found(client: httpx.Client) -> None:
    """A flag that does not exist is a 404 in JSON that names it."""
    answer = client.post("/v1/evaluate", json={"flagKey": "../x?y", "context": {}})
    assert answer.status_code == 404
    assert answer.json() == {
        "error": "flag_not_found",
        "message": 'there is no flag "../x?y"',
    }


def test_all_flags_are_evaluated_in_one_call(client: httpx.Client) -> None:
    """A batch answers with every flag by key."""
    answer = client.post("/v1/evaluate/batch", json={"context": {"plan": "free"}})
    assert answer.json() == {
        "flags": {
            "checkout-v2": {"flagKey": "checkout-v2", "value": False, "reason": "default"},
            "banner": {"flagKey": "banner", "value": "Welcome", "reason": "default"},
        }
    }


def test_evaluations_are_counted_by_the_service(
    service: LocalService, client: httpx.Client
) -> None:
    """Each success counts, a batch once per flag; a 404 and a 400 count nothing."""
    client.post("/v1/evaluate", json={"flagKey": "banner", "context": {}})
    client.post("/v1/evaluate/batch", json={"context": {}})
    client.post("/v1/evaluate", json={"flagKey": "none", "context": {}})
    client.post("/v1/evaluate", json={"flagKey": "banner"})
    assert service.state()["evaluations"] == {"banner": 2, "checkout-v2": 1}


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/evaluate", b"{"),
        ("/v1/evaluate", b'{"context": {}}'),
        ("/v1/evaluate/batch", b"{}"),
        ("/v1/evaluate/batch", b'{"context": {"a": null}}'),
        ("/v1/analytics/events", b"{}"),
        ("/local/faults", b"{}"),
        ("/local/faults", b"[]"),
    ],
)
def test_a_malformed_body_is_a_400_with_a_reason(
    client: httpx.Client, path: str, body: bytes
) -> None:
    """A body that is not what the protocol says is refused, and the answer says why."""
    answer = client.post(path, content=body)
    assert answer.status_code == 400
    assert answer.json()["error"] == "bad_request"
    assert answer.json()["message"]


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/v1/evaluate"),
        ("POST", "/v1/evaluate/batch"),
        ("POST", "/v1/stream/ticket"),
        ("POST", "/v1/analytics/events"),
        ("GET", "/local/state"),
        ("GET", "/local/faults"),
        ("POST", "/local/faults"),
        ("DELETE", "/local/faults"),
        ("DELETE", "/local/faults/fault-1"),
    ],
)
@pytest.mark.parametrize("key", [None, "", "sk_wrong", "sk_local ", "sk_löcal"])
def test_every_request_needs_the_key(
    service: LocalService, method: str, path: str, key: str | None
) -> None:
    """Without the right key there is a 401, which does not repeat any key."""
    headers = {} if key is None else {b"X-API-Key": key.encode()}
    if key == "sk_local ":
        headers = {b"X-API-Key": b"sk_local\x7f"}  # spaces at the edges are HTTP's to remove
    answer = httpx.request(method, service.url + path, headers=headers)
    assert answer.status_code == 401
    assert answer.json()["error"] == "unauthorized"
    assert "sk_" not in answer.text


def test_a_ticket_opens_one_stream(client: httpx.Client) -> None:
    """A ticket lives 60 seconds and is good once."""
    answer = client.post("/v1/stream/ticket").json()
    assert answer["expiresIn"] == 60
    for status in (200, 401):
        with client.stream("GET", "/v1/stream", params={"ticket": answer["ticket"]}) as response:
            assert response.status_code == status


def test_an_expired_ticket_is_refused() -> None:
    """A ticket that was kept too long opens nothing."""
    with LocalService({}, ticket_ttl=0.0) as service, connect(service) as client:
        ticket = client.post("/v1/stream/ticket").json()["ticket"]
        assert client.get("/v1/stream", params={"ticket": ticket}).status_code == 401


@pytest.mark.parametrize("query", ["", "?ticket=", "?ticket=sk_local"])
def test_the_key_is_no_ticket(client: httpx.Client, query: str) -> None:
    """A stream opens for a ticket only, never for the key."""
    answer = client.get(f"/v1/stream{query}")
    assert answer.status_code == 401
    assert "ask for a new one" in answer.json()["message"]


def test_events_are_accepted_and_counted(service: LocalService, client: httpx.Client) -> None:
    """Accepted events are answered with their number, and can be read by flag."""
    answer = client.post("/v1/analytics/events", json={"events": [EVENT, EVENT]})
    assert (answer.status_code, answer.json()) == (200, {"accepted": 2})
    assert service.state()["events"] == {
        "accepted": 2,
        "byFlag": {"banner": {'"Welcome"': {"default": 2}}},
    }


@pytest.mark.parametrize("events", [[EVENT] * 1_001, [EVENT, {}]])
def test_of_a_refused_request_no_event_is_taken(
    service: LocalService, client: httpx.Client, events: list[Any]
) -> None:
    """Too many events, or a wrong one among them, lose all of them."""
    assert client.post("/v1/analytics/events", json={"events": events}).status_code == 400
    assert service.state()["events"]["accepted"] == 0


def test_the_state_can_be_read(service: LocalService, client: httpx.Client) -> None:
    """The state over HTTP is the one that the object gives."""
    assert client.get("/local/state").json() == service.state()


def test_faults_are_set_listed_and_cleared_over_http(client: httpx.Client) -> None:
    """A fault gets an id, is listed with the calls it has left, and can be cleared by it."""
    added = client.post("/local/faults", json={"endpoint": "batch", "status": 503, "times": 2})
    assert added.status_code == 201
    fault_id = added.json()["id"]
    assert added.json() == {"id": fault_id, "remaining": 2}
    assert client.post("/v1/evaluate/batch", json={"context": {}}).status_code == 503
    assert client.get("/local/faults").json() == {
        "faults": [{"id": fault_id, "remaining": 1, "endpoint": "batch", "status": 503, "times": 2}]
    }
    assert client.delete(f"/local/faults/{fault_id}").json() == {"cleared": 1}
    assert client.delete(f"/local/faults/{fault_id}").status_code == 404
    assert client.post("/v1/evaluate/batch", json={"context": {}}).status_code == 200
    client.post("/local/faults", json={"endpoint": "*", "drop": True})
    assert client.delete("/local/faults").json() == {"cleared": 1}


def test_a_wrong_fault_is_a_400(client: httpx.Client) -> None:
    """A fault that makes no sense is refused with the reason."""
    answer = client.post("/local/faults", json={"endpoint": "batch", "stauts": 503})
    assert answer.status_code == 400
    assert 'did you mean "status"?' in answer.json()["message"]


@pytest.mark.parametrize("path", ["/", "/v1", "/v1/evaluate/", "/v2/evaluate", "/local"])
def test_other_paths_are_404_in_json(client: httpx.Client, path: str) -> None:
    """A path that the service does not have is a 404 in JSON, without a redirect."""
    answer = client.post(path)
    assert (answer.status_code, answer.json()["error"]) == (404, "not_found")


def test_other_methods_are_405_in_json(client: httpx.Client) -> None:
    """A method that a path does not take is a 405 in JSON that lists those it does."""
    answer = client.get("/v1/evaluate")
    assert (answer.status_code, answer.json()["error"]) == (405, "method_not_allowed")
    assert answer.headers["allow"] == "POST"
