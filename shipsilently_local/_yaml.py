"""YAML as far as JSON goes: what a person wrote is what is served.

YAML 1.1 reads ``NO`` (Norway) as false, ``12:30`` as 750 and ``2026-01-31`` as a
date. This reader knows the core words of YAML 1.2 only: ``true``, ``false``,
``null`` and plain decimal numbers; everything else is a string. Anchors and
merge keys work; tags and duplicate keys are refused.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import yaml

from .errors import FlagsFileError, Place, quoted

__all__ = ["read_yaml", "write_yaml"]

_PREFIX = "tag:yaml.org,2002:"
_ODD_BREAKS = re.compile("[\x80-\x9f\u2028\u2029\ufeff]")


class _Loader(yaml.SafeLoader):
    yaml_implicit_resolvers = {}  # noqa: RUF012 - declared so by PyYAML

    def compose_node(self, parent: Any, index: Any) -> Any:
        event = self.peek_event()  # type: ignore[no-untyped-call]
        if getattr(event, "tag", None) is not None:
            raise yaml.MarkedYAMLError(
                problem="a tag (!…) is not allowed here", problem_mark=event.start_mark
            )
        return super().compose_node(parent, index)

    def flatten_mapping(self, node: Any) -> None:
        # Before the merged keys come in: those may be given again, written ones not.
        seen = set()
        for key_node, _ in node.value:
            if isinstance(key_node, yaml.ScalarNode) and key_node.tag != _PREFIX + "merge":
                if key_node.value in seen:
                    raise yaml.MarkedYAMLError(
                        problem=f"the key {quoted(key_node.value)} is given twice",
                        problem_mark=key_node.start_mark,
                    )
                seen.add(key_node.value)
        super().flatten_mapping(node)


class _Dumper(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:
        return True


def _int(loader: _Loader, node: yaml.ScalarNode) -> int:
    return int(loader.construct_scalar(node))


def _float(loader: _Loader, node: yaml.ScalarNode) -> float:
    return float(loader.construct_scalar(node).replace(".inf", "inf").replace(".nan", "nan"))


for _kind, _pattern, _first in (
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("bool", r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    ("int", r"[-+]?[0-9]+", list("-+0123456789")),
    (
        "float",
        r"[-+]?(?:\.[0-9]+|[0-9]+\.[0-9]*|[0-9]+(?=[eE]))(?:[eE][-+]?[0-9]+)?|[-+]?\.inf|\.nan",
        list("-+.0123456789"),
    ),
    ("merge", r"<<", ["<"]),
):
    _expression = re.compile(f"(?:{_pattern})\\Z")
    _Loader.add_implicit_resolver(_PREFIX + _kind, _expression, _first)
    # So that it puts in quotes what the loader would take for more than a string.
    _Dumper.add_implicit_resolver(_PREFIX + _kind, _expression, _first)
_Loader.add_constructor(_PREFIX + "int", _int)
_Loader.add_constructor(_PREFIX + "float", _float)


def read_yaml(text: str, place: Place) -> Any:
    """The plain data in ``text``. Raises `FlagsFileError` with the line."""
    try:
        return yaml.load(text, Loader=_Loader)  # noqa: S506 - a SafeLoader without tags
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = None if mark is None else mark.line + 1
        problem = error.problem or error.context
        raise FlagsFileError(Place(place.source, line=line), f"not valid YAML: {problem}") from None
    except (yaml.YAMLError, ValueError) as error:
        first = str(error).splitlines()[0]
        raise FlagsFileError(place, f"not valid YAML: {first}") from None


def write_yaml(raw: Mapping[str, Any]) -> str:
    """``raw`` as YAML that any reader, of 1.1 or 1.2, reads alike."""
    # PyYAML leaves some line breaks of YAML 1.1 in plain sight, where they read as others.
    plain = _ODD_BREAKS.search(json.dumps(raw, ensure_ascii=False)) is None
    text: str = yaml.dump(raw, Dumper=_Dumper, sort_keys=False, allow_unicode=plain)
    return text
