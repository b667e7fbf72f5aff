"""Flask's own contexts, found on a shorter way than through its proxies."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

from flask import globals as flask_globals
from flask.globals import app_ctx, request_ctx

__all__ = ["app_context", "asked_directly", "request_context"]


def asked_directly(variable: str, proxy: Any) -> Callable[[], Any]:
    """What gives a context of Flask's: its variable, or the proxy where there is none.

    The proxy takes three times as long, which each read of a flag would pay for twice.
    The variable's name is Flask's own affair, and may be another one day.
    """
    found = getattr(flask_globals, variable, None)
    return found.get if isinstance(found, ContextVar) else proxy._get_current_object


#: Both raise `LookupError` or `RuntimeError` where there is none.
request_context: Callable[[], Any] = asked_directly("_cv_request", request_ctx)
app_context: Callable[[], Any] = asked_directly("_cv_app", app_ctx)
