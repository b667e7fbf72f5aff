"""A stable id for visitors who are not logged in, so that a rollout stays with them."""

from __future__ import annotations

import uuid
from typing import Any

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.utils.cache import patch_vary_headers

from .options import Options

__all__ = ["aid_of_visitor", "id_of_visitor", "keep_visitor", "keeps_sessions", "visitor_of"]

COOKIE = "shipsilently_visitor"
_SESSION_KEY = "_shipsilently_visitor"
_SALT = "shipsilently_django.visitors"
_ONE_YEAR = 365 * 24 * 60 * 60
#: On a request: the id that its cookie holds or is to hold, and whether it is new.
_ATTRIBUTE = "_shipsilently_visitor"


def id_of_visitor(request: HttpRequest, options: Options) -> str | None:
    """The visitor's id, made if need be; ``None`` where none are kept.

    Raises:
        SynchronousOnlyOperation: The session has to be loaded, and this is a coroutine.
    """
    if options.anonymous_id == "cookie":
        return _cookie_id(request)
    if options.anonymous_id is None or not hasattr(request, "session"):
        return None
    known: str | None = request.session.get(_SESSION_KEY)
    if known is None:
        # Another thread of this request may have kept one meanwhile.
        known = request.session.setdefault(_SESSION_KEY, _new_id())
    return known


async def aid_of_visitor(request: HttpRequest, options: Options) -> str | None:
    """`id_of_visitor`, waiting in a task."""
    if options.anonymous_id != "session" or not hasattr(request, "session"):
        return id_of_visitor(request, options)
    known: str | None = await request.session.aget(_SESSION_KEY)
    if known is None:
        known = await request.session.asetdefault(_SESSION_KEY, _new_id())
    return known


def visitor_of(request: HttpRequest) -> tuple[str, bool] | None:
    """The id that the visitor's cookie holds or is to hold, and whether it is new.

    ``None`` where the cookie was not looked at.
    """
    kept: tuple[str, bool] | None = getattr(request, _ATTRIBUTE, None)
    return kept


def keep_visitor(request: HttpRequest, response: HttpResponseBase) -> None:
    """Give the visitor the cookie, where an id was needed."""
    kept = visitor_of(request)
    if kept is None:
        return
    visitor, is_new = kept
    patch_vary_headers(response, ["Cookie"])
    if is_new:
        response.set_signed_cookie(
            COOKIE,
            visitor,
            salt=_SALT,
            max_age=_ONE_YEAR,
            secure=request.is_secure(),
            httponly=True,
            samesite="Lax",
        )


def keeps_sessions(middleware: Any) -> bool:
    """Whether this is Django's middleware for sessions or, by its name, somebody else's."""
    lines = middleware.__mro__ if isinstance(middleware, type) else (middleware,)
    return any("session" in getattr(line, "__name__", "").lower() for line in lines)


def _cookie_id(request: HttpRequest) -> str:
    kept = visitor_of(request)
    if kept is None:
        known = request.get_signed_cookie(COOKIE, None, salt=_SALT, max_age=_ONE_YEAR)
        found = (_new_id(), True) if known is None else (known, False)
        # Another thread of this request may have kept one meanwhile.
        kept = request.__dict__.setdefault(_ATTRIBUTE, found)
    return kept[0]


def _new_id() -> str:
    return f"visitor-{uuid.uuid4().hex}"
