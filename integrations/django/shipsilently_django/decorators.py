"""`requires_flag`: views that exist only while a flag is on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from .gates import Gate

__all__ = ["requires_flag"]

V = TypeVar("V", bound=Callable[..., Any])


def requires_flag(
    *keys: str,
    value: Any = True,
    status: int = 404,
    redirect_to: str | None = None,
    fallback: Callable[..., Any] | str | None = None,
) -> Callable[[V], V]:
    """Let a view answer only while its flags are on.

    For plain and async functions, for classes of views, and for their methods; what was
    async stays async. The fallback is exempt from CSRF checks, from login and from the
    transactions of ``ATOMIC_REQUESTS`` only where it says so itself; a function is exempt from the
    first two only where its fallback is as well. ``OPTIONS``, with which browsers ask before they
    send what a page of another site wants to send, is never refused.

    Args:
        keys: The flags; all must be so. ``"!x"`` asks for the opposite.
        value: What each has to be, instead of on; compared by value and JSON type.
        status: The answer otherwise; 404 and 403 are the site's own pages.
        redirect_to: A URL, a path or a URL's name to go to instead.
        fallback: A view to use instead, or its dotted path.

    Raises:
        ValueError: No flag is named, or both `redirect_to` and `fallback` are given.
    """
    gate = Gate(keys, value=value, status=status, redirect_to=redirect_to, fallback=fallback)

    def decorate(view: V) -> V:
        if isinstance(view, type):
            dispatch = view.dispatch  # type: ignore[attr-defined]  # a class of views
            view.dispatch = gate.wrap(dispatch)  # type: ignore[attr-defined]
            return view
        return gate.wrap(view)  # type: ignore[return-value]  # a view like the one it wraps

    return decorate
