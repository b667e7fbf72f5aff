"""The types of a flags file."""

import datetime

import pytest

from shipsilently_local.document import (
    LIST_OPERATORS,
    NUMBER_OPERATORS,
    OPERATORS,
    TEXT_OPERATORS,
    kind_of,
)


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (None, "null"),
        (True, "boolean"),
        (1, "number"),
        (1.5, "number"),
        ("", "string"),
        ({}, "object"),
        ([], "array"),
        ((), "array"),
        (datetime.date(2026, 1, 31), "date"),
    ],
)
def test_kinds_are_those_of_json(value: object, kind: str) -> None:
    """A value's kind is its JSON type; a boolean is no number; the rest keep their own name."""
    assert kind_of(value) == kind


def test_operators_are_the_documented_ones() -> None:
    """There are twelve operators, and the groups that want a type of value are among them."""
    assert len(OPERATORS) == 12
    assert {*LIST_OPERATORS, *TEXT_OPERATORS, *NUMBER_OPERATORS} < set(OPERATORS)
