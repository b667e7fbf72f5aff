"""From plain data to a `Document`, with errors that say where and what.

msgspec knows the types; walked field by field here, so that an error can name
the flag, the rule and the condition, and suggest the field that was meant.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Never

import msgspec

from .document import (
    LIST_OPERATORS,
    NUMBER_OPERATORS,
    OPERATORS,
    TEXT_OPERATORS,
    Condition,
    Document,
    Flag,
    FlagValue,
    Rule,
    kind_of,
)
from .errors import FlagsFileError, Place, did_you_mean, quoted

__all__ = ["check_document", "check_flags"]

_MAX_DEPTH = 32
_MAX_PARTS = 100_000
_MAX_WHOLE = 2**53 - 1
_SCALARS = ("boolean", "number", "string")
_VALUES = (*_SCALARS, "object")


def check_document(raw: object, source: str) -> Document:
    """The document that ``raw`` (from any of the three syntaxes) describes.

    Raises `FlagsFileError`.
    """
    place = Place(source)
    if raw is None or raw == {}:
        _refuse(place, 'the file is empty: expected a table "flags"')
    table = _table(raw, Document, place, 'expected a table "flags"')
    schema = None
    if "$schema" in table:
        schema = _text(table["$schema"], replace(place, field="$schema"))
    flags = table["flags"]
    if not isinstance(flags, Mapping):
        _refuse(replace(place, field="flags"), f"expected an object, got {_found(flags)}")
    return Document(flags=check_flags(flags, source), schema=schema)


def check_flags(raw: Mapping[Any, object], source: str) -> dict[str, Flag]:
    """The checked flags of a ``flags`` table. Raises `FlagsFileError`."""
    flags = {}
    for key, flag in raw.items():
        if not isinstance(key, str):
            _refuse(
                Place(source, field="flags"),
                f"a flag's key must be a string, got {_found(key)}: put it in quotes",
            )
        _encodable(key, Place(source, field="flags"))
        flags[key] = _flag(flag, Place(source, flag=key))
    return flags


def _flag(raw: object, place: Place) -> Flag:
    table = _table(raw, Flag, place, 'expected an object with at least "default"')
    default = _value(table["default"], replace(place, field="default"))
    enabled = table.get("enabled", True)
    if not isinstance(enabled, bool):
        _refuse(replace(place, field="enabled"), f"expected true or false, got {_found(enabled)}")
    rules = []
    names: dict[str, int] = {}
    for number, item in enumerate(_list(table, "rules", place), start=1):
        at = replace(place, rule=number)
        rule = _rule(item, at)
        if kind_of(rule.serve) != kind_of(default):
            _refuse(
                replace(at, field="serve"),
                f'expected a {kind_of(default)} like the flag\'s "default", '
                f"got a {kind_of(rule.serve)}",
            )
        if rule.name is not None and names.setdefault(rule.name, number) != number:
            _refuse(
                replace(at, field="name"),
                f"rule {names[rule.name]} is already called {quoted(rule.name)}",
            )
        rules.append(rule)
    return Flag(default=default, enabled=enabled, rules=tuple(rules))


def _rule(raw: object, place: Place) -> Rule:
    table = _table(raw, Rule, place, 'expected an object with at least "serve"')
    name = rollout = None
    if "name" in table:
        name = _text(table["name"], replace(place, field="name"))
        if not name:
            _refuse(replace(place, field="name"), "expected a string that is not empty")
    if "rollout" in table:
        rollout = table["rollout"]
        # NaN is in no range, so it is refused here too.
        if kind_of(rollout) != "number" or not 0 <= rollout <= 100:
            _refuse(
                replace(place, field="rollout"),
                f"expected a percentage from 0 to 100, got {_found(rollout)}",
            )
    return Rule(
        serve=_value(table["serve"], replace(place, field="serve")),
        name=name,
        rollout=rollout,
        when=tuple(
            _condition(item, replace(place, condition=number))
            for number, item in enumerate(_list(table, "when", place), start=1)
        ),
    )


def _condition(raw: object, place: Place) -> Condition:
    table = _table(raw, Condition, place, 'expected an object {"attribute", "operator", "value"}')
    attribute = _text(table["attribute"], replace(place, field="attribute"))
    operator, value = table["operator"], table["value"]
    if operator not in OPERATORS:
        hint = did_you_mean(operator, OPERATORS) if isinstance(operator, str) else ""
        _refuse(
            replace(place, field="operator"),
            f"expected one of {', '.join(OPERATORS)}, got {_found(operator)}{hint}",
        )
    at = replace(place, field="value")
    if operator in LIST_OPERATORS:
        if not isinstance(value, list | tuple):
            _refuse(at, f"expected a list for {quoted(operator)}, got {_found(value)}")
        for item in value:
            _scalar(item, at, f"expected only strings, numbers and booleans for {operator!r}")
        return Condition(attribute=attribute, operator=operator, value=list(value))
    wanted: tuple[str, ...] = _SCALARS
    if operator in TEXT_OPERATORS:
        wanted = ("string",)
    elif operator in NUMBER_OPERATORS:
        wanted = ("number",)
    elif operator == "exists":
        wanted = ("boolean",)
    if kind_of(value) not in wanted:
        _refuse(at, f"expected a {' or '.join(wanted)} for {quoted(operator)}, got {_found(value)}")
    _scalar(value, at, "")
    return Condition(attribute=attribute, operator=operator, value=value)


def _table(
    raw: object, shape: type[msgspec.Struct], place: Place, expected: str
) -> Mapping[str, Any]:
    """``raw`` as a mapping with only known fields and all required ones."""
    if not isinstance(raw, Mapping):
        _refuse(place, f"{expected}, got {_found(raw)}")
    fields = msgspec.structs.fields(shape)
    known = [field.encode_name for field in fields]
    for name in raw:
        if name not in known:
            text = name if isinstance(name, str) else str(name)
            hint = did_you_mean(text, known) or f"; known here: {', '.join(known)}"
            _refuse(replace(place, field=text), f"there is no such field{hint}")
    for field in fields:
        if field.required and field.encode_name not in raw:
            _refuse(replace(place, field=field.encode_name), f"missing: {expected}")
    return raw


def _list(table: Mapping[str, Any], field: str, place: Place) -> list[Any] | tuple[Any, ...]:
    items = table.get(field, ())
    if not isinstance(items, list | tuple):
        _refuse(replace(place, field=field), f"expected a list, got {_found(items)}")
    return items


def _text(value: object, place: Place) -> str:
    if not isinstance(value, str):
        _refuse(place, f"expected a string, got {_found(value)}")
    _encodable(value, place)
    return value


def _scalar(value: object, place: Place, expected: str) -> None:
    if kind_of(value) not in _SCALARS:
        _refuse(place, f"{expected}, got {_found(value)}")
    _plain(value, place, _MAX_DEPTH, [0])


def _value(value: Any, place: Place) -> FlagValue:
    if kind_of(value) not in _VALUES:
        _refuse(
            place,
            f"expected a boolean, a string, a number or an object, got {_found(value)}",
        )
    _plain(value, place, 0, [0])
    checked: FlagValue = value
    return checked


def _plain(value: object, place: Place, depth: int, parts: list[int]) -> None:
    """Refuse what JSON cannot carry, or not to every client."""
    parts[0] += 1
    if parts[0] > _MAX_PARTS or depth > _MAX_DEPTH:
        _refuse(place, f"too large: at most {_MAX_DEPTH} levels and {_MAX_PARTS:,} parts")
    if isinstance(value, Mapping):
        for name, item in value.items():
            if not isinstance(name, str):
                _refuse(place, f"an object's keys must be strings, got {_found(name)}")
            _encodable(name, place)
            _plain(item, place, depth + 1, parts)
    elif isinstance(value, list | tuple):
        for item in value:
            _plain(item, place, depth + 1, parts)
    elif isinstance(value, str):
        _encodable(value, place)
    elif isinstance(value, float):
        if not math.isfinite(value):
            _refuse(place, f"{value} is not a number that JSON knows")
    elif isinstance(value, int):
        if abs(value) > _MAX_WHOLE:
            _refuse(place, "a whole number beyond 2^53 loses digits in some clients: quote it")
    elif value is not None:
        _refuse(place, f"expected a JSON value, got {_found(value)}: put it in quotes")


def _encodable(text: str, place: Place) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        _refuse(replace(place, flag=None), "a string holds half a character (a lone surrogate)")


def _found(value: object) -> str:
    """What was found, shortened: the type, and the value where it is short."""
    kind = kind_of(value)
    if value is None or kind in ("object", "array"):
        return kind
    if isinstance(value, bool):
        return str(value).lower()
    text = quoted(value) if isinstance(value, str) else f"{kind} {value!r:.60}"
    return text if len(text) <= 60 else f"a long {kind}"


def _refuse(place: Place, problem: str) -> Never:
    raise FlagsFileError(place, problem)
