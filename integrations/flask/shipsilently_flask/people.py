"""Whom the flags of a request are for: the app's own loader, else Flask-Login's user."""

from __future__ import annotations

import inspect
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
    "a flag is read, directly or not, by the context loader, which is to say whom it is for; there "
    "it is served as to nobody in particular: take the flag out of the loader and of what that "
    "calls, or ask the app's client there, for a context of your own"
)
_IN_CIRCLES_WITH_LOGINS = (
    "a flag is read while Flask-Login loads the user whom it is for; there it is served as to "
    "nobody in particular: take the flag out of the loader of users, or the receiver of "
    "Flask-Login's signals, that reads it, or ask the app's client there, for a context of your own"
)


class ReadWhileLoadingError(Exception):
    """A flag is read by what says whom flags are for."""


#: While it is found out whom flags are for: what is wrong with those that are read meanwhile.
_loading: ContextVar[list[str] | None] = ContextVar("shipsilently_flask.loading", default=None)


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
        ReadWhileLoadingError: A flag is read by what says whom flags are for.
    """
    loader = state.extension.loader
    settings = state.settings
    if loader is None and settings.anonymous_id is None and not _has_logins(app):
        # There is nothing of the app's own to ask.
        return None
    around = _loading.get()
    if around is not None:
        around.append(_IN_CIRCLES if loader is not None else _IN_CIRCLES_WITH_LOGINS)
        raise ReadWhileLoadingError(around[-1])
    meanwhile: list[str] = []
    token = _loading.set(meanwhile)
    try:
        if loader is not None:
            given = loader()
        else:
            given = _flask_login_user() if _has_logins(app) else None
        if meanwhile and _is_loading_user():
            # Flask-Login was at it already, and has begun again for this read.
            raise ReadWhileLoadingError(meanwhile[-1])
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


def _is_loading_user() -> bool:
    """Whether this is called while Flask-Login loads the user, at whatever depth."""
    manager = getattr(sys.modules.get("flask_login"), "LoginManager", None)
    code = getattr(getattr(manager, "_load_user", None), "__code__", None)
    frame = inspect.currentframe()
    while frame is not None:
        if frame.f_code is code:
            return True
        frame = frame.f_back
    return False
