"""What a flags file says, as types: the one source of the checks and of the JSON Schema."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeAlias, get_args

import msgspec
from msgspec import Meta

__all__ = [
    "LIST_OPERATORS",
    "NUMBER_OPERATORS",
    "OPERATORS",
    "TEXT_OPERATORS",
    "Condition",
    "Document",
    "Flag",
    "FlagValue",
    "Operator",
    "Rule",
    "Scalar",
    "are_same",
    "kind_of",
]

Scalar: TypeAlias = bool | str | int | float
FlagValue: TypeAlias = bool | str | int | float | dict[str, Any]

Operator: TypeAlias = Literal[
    "equals",
    "not_equals",
    "in",
    "not_in",
    "contains",
    "starts_with",
    "ends_with",
    "gt",
    "gte",
    "lt",
    "lte",
    "exists",
]

OPERATORS: tuple[str, ...] = get_args(Operator)
LIST_OPERATORS = ("in", "not_in")
TEXT_OPERATORS = ("contains", "starts_with", "ends_with")
NUMBER_OPERATORS = ("gt", "gte", "lt", "lte")


class Condition(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One thing that must hold of the context."""

    attribute: Annotated[
        str, Meta(description='The name of a context attribute, such as "plan" or "userId".')
    ]
    operator: Annotated[Operator, Meta(description="How the attribute is compared with the value.")]
    value: Annotated[
        Scalar | list[Scalar],
        Meta(
            description=(
                "What the attribute is compared with: a list for in and not_in, a string for "
                "contains, starts_with and ends_with, a number for gt, gte, lt and lte, "
                "true or false for exists."
            )
        ),
    ]


class Rule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A value for the contexts that meet every condition."""

    serve: Annotated[
        FlagValue,
        Meta(description="The value served; of the same type as the flag's default."),
    ]
    when: Annotated[
        tuple[Condition, ...],
        Meta(description="All of these must hold. Without any, the rule holds for everybody."),
    ] = ()
    name: Annotated[
        Annotated[str, Meta(min_length=1)] | None,
        Meta(description="Reported as ruleId; rule-<n> when left out."),
    ] = None
    rollout: Annotated[
        Annotated[float, Meta(ge=0, le=100)] | None,
        Meta(description="Serve to this percentage of the users, chosen by their userId."),
    ] = None


class Flag(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One feature flag."""

    default: Annotated[
        FlagValue,
        Meta(description="Served when no rule matches, and whenever the flag is disabled."),
    ]
    enabled: Annotated[
        bool, Meta(description="false: everybody gets the default, reason flag_disabled.")
    ] = True
    rules: Annotated[
        tuple[Rule, ...], Meta(description="Tried in order; the first that serves wins.")
    ] = ()


class Document(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A ShipSilently flags file."""

    flags: Annotated[dict[str, Flag], Meta(description="The flags, by their key.")]
    schema: Annotated[str | None, Meta(description="Where an editor finds this JSON Schema.")] = (
        msgspec.field(default=None, name="$schema")
    )


def are_same(flags: Mapping[str, Flag], others: Mapping[str, Flag]) -> bool:
    """Whether these are the same flags in the same order, to the type of each value.

    In Python ``True`` equals 1, in JSON it does not.
    """
    return msgspec.json.encode(flags) == msgspec.json.encode(others)


def kind_of(value: object) -> str:
    """The JSON type of ``value``, in the words of the error messages."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int | float):
        return "number"
    if isinstance(value, str):
        return "string"
    if isinstance(value, dict):
        return "object"
    if isinstance(value, list | tuple):
        return "array"
    return type(value).__name__
