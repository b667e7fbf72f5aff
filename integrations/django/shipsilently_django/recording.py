"""Flags that note what was read of them, for those who develop a site."""

from __future__ import annotations

import time
from typing import Any

from django.http import HttpRequest

from shipsilently_core import EvaluationResult, Flags

from .flags import RequestFlags

__all__ = ["RecordedFlags", "record", "recorded"]


class RecordedFlags(RequestFlags, eq=False):
    """As `RequestFlags`, noting each key that was asked for, and the time until the answer.

    Attributes:
        reads: Seconds that the reads of each key have taken, and how many there were.
    """

    reads: dict[str, tuple[float, int]] = {}  # noqa: RUF012  # each has its own, as structs do

    def _now(self) -> Flags:
        return _Recording(super()._now(), self)  # type: ignore[return-value]  # reads like one

    # The two that do not use `_now`.

    def get(self, key: str, *args: Any, **kwargs: Any) -> Any:
        return self._now().get(key, *args, **kwargs)

    def is_enabled(self, key: str, **default: bool) -> bool:
        return self._now().is_enabled(key, **default)

    async def _there(self) -> Flags:
        return _Recording(await super()._there(), self)  # type: ignore[return-value]  # as above

    def results(self) -> list[tuple[EvaluationResult, float, int]]:
        """Every flag that was read, with seconds and reads; asks nobody."""
        if self._seen is None:
            return []
        flags = self._seen.flags
        return [(flags.detail(key), *read) for key, read in sorted(self.reads.items())]

    def note(self, key: str, began: float) -> None:
        """A read has ended."""
        seconds, count = self.reads.get(key, (0.0, 0))
        self.reads[key] = (seconds + time.perf_counter() - began, count + 1)


class _Recording:
    """The core's flags, with a note of each read."""

    def __init__(self, flags: Flags, recorder: RecordedFlags) -> None:
        self._flags = flags
        self._recorder = recorder

    def __getattr__(self, name: str) -> Any:
        verb = getattr(self._flags, name)
        if name in ("get", "is_enabled", "detail"):
            return self._noting(verb)
        if name in ("aget", "ais_enabled", "adetail"):
            return self._noting_async(verb)
        return verb

    def __contains__(self, key: object) -> bool:
        return key in self._flags

    def _noting(self, verb: Any) -> Any:
        def read(key: str, *args: Any, **kwargs: Any) -> Any:
            began = time.perf_counter()
            try:
                return verb(key, *args, **kwargs)
            finally:
                self._recorder.note(key, began)

        return read

    def _noting_async(self, verb: Any) -> Any:
        async def read(key: str, *args: Any, **kwargs: Any) -> Any:
            began = time.perf_counter()
            try:
                return await verb(key, *args, **kwargs)
            finally:
                self._recorder.note(key, began)

        return read


def record(request: HttpRequest) -> None:
    """Let this request's flags be recorded; to be called before `FlagsMiddleware`."""
    request.flags = RecordedFlags(request)  # type: ignore[attr-defined]  # the middleware's place


def recorded(request: HttpRequest) -> RecordedFlags | None:
    """The request's flags, where they were recorded."""
    flags = getattr(request, "flags", None)
    return flags if isinstance(flags, RecordedFlags) else None
