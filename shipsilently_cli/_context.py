"""Contexts as people type them, the same for the commands of every framework. It needs no click."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, NoReturn

from shipsilently_core import Context

__all__ = ["MistypedError", "attributes_of", "json_or_text", "refuse"]

_EXAMPLE = '\'{"plan": "pro"}\''


class MistypedError(Exception):
    """What was typed is no context; says why, without showing it: it may be about a person."""


def attributes_of(words: Iterable[str]) -> dict[str, Any]:
    """The attributes that words name: each is ``NAME=VALUE`` or an object in JSON.

    A value is JSON where it is that, else the text itself. Of two of one name the later counts.

    Raises:
        MistypedError: A word is neither, or an attribute is of a kind that is never sent.
    """
    attributes: dict[str, Any] = {}
    for word in words:
        if word.lstrip().startswith(("{", "[", '"')):
            attributes.update(_object(word))
            continue
        name, equals, value = word.partition("=")
        if not name or not equals:
            raise MistypedError(
                f"is not NAME=VALUE and no JSON object; write plan=pro, or {_EXAMPLE}"
            )
        attributes[name] = json_or_text(value)
    dropped = Context(attributes).dropped
    if dropped:
        raise MistypedError(
            f"the attribute {dropped[0]!r} must be a string, a number, true or false"
        )
    return attributes


def json_or_text(given: str) -> Any:
    """JSON where it is that, else the string itself."""
    try:
        return json.loads(given, parse_constant=refuse)
    except ValueError:
        return given


def refuse(word: str) -> NoReturn:
    """For ``parse_constant``: ``NaN`` and its kind are no JSON, whatever Python's parser thinks."""
    raise ValueError(word)


def _object(word: str) -> dict[str, Any]:
    try:
        found = json.loads(word)
    except ValueError as error:
        where = f" at character {error.pos + 1}" if isinstance(error, json.JSONDecodeError) else ""
        problem = f"is not JSON{where}; quote it for the shell, like {_EXAMPLE}"
        raise MistypedError(problem) from None
    if not isinstance(found, dict):
        raise MistypedError(f"must be a JSON object, like {_EXAMPLE}, or NAME=VALUE")
    return found
