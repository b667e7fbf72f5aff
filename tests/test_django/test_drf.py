"""The permission for Django REST framework."""

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.http import Http404
from django.test import RequestFactory

from shipsilently_core.testing import ScriptedService

from .standins import BasePermission, stand_in

stand_in("rest_framework", "permissions", BasePermission)

from shipsilently_django.drf import HasFlag, HasFlagMixin  # noqa: E402  # needs what stands in

Configure = Callable[..., None]


class ApiRequest:
    """The framework's request around Django's."""

    def __init__(self, user: User | None = None) -> None:
        self._request = RequestFactory().get("/")
        if user is not None:
            # What the framework does once it has authenticated a token.
            self._request.user = user

    def __getattr__(self, name: str) -> Any:
        return getattr(self._request, name)


@pytest.fixture(autouse=True)
def _flags(configure: Configure, service: ScriptedService) -> None:
    service.set(lambda context: {"x": True, "off": False, "own": context.get("userId") == "7"})


@pytest.mark.parametrize(
    ("keys", "options", "passes"),
    [
        (["x"], {}, True),
        (["x", "!off"], {}, True),
        (["off"], {"value": False}, True),
        (["off"], {"status": 403}, False),
    ],
)
def test_a_request_passes_while_flags_are_so(
    keys: list[str], options: dict[str, Any], passes: bool
) -> None:
    """The permission allows or, with 403, leaves the refusal to the framework."""
    permission = HasFlag(*keys, **options)()
    assert permission.has_permission(ApiRequest(), None) is passes


def test_a_view_behind_a_flag_that_is_off_is_not_there() -> None:
    """By default the answer is 404."""
    with pytest.raises(Http404):
        HasFlag("off")().has_permission(ApiRequest(), None)


def test_a_tokens_owner_is_who_is_asked_for() -> None:
    """The user whom the framework has authenticated counts, whatever was read before."""
    permission = HasFlag("own", status=403)()
    request = ApiRequest()
    assert not permission.has_permission(request, None)
    request._request.user = User(pk=7)
    assert permission.has_permission(request, None)
    assert HasFlag("own")().has_permission(ApiRequest(User(pk=7)), None)


def test_the_mixin_asks_first() -> None:
    """A view's own permissions come after the flag's."""

    class Base:
        def get_permissions(self) -> list[Any]:
            return ["own"]

    class Api(HasFlagMixin, Base):
        required_flag = "off"
        flag_status = 403

    class Several(HasFlagMixin, Base):
        required_flag = ("x", "!off")

    first, second = Api().get_permissions()
    assert second == "own"
    assert not first.has_permission(ApiRequest(), None)
    assert Several().get_permissions()[0].has_permission(ApiRequest(), None)


@pytest.mark.parametrize(("keys", "status"), [((), 404), (("x",), 410)])
def test_mistakes_are_found_at_import(keys: tuple[str, ...], status: int) -> None:
    """No flag, or a status that a permission cannot give."""
    with pytest.raises(ValueError, match=r"at least one flag|404 or 403"):
        HasFlag(*keys, status=status)
