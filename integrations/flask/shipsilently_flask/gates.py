"""Views and whole blueprints that exist only while flags are as wanted."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar, cast

from flask import Flask, abort, current_app, redirect, request, url_for
from msgspec import Struct

from shipsilently_core import ConfigurationError

from .conditions import Condition, checked_keys
from .current import current_flags
from .order import remember_gate
from .signals import gate_refused

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
    based ones; a whole class gets it through its ``decorators``. ``OPTIONS`` always
    passes, as it says nothing of the page and browsers send it without cookies.

    Args:
        keys: The flags, all of which must be on; ``"!x"`` must be off.
        value: The value that the flags must have instead of being on.
        status: The error that refused requests get, for the app's error handlers.
        redirect_to: An endpoint, or a path or URL, to send them to instead.
        fallback: A view, plain or async, to serve in the place of this one.

    Raises:
        ConfigurationError: While decorating: what is asked for makes no sense.
    """
    door = _door("requires_flag", keys, value, status, redirect_to, fallback)

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
    door = _door("gate", keys, value, status, redirect_to, fallback)

    def check_flags() -> Any:
        if door.leads_here() or door.lets_pass():
            return None
        return door.refuse(**(request.view_args or {}))

    where.before_request(check_flags)


class _Door(Struct, frozen=True):
    """A gate's condition, and what happens to those it turns away."""

    condition: Condition
    status: int
    redirect_to: str | None
    fallback: Callable[..., Any] | None

    def lets_pass(self) -> bool:
        """Whether this request may go on; tells of those that may not."""
        failing = self._failing()
        if failing is None:
            return True
        app: Flask = current_app._get_current_object()  # type: ignore[attr-defined]  # of LocalProxy
        gate_refused.send(app, _async_wrapper=app.ensure_sync, flag_key=failing)
        return False

    async def alets_pass(self) -> bool:
        """`lets_pass`, for an async view: receivers may be coroutine functions there, too."""
        failing = self._failing()
        if failing is None:
            return True
        app: Flask = current_app._get_current_object()  # type: ignore[attr-defined]  # of LocalProxy
        await gate_refused.send_async(app, _sync_wrapper=_as_async, flag_key=failing)
        return False

    def _failing(self) -> str | None:
        """The flag that keeps this request out; ``None`` where it may go on."""
        if request.method == "OPTIONS":
            return None
        return self.condition.failing(current_flags())

    def leads_here(self) -> bool:
        """Whether this request is for the page that others are sent to."""
        target = self.redirect_to
        if target is None:
            return False
        if target.startswith("."):
            target = f"{request.blueprint}{target}"
        return target in (request.endpoint, request.path)

    def refuse(self, *args: Any, **kwargs: Any) -> Any:
        """The answer for a request that is turned away, given the view's own arguments."""
        if self.fallback is not None:
            return current_app.ensure_sync(self.fallback)(*args, **kwargs)
        return self._turn_away()

    async def arefuse(self, *args: Any, **kwargs: Any) -> Any:
        """`refuse`, for an async view."""
        if self.fallback is None:
            return self._turn_away()
        answer = self.fallback(*args, **kwargs)
        return await answer if inspect.isawaitable(answer) else answer

    def _turn_away(self) -> Any:
        if self.redirect_to is None:
            abort(self.status)
        address = self.redirect_to
        return redirect(address if "/" in address else url_for(address))


def _as_async(receiver: Callable[..., Any]) -> Callable[..., Any]:
    """A plain receiver of a signal that is sent from a coroutine."""

    async def receive(*args: Any, **kwargs: Any) -> Any:
        return receiver(*args, **kwargs)

    return receive


def _door(
    name: str,
    keys: tuple[Any, ...],
    value: Any,
    status: Any,
    redirect_to: Any,
    fallback: Any,
) -> _Door:
    wrong = checked_keys(keys)
    if not keys:
        wrong = "needs the key of a flag"
    elif callable(keys[0]):
        wrong = 'needs the key of a flag: write @requires_flag("x")'
    elif not isinstance(status, int) or not 400 <= status <= 599:
        wrong = "status must be that of an error, 400 to 599"
    elif redirect_to is not None and not (isinstance(redirect_to, str) and redirect_to):
        wrong = "redirect_to must be an endpoint, a path or a URL"
    elif fallback is not None and not callable(fallback):
        wrong = "fallback must be a view function"
    elif redirect_to is not None and fallback is not None:
        wrong = "takes redirect_to or fallback, not both"
    if wrong is not None:
        raise ConfigurationError(name, wrong)
    return _Door(Condition(keys, value), status, redirect_to, fallback)


def _gated(door: _Door, view: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(view)
    def serve(*args: Any, **kwargs: Any) -> Any:
        return view(*args, **kwargs) if door.lets_pass() else door.refuse(*args, **kwargs)

    return serve


def _gated_async(door: _Door, view: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(view)
    async def serve(*args: Any, **kwargs: Any) -> Any:
        if await door.alets_pass():
            return await view(*args, **kwargs)
        return await door.arefuse(*args, **kwargs)

    return serve
