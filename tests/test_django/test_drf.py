"""The permission for Django REST framework."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import RequestFactory
from pytest_django import Settings
from rest_framework.authentication import BaseAuthentication
from rest_framework.decorators import api_view, permission_classes
from rest_framework.permissions import AllowAny, BasePermission, IsAdminUser, IsAuthenticated
from rest_framework.renderers import BrowsableAPIRenderer, JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView
from rest_framework.viewsets import ViewSet
from shipsilently_django import requires_flag
from shipsilently_django.drf import HasFlag, HasFlagMixin
from shipsilently_django.flags import flags_of

from shipsilently_core.testing import ScriptedService

from .site import Browser

Configure = Callable[..., None]
Serve = Callable[..., None]


class Tokens(BaseAuthentication):  # type: ignore[misc]  # the framework is not typed
    """Whoever sends a number as token has it as primary key."""

    def authenticate(self, request: Request) -> tuple[User, str] | None:
        """The token's owner."""
        token = request.headers.get("Authorization")
        return (User(pk=int(token)), token) if token else None

    def authenticate_header(self, request: Request) -> str:
        """Makes the answer for strangers 401."""
        return "Token"


class Api(APIView):  # type: ignore[misc]  # as above
    """An endpoint."""

    authentication_classes = (Tokens,)

    def get(self, request: Request) -> Response:
        """Answer a GET."""
        return Response({"own": request.flags.is_enabled("own")})


def endpoint(*permissions: Any) -> Any:
    """The endpoint behind permissions."""
    return Api.as_view(permission_classes=permissions)


@pytest.fixture(autouse=True)
def _flags(configure: Configure, service: ScriptedService) -> None:
    service.set(lambda context: {"x": True, "off": False, "own": context.get("userId") == "7"})


@pytest.mark.parametrize(
    ("permission", "status"),
    [
        (HasFlag("x"), 200),
        (HasFlag("x", "!off"), 200),
        (HasFlag("off", value=False), 200),
        (HasFlag("off"), 404),
        (HasFlag("x", "off"), 404),
        (HasFlag("off", status=403), 401),
        (HasFlag("x") & HasFlag("off"), 404),
        (HasFlag("off", status=403) | HasFlag("x"), 200),
        (HasFlag("off") & AllowAny, 404),
        (AllowAny & HasFlag("off"), 404),
        (HasFlag("off") & AllowAny & AllowAny, 404),
        (HasFlag("x") & AllowAny, 200),
        (HasFlag("x") & IsAuthenticated, 401),
        (HasFlag("off") | AllowAny, 200),
        (AllowAny | HasFlag("off"), 200),
        (IsAuthenticated | HasFlag("x"), 200),
        ((IsAuthenticated | IsAdminUser) | HasFlag("off") | AllowAny, 200),
        ((HasFlag("off") & AllowAny) | AllowAny, 200),
        (HasFlag("off") | IsAdminUser, 401),
        (~HasFlag("off"), 200),
        (~HasFlag("x"), 401),
        (~HasFlag("off", "x") & HasFlag("x"), 200),
    ],
)
def test_a_request_passes_while_flags_are_so(
    browser: Browser, serve: Serve, permission: Any, status: int
) -> None:
    """The answer is 404 otherwise, or the refusal of the framework, which asks strangers in."""
    serve(endpoint(permission))
    assert browser.get().status_code == status


def test_permissions_that_are_combined_refuse_as_the_framework_does(
    browser: Browser, serve: Serve
) -> None:
    """With `|` and `~` somebody who is known gets a 403, and the message of what has refused."""

    class Never(BasePermission):  # type: ignore[misc]  # as above
        message, code = "never", "never_ever"

        def has_permission(self, request: Request, view: Any) -> bool:
            return False

    serve(
        endpoint(HasFlag("off") | IsAdminUser),
        opposite=endpoint(~HasFlag("x")),
        both=endpoint(HasFlag("x") & Never),
    )
    somebody: Any = {"headers": {"Authorization": "7"}}
    assert browser.get(**somebody).status_code == 403
    assert browser.get("/opposite/", **somebody).status_code == 403
    assert browser.get("/both/", **somebody).json() == {"detail": "never"}


def test_a_permission_is_the_same_for_objects(browser: Browser, serve: Serve) -> None:
    """Where the framework asks for one object, `~` is the opposite too."""

    class Single(Api):
        def get(self, request: Request) -> Response:
            self.check_object_permissions(request, object())
            return Response("in")

    views = [
        Single.as_view(permission_classes=[permission])
        for permission in (~HasFlag("off"), HasFlag("x"), HasFlag("off") | HasFlag("x"))
    ]
    serve(views[0], second=views[1], third=views[2])
    for address in ("/", "/second/", "/third/"):
        assert browser.get(address).json() == "in"


def test_the_browsable_api_shows_what_may_be_read(
    browser: Browser, serve: Serve, settings: Settings
) -> None:
    """A page has no form for what a flag keeps from being written, and is there."""

    class Things(ViewSet):  # type: ignore[misc]  # as above
        authentication_classes = (Tokens,)
        renderer_classes = (JSONRenderer, BrowsableAPIRenderer)

        def get_permissions(self) -> list[Any]:
            return [AllowAny() if self.action == "list" else HasFlag("off")()]

        def list(self, request: Request) -> Response:
            return Response(["a thing"])

        def create(self, request: Request) -> Response:
            return Response("made")

    settings.INSTALLED_APPS = [*settings.INSTALLED_APPS, "rest_framework"]
    serve(Things.as_view({"get": "list", "post": "create"}))
    response = browser.get(headers={"Accept": "text/html"})
    assert response.status_code == 200
    assert "a thing" in response.content.decode()
    assert browser.post("/").status_code == 404


def test_a_function_may_be_behind_a_flag(browser: Browser, serve: Serve) -> None:
    """The permission works on functions, and `requires_flag` on what the framework makes."""

    def view(request: Request) -> Response:
        return Response(str(request.flags.is_enabled("x")))

    on = api_view(["GET"])(permission_classes([HasFlag("x")])(view))
    off = api_view(["GET"])(permission_classes([HasFlag("off")])(view))
    serve(on, off=off, gated=requires_flag("off")(on))
    assert browser.get().json() == "True"
    assert browser.get("/off/").status_code == browser.get("/gated/").status_code == 404


def test_a_tokens_owner_is_who_is_asked_for(
    browser: Browser, serve: Serve, service: ScriptedService
) -> None:
    """The user whom the framework has authenticated counts, in the view too."""
    serve(endpoint(IsAuthenticated, HasFlag("own")))
    assert browser.get(headers={"Authorization": "7"}).json() == {"own": True}
    assert browser.get(headers={"Authorization": "8"}).status_code == 404
    assert browser.get().status_code == 401
    assert [json.loads(sent.body or b"")["context"] for sent in service.requests] == [
        {"userId": "7"},
        {"userId": "8"},
    ]


def test_flags_follow_a_token(browser: Browser, serve: Serve, service: ScriptedService) -> None:
    """What was read before the token was looked at was read for a stranger."""

    class Late(Api):
        def initialize_request(self, request: Any, *args: Any, **kwargs: Any) -> Any:
            assert not request.flags.is_enabled("own")
            return super().initialize_request(request, *args, **kwargs)

    serve(Late.as_view())
    assert browser.get(headers={"Authorization": "7"}).json() == {"own": True}


def test_the_mixin_asks_first(browser: Browser, serve: Serve) -> None:
    """A view's own permissions come after the flag's."""

    class Off(HasFlagMixin, Api):
        permission_classes = (IsAuthenticated,)
        required_flag: str | tuple[str, ...] = "off"

    class Forbidden(Off):
        flag_status = 403

    class Several(Off):
        required_flag = ("x", "!off")

    serve(Off.as_view(), forbidden=Forbidden.as_view(), several=Several.as_view())
    somebody: Any = {"headers": {"Authorization": "7"}}
    assert browser.get().status_code == 404
    assert browser.get("/forbidden/", **somebody).status_code == 403
    assert browser.get("/several/", **somebody).status_code == 200
    assert browser.get("/several/").status_code == 401


def test_what_a_browser_asks_before_it_sends_is_not_refused(
    browser: Browser, serve: Serve, service: ScriptedService
) -> None:
    """`OPTIONS` comes without a token, so no flag is asked for it."""
    serve(endpoint(HasFlag("off")))
    response = browser.options()
    assert (response.status_code, response["Allow"]) == (200, "GET, HEAD, OPTIONS")
    assert not service.requests


def test_the_opposite_of_a_flag_refuses_it_as_little(browser: Browser, serve: Serve) -> None:
    """With `~` too `OPTIONS` passes, alone and beside another permission, and a GET is asked."""
    serve(
        endpoint(~HasFlag("off")),
        closed=endpoint(~HasFlag("x")),
        both=endpoint(~HasFlag("x") & AllowAny),
    )
    assert [browser.options(page).status_code for page in ("/", "/closed/", "/both/")] == [200] * 3
    assert browser.get().status_code == 200
    assert {browser.get(page).status_code for page in ("/closed/", "/both/")} <= {401, 403}


def test_a_request_that_has_passed_no_middleware_has_flags() -> None:
    """They are attached to Django's request, which the framework's looks into."""
    request = Request(RequestFactory().get("/"))
    assert HasFlag("x")().has_permission(request, None)
    assert request.flags.is_enabled("x")
    assert flags_of(request) is flags_of(request._request) is request.flags


@pytest.mark.parametrize(("keys", "status"), [((), 404), (("x",), 410)])
def test_mistakes_are_found_at_import(keys: tuple[str, ...], status: int) -> None:
    """No flag, or a status that a permission cannot give."""
    with pytest.raises(ValueError, match=r"at least one flag|404 or 403"):
        HasFlag(*keys, status=status)
