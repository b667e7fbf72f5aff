"""Find the code blocks of a Markdown page, and know which commands they may show."""

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

_FENCE = re.compile(r"^(?P<indent> *)(?P<fence>`{3,}|~{3,})(?P<info>.*)$")
_TITLE = re.compile(r"""title=(["'])(?P<title>.*?)\1""")
_NOT_RUN = re.compile(r"<!--\s*not run:\s*(?P<reason>.*?)\s*-->")


class PageError(Exception):
    """A page holds something that the tests cannot check."""


@dataclass(frozen=True, slots=True)
class Block:
    """One fenced code block: where it starts, what it is, and why it is not run, if so."""

    line: int
    language: str
    title: str
    source: str
    not_run: str


def read_blocks(text: str) -> list[Block]:
    """The code blocks of a page in order. Raises `PageError` for a block that never ends."""
    blocks = []
    lines = text.splitlines()
    position = 0
    while position < len(lines):
        opening = _FENCE.match(lines[position])
        if opening is None:
            position += 1
            continue
        start = position
        closing = re.compile(rf" *{opening['fence'][0]}{{{len(opening['fence'])},}} *")
        position += 1
        body = []
        while position < len(lines) and not closing.fullmatch(lines[position]):
            body.append(lines[position].removeprefix(opening["indent"]))
            position += 1
        if position == len(lines):
            raise PageError(f"line {start + 1}: this block never ends")
        position += 1
        info = opening["info"].strip()
        title = _TITLE.search(info)
        blocks.append(
            Block(
                line=start + 1,
                language=info.split()[0] if info else "",
                title=title["title"] if title else "",
                source="\n".join(body) + "\n",
                not_run=_reason_above(lines, start),
            )
        )
    return blocks


def _reason_above(lines: list[str], start: int) -> str:
    """The reason in a `<!-- not run: … -->` that ends on the last line of text above a block."""
    above = "\n".join(lines[max(0, start - 6) : start]).rstrip()
    reasons = list(_NOT_RUN.finditer(above))
    if not reasons or reasons[-1].end() != len(above):
        return ""
    if not reasons[-1]["reason"]:
        raise PageError(f"line {start + 1}: `not run` needs a reason")
    return reasons[-1]["reason"]


def commands(source: str) -> list[list[str]]:
    """The commands of a console block, each as its words. What they print is left out."""
    joined = source.replace("\\\n", " ")
    found = []
    for line in joined.splitlines():
        if line.startswith("$ "):
            for part in re.split(r"\s(?:&&|&|\|)(?:\s|$)", line[2:]):
                words = shlex.split(part, comments=True)
                if words:
                    found.append(words)
    if not found:
        raise PageError("a console block shows no command: start its lines with `$ `")
    return found


def make_targets(makefile: Path) -> set[str]:
    """The targets that `make help` lists."""
    text = makefile.read_text(encoding="utf-8")
    return set(re.findall(r"^([a-z-]+):.*##", text, re.MULTILINE))
