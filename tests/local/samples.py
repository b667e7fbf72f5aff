"""Flags files that are right and wrong, each wrong one with what its error must say."""

from typing import Any

CONDITION = {"attribute": "plan", "operator": "in", "value": ["pro", 1, True]}


def with_rule(default: Any = False, **rule: Any) -> dict[str, Any]:
    """A document with one flag ``f`` that has one rule."""
    return {"flags": {"f": {"default": default, "rules": [rule]}}}


def with_condition(**condition: Any) -> dict[str, Any]:
    """A document whose only rule has one condition."""
    return with_rule(serve=True, when=[{"attribute": "plan", **condition}])


GOOD: list[dict[str, Any]] = [
    {"flags": {}},
    {"$schema": "flags.schema.json", "flags": {"f": {"default": True}}},
    {"flags": {"ü/../x?y .": {"enabled": False, "default": "on"}, "": {"default": 1.5}}},
    {"flags": {"f": {"default": {"a": [1, None, {"b": []}]}, "rules": []}}},
    with_rule(serve=True, when=[CONDITION], name="some", rollout=12.5),
    with_rule(0, serve=1.5),
    with_rule({}, serve={"a": 1}),
    with_rule("a", serve="b", rollout=0),
    with_condition(operator="equals", value=5),
    with_condition(operator="not_equals", value=False),
    with_condition(operator="not_in", value=[]),
    with_condition(operator="starts_with", value="a"),
    with_condition(operator="lte", value=-1.5),
    with_condition(operator="exists", value=False),
]

#: Document, and what its error says.
BAD: list[tuple[Any, str]] = [
    (None, "the file is empty"),
    ({}, "the file is empty"),
    ([], 'expected a table "flags", got array'),
    ({"flag": {}}, 'field "flag": there is no such field; did you mean "flags"?'),
    ({"$schema": "x"}, 'field "flags": missing'),
    ({"$schema": None, "flags": {}}, 'field "$schema": expected a string, got null'),
    ({"flags": []}, 'field "flags": expected an object, got array'),
    ({"flags": {"f": True}}, 'flag "f": expected an object with at least "default", got true'),
    ({"flags": {"f": {}}}, 'flag "f", field "default": missing'),
    ({"flags": {"f": {"defalt": 1}}}, 'field "defalt": there is no such field; did you mean'),
    (
        {"flags": {"f": {"default": 1, "zzz": 1}}},
        'field "zzz": there is no such field; known here: default, enabled, rules',
    ),
    ({"flags": {"f": {"default": None}}}, "expected a boolean, a string, a number or an object"),
    ({"flags": {"f": {"default": [1]}}}, 'field "default": expected a boolean, a string'),
    ({"flags": {"f": {"default": 1, "enabled": "yes"}}}, 'expected true or false, got "yes"'),
    ({"flags": {"f": {"default": 1, "enabled": 1}}}, "expected true or false, got number 1"),
    ({"flags": {"f": {"default": 1, "rules": {}}}}, 'field "rules": expected a list, got object'),
    ({"flags": {"f": {"default": 1, "rules": None}}}, "expected a list, got null"),
    ({"flags": {"f": {"default": 1, "rules": [5]}}}, 'flag "f", rule 1: expected an object with'),
    (with_rule(), 'rule 1, field "serve": missing'),
    (with_rule(serve="yes"), 'expected a boolean like the flag\'s "default", got a string'),
    (with_rule(1, serve=True), 'expected a number like the flag\'s "default", got a boolean'),
    (with_rule(serve=True, name=""), 'field "name": expected a string that is not empty'),
    (with_rule(serve=True, name=5), 'field "name": expected a string, got number 5'),
    (with_rule(serve=True, name=None), 'field "name": expected a string, got null'),
    (with_rule(serve=True, rollout=101), "expected a percentage from 0 to 100, got number 101"),
    (with_rule(serve=True, rollout=-0.5), "expected a percentage from 0 to 100"),
    (with_rule(serve=True, rollout="50"), "expected a percentage from 0 to 100"),
    (with_rule(serve=True, rollout=True), "expected a percentage from 0 to 100"),
    (with_rule(serve=True, rollout=None), "expected a percentage from 0 to 100"),
    (with_rule(serve=True, when="plan"), 'rule 1, field "when": expected a list'),
    (with_rule(serve=True, when=["plan"]), "rule 1, condition 1: expected an object"),
    (with_condition(operator="in"), 'condition 1, field "value": missing'),
    (with_condition(operator="equal", value=1), 'got "equal"; did you mean "equals"?'),
    (with_condition(operator=5, value=1), "expected one of equals, not_equals"),
    (with_condition(operator="in", value="pro"), 'expected a list for "in", got "pro"'),
    (with_condition(operator="in", value=[None]), "expected only strings, numbers and booleans"),
    (with_condition(operator="contains", value=1), 'expected a string for "contains"'),
    (with_condition(operator="gt", value="1"), 'expected a number for "gt"'),
    (with_condition(operator="gt", value=True), 'expected a number for "gt"'),
    (with_condition(operator="exists", value=1), 'expected a boolean for "exists"'),
    (
        with_condition(operator="equals", value=[]),
        'expected a boolean or number or string for "equals", got array',
    ),
    (
        with_rule(serve=True, when=[{**CONDITION, "attribute": 5}]),
        'field "attribute": expected a string',
    ),
]
