"""JSON read by the standard library, as a second opinion on what an answer of the service says."""

from __future__ import annotations

import json
import math
from typing import Any

__all__ = ["Unsure", "flat", "is_text", "levels", "read_json"]

BOM = b"\xef\xbb\xbf"


class Unsure(Exception):  # not an error but an answer
    """Readers of JSON may differ over this document: it gives a name twice, or is too deep."""


def read_json(body: bytes) -> Any:
    """The document in `body`.

    A byte that is not UTF-8 becomes half of a surrogate pair, which `is_text` refuses.

    Raises:
        ValueError: It is not JSON.
        Unsure: There may be two opinions.
    """
    twice = False

    def pairs(found: list[tuple[str, Any]]) -> dict[str, Any]:
        nonlocal twice
        plain = dict(found)
        twice = twice or len(plain) < len(found)
        return plain

    def constant(name: str) -> Any:
        raise ValueError(name)

    text = body.removeprefix(BOM).decode("utf-8", "surrogateescape")
    if text.startswith("\ufeff"):
        raise ValueError("a second byte order mark")
    try:
        document = json.loads(text, object_pairs_hook=pairs, parse_constant=constant)
    except RecursionError:
        raise Unsure from None
    if twice:
        raise Unsure
    return document


def is_text(value: object) -> bool:
    """Whether it is a string with a form in UTF-8."""
    if not isinstance(value, str):
        return False
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def levels(value: Any) -> int:
    """How many objects and arrays are nested in each other."""
    # Layer by layer: newer Pythons read more levels than they have room for calls.
    depth, layer = 0, [value]
    while containers := [item for item in layer if isinstance(item, dict | list)]:
        depth += 1
        layer = []
        for item in containers:
            layer += item.values() if isinstance(item, dict) else item
    return depth


def flat(value: Any) -> Any:
    """A form in which ``1``, ``1.0`` and ``true`` differ; ``None`` where JSON has no such value."""
    if isinstance(value, dict):
        parts = [(name, flat(inner)) for name, inner in sorted(value.items())]
        sound = all(is_text(name) and inner is not None for name, inner in parts)
        return tuple(parts) if sound else None
    if isinstance(value, list):
        items = [flat(inner) for inner in value]
        return None if None in items else ("a list", *items)
    if isinstance(value, str):
        return ("str", value) if is_text(value) else None
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return type(value).__name__, repr(value)
