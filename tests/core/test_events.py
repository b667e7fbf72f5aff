"""Flag checks on the wire: their form, and what is understood of the answer."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import msgspec
import pytest

from shipsilently_core import Failure
from shipsilently_core._events import accepted_of, events_body, variation_key
from shipsilently_core._snapshot import Row
from shipsilently_core._wire import Reply


class Marked(str):
    """As template engines mark strings."""


class Plan(StrEnum):
    PRO = "pro"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (True, "true"),
        (False, "false"),
        (None, "null"),
        (0, "0"),
        (3, "3"),
        (3.0, "3"),
        (-0.0, "0"),
        (0.5, "0.5"),
        (1e21, "1e21"),
        ("", '""'),
        ("green", '"green"'),
        ('"', '"\\""'),
        ("grün ☃", '"grün ☃"'),
        (Marked("green"), '"green"'),
        (Plan.PRO, '"pro"'),
        ({}, "{}"),
        ({"a": 1, "b": [True, None]}, '{"a":1,"b":[true,null]}'),
        ("x" * 198, f'"{"x" * 198}"'),
        ("x" * 199, f'"{"x" * 196}…'),
        ("☃" * 500, f'"{"☃" * 196}…'),
        (2**70, "1180591620717411303424"),
        ("\ud800", "str"),
        ({1, 2}, "[1,2]"),
        (object(), "object"),
    ],
)
def test_a_variation_is_compact_json_of_at_most_200_characters(value: Any, text: str) -> None:
    """Whole numbers have no fraction; what has no form in JSON is named by its type."""
    assert variation_key(value) == text
    assert len(text) <= 200


def test_a_variation_nested_too_deeply_is_named_by_its_type() -> None:
    """A default that contains itself does not exhaust the stack."""
    value: dict[str, Any] = {}
    value["self"] = value
    assert variation_key(value) == "dict"


@pytest.mark.parametrize(
    ("key", "sent"),
    [
        ("checkout-v2", "checkout-v2"),
        (Marked("marked"), "marked"),
        (Plan.PRO, "pro"),
        ("\ud800", "?"),
        ("", ""),
        (None, "<NoneType>"),
        (7, "<int>"),
    ],
)
def test_any_key_can_be_sent(key: Any, sent: str) -> None:
    """A key that nobody can have meant spoils no other check of the same request."""
    body = events_body([(key, Row(True, "default"), 7, 1.23456), ("b", Row(1, "rollout"), 8, 0.0)])
    assert msgspec.json.decode(body) == {
        "events": [
            {
                "flagKey": sent,
                "variationKey": "true",
                "reason": "default",
                "latencyMs": 1.235,
                "timestamp": 7,
            },
            {
                "flagKey": "b",
                "variationKey": "1",
                "reason": "rollout",
                "latencyMs": 0.0,
                "timestamp": 8,
            },
        ]
    }


@pytest.mark.parametrize(
    ("reply", "accepted"),
    [
        (Reply(200, b'{"accepted":3}'), 3),
        (Reply(200, b'{"accepted":0,"more":1}'), 0),
        (Reply(200, b'\xef\xbb\xbf{"accepted":3}'), 3),
        (Reply(200, b"<html>"), None),
        (Reply(200, b""), None),
        (Reply(200, b"{}"), None),
        (Reply(200, b'{"accepted":"3"}'), None),
        (Reply(200, b"[" * 100_000), None),
        (Reply(204), None),
        (Reply(500, b'{"accepted":3}'), None),
        (Reply(None, failure=Failure.TIMEOUT), None),
    ],
)
def test_only_the_promised_answer_counts_as_accepted(reply: Reply, accepted: int | None) -> None:
    """A 200 that is not the promised JSON is no acceptance."""
    assert accepted_of(reply) == accepted
