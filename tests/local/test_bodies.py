"""Request bodies: what is taken, and the reason when one is not."""

import json
from typing import Any

import pytest

from shipsilently_local import BadRequestError
from shipsilently_local.bodies import Event, read_batch, read_evaluate, read_events

EVENT = {
    "flagKey": "f",
    "variationKey": "true",
    "reason": "default",
    "latencyMs": 0.25,
    "timestamp": 1_700_000_000,
}


def test_a_right_evaluation_is_read() -> None:
    """Key and context come back as sent; what the protocol does not know is passed over."""
    body = b'{"flagKey": "../x?y", "context": {"userId": "u", "n": 1.5, "b": true}, "more": 1}'
    assert read_evaluate(body) == ("../x?y", {"userId": "u", "n": 1.5, "b": True})


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (b"", "the body is not JSON"),
        (b"{", "the body is not JSON"),
        (b"\xff", "the body is not JSON"),
        (b"[" * 100_000, "the body is not JSON"),
        (b'{"flagKey": "\\ud800", "context": {}}', "the body is not JSON"),
        (b'{"flagKey": "f", "context": {"a": 1e999}}', "the body is not JSON"),
        (b"[]", "the body must be a JSON object, got array"),
        (b"null", "the body must be a JSON object, got null"),
        (b'{"context": {}}', '"flagKey" is missing'),
        (b'{"flagKey": 5, "context": {}}', '"flagKey" must be a string, got number'),
        (b'{"flagKey": null, "context": {}}', '"flagKey" must be a string, got null'),
        (b'{"flagKey": "f"}', '"context" is missing'),
        (b'{"flagKey": "f", "context": null}', '"context" must be an object, got null'),
        (b'{"flagKey": "f", "context": []}', '"context" must be an object, got array'),
        (b'{"flagKey": "f", "context": {"plan": null}}', 'attribute "plan" is null'),
        (b'{"flagKey": "f", "context": {"a": {}}}', "got object: a context is flat"),
        (b'{"flagKey": "f", "context": {"a": [1]}}', "got array: a context is flat"),
    ],
)
def test_a_wrong_evaluation_is_refused_with_a_reason(body: bytes, problem: str) -> None:
    """A body that the protocol does not allow is refused, and the reason names the part."""
    with pytest.raises(BadRequestError) as caught:
        read_evaluate(body)
    assert problem in str(caught.value)


def test_a_batch_needs_a_context() -> None:
    """A batch is its context, which must be there."""
    assert read_batch(b'{"context": {}}') == {}
    with pytest.raises(BadRequestError, match='"context" is missing'):
        read_batch(b"{}")


def test_right_events_are_read() -> None:
    """Events come back in order; an empty list is no mistake."""
    body = json.dumps({"events": [EVENT, {**EVENT, "reason": "error_fallback"}]}).encode()
    first, second = read_events(body)
    assert first == Event("f", "true", "default", 0.25, 1_700_000_000)
    assert second.reason == "error_fallback"
    assert read_events(b'{"events": []}') == []


def test_a_thousand_events_are_taken_and_one_more_is_not() -> None:
    """1,000 events are the most; 1,001 are refused whole."""
    assert len(read_events(json.dumps({"events": [EVENT] * 1_000}).encode())) == 1_000
    with pytest.raises(BadRequestError, match="at most 1000 events in one request, got 1001"):
        read_events(json.dumps({"events": [EVENT] * 1_001}).encode())


def without(name: str) -> dict[str, Any]:
    """An event in which one field is missing."""
    return {key: value for key, value in EVENT.items() if key != name}


@pytest.mark.parametrize(
    ("event", "problem"),
    [
        (5, "events[1] must be an object, got number"),
        *((without(name), f'events[1]: "{name}" is missing') for name in EVENT),
        ({**EVENT, "flagKey": None}, '"flagKey" must be a string, got null'),
        ({**EVENT, "variationKey": True}, '"variationKey" must be a string, got boolean'),
        ({**EVENT, "variationKey": "x" * 201}, "more than 200 characters"),
        ({**EVENT, "reason": "because"}, '"reason" must be one of default, rule_match'),
        ({**EVENT, "latencyMs": "1"}, '"latencyMs" must be a number, got string'),
        ({**EVENT, "latencyMs": -1}, '"latencyMs" must not be negative'),
        ({**EVENT, "timestamp": True}, '"timestamp" must be a number, got boolean'),
        ({**EVENT, "timestamp": 1.5}, "whole seconds"),
        ({**EVENT, "timestamp": -1}, "whole seconds"),
    ],
)
def test_a_wrong_event_is_refused_with_its_number(event: Any, problem: str) -> None:
    """One wrong event has the whole request refused; the reason says which and why."""
    with pytest.raises(BadRequestError) as caught:
        read_events(json.dumps({"events": [EVENT, event]}).encode())
    assert problem in str(caught.value)


@pytest.mark.parametrize(
    ("body", "problem"),
    [(b"{}", '"events" is missing'), (b'{"events": {}}', '"events" must be an array, got object')],
)
def test_events_must_be_a_list(body: bytes, problem: str) -> None:
    """A body without a list of events is refused."""
    with pytest.raises(BadRequestError, match=problem):
        read_events(body)
