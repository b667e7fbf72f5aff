"""What a flag is for a context. Pure functions; the same answer every time.

A condition on an attribute that the context does not have never holds, also not
``not_equals`` and ``not_in``: nobody is targeted by what is unknown about them.
``exists`` with the value ``false`` is the one way to ask for it. Values of
different JSON types are never equal and never compared: ``"5"`` is not ``5``,
``true`` is not ``1``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from .document import Condition, Flag, FlagValue, Rule, Scalar, kind_of

__all__ = ["Context", "Result", "evaluate", "in_rollout"]

Context = Mapping[str, Scalar]


class Result(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """An evaluation result, in the wire's field names when encoded."""

    flag_key: str
    value: FlagValue
    reason: str
    rule_id: str | None = None


def evaluate(key: str, flag: Flag, context: Context) -> Result:
    """The value of ``flag`` (called ``key``) for ``context``, and why."""
    if not flag.enabled:
        return Result(key, flag.default, "flag_disabled")
    for number, rule in enumerate(flag.rules, start=1):
        if not all(_holds(condition, context) for condition in rule.when):
            continue
        if rule.rollout is None:
            return Result(key, rule.serve, "rule_match", _rule_id(rule, number))
        if in_rollout(key, context.get("userId"), rule.rollout):
            return Result(key, rule.serve, "rollout", _rule_id(rule, number))
    return Result(key, flag.default, "default")


def in_rollout(key: str, user_id: Scalar | None, percentage: float) -> bool:
    """Whether the user is among ``percentage`` percent of the flag's users.

    The place of a user is a hash of the flag's key and the userId: it never
    changes, so a higher percentage only adds users, and two flags choose
    independently. A missing, empty or boolean userId is nobody and is left out,
    also at 100 percent. The number 42 and the string "42" are the same user.
    """
    if user_id is None or isinstance(user_id, bool) or user_id == "":
        return False
    if isinstance(user_id, float) and user_id.is_integer():
        user_id = int(user_id)
    digest = hashlib.sha256(f"{len(key)}:{key}:{user_id}".encode()).digest()
    return int.from_bytes(digest[:8], "big") * 100 < percentage * 2**64


def _rule_id(rule: Rule, number: int) -> str:
    return f"rule-{number}" if rule.name is None else rule.name


def _holds(condition: Condition, context: Context) -> bool:
    found = context.get(condition.attribute)
    if condition.operator == "exists":
        return (found is not None) is condition.value
    return found is not None and _COMPARE[condition.operator](found, condition.value)


def _same(left: Any, right: Any) -> bool:
    return kind_of(left) == kind_of(right) and bool(left == right)


def _text(compare: Callable[[str, str], bool]) -> Callable[[Any, Any], bool]:
    return lambda found, value: isinstance(found, str) and compare(found, value)


def _number(compare: Callable[[float, float], bool]) -> Callable[[Any, Any], bool]:
    return lambda found, value: kind_of(found) == "number" and compare(found, value)


_COMPARE: Mapping[str, Callable[[Any, Any], bool]] = {
    "equals": _same,
    "not_equals": lambda found, value: not _same(found, value),
    "in": lambda found, value: any(_same(found, item) for item in value),
    "not_in": lambda found, value: not any(_same(found, item) for item in value),
    "contains": _text(lambda found, value: value in found),
    "starts_with": _text(lambda found, value: found.startswith(value)),
    "ends_with": _text(lambda found, value: found.endswith(value)),
    "gt": _number(lambda found, value: found > value),
    "gte": _number(lambda found, value: found >= value),
    "lt": _number(lambda found, value: found < value),
    "lte": _number(lambda found, value: found <= value),
}
