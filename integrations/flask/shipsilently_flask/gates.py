"""Views and whole blueprints that exist only while flags are as wanted."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar, cast

from flask import Flask, abort, current_app, request
from msgspec import Struct
from werkzeug.exceptions import HTTPException

from shipsilently_core import ConfigurationError

from .conditions import Condition, checked_keys
from .current import current_flags
from .lost import remember_target
from .order import is_gate, remember_fallback, remember_gate
from .signals import atell, gate_refused, tell
from .state import state_of
from .targets import Target, target_of

if TYPE_CHECKING:
    from flask.sansio.scaffold import Scaffold

__all__ = ["gate", "requires_flag"]

View = TypeVar("View", bound=Callable[..., Any])


def requires_flag(
    *keys: str,
    value: Any = True,
    status: int = 404,
    redirect_to: str | None = None,
    fallback: Callable[..., Any] | None = None,
) -> Callable[[View], View]:
    """Serve a view only while flags are as wanted; else it is as if it were not there.

    Write it below ``@app.route``. Plain and async views, and the methods of class
    based ones; a whole class gets it through its ``decorators``. ``OPTIONS`` is never
    refused: while the gate is shut it gets Flask's own answer instead of the view's.

    Args:
        keys: The flags, all of which must be on; ``"!x"`` must be off.
        value: The value that the flags must have instead of being on.
        status: The error that refused requests get, 400 to 599, for the app's error handlers.
        redirect_to: An endpoint, or a path or URL, to send them to instead. One like
            ``".soon"`` is looked for in the view's blueprint and in those around it.
        fallback: A view, plain or async, to serve in the place of this one.

    Raises:
        ConfigurationError: While decorating: what is asked for makes no sense.
    """
    door = _door("requires_flag", None, keys, value, status, redirect_to, fallback)

    def decorate(view: View) -> View:
        if inspect.isclass(view):
            raise ConfigurationError(
                "requires_flag",
                f"cannot decorate the class {view.__name__}: write "
                f"`decorators = [requires_flag({keys[0]!r})]` inside it",
            )
        if not callable(view):
            raise ConfigurationError("requires_flag", "decorates a view function")
        asynchronous = inspect.iscoroutinefunction(view)
        gated = _gated_async(door, view) if asynchronous else _gated(door, view)
        remember_gate(view, gated)
        remember_target(gated, redirect_to)
        remember_fallback(gated, fallback)
        return cast("View", gated)

    return decorate


def gate(
    where: Scaffold,
    *keys: str,
    value: Any = True,
    status: int = 404,
    redirect_to: str | None = None,
    fallback: Callable[..., Any] | None = None,
) -> None:
    """Put a whole app or blueprint, with those nested in it, behind flags: every verb, every view.

    The arguments are those of `requires_flag`. The page that `redirect_to` names passes,
    or it could never be reached. Call it while setting up.
    """
    door = _door("gate", where, keys, value, status, redirect_to, fallback)

    def check_flags() -> Any:
        if request.method == "OPTIONS" and _is_left_to_flask():
            return None
        if door.leads_here() or door.lets_pass():
            return None
        return door.refuse(**(request.view_args or {}))

    remember_target(check_flags, redirect_to)
    remember_fallback(check_flags, fallback)
    where.before_request(check_flags)


class _Door(Struct, frozen=True):
    """A gate's condition, and what happens to those it turns away."""

    condition: Condition
    status: int
    target: Target | None
    fallback: Callable[..., Any] | None

    def lets_pass(self) -> bool:
        """Whether this request may go on; tells of those that may not."""
        failing = self._failing()
        if failing is not None and request.method != "OPTIONS":
            tell(_app(), gate_refused, flag_key=failing)
        return failing is None

    async def alets_pass(self) -> bool:
        """`lets_pass`, for an async view: receivers may be coroutine functions there, too."""
        failing = self._failing()
        if failing is not None and request.method != "OPTIONS":
            await atell(_app(), gate_refused, flag_key=failing)
        return failing is None

    def _failing(self) -> str | None:
        """The flag that keeps this request out; ``None`` where it may go on."""
        return self.condition.failing(current_flags())

    def leads_here(self) -> bool:
        """Whether this request is for the page that others are sent to."""
        return self.target is not None and self.target.is_here()

    def refuse(self, *args: Any, **kwargs: Any) -> Any:
        """The answer for a request that is turned away, given the view's own arguments."""
        if request.method == "OPTIONS":
            return current_app.make_default_options_response()
        if self.fallback is not None:
            return current_app.ensure_sync(self.fallback)(*args, **kwargs)
        return self._turn_away()

    async def arefuse(self, *args: Any, **kwargs: Any) -> Any:
        """`refuse`, for an async view."""
        if request.method == "OPTIONS" or self.fallback is None:
            return self.refuse()
        answer = self.fallback(*args, **kwargs)
        return await answer if inspect.isawaitable(answer) else answer

    def _turn_away(self) -> Any:
        answer = None if self.target is None else self.target.response()
        if answer is not None:
            return answer
        if self.target is not None:
            state_of(_app()).client.evaluator.notices.warn(
                f"flask redirect_to {self.target.given}",
                "the gate before the endpoint %r should redirect to %r, which is no endpoint that "
                "a URL can be built for there; the request got the status %d instead",
                request.endpoint,
                self.target.given,
                self.status,
            )
        return _fail(self.status)


def _app() -> Flask:
    app: Flask = current_app._get_current_object()  # type: ignore[attr-defined]  # of LocalProxy
    return app


def _fail(status: int) -> NoReturn:
    """Raise the app's exception for this status, or a plain one where there is none."""
    try:
        abort(status)
    except HTTPException:
        raise
    except LookupError:
        plain = HTTPException()
        plain.code = status
        raise plain from None


def _is_left_to_flask() -> bool:
    """Whether no view has a say in the answer to this request's ``OPTIONS``."""
    rule = request.url_rule
    if rule is None or getattr(rule, "provide_automatic_options", False):
        return True
    return _answers_options(current_app.view_functions.get(rule.endpoint))


def _answers_options(view: Any) -> bool:
    """Whether a decorator has told Flask that it answers ``OPTIONS`` in the view's place.

    By these attributes `cross_origin` of Flask-CORS does so, for example, and answers a
    browser's preflight without the view. A view itself may have them, too, and is then to
    answer by hand.
    """
    while is_gate(view):
        view = view.__wrapped__
    required = getattr(view, "required_methods", None) or ()
    is_decorated = hasattr(view, "__wrapped__")
    return (
        is_decorated
        and "OPTIONS" in required
        and getattr(view, "provide_automatic_options", None) is False
    )


def _door(
    name: str,
    where: Scaffold | None,
    keys: tuple[Any, ...],
    value: Any,
    status: Any,
    redirect_to: Any,
    fallback: Any,
) -> _Door:
    wrong = checked_keys(keys)
    target = None if redirect_to is None else _target(redirect_to, where)
    if not keys:
        wrong = "needs the key of a flag"
    elif callable(keys[0]):
        wrong = 'needs the key of a flag: write @requires_flag("x")'
    elif not isinstance(status, int) or not 400 <= status <= 599:
        wrong = "status must be that of an error, 400 to 599"
    elif redirect_to is not None and target is None:
        wrong = "redirect_to must be an endpoint, a path or a URL"
    elif fallback is not None and not callable(fallback):
        wrong = "fallback must be a view function"
    elif redirect_to is not None and fallback is not None:
        wrong = "takes redirect_to or fallback, not both"
    if wrong is not None:
        raise ConfigurationError(name, wrong)
    return _Door(Condition(keys, value), status, target, fallback)


def _target(redirect_to: Any, where: Scaffold | None) -> Target | None:
    """Where it leads; ``None`` if nowhere."""
    if not isinstance(redirect_to, str) or not redirect_to:
        return None
    try:
        return target_of(redirect_to, where)
    except ValueError:
        return None


def _gated(door: _Door, view: Callable[..., Any]) -> Callable[..., Any]:
    answers_options = _answers_options(view)

    @functools.wraps(view)
    def serve(*args: Any, **kwargs: Any) -> Any:
        if (answers_options and request.method == "OPTIONS") or door.lets_pass():
            return view(*args, **kwargs)
        return door.refuse(*args, **kwargs)

    return serve


def _gated_async(door: _Door, view: Callable[..., Any]) -> Callable[..., Any]:
    answers_options = _answers_options(view)

    @functools.wraps(view)
    async def serve(*args: Any, **kwargs: Any) -> Any:
        if (answers_options and request.method == "OPTIONS") or await door.alets_pass():
            return await view(*args, **kwargs)
        return await door.arefuse(*args, **kwargs)

    return serve
