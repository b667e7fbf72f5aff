"""The flags file's JSON Schema, made from the types in `document`.

``python -m shipsilently_local.schema`` prints it; the package ships it as
``flags.schema.json``, for editors.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Any

import msgspec

from .document import LIST_OPERATORS, NUMBER_OPERATORS, TEXT_OPERATORS, Document

__all__ = ["render_schema", "schema"]

_SCALAR = {"type": ["boolean", "number", "string"]}


def schema() -> dict[str, Any]:
    """The schema as plain data.

    The types say most of it. Added are two rules that tie fields to each other:
    what value an operator takes, and that a flag serves one type only.
    """
    made = msgspec.json.schema(Document)
    parts = made["$defs"]
    parts["Condition"]["allOf"] = [
        _takes(LIST_OPERATORS, {"type": "array"}),
        _takes(TEXT_OPERATORS, {"type": "string"}),
        _takes(NUMBER_OPERATORS, {"type": "number"}),
        _takes(("exists",), {"type": "boolean"}),
        _takes(("equals", "not_equals"), _SCALAR),
    ]
    parts["Flag"]["allOf"] = [_serves(kind) for kind in ("boolean", "number", "string", "object")]
    # null is how Python says "not given"; in a file a field is left out.
    for part, name in (("Rule", "name"), ("Rule", "rollout"), ("Document", "$schema")):
        fields = parts[part]["properties"]
        fields[name] = _given(fields[name])
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "ShipSilently flags file",
        **made,
    }


def render_schema() -> str:
    """The schema as the text of the shipped file."""
    return json.dumps(schema(), indent=2, ensure_ascii=False) + "\n"


def _takes(operators: Sequence[str], value: dict[str, Any]) -> dict[str, Any]:
    return {
        "if": {"properties": {"operator": {"enum": list(operators)}}, "required": ["operator"]},
        "then": {"properties": {"value": value}},
    }


def _serves(kind: str) -> dict[str, Any]:
    served = {"properties": {"rules": {"items": {"properties": {"serve": {"type": kind}}}}}}
    return {
        "if": {"properties": {"default": {"type": kind}}, "required": ["default"]},
        "then": served,
    }


def _given(field: dict[str, Any]) -> dict[str, Any]:
    without_null = [choice for choice in field["anyOf"] if choice != {"type": "null"}]
    rest = {name: value for name, value in field.items() if name not in ("anyOf", "default")}
    return {**rest, **without_null[0]}


if __name__ == "__main__":
    sys.stdout.write(render_schema())
