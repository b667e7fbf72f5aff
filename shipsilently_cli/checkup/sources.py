"""Where an app's own code and templates read flags, found without running them."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

__all__ = ["Read", "places_of", "reads_in"]

_TEMPLATES = {".html", ".htm", ".txt", ".xml", ".jinja", ".jinja2", ".j2"}
_NOT_OURS = {"node_modules", "site-packages", "venv", "env", "build", "dist", "tests", "test"}
_MOST_FILES = 5_000
_LARGEST = 1024 * 1024

#: Functions of the integrations that take keys, wherever they are called.
_GATES = {"requires_flag", "require_flag", "flag_enabled", "aflag_enabled"}
#: For methods of flags and clients, the place of the default among their arguments.
_METHODS = {
    **dict.fromkeys(("get", "aget", "detail", "adetail"), 1),
    **dict.fromkeys(("is_enabled", "ais_enabled"), 1),
    **dict.fromkeys(("evaluate", "aevaluate", "evaluate_detail", "aevaluate_detail"), 2),
}
#: What flags and clients are called, at the end of a name.
_HOLDERS = re.compile(r"(?:flags|client|shipsilently)\Z", re.IGNORECASE)

_TAG = re.compile(r"{%-?\s*(?:flag|ifflag|flag_value)\s+([\"'])(?P<key>[^\"']+)\1(?P<rest>[^%]*)%}")
_CALL = re.compile(
    r"\bflag(?:_value)?\(\s*([\"'])(?P<key>[^\"']+)\1(?P<rest>[^)]*)\)|"
    r"([\"'])(?P<tested>[^\"']+)\4\s+is\s+(?:not\s+)?active_flag\b"
)


@dataclass(frozen=True, slots=True)
class Read:
    """One place that reads a flag.

    Attributes:
        key: The flag's.
        place: The file and the line.
        has_default: Whether it says itself what to do without an answer.
    """

    key: str
    place: str
    has_default: bool


def reads_in(sources: Iterable[Path]) -> list[Read]:
    """The places that read a flag by a key that is written out; tests are left out."""
    found: list[Read] = []
    for name, text in _texts(sources, {".py", *_TEMPLATES}):
        found += _in_python(text, name) if name.endswith(".py") else _in_template(text, name)
    return found


def places_of(sources: Iterable[Path], attribute: str) -> list[str]:
    """Where Python code, tests left out, reads such an attribute of a request.

    Args:
        sources: Folders and files.
        attribute: Its name, as in ``request.flags`` and ``self.request.flags``.
    """
    found = []
    for name, text in _texts(sources, {".py"}):
        found += [
            f"{name}:{node.lineno}"
            for node in ast.walk(_tree(text))
            if isinstance(node, ast.Attribute)
            and node.attr == attribute
            and _name_of(node.value) == "request"
        ]
    return found


def _texts(sources: Iterable[Path], endings: Container[str]) -> Iterator[tuple[str, str]]:
    """The files of these kinds: each one's name and its text."""
    for root in sources:
        for path in islice(_files(root), _MOST_FILES):
            try:
                if path.suffix not in endings or path.stat().st_size > _LARGEST:
                    continue
                text = path.read_text(encoding="utf-8")
            except (OSError, UnicodeDecodeError):
                continue
            yield (str(path.relative_to(root)) if path != root else path.name), text


def _tree(text: str) -> ast.AST:
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return ast.Module(body=[], type_ignores=[])


def _files(root: Path) -> Iterator[Path]:
    if root.is_file():
        yield root
        return
    for folder, inner, names in os.walk(root):
        inner[:] = sorted(
            name for name in inner if not name.startswith((".", "venv")) and name not in _NOT_OURS
        )
        for name in sorted(names):
            path = Path(folder, name)
            if path.suffix in _TEMPLATES or (path.suffix == ".py" and not _is_test(name)):
                yield path


def _is_test(name: str) -> bool:
    return name.startswith("test_") or name in ("conftest.py", "tests.py")


def _in_python(text: str, name: str) -> Iterator[Read]:
    for node in ast.walk(_tree(text)):
        if isinstance(node, ast.Call):
            yield from _in_call(node, name)


def _in_call(call: ast.Call, name: str) -> Iterator[Read]:
    place = f"{name}:{call.lineno}"
    keys = [
        argument.value
        for argument in call.args
        if isinstance(argument, ast.Constant) and isinstance(argument.value, str)
    ]
    called = _name_of(call.func)
    if called in _GATES:
        yield from (Read(key.removeprefix("!"), place, has_default=False) for key in keys)
    elif (
        called in _METHODS
        and isinstance(call.func, ast.Attribute)
        and _HOLDERS.search(_name_of(call.func.value))
        and call.args
        and isinstance(call.args[0], ast.Constant)
        and isinstance(call.args[0].value, str)
    ):
        given = len(call.args) > _METHODS[called] or any(
            keyword.arg == "default" for keyword in call.keywords
        )
        yield Read(call.args[0].value, place, given)


def _name_of(node: ast.expr) -> str:
    """The last part of a dotted name."""
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def _in_template(text: str, name: str) -> Iterator[Read]:
    for pattern in (_TAG, _CALL):
        for match in pattern.finditer(text):
            parts = match.groupdict()
            key = parts["key"] or parts.get("tested") or ""
            rest = parts["rest"] or ""
            line = text.count("\n", 0, match.start()) + 1
            has_default = "default=" in rest or (pattern is _CALL and "," in rest)
            yield Read(key, f"{name}:{line}", has_default)
