"""The checks of a flags file: what is wrong, where, and what was expected."""

import datetime
import math
from typing import Any

import pytest

from shipsilently_local import FlagsFileError, Place
from shipsilently_local._checks import check_document, check_flags

from .samples import BAD, GOOD, with_condition, with_rule


@pytest.mark.parametrize("raw", GOOD)
def test_good_files_pass(raw: Any) -> None:
    """A file that is right gives its flags in the file's order."""
    assert list(check_document(raw, "f").flags) == list(raw["flags"])


@pytest.mark.parametrize(("raw", "problem"), BAD)
def test_bad_files_are_refused_with_place_and_reason(raw: Any, problem: str) -> None:
    """An error names the file, the place in it and what was expected there."""
    with pytest.raises(FlagsFileError) as caught:
        check_document(raw, "flags.toml")
    assert str(caught.value).startswith("flags.toml")
    assert problem in str(caught.value)


def test_rules_and_conditions_are_counted_from_one() -> None:
    """The second condition of the second rule is called so."""
    good = {"serve": True, "when": [{"attribute": "a", "operator": "exists", "value": True}]}
    bad = {"serve": True, "when": [*good["when"], {"attribute": "a", "operator": "in"}]}  # type: ignore[misc]
    with pytest.raises(FlagsFileError) as caught:
        check_document({"flags": {"f": {"default": False, "rules": [good, bad]}}}, "x")
    assert caught.value.place == Place("x", flag="f", rule=2, condition=2, field="value")


def test_two_rules_cannot_share_a_name() -> None:
    """A rule's name is its ruleId, so a second one of that name is refused."""
    rules = [{"serve": True, "name": "n"}, {"serve": True}, {"serve": True, "name": "n"}]
    with pytest.raises(FlagsFileError, match='rule 3, field "name": rule 1 is already called "n"'):
        check_flags({"f": {"default": True, "rules": rules}}, "x")


@pytest.mark.parametrize("key", [1, True, None, datetime.date(2026, 1, 31)])
def test_a_flag_key_must_be_a_string(key: Any) -> None:
    """A key that YAML reads as something else is refused with the remedy."""
    with pytest.raises(FlagsFileError, match="put it in quotes"):
        check_flags({key: {"default": True}}, "x")


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (math.nan, "not a number that JSON knows"),
        (-math.inf, "not a number that JSON knows"),
        (2**53, "quote it"),
        ({"a": [math.inf]}, "not a number that JSON knows"),
        ({"a": datetime.date(2026, 1, 31)}, "put it in quotes"),
        ({1: 2}, "an object's keys must be strings"),
        ("\ud800", "half a character"),
        ({"\ud800": 1}, "half a character"),
        ({"a": list(range(100_001))}, "too large"),
        (datetime.date(2026, 1, 31), "expected a boolean"),
    ],
)
def test_values_that_json_cannot_carry_are_refused(value: Any, problem: str) -> None:
    """A default or serve value must reach every client as it is."""
    with pytest.raises(FlagsFileError, match=problem):
        check_flags({"f": {"default": value}}, "x")


def test_a_recursive_value_is_refused() -> None:
    """A value that contains itself (YAML can say so) ends in an error, not in a hang."""
    value: dict[str, Any] = {}
    value["again"] = value
    with pytest.raises(FlagsFileError, match="too large"):
        check_flags({"f": {"default": value}}, "x")


def test_a_value_that_unfolds_without_end_is_refused() -> None:
    """A value that is small in the file and huge when unfolded ends in an error soon."""
    value: Any = ["x"] * 10
    for _ in range(20):
        value = [value] * 10
    with pytest.raises(FlagsFileError, match="too large"):
        check_flags({"f": {"default": {"a": value}}}, "x")


@pytest.mark.parametrize("raw", [with_condition(operator="equals", value=math.nan)])
def test_conditions_hold_plain_values_too(raw: Any) -> None:
    """NaN is refused in a condition as in a value."""
    with pytest.raises(FlagsFileError, match="JSON knows"):
        check_document(raw, "x")


def test_nan_is_no_percentage() -> None:
    """A rollout of NaN is out of every range."""
    with pytest.raises(FlagsFileError, match="percentage"):
        check_document(with_rule(serve=True, rollout=math.nan), "x")


def test_long_values_are_not_repeated_in_errors() -> None:
    """An error stays one short line, whatever was found."""
    with pytest.raises(FlagsFileError, match="got a long string"):
        check_flags({"f": {"default": 1, "enabled": "x" * 500}}, "x")


def test_a_field_name_of_another_type_is_refused() -> None:
    """A field whose name is not even a string is an unknown field."""
    with pytest.raises(FlagsFileError, match='field "1": there is no such field'):
        check_flags({"f": {"default": 1, 1: 2}}, "x")
