"""A stable id for visitors without an account, so that a rollout shows each the same page."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Any

from flask import Flask, Request, Response, after_this_request, session
from itsdangerous import BadSignature, URLSafeTimedSerializer

from shipsilently_core import Context

from .settings import Settings

__all__ = ["with_visitor"]

_SESSION_KEY = "_shipsilently_visitor"
_SALT = "shipsilently-visitor"


def with_visitor(
    app: Flask,
    request: Request,
    settings: Settings,
    given: Context | Mapping[str, Any] | None,
) -> Context | Mapping[str, Any] | None:
    """The context with the visitor's id as its ``userId``, where the app wants that.

    Nothing is set before a flag is read, and nothing for a context that names a user.
    A ready `Context` is taken as it is.
    """
    context = {} if given is None else given
    if settings.anonymous_id is None or not isinstance(context, Mapping):
        return given
    if any(context.get(name) is not None for name in ("userId", "user_id")):
        return given
    in_session = settings.anonymous_id == "session"
    visitor = _from_session() if in_session else _from_cookie(app, request, settings)
    return {**context, "userId": visitor}


def _new() -> str:
    return f"visitor-{secrets.token_urlsafe(12)}"


def _from_session() -> str:
    visitor: str = session.setdefault(_SESSION_KEY, _new())
    return visitor


def _from_cookie(app: Flask, request: Request, settings: Settings) -> str:
    signer = _signer(app)
    known = _read(signer, request.cookies.get(settings.anonymous_cookie), settings)
    # Kept by the request: its threads and a logout during it see the same visitor.
    visitor: str = vars(request).setdefault(_SESSION_KEY, known or _new())

    @after_this_request
    def answer(response: Response) -> Response:
        # The page depends on the cookie from now on, also for caches in between.
        response.vary.add("Cookie")
        if known is None:
            response.set_cookie(
                settings.anonymous_cookie,
                str(signer.dumps(visitor)),
                max_age=settings.anonymous_max_age,
                path=app.config["SESSION_COOKIE_PATH"] or app.config["APPLICATION_ROOT"],
                domain=app.config["SESSION_COOKIE_DOMAIN"],
                secure=app.config["SESSION_COOKIE_SECURE"] or request.is_secure,
                httponly=True,
                samesite="Lax",
            )
        return response

    return visitor


def _signer(app: Flask) -> URLSafeTimedSerializer:
    if not app.secret_key:
        raise RuntimeError(
            "SHIPSILENTLY_ANONYMOUS_ID = 'cookie' needs the app's SECRET_KEY to sign the cookie"
        )
    fallbacks = app.config.get("SECRET_KEY_FALLBACKS") or []
    return URLSafeTimedSerializer([*fallbacks, app.secret_key], salt=_SALT)


def _read(signer: URLSafeTimedSerializer, cookie: str | None, settings: Settings) -> str | None:
    if cookie is None:
        return None
    try:
        visitor = signer.loads(cookie, max_age=settings.anonymous_max_age)
    except BadSignature:
        return None
    return visitor if isinstance(visitor, str) else None
