"""Whom the flags of a request are for: the app's own loader, else Flask-Login's user."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any

from flask import Flask, Request, has_request_context
from flask.ctx import RequestContext
from flask.globals import request_ctx

from shipsilently_core import Context

from .state import State
from .visitors import with_visitor

__all__ = ["current_context", "own_request"]

_IN_CIRCLES = (
    "the context loader reads a flag, which would need the context that it is to load: take the "
    "flag out of the loader"
)
_IN_CIRCLES_WITH_LOGINS = (
    "a flag is read while Flask-Login loads the user whom it is for: take the flag out of the "
    "loader of users, or the receiver of Flask-Login's signals, that reads it"
)

_loading: ContextVar[bool] = ContextVar("shipsilently_flask.loading", default=False)


def own_request(app: Flask) -> Request | None:
    """The current request, if it is one to `app`.

    Inside ``with other_app.app_context()`` the request is still that of the first app.
    """
    if not has_request_context():
        return None
    context: RequestContext = request_ctx._get_current_object()  # type: ignore[attr-defined]  # of LocalProxy
    return context.request if context.app is app else None


def current_context(
    app: Flask, request: Request, state: State
) -> Context | Mapping[str, Any] | None:
    """Whom the flags of this request are for.

    Raises:
        RuntimeError: A flag is read by what says whom flags are for.
    """
    loader = state.extension.loader
    settings = state.settings
    if loader is None and settings.anonymous_id is None and not _has_logins(app):
        # There is nothing of the app's own to ask.
        return None
    if _loading.get():
        raise RuntimeError(_IN_CIRCLES if loader is not None else _IN_CIRCLES_WITH_LOGINS)
    token = _loading.set(True)
    try:
        if loader is not None:
            given = loader()
        else:
            given = _flask_login_user() if _has_logins(app) else None
        if settings.anonymous_id is None:
            return given
        return with_visitor(app, request, settings, given)
    finally:
        _loading.reset(token)


def _has_logins(app: Flask) -> bool:
    # An app that uses Flask-Login has imported it; this package never does.
    return "flask_login" in sys.modules and hasattr(app, "login_manager")


def _flask_login_user() -> Mapping[str, Any] | None:
    user_id = sys.modules["flask_login"].current_user.get_id()
    return None if user_id is None else {"userId": user_id}
