"""What type checkers see of shipsilently_django. Checked, never run."""

from typing import Any, assert_type

import shipsilently_django
from django.contrib.auth.mixins import LoginRequiredMixin
from django.http import HttpRequest, HttpResponse
from django.test import RequestFactory, TestCase
from django.urls import URLPattern, URLResolver, include, path
from django.utils.decorators import method_decorator
from django.views import View
from django.views.generic import TemplateView
from shipsilently_django import (
    DjangoCacheStore,
    FlagsMiddleware,
    FlagsRequest,
    RequestFlags,
    RequiresFlagMixin,
    aflag_enabled,
    default_context,
    flag_enabled,
    flag_switch,
    flagged_path,
    flagged_re_path,
    get_client,
    requires_flag,
)
from shipsilently_django.drf import HasFlag
from shipsilently_django.tasks import atask_context, flags_for_task, task_context
from shipsilently_django.testing import override_flag, override_flags

from shipsilently_core import (
    Context,
    EvaluationResult,
    Flags,
    FlagSet,
    FlagValue,
    ShipSilentlyClient,
)
from shipsilently_core.signals import flag_changed


class Checkout(FlagSet):
    """Typed flags."""

    checkout_v2: bool = False


def home(request: FlagsRequest) -> HttpResponse:
    """A view."""
    assert_type(request.flags, RequestFlags)
    assert_type(request.flags.get("x", False), bool)
    assert_type(request.flags.get("x", "a"), str)
    assert_type(request.flags.get("x", 1), float)
    assert_type(request.flags.get("x", {}), dict[str, Any])
    assert_type(request.flags.get("x"), FlagValue)
    assert_type(request.flags.is_enabled("x"), bool)
    assert_type(request.flags.is_enabled("x", default=True), bool)
    assert_type(request.flags.detail("x"), EvaluationResult)
    assert_type(request.flags.detail("x", "a"), EvaluationResult)
    assert_type(request.flags.detail("x", default="a"), EvaluationResult)
    assert_type(request.flags.evaluate_all(), dict[str, EvaluationResult])
    assert_type("x" in request.flags, bool)
    assert_type(request.flags.as_(Checkout).checkout_v2, bool)
    assert_type(request.flags.context, Context)
    assert_type(request.flags.refresh(), RequestFlags)
    assert_type(flag_enabled("x", request), bool)
    return HttpResponse(request.flags.get("banner", "grey"))


@requires_flag("beta", "!maintenance", status=403)
def beta(request: FlagsRequest, number: int = 1) -> HttpResponse:
    """A view keeps its signature."""
    return HttpResponse(f"{number}")


@requires_flag("banner", value="blue", fallback=home)
async def calm(request: FlagsRequest, number: int = 1) -> HttpResponse:
    """A coroutine function, too."""
    flags = await request.flags.aload()
    assert_type(flags, RequestFlags)
    assert_type(flags.as_(Checkout), Checkout)
    assert_type(await flags.aget("x", False), bool)
    assert_type(await flags.aget("x", default="a"), str)
    assert_type(await flags.ais_enabled("x", default=True), bool)
    assert_type(await flags.adetail("x", default="a"), EvaluationResult)
    assert_type(await flags.aevaluate_all(), dict[str, EvaluationResult])
    assert_type(await aflag_enabled("x", request), bool)
    assert_type(await atask_context(request), dict[str, Any])
    return HttpResponse(f"{number}")


@requires_flag("beta", fallback="shop.views.old")
class About(TemplateView):
    """A class of views stays one."""

    template_name = "about.html"


@method_decorator(requires_flag("beta"), name="dispatch")
class Orders(View):
    """The whole class, and one method of it."""

    @requires_flag("orders")
    def get(self, request: FlagsRequest, number: int) -> HttpResponse:
        """A method."""
        return HttpResponse(f"{number}")


class Report(RequiresFlagMixin, View):
    """By the mixin, whose attributes take all their forms."""

    required_flag = "beta"
    flag_status = 403
    flag_fallback = home

    def get(self, request: FlagsRequest) -> HttpResponse:
        """A method."""
        return HttpResponse("the report")


class Members(RequiresFlagMixin, LoginRequiredMixin, TemplateView):
    """Before other mixins, and before each kind of view."""

    required_flag = ("beta", "!maintenance")
    required_flag_value = "blue"
    flag_redirect_to = "/"


urlpatterns: list[URLPattern | URLResolver] = [
    path("", flag_switch("new-checkout", on=beta, off=home)),
    path("home/", home),
    path("calm/", calm),
    path("about/", About.as_view()),
    path("report/", Report.as_view()),
    flagged_path("beta", "tour/", home, {"number": 2}, name="tour"),
    flagged_path(["beta", "!maintenance"], "labs/", include([path("calm/", calm)])),
    flagged_re_path("beta", r"^labs/$", home, fallback="shop.views.old"),
]


@override_flag("new-checkout")
def check(number: int) -> str:
    """A test."""
    with override_flags({"beta": True}, banner="blue"):
        response = FlagsMiddleware(home)(RequestFactory().get("/"))
    assert response.content == b"one-step checkout"
    return f"{number}"


@override_flags({"x": True})
class Checks(TestCase):
    """Tests."""

    number: int = 1


async def kept(request: FlagsRequest) -> None:
    """What is decorated keeps its type."""
    assert_type(beta(request, number=2), HttpResponse)
    beta(request, "2")  # type: ignore[arg-type]
    assert_type(await calm(request, number=2), HttpResponse)
    await calm(request, "2")  # type: ignore[arg-type]
    assert_type(About(), About)
    assert_type(Orders().get(request, 1), HttpResponse)
    Orders().get(request, "1")  # type: ignore[arg-type]
    assert_type(check(1), str)
    check("1")  # type: ignore[arg-type]
    assert_type(Checks().number, int)


def elsewhere(request: HttpRequest) -> None:
    """Where the request is Django's own."""
    assert_type(default_context(request), dict[str, Any])
    assert_type(flags_for_task(task_context(request)), Flags)
    assert_type(get_client(), ShipSilentlyClient)
    permissions: list[Any] = [HasFlag("beta"), HasFlag("beta") & ~HasFlag("old")]
    assert permissions
    DjangoCacheStore("default", deadline=0.1, time_to_live=60, prefix="shop", max_bytes=1)
    DjangoCacheStore("default", dedline=0.1)  # type: ignore[call-arg]  # no such argument


@flag_changed.connect
def note(
    sender: str, *, old: EvaluationResult | None, new: EvaluationResult | None, **_: object
) -> None:
    """A receiver."""


_ = shipsilently_django.no_such_name  # type: ignore[attr-defined]  # though some are imported late
