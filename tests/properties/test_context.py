"""What is sent of a context against a second writer of JSON."""

from __future__ import annotations

import enum
import json
import math
import uuid
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from shipsilently_core import Context
from shipsilently_core._wire import batch_request, evaluate_request
from tests.properties.json_reader import flat, is_text
from tests.properties.support import almost, corpus

FILES = corpus("context")


class Plan(enum.StrEnum):
    """An enum whose members are strings."""

    PRO = "pro"


class Level(enum.Enum):
    """An enum whose members are numbers underneath."""

    TOP = 3


PLAIN = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.text(st.characters(categories=("Cs", "Lu")), max_size=3)
)
RICH = st.one_of(
    PLAIN,
    st.sampled_from([Plan.PRO, Level.TOP, date(2026, 1, 31), datetime(2026, 1, 31, tzinfo=UTC)]),
    st.uuids(),
    st.decimals(),
    st.lists(st.integers(), max_size=2),
    st.binary(max_size=2),
    st.builds(object),
)
NAMES = st.sampled_from(["userId", "user_id", "plan", "email", ""]) | st.text(max_size=5)


def sendable(value: Any) -> Any:
    """The string, number or boolean that stands for `value`; ``None`` where there is none."""
    if isinstance(value, enum.Enum):
        return sendable(value.value)
    if isinstance(value, bool):
        return value
    if isinstance(value, str):
        return value if is_text(value) else None
    if isinstance(value, int | float):
        return value if math.isfinite(value) else None
    if isinstance(value, Decimal):
        if not value.is_finite() or not math.isfinite(float(value)):
            return None
        small = abs(float(value)) < 2**63 and value == value.to_integral_value()
        return int(value) if small else float(value)
    if isinstance(value, uuid.UUID):
        return str(value)
    return value.isoformat() if isinstance(value, date) else None


def expected(attributes: dict[str, Any]) -> dict[str, Any]:
    """What of these attributes can be sent, under the service's names."""
    found = {name: sendable(value) for name, value in attributes.items() if is_text(name)}
    plain = {name: value for name, value in found.items() if value is not None}
    if "userId" not in plain and "user_id" in plain:
        plain["userId"] = plain.pop("user_id")
    return plain


def check(attributes: dict[str, Any]) -> None:
    context = Context(attributes)
    read = json.loads(context.body)
    assert flat(read) == flat(expected(attributes))
    assert list(read) == sorted(read, key=str.encode)
    # Whatever is not sent is named, except what was not given.
    lost = [
        name
        for name, value in attributes.items()
        if value is not None and not (sendable(value) is not None and is_text(name))
    ]
    assert len(context.dropped) == len(lost)
    for name in lost:
        shown = name.encode("ascii", "backslashreplace").decode()
        assert name in context.dropped or shown in context.dropped
    # The body is a part of the requests: nothing in it can end the context early.
    assert json.loads(batch_request(context).body) == {"context": read}
    request = evaluate_request("flag", context)
    assert request is not None
    assert json.loads(request.body) == {"flagKey": "flag", "context": read}
    # Read back, it is the same context.
    assert Context(context) == context
    assert Context(read) == context
    assert Context(dict(reversed(attributes.items()))).body == context.body


@pytest.mark.parametrize("name", FILES)
def test_the_corpus_is_sent_as_a_second_writer_says(name: str) -> None:
    """Each set of attributes arrives, without what JSON or the protocol has no form for."""
    check(json.loads(FILES[name]))


@given(almost("context"))
def test_attributes_from_a_request_body_are_sent_as_they_are(body: bytes) -> None:
    """Whatever JSON object people send as their attributes, its flat part is what arrives."""
    try:
        attributes = json.loads(body)
    except ValueError:
        return
    if isinstance(attributes, dict):
        check(attributes)


@given(st.dictionaries(NAMES, RICH, max_size=5))
@example({"a": Decimal("1E+400"), "b": Decimal("-0.0"), "c": Decimal(2**63)})
@example({"\ud800": 1, "a": "\udfff"})
@example({"user_id": "\ud800"})
@example({"user_id": "u1", "userId": "\ud800"})
def test_any_attributes_are_sent_as_a_second_writer_says(attributes: dict[str, Any]) -> None:
    """Values of every kind arrive in their plain form, or are left out and named."""
    check(attributes)


@given(st.dictionaries(NAMES, PLAIN, max_size=4), st.dictionaries(NAMES, PLAIN, max_size=4))
@example({"a": "b"}, {"a": 'b","c":"d'})
@example({"a": "é"}, {"a": "e\u0301"})
@example({"userId": "1"}, {"userId": 1})
@example({"a": True}, {"a": 1})
@example({"a": 1}, {"a": 1.0})
def test_two_people_never_share_what_is_known(one: dict[str, Any], other: dict[str, Any]) -> None:
    """Contexts are equal where what is sent of them is equal, kind by kind, and nowhere else."""
    same = flat(expected(one)) == flat(expected(other))
    assert (Context(one) == Context(other)) is same
    assert (Context(one).body == Context(other).body) is same


@given(st.text(max_size=6) | st.sampled_from(['a"b', "a\\", "\ud800", "a\nb", "\u2028"]))
def test_any_flag_key_is_asked_for_as_it_is(key: str) -> None:
    """A key arrives as it is, or is not asked for where it has no form."""
    request = evaluate_request(key, Context({"userId": "u1"}))
    if not is_text(key):
        assert request is None
        return
    assert request is not None
    assert json.loads(request.body) == {"flagKey": key, "context": {"userId": "u1"}}
