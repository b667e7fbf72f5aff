"""The least that flags, and an integration of them, can be in Python: where a limit is not ours."""

from __future__ import annotations

import asyncio
from collections import deque
from contextvars import ContextVar
from time import time
from typing import Any, ClassVar, Self

__all__ = ["ASGILeast", "DjangoLeast", "Held", "Noting"]


class Held:
    """The least that flags can be: a dictionary, asked with a default."""

    __slots__ = ("_values",)

    def __init__(self, values: dict[str, Any]) -> None:
        self._values = values

    def get(self, key: str, default: Any) -> Any:
        """The value, if it is of the default's type."""
        value = self._values.get(key)
        return value if type(value) is type(default) else default


class Noting:
    """The least that a user's flags can be whose reads are counted.

    There is no age, no limit to how many users are held, no fork, nobody who listens, no test
    that sets flags, no value that has to be copied, and nothing that serves where one is missing.
    """

    __slots__ = ("_noted", "_rows", "_who")

    #: What is known of each, and of which generation that is.
    users: ClassVar[dict[str, tuple[int, dict[str, Any]]]] = {}
    generation = 1
    #: When each request read its first flag, and what it has read; delivered by nobody.
    sheets: ClassVar[deque[tuple[float, dict[str, Any]]]] = deque(maxlen=100)

    _rows: dict[str, Any]

    def __init__(self, who: str) -> None:
        self._who = who
        self._noted: dict[str, Any] | None = None

    def get(self, key: str, default: Any) -> Any:
        """The value, if it is of the default's type."""
        noted = self._noted
        if noted is None:
            generation, self._rows = self.users[self._who]
            assert generation == self.generation
            noted = self._noted = {}
            self.sheets.append((time(), noted))
        value = self._rows.get(key)
        if type(value) is not type(default):
            return default
        if key not in noted:
            noted[key] = value
        return value

    async def aload(self) -> Self:
        """For who has to await flags before they are read."""
        return self


class DjangoLeast:
    """Sets a context variable and an attribute, and takes the variable back."""

    sync_capable = True
    async_capable = True

    def __init__(self, get_response: Any) -> None:
        self.get_response = get_response
        self._is_async = asyncio.iscoroutinefunction(get_response)
        if self._is_async:
            from asgiref.sync import markcoroutinefunction

            markcoroutinefunction(self)

    def __call__(self, request: Any) -> Any:
        """Handle a request."""
        if self._is_async:
            return self.in_task(request)
        before = _variable.get()
        request.least = Held({})
        _variable.set(request)
        try:
            return self.get_response(request)
        finally:
            _variable.set(before)

    async def in_task(self, request: Any) -> Any:
        """The same."""
        before = _variable.get()
        request.least = Held({})
        _variable.set(request)
        try:
            return await self.get_response(request)
        finally:
            _variable.set(before)


class ASGILeast:
    """The same for a scope."""

    def __init__(self, app: Any) -> None:
        self.app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Handle a request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        least = scope["least"] = Held({})
        token = _variable.set(least)
        try:
            await self.app(scope, receive, send)
        finally:
            _variable.reset(token)


_variable: ContextVar[Any] = ContextVar("least", default=None)
