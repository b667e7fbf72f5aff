"""Two views behind one URL: neither is exempt from what the other alone is exempt from."""

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.decorators import login_not_required
from django.contrib.auth.middleware import LoginRequiredMiddleware
from django.contrib.auth.models import Group, User
from django.core.exceptions import MiddlewareNotUsed
from django.db import connections, transaction
from django.http import HttpRequest, HttpResponse
from django.middleware.csrf import CsrfViewMiddleware
from django.utils.decorators import method_decorator
from django.views import View
from django.views.decorators.csrf import csrf_exempt
from pytest_django import Settings
from rest_framework.views import APIView
from shipsilently_django import RequiresFlagMixin, flag_switch, requires_flag

from shipsilently_core.testing import ScriptedService

from .site import Browser

Serve = Callable[..., None]
AnyView = Callable[..., Any]

SESSIONS = "django.contrib.sessions.middleware.SessionMiddleware"
AUTHENTICATION = "django.contrib.auth.middleware.AuthenticationMiddleware"
CSRF = "django.middleware.csrf.CsrfViewMiddleware"
LOGINS = "django.contrib.auth.middleware.LoginRequiredMiddleware"
FLAGS = "shipsilently_django.FlagsMiddleware"

exempt = method_decorator([csrf_exempt, login_not_required], name="dispatch")


class OwnCsrf(CsrfViewMiddleware):
    """A site's own middleware, made from Django's."""


class OwnLogins(LoginRequiredMiddleware):
    """The same for logins."""


class Unused(CsrfViewMiddleware):
    """One that is not used on this site."""

    def __init__(self, get_response: Any) -> None:
        raise MiddlewareNotUsed


def old(request: HttpRequest) -> HttpResponse:
    """A view that rests on both checks."""
    return HttpResponse("old")


async def aold(request: HttpRequest) -> HttpResponse:
    """The same, async."""
    return HttpResponse("old")


@csrf_exempt
@login_not_required
def free(request: HttpRequest) -> HttpResponse:
    """A view that rests on neither."""
    return HttpResponse("old")


class Free(APIView):  # type: ignore[misc]  # the framework is not typed
    """One of Django REST framework, which are exempt from the checks of forms."""

    def post(self, request: Any) -> HttpResponse:
        """Answer a POST."""
        return HttpResponse("old")


class New(View):
    """A class of views."""

    def post(self, request: HttpRequest) -> HttpResponse:
        """Answer a POST."""
        return HttpResponse("new")


class ANew(View):
    """The same, async."""

    async def post(self, request: HttpRequest) -> HttpResponse:
        """Answer a POST."""
        return HttpResponse("new")


class Api(APIView):  # type: ignore[misc]  # as above
    """The same of Django REST framework."""

    def post(self, request: Any) -> HttpResponse:
        """Answer a POST."""
        return HttpResponse("new")


def mixed(base: Any, fallback: Any) -> AnyView:
    """Gated by the mixin, with the exemptions on the class."""
    options = {"required_flag": "x", "flag_fallback": staticmethod(fallback)}
    made: Any = exempt(type("Mixed", (RequiresFlagMixin, base), options))
    return made.as_view()  # type: ignore[no-any-return]  # a view


def decorated(base: Any, fallback: Any) -> AnyView:
    """Gated by the decorator on the class."""
    made: Any = requires_flag("x", fallback=fallback)(exempt(type("Decorated", (base,), {})))
    return made.as_view()  # type: ignore[no-any-return]  # a view


def dispatched(base: Any, fallback: Any) -> AnyView:
    """Gated around `dispatch`."""
    gate = method_decorator(requires_flag("x", fallback=fallback), name="dispatch")
    made: Any = gate(exempt(type("Dispatched", (base,), {})))
    return made.as_view()  # type: ignore[no-any-return]  # a view


def gated_method(base: Any, fallback: Any) -> AnyView:
    """Gated around one of its methods."""
    gate = method_decorator(requires_flag("x", fallback=fallback), name="post")
    made: Any = exempt(gate(type("Gated", (base,), {"post": base.post})))
    return made.as_view()  # type: ignore[no-any-return]  # a view


def function(base: Any, fallback: Any) -> AnyView:
    """Gated as a function, with the exemptions above the gate."""
    gated: AnyView = requires_flag("x", fallback=fallback)(base.as_view())
    return csrf_exempt(login_not_required(gated))


EVERY = pytest.mark.parametrize(
    "made", [mixed, decorated, dispatched, gated_method, function], ids=lambda made: made.__name__
)
BASES = pytest.mark.parametrize("base", [New, ANew, Api])
FALLBACKS = pytest.mark.parametrize("fallback", [old, aold], ids=["sync", "async"])


@pytest.fixture(autouse=True)
def _site(settings: Settings, service: ScriptedService) -> None:
    """A site that checks forms and wants everybody to log in, and a flag that is off."""
    service.set({"x": False})
    settings.MIDDLEWARE = [SESSIONS, CSRF, AUTHENTICATION, LOGINS, FLAGS]


@pytest.fixture(params=["wsgi", "asgi"])
def stranger(request: pytest.FixtureRequest) -> Browser:
    """Somebody whose forms are checked."""
    return Browser(request.param, enforce_csrf_checks=True)


@EVERY
@BASES
@FALLBACKS
@pytest.mark.parametrize("own", [False, True], ids=["django's", "own"])
def test_a_fallback_is_checked_where_its_class_is_exempt(
    stranger: Browser,
    serve: Serve,
    settings: Settings,
    ada: User,
    made: Any,
    base: Any,
    fallback: AnyView,
    own: bool,
) -> None:
    """A POST without a token is a 403, and one with it, of nobody, goes to the login."""
    csrf, logins = (f"{__name__}.OwnCsrf", f"{__name__}.OwnLogins") if own else (CSRF, LOGINS)
    settings.MIDDLEWARE = [SESSIONS, csrf, AUTHENTICATION, logins, FLAGS]
    serve(made(base, fallback))
    token = "t" * 32
    stranger.cookies["csrftoken"] = token
    assert stranger.post("/").status_code == 403
    answer = stranger.post("/", headers={"X-CSRFToken": token})
    assert (answer.status_code, answer["Location"]) == (302, "/accounts/login/?next=/")
    stranger.login(ada)
    assert stranger.post("/").status_code == 403
    assert stranger.post("/", headers={"X-CSRFToken": token}).content == b"old"


@pytest.mark.parametrize("made", [mixed, dispatched, gated_method])
@BASES
def test_the_exempt_class_stays_exempt(
    stranger: Browser, serve: Serve, service: ScriptedService, made: Any, base: Any
) -> None:
    """While its flag is on, whoever has no cookies is served, as by a token."""
    service.set({"x": True})
    serve(made(base, old))
    assert stranger.post("/").content == b"new"


@EVERY
@BASES
def test_an_exempt_fallback_is_not_checked(
    stranger: Browser, serve: Serve, made: Any, base: Any
) -> None:
    """Where both views are exempt, nobody is asked for anything."""
    serve(made(base, free), api=mixed(base, login_not_required(Free.as_view())))
    assert stranger.post("/").content == b"old"
    assert stranger.post("/api/").content == b"old"


@EVERY
def test_a_site_that_checks_nothing_checks_no_fallback(
    stranger: Browser, serve: Serve, settings: Settings, made: Any
) -> None:
    """Without the middleware, or with one that is not used, there is nothing to make up for."""
    settings.MIDDLEWARE = [SESSIONS, f"{__name__}.Unused", AUTHENTICATION, FLAGS]
    serve(made(New, old))
    assert stranger.post("/").content == b"old"


def test_a_class_to_use_instead_may_be_exempt(stranger: Browser, serve: Serve) -> None:
    """A switch between two classes is exempt where both are, and the second is no view yet."""
    one: Any = exempt(type("One", (New,), {}))
    serve(flag_switch("x", on=one.as_view(), off=exempt(type("Other", (New,), {}))))
    assert stranger.post("/").content == b"new"


def failing(request: HttpRequest, **more: Any) -> HttpResponse:
    """A view that has done half of its work."""
    Group.objects.create(name="half")
    raise RuntimeError("the second half")


@transaction.non_atomic_requests
def plain(request: HttpRequest) -> HttpResponse:
    """A view without a transaction."""
    return HttpResponse("plain")


@transaction.non_atomic_requests
async def awaited(request: HttpRequest) -> HttpResponse:
    """An async one, which cannot have any."""
    return HttpResponse("awaited")


class Plain(View):
    """A class of views without a transaction."""

    def get(self, request: HttpRequest) -> HttpResponse:
        """Answer a GET."""
        return HttpResponse("plain")


class Mixed(RequiresFlagMixin, Plain):
    """The same, gated."""

    required_flag = "x"
    flag_fallback = failing


@transaction.non_atomic_requests
def failing_alone(request: HttpRequest) -> HttpResponse:
    """The same without a transaction."""
    return failing(request)


non_atomic = method_decorator(transaction.non_atomic_requests, name="dispatch")


@requires_flag("x", fallback=failing)
@non_atomic
class Decorated(Plain):
    """The same, by the decorator."""


@pytest.mark.django_db
class TestTransactions:
    """Those of ``ATOMIC_REQUESTS``, which Django opens around the view that a URL leads to."""

    @pytest.fixture(autouse=True)
    def _atomic(self, monkeypatch: pytest.MonkeyPatch, settings: Settings) -> None:
        monkeypatch.setitem(connections.settings["default"], "ATOMIC_REQUESTS", True)
        settings.MIDDLEWARE = [SESSIONS, AUTHENTICATION, FLAGS]

    @pytest.mark.parametrize(
        "view",
        [
            failing,
            flag_switch("x", on=awaited, off=failing),
            flag_switch("x", on=plain, off=failing),
            flag_switch("!x", on=failing, off=awaited),
            flag_switch("!x", on=failing, off=plain),
            flag_switch("x", on=plain, off=flag_switch("!x", on=failing, off=awaited)),
            requires_flag("x", fallback=failing)(plain),
            requires_flag("x", fallback=f"{__name__}.failing")(awaited),
            non_atomic(Mixed).as_view(),
            Decorated.as_view(),
        ],
        ids=[
            "alone",
            "off, async on",
            "off",
            "on, async off",
            "on",
            "inner",
            "fallback",
            "named",
            "mixin",
            "class",
        ],
    )
    @pytest.mark.parametrize("server", ["wsgi", "asgi"])
    def test_undo_what_a_plain_view_leaves_half_done(
        self, serve: Serve, server: str, view: AnyView
    ) -> None:
        """Whichever of two views may do without, the other leaves nothing behind."""
        serve(view)
        assert Browser(server, raise_request_exception=False).get().status_code == 500
        assert not Group.objects.exists()

    @pytest.mark.parametrize("on", [plain, awaited], ids=["sync", "async"])
    def test_are_not_for_a_view_that_does_without(
        self, browser: Browser, serve: Serve, on: AnyView
    ) -> None:
        """What such a view leaves half done stays, as it does without a gate."""
        serve(flag_switch("x", on=on, off=failing_alone))
        with pytest.raises(RuntimeError, match="the second half"):
            browser.get()
        assert Group.objects.count() == 1

    def test_need_no_mark_on_the_plain_one_of_two(self, browser: Browser, serve: Serve) -> None:
        """A switch with an async view answers by either, and leaves the marks of both alone."""
        serve(flag_switch("x", on=old, off=awaited), on=flag_switch("!x", on=old, off=awaited))
        assert browser.text() == "awaited"
        assert browser.text("/on/") == "old"
        assert not hasattr(old, "_non_atomic_requests")

    def test_are_not_for_async_views(self, browser: Browser, serve: Serve) -> None:
        """An async fallback has none, marked or not."""
        serve(requires_flag("x", fallback=aold)(plain))
        assert browser.text() == "old"
