"""Log lines that say which flags their request has read, for `logging` and for structlog.

    from shipsilently_core import signals
    from shipsilently_core.contrib import logs

    signals.connect(signals.flag_evaluated, logs.remember_flag)

Say where a request begins with one of the middlewares, or with `begin_request`; then put
`FlagsFilter` on a handler, or `add_flags` among structlog's processors. Neither needs
structlog to be there.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from contextvars import ContextVar
from typing import Any

from shipsilently_core._events import variation_key
from shipsilently_core.values import EvaluationResult

from ._shared import attribute

__all__ = [
    "ASGIFlagsRead",
    "FlagsFilter",
    "WSGIFlagsRead",
    "add_flags",
    "begin_request",
    "flags_read",
    "remember_flag",
]

Flags = dict[str, bool | int | float | str]

# Replaced when a request begins, and only added to after that: so the threads and tasks
# that a request starts, which get a copy of its context, add to the same one.
_read: ContextVar[Flags | None] = ContextVar("shipsilently-flags-read", default=None)


def begin_request() -> None:
    """A request begins here: forget what the one before it has read in this thread or task."""
    _read.set({})


def flags_read() -> Flags:
    """The flags that this request has read so far, by key; an object as its JSON."""
    return dict(_read.get() or {})


def remember_flag(sender: Any, *, result: EvaluationResult) -> None:
    """Note a flag that was read; nothing outside of requests.

    A receiver of `shipsilently_core.signals.flag_evaluated`.
    """
    flags = _read.get()
    if flags is not None:
        flags[result.flag_key] = attribute(result.value)


def add_flags(
    logger: Any, method_name: str, event_dict: MutableMapping[str, Any]
) -> MutableMapping[str, Any]:
    """A processor of structlog: binds ``flags``, unless there is nothing to tell."""
    flags = flags_read()
    if flags:
        event_dict.setdefault("flags", flags)
    return event_dict


class FlagsFilter(logging.Filter):
    """Gives each record ``flags``, a text for formats: ``banner="green" new=true``, or ``-``.

    On a handler it sees the records of every logger.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """Let every record pass."""
        flags = flags_read()
        text = " ".join(f"{_shown(key)}={variation_key(flags[key])}" for key in sorted(flags))
        record.flags = text or "-"
        return True


def _shown(key: str) -> str:
    """A key that may have come with a request, and is not to begin a line of its own."""
    return key if key.isprintable() else variation_key(key)


class WSGIFlagsRead:
    """Middleware around a WSGI application: each of its requests begins anew.

    Args:
        app: The application.
    """

    def __init__(self, app: Callable[[Any, Any], Iterable[bytes]]) -> None:
        self._app = app

    def __call__(self, environ: Any, start_response: Any) -> Iterable[bytes]:
        """Handle one request."""
        begin_request()
        return self._app(environ, start_response)


class ASGIFlagsRead:
    """Middleware around an ASGI application: each request and socket begins anew.

    Args:
        app: The application.
    """

    def __init__(self, app: Callable[[Any, Any, Any], Awaitable[None]]) -> None:
        self._app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Handle one request, or another scope."""
        if scope["type"] in ("http", "websocket"):
            begin_request()
        await self._app(scope, receive, send)
