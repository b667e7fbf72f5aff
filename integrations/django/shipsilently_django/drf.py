"""For Django REST framework: `HasFlag` among the permissions of a view, and a mixin.

They ask after authentication, so the flags are those of a token's owner too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rest_framework.permissions import BasePermission

from .flags import flags_of
from .gates import Gate

__all__ = ["HasFlag", "HasFlagMixin"]


def HasFlag(*keys: str, value: Any = True, status: int = 404) -> type[Any]:  # a class to its users
    """A permission class: ``permission_classes = [HasFlag("x") & IsAuthenticated]``.

    Args:
        keys: The flags; all must be so. ``"!x"`` asks for the opposite.
        value: What each has to be, instead of on.
        status: 404, or 403 for the framework's own refusal.

    Raises:
        ValueError: No flag is named, or another status is.
    """
    gate = Gate(keys, value=value, status=status)
    if status not in (403, 404):
        raise ValueError("a permission answers with 404 or 403")

    class FlagPermission(BasePermission):  # type: ignore[misc]  # of no known type
        """Whether the flags are so for whoever makes the request."""

        def has_permission(self, request: Any, view: Any) -> bool:
            """Whether the request may pass; raises what gives a 404."""
            # What a browser asks before it sends what its page wants to send, without cookies.
            if request.method == "OPTIONS" or gate.opens(flags_of(request)):
                return True
            if status == 404:
                gate.refuse(request)
            return False

    return FlagPermission


class HasFlagMixin:
    """For classes of views: what `HasFlag` does, before the view's other permissions.

    Attributes:
        required_flag: The flag, or several; ``"!x"`` asks for the opposite.
        required_flag_value: What each has to be.
        flag_status: 404 or 403.
    """

    required_flag: str | Sequence[str] = ()
    required_flag_value: Any = True
    flag_status: int = 404

    def get_permissions(self) -> list[Any]:
        """The flag's permission, and then the view's own."""
        keys = (self.required_flag,) if isinstance(self.required_flag, str) else self.required_flag
        permission = HasFlag(*keys, value=self.required_flag_value, status=self.flag_status)
        return [permission(), *super().get_permissions()]  # type: ignore[misc]  # a view's
