"""What error trackers show of an exception: the local variables of each frame that it left."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from types import FrameType
from typing import Any

__all__ = ["frames_of", "shown"]


def frames_of(error: BaseException, *, but: str) -> Iterator[FrameType]:
    """The frames of an exception, and of those that it came from, except those of one file."""
    seen: set[int] = set()
    left: list[BaseException | None] = [error]
    while left:
        one = left.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        left += [one.__cause__, one.__context__]
        step = one.__traceback__
        while step is not None:
            if step.tb_frame.f_code.co_filename != but:
                yield step.tb_frame
            step = step.tb_next


def shown(error: BaseException, *, but: str) -> Iterator[str]:
    """Each local variable, as Sentry walks into them: a line with its place and its text."""
    for frame in frames_of(error, but=but):
        for name, value in frame.f_locals.items():
            yield f"{frame.f_code.co_name} {name} = {' '.join(_texts(value))}"


def _texts(value: Any, above: tuple[int, ...] = ()) -> Iterator[str]:
    """Containers are walked into, text and bytes shown, and everything else by its repr."""
    if id(value) in above:
        return
    above = (*above, id(value))
    if isinstance(value, str):
        yield value
    elif isinstance(value, bytes | bytearray):
        yield value.decode("latin-1")
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _texts(key, above)
            yield from _texts(item, above)
    elif isinstance(value, tuple | list | set | frozenset):
        for item in value:
            yield from _texts(item, above)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        for field in dataclasses.fields(value):
            yield from _texts(getattr(value, field.name, None), above)
    else:
        yield repr(value)
