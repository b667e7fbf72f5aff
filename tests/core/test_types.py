"""A value of another type than the caller expects, in every door."""

from __future__ import annotations

import json
from typing import Any

import pytest

from shipsilently_core import Failure, Reason, Source
from tests.core.support import TYPED, Door, Heard, listening, setup

WHO = {"userId": "u1"}

#: What the service may send, and the JSON type that this is.
SENT: list[tuple[Any, str]] = [
    (True, "boolean"),
    (1, "number"),
    (1.0, "number"),
    (1.5, "number"),
    ("1", "string"),
    ("true", "string"),
    ([], "array"),
    ({}, "object"),
    (None, "null"),
]
DEFAULTS: list[tuple[Any, str]] = [
    (False, "boolean"),
    (0, "number"),
    (0.5, "number"),
    ("", "string"),
    ([], "array"),
    ({}, "object"),
]


@pytest.mark.parametrize("door", TYPED, ids=str)
@pytest.mark.parametrize(("default", "expected"), DEFAULTS, ids=lambda x: repr(x))
@pytest.mark.parametrize(("value", "kind"), SENT, ids=lambda x: repr(x))
def test_true_is_no_number_and_1_is_no_boolean(
    value: Any, kind: str, default: Any, expected: str, door: Door, lines: list[Any]
) -> None:
    """A value of the default's JSON type is served, any other gives the default and a reason."""
    s = setup({"a": value})
    with listening(s.client) as heard:
        result = door.read(s.client, WHO, "a", default)
    assert result is not None
    if kind == expected:
        assert (result.value, type(result.value)) == (value, type(value))
        assert (result.source, result.error) == (Source.SERVER, None)
        assert heard == []
        assert lines == []
    else:
        assert (result.value, type(result.value)) == (default, type(default))
        assert (result.source, result.error) == (Source.DEFAULT, Failure.TYPE_MISMATCH)
        assert result.reason == Reason.ERROR_FALLBACK
        assert heard == [Heard(Failure.TYPE_MISMATCH, None, "a")]
        assert len(lines) == 1


@pytest.mark.parametrize("door", TYPED, ids=str)
@pytest.mark.parametrize(("value", "kind"), SENT, ids=lambda x: repr(x))
def test_without_an_expectation_every_value_is_served(value: Any, kind: str, door: Door) -> None:
    """A default of None takes any value, null included."""
    result = door.read(setup({"a": value}).client, WHO, "a", None)
    assert result is not None
    assert (result.value, type(result.value)) == (value, type(value))
    assert result.error is None


@pytest.mark.parametrize("door", TYPED, ids=str)
def test_a_mismatch_is_told_once_a_minute(door: Door, lines: list[Any]) -> None:
    """The line names the flag and both types, and is not repeated on each request."""
    s = setup({"a": "yes"})
    for _ in range(50):
        door.read(s.client, WHO, "a", False)
        s.clock.advance(1)
    (line,) = lines
    assert line.getMessage() == (
        "flag 'a' holds a str but is read with a default of type bool; the default is served"
    )


@pytest.mark.parametrize("door", TYPED, ids=str)
@pytest.mark.parametrize("value", [False, 0, "", {}, []], ids=repr)
def test_empty_values_are_values(door: Door, value: Any) -> None:
    """False, 0 and empty ones are served, fresh and as last known good, never the default."""
    s = setup({"a": value})
    default = {bool: True, int: 5, str: "x", dict: {"x": 1}, list: [1]}[type(value)]
    for advance in (0, 31):
        s.clock.advance(advance)
        if advance:
            s.service.fail(500)
        result = door.read(s.client, WHO, "a", default)
        assert result is not None
        assert (result.value, type(result.value)) == (value, type(value))


@pytest.mark.parametrize("door", TYPED, ids=str)
@pytest.mark.parametrize("depth", [50, 100, 101, 400, 900, 3_000, 200_000])
def test_no_depth_of_nesting_makes_a_read_raise(door: Door, depth: int) -> None:
    """What is nested as a configuration might be is served; far beyond, it is malformed."""
    s = setup({"a": {"known": True}})
    s.client.evaluate_all(WHO)
    s.clock.advance(31)
    deep = b'{"a":' * depth + b"1" + b"}" * depth
    row = b'{"reason":"default","value":' + deep + b"}"
    s.service.fail(200, body=b'{"flags":{"a":' + row + b"}}" if door.batch else row)
    result = door.read(s.client, WHO, "a", {})
    assert result is not None
    if depth <= 100:
        assert json.dumps(result.value, separators=(",", ":")).encode() == deep
    else:
        assert result.value == {"known": True}
