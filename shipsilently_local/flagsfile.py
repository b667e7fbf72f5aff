"""The flags file: TOML, YAML or JSON, told apart by the file's suffix.

`load` reads and checks one; `rewrite` writes one back in one step, so that no
reader ever sees half a file.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from ._checks import check_document
from .document import Document
from .errors import FlagsFileError, Place, quoted

__all__ = ["SUFFIXES", "load", "parse", "read", "render", "rewrite"]

MAX_BYTES = 4 * 1024 * 1024


def load(path: str | os.PathLike[str]) -> Document:
    """Read and check the flags file at ``path``. Raises `FlagsFileError`."""
    return parse(read(path), path)


def read(path: str | os.PathLike[str]) -> bytes:
    """The file's bytes. Raises `FlagsFileError` when it cannot be read or is huge."""
    place = Place(os.fspath(path))
    try:
        with open(path, "rb") as file:
            content = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:  # ValueError: a name with a null character
        reason = getattr(error, "strerror", None) or str(error)
        raise FlagsFileError(place, f"cannot read the file: {reason}") from None
    if len(content) > MAX_BYTES:
        raise FlagsFileError(place, f"the file is larger than {MAX_BYTES // 1024 // 1024} MiB")
    return content


def parse(content: bytes, path: str | os.PathLike[str]) -> Document:
    """The document in ``content``, in the syntax that the suffix of ``path`` says.

    Raises `FlagsFileError`, and nothing else, whatever the bytes are.
    """
    return check_document(parse_plain(content, path), os.fspath(path))


def parse_plain(content: bytes, path: str | os.PathLike[str]) -> Any:
    """The plain data in ``content``, not yet checked. Raises `FlagsFileError`."""
    place = Place(os.fspath(path))
    read_syntax = SUFFIXES.get(Path(path).suffix.lower())
    if read_syntax is None:
        raise FlagsFileError(
            place, f"expected a name that ends in one of {', '.join(sorted(SUFFIXES))}"
        )
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise FlagsFileError(
            Place(place.source, line=line), "the file is not text in UTF-8"
        ) from None
    try:
        return read_syntax(text, place)
    except RecursionError:
        raise FlagsFileError(place, "the file is nested too deeply") from None


def _read_toml(text: str, place: Place) -> Any:
    try:
        return tomllib.loads(text)
    except ValueError as error:
        raise FlagsFileError(place, f"not valid TOML: {error}") from None


def _read_json(text: str, place: Place) -> Any:
    def no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            names = [name for name, _ in pairs]
            twice = next(name for name in names if names.count(name) > 1)
            raise FlagsFileError(place, f"the key {quoted(twice)} is given twice")
        return found

    def no_constant(name: str) -> Any:
        raise FlagsFileError(place, f"not valid JSON: {name} is not a number that JSON knows")

    try:
        return json.loads(text, object_pairs_hook=no_duplicates, parse_constant=no_constant)
    except json.JSONDecodeError as error:
        raise FlagsFileError(
            Place(place.source, line=error.lineno), f"not valid JSON: {error.msg}"
        ) from None
    except ValueError as error:
        raise FlagsFileError(place, f"not valid JSON: {error}") from None


def _read_yaml(text: str, place: Place) -> Any:
    from ._yaml import read_yaml

    return read_yaml(text, place)


#: What each suffix is read with.
SUFFIXES: Mapping[str, Callable[[str, Place], Any]] = {
    ".json": _read_json,
    ".toml": _read_toml,
    ".yaml": _read_yaml,
    ".yml": _read_yaml,
}


def render(raw: Mapping[str, Any], path: str | os.PathLike[str]) -> bytes:
    """``raw`` (the plain data of a whole file) in the syntax of ``path``.

    Raises `FlagsFileError` where TOML has no form for it.
    """
    suffix = Path(path).suffix.lower()
    if suffix == ".json":
        text = json.dumps(raw, indent=2, ensure_ascii=False) + "\n"
    elif suffix in (".yaml", ".yml"):
        from ._yaml import write_yaml

        text = write_yaml(raw)
    else:
        text = _write_toml(raw, Place(os.fspath(path)))
    return text.encode()


def rewrite(path: str | os.PathLike[str], content: bytes) -> None:
    """Replace the file in one step: a reader sees the old bytes or the new ones."""
    target = Path(path).resolve()
    handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with open(handle, "wb") as file:
            file.write(content)
        if target.exists():
            os.chmod(temporary, target.stat().st_mode & 0o777)
        os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise


def _write_toml(raw: Mapping[str, Any], place: Place) -> str:
    lines = [f"{_toml(name)} = {_toml(value)}" for name, value in raw.items() if name != "flags"]
    lines.append("[flags]")
    for key, flag in raw["flags"].items():
        lines.append(f"\n[flags.{_toml(key)}]")
        for name, value in flag.items():
            try:
                lines.append(f"{_toml(name)} = {_toml(value)}")
            except _NoNullError:
                at = replace(place, flag=key, field=name)
                raise FlagsFileError(at, "holds a null, which TOML does not have") from None
    return "\n".join(lines) + "\n"


class _NoNullError(Exception):
    """TOML has no null."""


def _toml(value: Any) -> str:
    """One value as TOML on one line. A JSON string is a TOML string but for DEL."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_toml(k)} = {_toml(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_toml(item) for item in value) + "]"
    if value is None:
        raise _NoNullError
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
