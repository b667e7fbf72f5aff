"""A stable id for visitors without an account, so that a rollout shows each the same page."""

from __future__ import annotations

import functools
import secrets
from collections.abc import Callable, Mapping
from time import time
from typing import Any

from flask import Flask, Request, Response, session
from itsdangerous import BadSignature, URLSafeTimedSerializer

from shipsilently_core import Context

from .contexts import request_context
from .settings import Settings
from .state import state_of

__all__ = ["answer_last", "with_visitor"]

_SESSION_KEY = "_shipsilently_visitor"
#: Where a request keeps what puts the headers of its visitor on the answer.
_ANSWER = "_shipsilently_visitor_answer"
_SALT = "shipsilently-visitor"
#: Characters; no cookie of ours is longer.
_LONGEST = 256

#: The secrets that sign cookies; the last is the one for new ones.
Secrets = tuple[str | bytes, ...]


def with_visitor(
    app: Flask,
    request: Request,
    settings: Settings,
    given: Context | Mapping[str, Any] | None,
) -> Context | Mapping[str, Any] | None:
    """The context with the visitor's id as its ``userId``, for an app that wants that.

    Nothing is set before a flag is read, and nothing for a context that names a user. An app
    without a secret key, with which ids are signed, goes on without them and says so once.
    Nothing can be set where the app's session interface has no session for this request.
    A ready `Context` is taken as it is.
    """
    context = {} if given is None else given
    if not isinstance(context, Mapping):
        return given
    if context.get("userId") is not None or context.get("user_id") is not None:
        return given
    in_session = settings.anonymous_id == "session"
    is_null = in_session and app.session_interface.is_null_session(session)
    if not app.secret_key and (not in_session or is_null):
        state_of(app).client.evaluator.notices.once(
            "no secret key",
            "SHIPSILENTLY_ANONYMOUS_ID needs the app's SECRET_KEY to sign the visitor's id; until "
            "it is set, visitors have none, and flags are for nobody in particular",
        )
        return given
    if is_null:
        # So the app's session interface wants it for this request; nothing can be kept in it.
        return given
    visitor = _from_session() if in_session else _from_cookie(app, request, settings)
    return {**context, "userId": visitor}


def _new() -> str:
    return f"visitor-{secrets.token_urlsafe(12)}"


def _from_session() -> str:
    visitor: str = session.setdefault(_SESSION_KEY, _new())
    return visitor


def _from_cookie(app: Flask, request: Request, settings: Settings) -> str:
    keys = _secrets(app)
    known = _read(keys, request.cookies.get(settings.anonymous_cookie), settings)
    # Kept by the request: its threads and a logout during it see the same visitor.
    visitor: str = vars(request).setdefault(_SESSION_KEY, known or _new())

    def answer(response: Response) -> Response:
        # The page depends on the cookie from now on, also for caches in between.
        headers = response.headers
        # Other ways to ask for a header that is not there raise an error within.
        if headers.getlist("Vary"):
            response.vary.add("Cookie")
        else:
            headers.add("Vary", "Cookie")
        if known is None:
            response.set_cookie(
                settings.anonymous_cookie,
                str(_signer(keys).dumps(visitor)),
                max_age=settings.anonymous_max_age,
                path=app.config["SESSION_COOKIE_PATH"] or app.config["APPLICATION_ROOT"],
                domain=app.config["SESSION_COOKIE_DOMAIN"],
                secure=app.config["SESSION_COOKIE_SECURE"] or request.is_secure,
                httponly=True,
                samesite="Lax",
            )
        return response

    vars(request)[_ANSWER] = answer
    return visitor


def answer_last(app: Flask) -> None:
    """Let the answers of `app` to visitors have their headers, and those to others cost nothing.

    Flask calls these functions from the last to the first. The first in the list comes after
    all others, in which a flag may still be read.
    """
    app.after_request_funcs.setdefault(None, []).insert(0, _answer)


def _answer(response: Response) -> Response:
    answer: Callable[[Response], Response] | None = vars(request_context().request).get(_ANSWER)
    return response if answer is None else answer(response)


def _secrets(app: Flask) -> Secrets:
    assert app.secret_key
    return (*(app.config.get("SECRET_KEY_FALLBACKS") or ()), app.secret_key)


@functools.lru_cache(maxsize=16)
def _signer(keys: Secrets) -> URLSafeTimedSerializer:
    # Its types want all of one kind; it takes each as it is.
    given: Any = list(keys)
    return URLSafeTimedSerializer(given, salt=_SALT)


def _read(keys: Secrets, cookie: str | None, settings: Settings) -> str | None:
    if cookie is None or len(cookie) > _LONGEST:
        return None
    visitor, signed = _opened(keys, cookie)
    # As the serializer would, which does not remember what it has seen.
    return visitor if 0 <= int(time()) - signed <= settings.anonymous_max_age else None


@functools.lru_cache(maxsize=4_096)
def _opened(keys: Secrets, cookie: str) -> tuple[str | None, float]:
    """The visitor that a cookie names, and when it was signed; its signature is checked once."""
    try:
        visitor, signed = _signer(keys).loads(cookie, return_timestamp=True)
    except BadSignature:
        return None, 0.0
    return (visitor if isinstance(visitor, str) else None), signed.timestamp()
