"""What a flag is for a context."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shipsilently_local._checks import check_flags
from shipsilently_local.document import OPERATORS, Flag
from shipsilently_local.evaluation import Result, evaluate, in_rollout


def flag(default: Any, *rules: dict[str, Any], enabled: bool = True) -> Flag:
    """A checked flag."""
    raw = {"default": default, "enabled": enabled, "rules": list(rules)}
    return check_flags({"f": raw}, "f")["f"]


def holds(operator: str, value: Any, context: dict[str, Any]) -> bool:
    """Whether one condition on the attribute ``a`` holds for ``context``."""
    condition = {"attribute": "a", "operator": operator, "value": value}
    result = evaluate("f", flag(False, {"serve": True, "when": [condition]}), context)
    assert isinstance(result.value, bool)
    return result.value


@pytest.mark.parametrize(
    ("operator", "value", "found", "expected"),
    [
        ("equals", "pro", "pro", True),
        ("equals", "pro", "Pro", False),
        ("equals", 5, 5.0, True),
        ("equals", 5, "5", False),
        ("equals", "5", 5, False),
        ("equals", 1, True, False),
        ("equals", True, 1, False),
        ("equals", False, False, True),
        ("not_equals", "pro", "free", True),
        ("not_equals", "pro", "pro", False),
        ("not_equals", 5, "5", True),
        ("in", ["pro", 1], "pro", True),
        ("in", ["pro", 1], True, False),
        ("in", [], "pro", False),
        ("not_in", ["pro", 1], "free", True),
        ("not_in", ["pro", 1], 1.0, False),
        ("not_in", [], "free", True),
        ("contains", "@example.", "a@example.org", True),
        ("contains", "x", "abc", False),
        ("contains", "1", 1, False),
        ("starts_with", "a", "abc", True),
        ("starts_with", "b", "abc", False),
        ("starts_with", "T", True, False),
        ("ends_with", "c", "abc", True),
        ("ends_with", "b", "abc", False),
        ("gt", 5, 5.5, True),
        ("gt", 5, 5, False),
        ("gte", 5, 5, True),
        ("gte", 5, 4, False),
        ("lt", 5, 4, True),
        ("lt", 5, 5, False),
        ("lte", 5, 5, True),
        ("lte", 5, 6, False),
        ("gt", 5, "6", False),
        ("gt", 0, True, False),
        ("exists", True, "", True),
        ("exists", True, False, True),
        ("exists", False, 0, False),
    ],
)
def test_operators(operator: str, value: Any, found: Any, expected: bool) -> None:
    """Each operator compares values of one type only, exactly."""
    assert holds(operator, value, {"a": found}) is expected


@pytest.mark.parametrize("operator", OPERATORS)
def test_nothing_holds_of_a_missing_attribute(operator: str) -> None:
    """No condition on a missing attribute holds, also no negative one, but exists false."""
    value: Any = "x"
    if operator in ("in", "not_in"):
        value = ["x"]
    elif operator in ("gt", "gte", "lt", "lte"):
        value = 1
    elif operator == "exists":
        value = True
    assert holds(operator, value, {"b": "x"}) is False
    assert holds("exists", False, {"b": "x"}) is True


def test_a_disabled_flag_serves_its_default() -> None:
    """A disabled flag looks at no rule and says so."""
    result = evaluate("f", flag("off", {"serve": "on"}, enabled=False), {})
    assert result == Result("f", "off", "flag_disabled")


def test_without_a_match_the_default_is_served() -> None:
    """When no rule matches, the default is served with reason default."""
    assert evaluate("f", flag(1), {"userId": "u"}) == Result("f", 1, "default")


def test_all_conditions_of_a_rule_must_hold() -> None:
    """A rule of two conditions does not match when one holds."""
    when = [
        {"attribute": "a", "operator": "equals", "value": 1},
        {"attribute": "b", "operator": "equals", "value": 1},
    ]
    both = flag(False, {"serve": True, "when": when})
    assert evaluate("f", both, {"a": 1, "b": 1}).value is True
    assert evaluate("f", both, {"a": 1, "b": 2}).value is False


def test_the_first_rule_that_serves_wins() -> None:
    """Rules are tried in order; the one that served is named, or numbered from 1."""
    when = [{"attribute": "a", "operator": "exists", "value": True}]
    tried = flag(0, {"serve": 1, "when": when, "name": "has a"}, {"serve": 2}, {"serve": 3})
    assert evaluate("f", tried, {"a": 1}) == Result("f", 1, "rule_match", "has a")
    assert evaluate("f", tried, {}) == Result("f", 2, "rule_match", "rule-2")


def test_a_rollout_that_leaves_a_user_out_falls_through() -> None:
    """A user outside the percentage gets the next rule; inside, the reason is rollout."""
    rules: list[dict[str, Any]] = [
        {"serve": "a", "rollout": 0},
        {"serve": "b", "rollout": 100},
        {"serve": "c"},
    ]
    assert evaluate("f", flag("d", *rules), {"userId": "u"}) == Result(
        "f", "b", "rollout", "rule-2"
    )
    assert evaluate("f", flag("d", *rules), {}).value == "c"


@pytest.mark.parametrize("user_id", [None, "", True, False])
def test_nobody_is_in_no_rollout(user_id: Any) -> None:
    """Without a real userId a rollout leaves the context out, also at 100 percent."""
    assert in_rollout("f", user_id, 100) is False


def test_a_number_and_its_text_are_one_user() -> None:
    """The userId 42 is in the same place as "42" and 42.0."""
    places = [
        [in_rollout("f", user_id, percentage) for percentage in range(101)]
        for user_id in (42, "42", 42.0)
    ]
    assert places[0] == places[1] == places[2]


@given(
    key=st.text(),
    user_id=st.text(min_size=1) | st.integers() | st.floats(allow_nan=False),
    percentages=st.lists(st.floats(0, 100), min_size=2),
)
def test_a_rollout_is_stable_and_only_grows(
    key: str, user_id: Any, percentages: list[float]
) -> None:
    """The same question has the same answer, and a higher percentage only adds users."""
    answers = [in_rollout(key, user_id, percentage) for percentage in sorted(percentages)]
    assert answers == sorted(answers)
    assert answers == [in_rollout(key, user_id, percentage) for percentage in sorted(percentages)]
    assert in_rollout(key, user_id, 0) is False
    assert in_rollout(key, user_id, 100) is True


def test_a_rollout_takes_about_its_share_of_users() -> None:
    """Of 20,000 users a rollout of 25 percent takes a quarter, and two flags take others."""
    users = range(20_000)
    one = {user for user in users if in_rollout("one", user, 25)}
    two = {user for user in users if in_rollout("two", user, 25)}
    assert 4_700 < len(one) < 5_300
    assert 1_100 < len(one & two) < 1_400


def test_places_never_move() -> None:
    """The places are part of the product: these users are in this rollout for good."""
    assert [user for user in range(40) if in_rollout("checkout-v2", user, 10)] == [16, 32]


def test_a_result_is_written_in_the_wires_names() -> None:
    """A result is encoded with the protocol's field names, ruleId only where a rule served."""
    with_rule = msgspec.json.encode(Result("f", {"a": 1}, "rollout", "r"))
    without = msgspec.json.encode(Result("f", False, "default"))
    assert with_rule == b'{"flagKey":"f","value":{"a":1},"reason":"rollout","ruleId":"r"}'
    assert without == b'{"flagKey":"f","value":false,"reason":"default"}'
