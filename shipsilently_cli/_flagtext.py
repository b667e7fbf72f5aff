"""The text of a flags file, changed as a person would: one line of it, then saved."""

from __future__ import annotations

import os
import re
from pathlib import Path

__all__ = ["save", "with_default", "without_schema"]


def with_default(text: str, flag: str, value: str) -> str:
    """The TOML text with another ``default`` for one flag.

    Args:
        text: The file's text.
        flag: A key of letters, digits, ``-`` and ``_``.
        value: The new default, spelled as in TOML.

    Raises:
        ValueError: The text has no such line.
    """
    pattern = (
        rf"(^\[flags\.{re.escape(flag)}\]\n(?:(?!\[).*\n)*?default *= *)[^\n#]*?(?=[ \t]*(?:#|$))"
    )
    changed, count = re.subn(
        pattern, lambda match: match[1] + value, text, count=1, flags=re.MULTILINE
    )
    if not count:
        raise ValueError(f"no line sets a default below [flags.{flag}]")
    return changed


def without_schema(text: str) -> str:
    """The text without the line that tells editors where its schema is, for a copy elsewhere."""
    return re.sub(r"\A#:schema .*\n\n?", "", text)


def save(path: Path, text: str) -> None:
    """Write the file in one step, so that nobody reads half of it."""
    draft = path.with_name(f".{path.name}.draft")
    draft.write_text(text, encoding="utf-8")
    os.replace(draft, path)
