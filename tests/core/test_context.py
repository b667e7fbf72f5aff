"""Whom a flag is evaluated for."""

from __future__ import annotations

import json
import uuid
from collections import UserDict
from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime, time
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from shipsilently_core import Context
from tests.core.support import named


class Plan(StrEnum):
    PRO = "pro"


class Level(IntEnum):
    TOP = 3


class Colour(Enum):
    GREEN = "green"
    NESTED = Plan.PRO
    WEIGHT = Decimal("1.5")
    PAIR = (1, 2)


class Name(str):
    """Stays what it is under `str`, as the safe strings of template engines do."""

    def __str__(self) -> str:
        return self


class Promise:
    """Called like the lazy strings of a framework."""

    def __str__(self) -> str:
        return Name("translated")


class Unruly(Promise):
    def __str__(self) -> str:
        raise RuntimeError("not now")


class Count(int):
    pass


class Ratio(float):
    pass


def sent(context: Context) -> Any:
    return json.loads(context.body)


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        ("x", "x"),
        ("", ""),
        (True, True),
        (0, 0),
        (2**70, 2**70),
        (1.5, 1.5),
        (uuid.UUID(int=7), "00000000-0000-0000-0000-000000000007"),
        (Decimal("2"), 2),
        (Decimal("2.50"), 2.5),
        (Decimal("1e30"), 1e30),
        (date(2026, 1, 2), "2026-01-02"),
        (datetime(2026, 1, 2, 3, 4, tzinfo=UTC), "2026-01-02T03:04:00+00:00"),
        (time(3, 4), "03:04:00"),
        (Plan.PRO, "pro"),
        (Level.TOP, 3),
        (Colour.GREEN, "green"),
        (Colour.NESTED, "pro"),
        (Colour.WEIGHT, 1.5),
        (Name("safe"), "safe"),
        (Promise(), "translated"),
        (Count(4), 4),
        (Ratio(0.5), 0.5),
    ],
    ids=named,
)
def test_values_are_sent_in_their_plain_form(value: object, plain: object) -> None:
    """Everything that has an obvious plain form is sent in it, and nothing is dropped."""
    context = Context({"a": value})
    assert sent(context) == {"a": plain}
    assert type(sent(context)["a"]) is type(plain)
    assert context.dropped == ()


@pytest.mark.parametrize(
    "value",
    [
        float("nan"),
        float("inf"),
        Decimal("NaN"),
        Decimal("Infinity"),
        Decimal("1e400"),
        [1],
        {"a": 1},
        (1,),
        b"x",
        object(),
        Colour.PAIR,
        Unruly(),
        "\ud800",
    ],
    ids=named,
)
def test_values_without_a_form_are_left_out_and_named(value: object) -> None:
    """One attribute that cannot be sent is lost, the others and the request are not."""
    context = Context({"bad": value, "good": 1})
    assert sent(context) == {"good": 1}
    assert context.dropped == ("bad",)


def test_none_is_left_out_without_a_word() -> None:
    """An absent value is not sent as null, and that is no mistake."""
    context = Context({"a": None, "b": 1})
    assert sent(context) == {"b": 1}
    assert context.dropped == ()


def test_names_that_are_no_text_are_left_out() -> None:
    """A name that is no string, or has no form in UTF-8, cannot be sent."""
    context = Context({1: "x", "\ud800": "y", "a": "z"})  # type: ignore[dict-item]
    assert sent(context) == {"a": "z"}
    assert context.dropped == ("int", "\\ud800")


def test_names_of_any_kind_of_text_will_do() -> None:
    """A name that is a framework's or an enumeration's own kind of string is that string."""
    assert sent(Context({Name("a"): 1, Plan.PRO: 2})) == {"a": 1, "pro": 2}


def test_keywords_and_mappings_mean_the_same() -> None:
    """Python's `user_id` is the service's `userId`, alone, mixed, and beside it."""
    expected = Context({"userId": "u1", "plan": "pro"})
    assert Context(user_id="u1", plan="pro") == expected
    assert Context({"userId": "u1"}, plan="pro") == expected
    assert Context({"user_id": "u1"}, plan="pro") == expected
    assert Context(None, user_id="u1", plan="pro") == expected
    both = Context({"userId": "u1"}, user_id="other")
    assert sent(both) == {"userId": "u1", "user_id": "other"}


@pytest.mark.parametrize("absent", [None, ["u1"], float("nan"), "\ud800"])
def test_a_user_id_that_cannot_be_sent_is_absent(absent: object) -> None:
    """Beside a `userId` that is left out, `user_id` is the service's, and stays so when copied."""
    context = Context({"userId": absent, "user_id": "u1"})
    assert sent(context) == {"userId": "u1"}
    assert Context(context) == context


def test_names_of_attributes_are_free() -> None:
    """No attribute's name collides with a parameter."""
    assert sent(Context(self=1, attributes=2, given=3)) == {"self": 1, "attributes": 2, "given": 3}


def test_a_context_can_be_added_to() -> None:
    """A context and keywords make a context with the attributes of both."""
    base = Context({"userId": "u1", "plan": "free", "bad": []})
    more = Context(base, plan="pro", worse={})
    assert sent(more) == {"userId": "u1", "plan": "pro"}
    assert more.dropped == ("bad", "worse")
    assert sent(base) == {"userId": "u1", "plan": "free"}
    assert Context(base) == base


@pytest.mark.parametrize("given", ["u1", 5, ["userId"], object()], ids=named)
def test_what_is_no_mapping_is_an_empty_context(given: Any) -> None:
    """A whole context of a wrong type is dropped and named; keywords beside it count."""
    context = Context(given)
    assert context.body == b"{}"
    assert context.dropped == (f"the whole context, a {type(given).__name__}",)
    beside = Context(given, plan="pro")
    assert sent(beside) == {"plan": "pro"}
    assert beside.dropped == context.dropped


def test_any_mapping_will_do() -> None:
    """A mapping need not be a dictionary."""
    assert Context(UserDict({"a": 1})) == Context({"a": 1})


class Broken(Mapping[str, Any]):
    def __getitem__(self, key: str) -> Any:
        raise KeyError(key)

    def __iter__(self) -> Iterator[str]:
        raise RuntimeError("not now")

    def __len__(self) -> int:
        return 1


@pytest.mark.parametrize("named", [{}, {"plan": "pro"}])
def test_a_mapping_that_raises_costs_the_context_not_the_request(named: dict[str, Any]) -> None:
    """What a caller's own mapping raises is taken for a context that cannot be sent."""
    context = Context(Broken(), **named)
    assert sent(context) == named
    assert context.dropped == ("the whole context, a Broken",)


def test_of_takes_every_way_to_give_one() -> None:
    """A context stays itself, nothing is the empty one, a mapping becomes one."""
    context = Context(user_id="u1")
    assert Context.of(context) is context
    assert Context.of(None) == Context()
    assert Context.of({"userId": "u1"}) == context


def test_a_context_shows_no_values() -> None:
    """Nobody's data is in the representation."""
    assert "secret" not in repr(Context(user_id="secret"))
    assert repr(Context()) == "<Context of 2 bytes>"


def test_a_context_is_a_key() -> None:
    """Equal contexts are one key in a dictionary, and nothing else equals a context."""
    assert {Context(a=1, b=2): "found"}[Context(b=2, a=1)] == "found"
    assert Context() != {}


PLAIN = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"])),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
)
ATTRIBUTES = st.dictionaries(st.sampled_from(["userId", "plan", "α", ""]), PLAIN, max_size=3)


def typed(attributes: Mapping[str, Any]) -> dict[str, tuple[type, str]]:
    # 1, 1.0 and True are three values, and so are 0.0 and -0.0.
    return {name: (type(value), repr(value)) for name, value in attributes.items()}


@given(ATTRIBUTES, ATTRIBUTES)
@example({"plan": 1}, {"plan": True})
@example({"plan": 1}, {"plan": 1.0})
@example({"plan": "1"}, {"plan": 1})
def test_contexts_are_equal_when_and_only_when_their_bodies_are(
    one: dict[str, Any], other: dict[str, Any]
) -> None:
    """Two contexts share a body, and so what is known, exactly where their attributes agree."""
    same = typed(one) == typed(other)
    assert (Context(one).body == Context(other).body) is same
    assert (Context(one) == Context(other)) is same
    assert Context(dict(reversed(one.items()))).body == Context(one).body


@given(st.dictionaries(st.text(), st.text() | st.integers() | st.floats() | st.none()))
def test_no_attributes_make_a_context_raise(attributes: dict[str, Any]) -> None:
    """Whatever a request brings, the body is valid JSON."""
    assert isinstance(sent(Context(attributes)), dict)
