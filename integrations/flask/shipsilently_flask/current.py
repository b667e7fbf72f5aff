"""The flags of whoever is being served right now, and where they are kept."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from flask import Flask, Request, current_app, g, has_app_context, has_request_context
from msgspec import Struct

from shipsilently_core import Flags

from .contexts import app_context, request_context
from .people import ReadWhileLoadingError, current_context, own_request
from .state import State, state_of

__all__ = ["current_flags", "follow_logins", "forget_flags", "kept_flags"]

_KEY = "_shipsilently_flags"
#: Where a request notes who is served: after each login and logout another object, which holds the
#: `flask.g` that this was in.
_TURN = "_shipsilently_turn"
#: How often the context is loaded anew where it became another user's meanwhile; a loader that
#: logs somebody in would never come to an end.
_MOST_TURNS = 3
#: Where a request notes the user that Flask-Login said was about to go.
_LEAVING = "_shipsilently_leaving"


class _Held(Struct, eq=False):
    """What an app context without a request keeps.

    Attributes:
        flags: Read from by everything in that context.
        since: When they were made, in seconds of the client's monotonic clock.
    """

    flags: Flags
    since: float


def current_flags() -> Flags:
    """The flags of this request, or of this app context: made when first wanted, then kept.

    A request keeps them itself, so that its copies in other threads and in a stream
    see the same ones, and that a request inside a pushed app context has its own.
    Without a request they are kept in `flask.g`, and made anew after each ``polling_interval``:
    an app context may live as long as its process.

    Raises:
        RuntimeError: There is no app context, or its app has no `ShipSilently`.
    """
    try:
        within, app = request_context(), app_context().app
    except (LookupError, RuntimeError):
        return _without_request()
    if within.app is not app:
        # Inside `with other_app.app_context()` the request is still that of the first app.
        return _without_request()
    request = within.request
    kept: Flags | None = request.__dict__.get(_KEY)
    return _first(app, request) if kept is None else kept


def _first(app: Flask, request: Request, turns: int = 1) -> Flags:
    state = state_of(app)
    if sys.modules.get("flask_login") is not _followed:
        follow_logins()
    held = request.__dict__
    turn: tuple[Any] | None = held.setdefault(_TURN, None)
    # Looked at before the user is: a logout notes it before it makes a turn.
    stays = _followed is None or not _is_leaving(request)
    if turn is not None and turn[0] is not app_context().g:
        # In a copy of the request's context, which may have loaded its user before that login.
        stays = False
    try:
        context = current_context(app, request, state)
    except ReadWhileLoadingError as error:
        return _nobodys(state, error)
    # Each request's loop, where it has one, serves nobody else: it may be blocked.
    made = state.client.flags(context, block_event_loop=True)
    # Nothing is called from this look to the last line, so no other thread comes between.
    if held[_TURN] is not turn:
        return made if turns == _MOST_TURNS else _first(app, request, turns + 1)
    if not stays:
        return made
    # The first of several threads of one request decides for all of them.
    found: Flags = held.setdefault(_KEY, made)
    return found


def _nobodys(state: State, reason: ReadWhileLoadingError) -> Flags:
    """Flags for what runs while it is found out whom the request's are for; never kept for it."""
    state.client.evaluator.notices.once(f"flask {reason}", "%s", reason)
    return state.client.flags(None, block_event_loop=True)


def _without_request() -> Flags:
    if not has_app_context():
        raise RuntimeError(
            "flags belong to a request or an app context, and there is none here. In a script "
            "or a thread, write `with app.app_context():` around it, or decorate the thread's "
            "function with flask.copy_current_request_context; for a context of your own, use "
            'app.extensions["shipsilently"].client'
        )
    app: Flask = current_app._get_current_object()  # type: ignore[attr-defined]  # of LocalProxy
    state = state_of(app)
    client = state.client
    now = client._clock.monotonic()
    held: _Held | None = g.get(_KEY)
    # A request to another app, around this context, is to see one evaluation to its end.
    if held is not None and (
        now - held.since < client.config.polling_interval or has_request_context()
    ):
        return held.flags
    if sys.modules.get("flask_login") is not _followed:
        follow_logins()
    # There is nobody, and the loader is not asked: it would find no session, or that of
    # another app.
    made = _Held(client.flags(None, block_event_loop=True), now)
    if held is not None:
        setattr(g, _KEY, made)
        return made.flags
    first: _Held = g.setdefault(_KEY, made)
    return first.flags


def kept_flags() -> Flags | None:
    """The flags that this request, or this app context, has read from; ``None`` if it has not."""
    return _kept(own_request(current_app._get_current_object()))  # type: ignore[attr-defined]  # of LocalProxy


def _kept(request: Request | None) -> Flags | None:
    if request is None:
        held: _Held | None = g.get(_KEY)
        return None if held is None else held.flags
    kept: Flags | None = vars(request).get(_KEY)
    return kept


def forget_flags() -> None:
    """Somebody else is being served from now on: load the context anew at the next read."""
    app: Flask = current_app._get_current_object()  # type: ignore[attr-defined]  # of LocalProxy
    request = own_request(app)
    if request is None:
        g.pop(_KEY, None)
    else:
        held = vars(request)
        # In this order: another thread that is loading the context now sees that it was too early.
        held[_TURN] = (app_context().g,)
        held.pop(_KEY, None)


def follow_logins() -> None:
    """After a login or a logout during a request, its flags are those of the new user.

    Does nothing where Flask-Login is not imported, or is followed already.
    """
    global _followed
    flask_login = sys.modules.get("flask_login")
    if flask_login is not None and flask_login is not _followed:
        flask_login.user_logged_in.connect(_on_login)
        flask_login.user_logged_out.connect(_on_logout)
        _followed = flask_login


def _on_login(sender: Flask, **arguments: Any) -> None:
    forget_flags()
    _note_leaving(sender, None)


def _on_logout(sender: Flask, **arguments: Any) -> None:
    # In this order: what another thread loads now is not kept, by one of the two.
    _note_leaving(sender, g.get("_login_user"))
    forget_flags()


def _note_leaving(app: Flask, user: Any) -> None:
    request = own_request(app)
    if request is not None:
        # One object may stand for everybody without an account, also after the logout.
        anonymous = getattr(user, "is_anonymous", False)
        vars(request)[_LEAVING] = None if anonymous else user


def _is_leaving(request: Request) -> bool:
    """Whether the current user is one that is logging out.

    Flask-Login tells of a logout before it changes the user, so other receivers may still
    read the flags of the one who goes. What comes after them must not.
    """
    leaving = vars(request).get(_LEAVING)
    return leaving is not None and g.get("_login_user") is leaving


_followed: ModuleType | None = None
