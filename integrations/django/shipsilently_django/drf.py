"""For Django REST framework: `HasFlag` among the permissions of a view, and a mixin.

They ask after authentication, so the flags are those of a token's owner too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rest_framework.exceptions import NotFound
from rest_framework.permissions import (
    AND,
    NOT,
    BasePermission,
    OperandHolder,
    SingleOperandHolder,
)

from .flags import flags_of
from .gates import Gate

__all__ = ["HasFlag", "HasFlagMixin"]


class _BothHolder(OperandHolder):  # type: ignore[misc]  # of no known type
    """``HasFlag("x") & …``: as the framework's own, with an answer that stays a 404."""

    def __and__(self, other: Any) -> Any:
        return _BothHolder(_Both, self, other)


class _Both(AND):  # type: ignore[misc]  # as above
    """Two permissions, answering as the one that has refused."""

    refused: Any = None

    def has_permission(self, request: Any, view: Any) -> bool:
        """Whether both let the request pass."""
        for permission in (self.op1, self.op2):
            if not permission.has_permission(request, view):
                self.refused = permission
                return False
        return True

    @property
    def message(self) -> Any:
        """What the framework asks for after a refusal; raises what gives a 404."""
        return getattr(self.refused, "message", None)

    @property
    def code(self) -> Any:
        """The refusal's code, where it has one."""
        return getattr(self.refused, "code", None)


class _Not(NOT):  # type: ignore[misc]  # as above
    """The opposite of a flag, which lets pass what no flag is asked for."""

    def has_permission(self, request: Any, view: Any) -> bool:
        """Whether the request may pass."""
        return request.method == "OPTIONS" or bool(super().has_permission(request, view))

    def has_object_permission(self, request: Any, view: Any, obj: Any) -> bool:
        """The same for every object."""
        return self.has_permission(request, view)


class _Kind(type(BasePermission)):  # type: ignore[misc]  # as above
    """The class of permission classes that keep their 404 beside another with ``&``."""

    def __and__(cls, other: Any) -> Any:
        return _BothHolder(_Both, cls, other)

    def __rand__(cls, other: Any) -> Any:
        return _BothHolder(_Both, other, cls)

    def __invert__(cls) -> Any:
        return SingleOperandHolder(_Not, cls)


def HasFlag(*keys: str, value: Any = True, status: int = 404) -> Any:  # a class, with & | ~
    """A permission class: ``permission_classes = [HasFlag("x") & IsAuthenticated]``.

    With ``|`` and ``~`` it only says yes or no, and a refusal is the framework's own, 401 or 403.
    An ``&`` that begins or ends with it keeps the 404.

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

    class FlagPermission(BasePermission, metaclass=_Kind):  # type: ignore[misc]  # as above
        """Whether the flags are so for whoever makes the request."""

        def has_permission(self, request: Any, view: Any) -> bool:
            """Whether the request may pass."""
            # What a browser asks before it sends what its page wants to send, without cookies.
            return request.method == "OPTIONS" or gate.opens(flags_of(request))

        def has_object_permission(self, request: Any, view: Any, obj: Any) -> bool:
            """The same for every object, so that ``~`` is the opposite for objects too."""
            return self.has_permission(request, view)

        @property
        def message(self) -> None:
            """What the framework asks for after a refusal, of a permission that stands alone.

            Raises:
                NotFound: The status is 404.
            """
            if status == 404:
                raise NotFound

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
