"""The text of an answer to a batch, cut at its rows, to find what is different in another."""

from __future__ import annotations

import re
from itertools import pairwise

__all__ = ["Form", "Raws", "form_of"]

#: The bytes of rows by flag key, in an answer's order.
Raws = dict[str, bytes]

#: Rows that are compared at once, before each is by itself.
_AT_ONCE = 8
#: So many more rows than half of those compared may be different before the rest is left alone.
_DOUBTFUL = 16

_SPACE, _STRING = rb"[ \t\r\n]*", rb'"(?:[^"\\]|\\.)*"'
_KEY = _SPACE + _STRING + _SPACE + b":" + _SPACE
_BEFORE_FIRST = _SPACE + b"{" + _SPACE + b'"flags"' + _SPACE + b":" + _SPACE + b"{" + _KEY
_AFTER_LAST = _SPACE + b"}" + _SPACE + b"}" + _SPACE
_is_before_first = re.compile(_BEFORE_FIRST, re.DOTALL).fullmatch
_is_between = re.compile(_SPACE + b"," + _KEY, re.DOTALL).fullmatch
_is_after_last = re.compile(_AFTER_LAST).fullmatch

#: A key; the bytes before its row, with the row; those before it alone; and those after it, up to
#: the next row. None are after the last.
_Member = tuple[str, bytes, bytes, bytes]


class Form:
    """The bytes of one answer, of which others may have most in common.

    Args:
        raws: Its rows.
        gaps: The bytes before each of them, each with one key, and those after the last.
    """

    def __init__(self, raws: Raws, gaps: list[bytes]) -> None:
        self._gaps = gaps
        *before, self._end = gaps
        after = [*before[1:], b""]
        members = [
            (key, gap + raw, gap, following)
            for (key, raw), gap, following in zip(raws.items(), before, after, strict=True)
        ]
        parts = [members[n : n + _AT_ONCE] for n in range(0, len(members), _AT_ONCE)]
        self._parts = [(b"".join(member for _, member, _, _ in part), part) for part in parts]

    def filled(self, raws: Raws) -> Form:
        """The same with other rows for the same keys."""
        return Form(raws, self._gaps)

    def different(self, text: bytes) -> Raws | None:
        """The rows of another answer that are not the same here, found without decoding it.

        If each of them is the whole text of one JSON value, `text` is JSON, and holds exactly
        these rows and the others of this answer: all of its other bytes are the same. Nothing
        is known of it otherwise.

        Args:
            text: The other answer.

        Returns:
            ``None`` where it has other flags or is written in another way; and where it does
            not look much the same, which is a guess made early.
        """
        if not text.endswith(self._end):
            return None
        found: Raws = {}
        place = 0
        end = len(text) - len(self._end)
        for number, (together, part) in enumerate(self._parts):
            if text.startswith(together, place):
                place += len(together)
                continue
            after = _compare_each(text, place, end, part, found)
            if after is None or len(found) > number * _AT_ONCE // 2 + _DOUBTFUL:
                return None
            place = after
        return found if place == end else None


def _compare_each(
    text: bytes, place: int, end: int, part: list[_Member], found: Raws
) -> int | None:
    """Add to `found` the rows that differ.

    Args:
        text: An answer.
        place: Where in it these members are.
        end: Where the last of all ends.
        part: The members.
        found: Grows.

    Returns:
        The place after them; ``None`` where there is something else.
    """
    for key, member, gap, following in part:
        if text.startswith(member, place):
            place += len(member)
            continue
        start = place + len(gap)
        # An object in the row may hold the same key: what is cut there is no JSON by itself.
        stop = text.find(following, start) if following else end
        if stop < start or not text.startswith(gap, place):
            return None
        found[key] = text[start:stop]
        place = stop
    return place


def form_of(text: bytes, raws: Raws) -> Form | None:
    """The form of an answer that is known to be JSON.

    Args:
        text: It.
        raws: All its rows; at least one.

    Returns:
        ``None`` where a flag is in it twice, or anything beside the flags: a row that is found
        might be another's.
    """
    bounds = [0]
    for raw in raws.values():
        start = text.find(raw, bounds[-1])
        if start < 0:
            return None
        bounds += [start, start + len(raw)]
    bounds.append(len(text))
    gaps = [text[start:stop] for start, stop in list(pairwise(bounds))[::2]]
    first, *between, last = gaps
    if _is_before_first(first) and all(map(_is_between, between)) and _is_after_last(last):
        return Form(raws, gaps)
    return None
