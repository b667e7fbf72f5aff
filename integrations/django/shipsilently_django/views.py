"""For views: a mixin, and a view that is one of two."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from django.http import HttpRequest

from .gates import Gate
from .options import is_async

__all__ = ["RequiresFlagMixin", "flag_switch"]


class RequiresFlagMixin:
    """`requires_flag` for classes of views; put it first among the bases.

    Attributes:
        required_flag: The flag, or several; ``"!x"`` asks for the opposite.
        required_flag_value: What each has to be.
        flag_status: The answer's status otherwise.
        flag_redirect_to: Where to go instead.
        flag_fallback: The view to use instead, or its dotted path. It is exempt from CSRF checks,
            from login and from the transactions of ``ATOMIC_REQUESTS`` only where it says so
            itself.
    """

    required_flag: str | Sequence[str] = ()
    required_flag_value: Any = True
    flag_status: int = 404
    flag_redirect_to: str | None = None
    flag_fallback: Callable[..., Any] | str | None = None

    def get_flag_gate(self) -> Gate:
        """The gate before this view.

        Raises:
            ValueError: `required_flag` is not set.
        """
        keys = self.required_flag
        return Gate(
            (keys,) if isinstance(keys, str) else tuple(keys),
            value=self.required_flag_value,
            status=self.flag_status,
            redirect_to=self.flag_redirect_to,
            fallback=self._flag_fallback(),
        )

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        """Handle the request, where the flags are so."""
        inner = super().dispatch  # type: ignore[misc]  # of the view behind it
        gated = self.get_flag_gate().wrap(inner)
        return gated(request, *args, **kwargs)

    def _flag_fallback(self) -> Any:
        """As it was written: a plain function is not to become a method of this view."""
        # What `as_view` was given is the view's own.
        places = (vars(self), *map(vars, type(self).__mro__))
        return next(place["flag_fallback"] for place in places if "flag_fallback" in place)


def flag_switch(
    key: str, *, on: Callable[..., Any], off: Callable[..., Any], value: Any = True
) -> Callable[..., Any]:
    """A view that is `on` while the flag is on, and `off` otherwise.

    It is async where one of the two is. What is exempt from CSRF checks or from login is
    so only where both are. A plain view has the transactions of ``ATOMIC_REQUESTS`` that it would
    have by itself.

    Args:
        key: The flag; ``"!x"`` asks for the opposite.
        on: A view.
        off: Another.
        value: What the flag has to be.
    """
    return Gate((key,), value=value, fallback=off).wrap(on, wants_async=is_async(off))
