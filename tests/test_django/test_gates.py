"""Gated views: `requires_flag`, `RequiresFlagMixin`, `flag_switch`, `flagged_path`."""

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from asgiref.sync import iscoroutinefunction
from django.contrib.auth.decorators import login_not_required
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.test import RequestFactory
from django.urls import include, path, reverse
from django.utils.decorators import method_decorator
from django.views import View
from django.views.decorators.csrf import csrf_exempt
from django.views.generic import RedirectView
from pytest_django import Settings
from rest_framework.views import APIView
from rest_framework.viewsets import ViewSet
from shipsilently_django import (
    FlagsRequest,
    RequiresFlagMixin,
    flag_switch,
    flagged_path,
    flagged_re_path,
    requires_flag,
)
from shipsilently_django.gates import Gate

from shipsilently_core.testing import ScriptedService

from .site import Browser, Urls

Serve = Callable[..., None]
Configure = Callable[..., None]
AnyView = Callable[..., Any]


def plain(request: HttpRequest, word: str = "body") -> HttpResponse:
    """A view."""
    return HttpResponse(word)


async def awaited(request: HttpRequest, word: str = "body") -> HttpResponse:
    """An async view."""
    return HttpResponse(word)


def plain_other(request: HttpRequest, word: str = "other") -> HttpResponse:
    """A view to use instead."""
    return HttpResponse(f"other {word}")


async def awaited_other(request: HttpRequest, word: str = "other") -> HttpResponse:
    """An async view to use instead."""
    return HttpResponse(f"other {word}")


class Other(View):
    """A class of views to use instead."""

    def get(self, request: HttpRequest, word: str = "other") -> HttpResponse:
        """Answer a GET."""
        return HttpResponse(f"other {word}")


VIEWS = {"sync": plain, "async": awaited}


@pytest.fixture(params=VIEWS)
def view(request: pytest.FixtureRequest) -> AnyView:
    """A view, once plain and once async."""
    return VIEWS[request.param]


@pytest.fixture(autouse=True)
def _flags(service: ScriptedService) -> Iterator[None]:
    """Flags that are on, off, and neither; a coroutine that nobody awaits is an error."""
    service.set({"x": True, "off": False, "colour": "blue", "one": 1})
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        yield


@pytest.mark.parametrize(
    ("keys", "options", "status"),
    [
        (["x"], {}, 200),
        (["off"], {}, 404),
        (["nothing"], {}, 404),
        (["!off"], {}, 200),
        (["!x"], {}, 404),
        (["x", "!off"], {}, 200),
        (["x", "off"], {}, 404),
        (["off"], {"status": 403}, 403),
        (["off"], {"status": 410}, 410),
        (["colour"], {}, 404),
        (["colour"], {"value": "blue"}, 200),
        (["colour"], {"value": "red"}, 404),
        (["!colour"], {"value": "red"}, 200),
        (["off"], {"value": False}, 200),
        (["nothing"], {"value": False}, 404),
        (["colour"], {"value": False}, 404),
        (["one"], {"value": False}, 404),
        (["!nothing"], {}, 200),
        (["!!off"], {}, 404),
        (["one"], {}, 404),
        (["one"], {"value": 1}, 200),
        (["off"], {"redirect_to": "/elsewhere/"}, 302),
    ],
)
def test_a_view_answers_while_its_flags_are_so(
    browser: Browser,
    serve: Serve,
    view: AnyView,
    keys: list[str],
    options: dict[str, Any],
    status: int,
) -> None:
    """On, off, opposite, several, by value: plain and async views, under WSGI and ASGI."""
    serve(requires_flag(*keys, **options)(view))
    response = browser.get()
    assert response.status_code == status
    if status == 302:
        assert response["Location"] == "/elsewhere/"


def test_what_was_async_stays_async(view: AnyView) -> None:
    """The gated view is a coroutine function where the view is one, and keeps its name."""
    gated = requires_flag("x")(view)
    assert iscoroutinefunction(gated) is iscoroutinefunction(view)
    assert gated.__name__ == view.__name__


@pytest.mark.parametrize(
    "fallback",
    [
        plain_other,
        awaited_other,
        Other,
        f"{__name__}.plain_other",
        f"{__name__}.awaited_other",
        staticmethod(plain_other),
        staticmethod(awaited_other),
    ],
    ids=["plain", "async", "class", "path", "async path", "static", "async static"],
)
def test_another_view_may_answer(
    browser: Browser, settings: Settings, configure: Configure, view: AnyView, fallback: Any
) -> None:
    """The fallback gets the arguments of the view that it stands in for."""
    gated = requires_flag("off", fallback=fallback)(view)
    settings.ROOT_URLCONF = Urls(path("<word>/", gated))
    assert browser.text("/hello/") == browser.text("/hello/") == "other hello"


def test_a_name_of_a_url_may_be_gone_to(
    browser: Browser, settings: Settings, configure: Configure
) -> None:
    """`redirect_to` takes the name of a URL."""
    gated = requires_flag("off", redirect_to="home")(plain)
    urls = [path("", plain, name="home"), path("gated/", gated)]
    settings.ROOT_URLCONF = Urls(*urls)
    assert browser.get("/gated/")["Location"] == "/"


class Plain(View):
    """A class of plain views."""

    def get(self, request: HttpRequest) -> HttpResponse:
        """Answer a GET."""
        return HttpResponse("body")


class Awaited(View):
    """A class of async views."""

    async def get(self, request: HttpRequest) -> HttpResponse:
        """Answer a GET."""
        return HttpResponse("body")


@pytest.mark.parametrize("base", [Plain, Awaited])
@pytest.mark.parametrize(("key", "status"), [("x", 200), ("off", 404)])
class TestClassesOfViews:
    """The decorator on a class and on a method, and the mixin."""

    def test_decorated(
        self, browser: Browser, serve: Serve, base: type[View], key: str, status: int
    ) -> None:
        """A decorated class asks before every method."""
        gated: Any = requires_flag(key)(type("Gated", (base,), {}))
        serve(gated.as_view())
        assert browser.get().status_code == status
        # The class that it was made from is as it was.
        serve(base.as_view())
        assert browser.get().status_code == 200

    def test_decorated_method(
        self, browser: Browser, serve: Serve, base: type[View], key: str, status: int
    ) -> None:
        """A decorated method asks; the other methods do not."""
        method = requires_flag(key)(base.get)  # type: ignore[attr-defined]  # both have one
        gated: Any = type("Gated", (base,), {"get": method})
        serve(gated.as_view())
        assert browser.get().status_code == status
        assert browser.post("/").status_code == 405

    def test_mixin(
        self, browser: Browser, serve: Serve, base: type[View], key: str, status: int
    ) -> None:
        """A class with the mixin asks before every method."""
        gated: Any = type("Gated", (RequiresFlagMixin, base), {"required_flag": key})
        serve(gated.as_view())
        assert browser.get().status_code == status
        assert browser.post("/").status_code == (405 if status == 200 else 404)


def test_a_mixin_has_all_the_options(browser: Browser, serve: Serve) -> None:
    """Several flags, a value, and each way to answer."""

    class Gated(RequiresFlagMixin, Plain):
        required_flag = ("colour", "!one")
        required_flag_value = "blue"

    class Refused(RequiresFlagMixin, Plain):
        required_flag = "off"
        flag_status = 410

    class Elsewhere(RequiresFlagMixin, Plain):
        required_flag = "off"
        flag_redirect_to = "/elsewhere/"

    class Instead(RequiresFlagMixin, Plain):
        required_flag = "off"
        flag_fallback = plain_other

    views = {"refused": Refused, "elsewhere": Elsewhere, "instead": Instead}
    serve(Gated.as_view(), **{name: view.as_view() for name, view in views.items()})
    assert browser.text() == "body"
    assert browser.get("/refused/").status_code == 410
    assert browser.get("/elsewhere/")["Location"] == "/elsewhere/"
    assert browser.text("/instead/") == "other other"


@pytest.mark.parametrize("base", [Plain, Awaited])
@pytest.mark.parametrize(
    "fallback",
    [plain_other, awaited_other, staticmethod(plain_other), staticmethod(awaited_other), Other],
    ids=["plain", "async", "static", "async static", "class"],
)
def test_a_fallback_of_a_class_may_be_any_view(
    browser: Browser, serve: Serve, base: type[View], fallback: Any
) -> None:
    """It is the class's, its base's, or given to `as_view`, whose own comes first."""
    options = {"required_flag": "off", "flag_fallback": fallback}
    gated: Any = type("Gated", (RequiresFlagMixin, base), options)
    child: Any = type("Child", (gated,), {})
    bare: Any = type("Bare", (RequiresFlagMixin, base), {"required_flag": "off"})
    serve(
        gated.as_view(),
        child=child.as_view(),
        given=bare.as_view(flag_fallback=fallback),
        other=gated.as_view(flag_fallback=lambda request: HttpResponse("given")),
    )
    for address in ("/", "/child/", "/given/"):
        assert browser.text(address) == "other other"
    assert browser.text("/other/") == "given"


def test_a_mixin_without_a_flag_is_a_mistake(serve: Serve) -> None:
    """A class that forgot to name its flag is not open to everybody."""

    class Gated(RequiresFlagMixin, Plain):
        pass

    serve(Gated.as_view())
    with pytest.raises(ValueError, match="at least one flag"):
        Browser("wsgi").get()


class MixedPlain(RequiresFlagMixin, Plain):
    """The same, by the mixin."""

    required_flag = "off"


class MixedAwaited(RequiresFlagMixin, Awaited):
    """The same, by the mixin."""

    required_flag = "off"


@requires_flag("off")
class DecoratedPlain(Plain):
    """The same, by the decorator."""


@requires_flag("off")
class DecoratedAwaited(Awaited):
    """The same, by the decorator."""


@requires_flag("x")
class GatedBase(View):
    """A class without methods of its own, of which nobody can tell whether it is async."""


@requires_flag("x")
class GatedPlainBase(Plain):
    """A class of plain views."""


@method_decorator(requires_flag("x"), name="dispatch")
class Dispatching(Awaited):
    """As Django's manual decorates a class."""


class Overriding(Awaited):
    """As it decorates a method."""

    @method_decorator(requires_flag("x"))
    def dispatch(self, *args: Any, **kwargs: Any) -> Any:
        """Handle the request."""
        return super().dispatch(*args, **kwargs)


class OverridingPlainly(Awaited):
    """The same without the helper."""

    @requires_flag("x")
    def dispatch(self, *args: Any, **kwargs: Any) -> Any:
        """Handle the request."""
        return super().dispatch(*args, **kwargs)


class AwaitedChild(GatedBase):
    """An async child of a class that was decorated without knowing."""

    async def get(self, request: HttpRequest) -> HttpResponse:
        """Answer a GET."""
        return HttpResponse("body")


class PlainChild(GatedBase):
    """A plain one."""

    def get(self, request: HttpRequest) -> HttpResponse:
        """Answer a GET."""
        return HttpResponse("body")


class AwaitedGrandchild(GatedPlainBase):
    """An async child of a class that was plain."""

    async def get(self, request: HttpRequest) -> HttpResponse:  # type: ignore[override]  # so be it
        """Answer a GET."""
        return HttpResponse("body")


@pytest.mark.parametrize(
    "decorated",
    [
        Dispatching,
        Overriding,
        OverridingPlainly,
        AwaitedChild,
        PlainChild,
        AwaitedGrandchild,
        method_decorator(requires_flag("x"), name="dispatch")(type("Other", (Plain,), {})),
        method_decorator(requires_flag("x"), name="get")(type("Another", (Awaited,), {})),
    ],
)
def test_a_class_is_judged_for_its_user_whatever_its_methods_are(
    browser: Browser, serve: Serve, service: ScriptedService, ada: User, bob: User, decorated: Any
) -> None:
    """A gate before `dispatch` waits for the evaluation where the class's methods are async."""
    service.set(lambda context: {"x": context.get("userId") == str(ada.pk)})
    serve(decorated.as_view())
    for user, status in ((ada, 200), (bob, 404)):
        browser.login(user)
        assert browser.get().status_code == status


def test_what_an_async_class_calls_itself_stays_plain(serve: Serve) -> None:
    """A gate before a method that Django does not call hands back no coroutine."""

    class Helped(View):
        async def get(self, request: FlagsRequest) -> HttpResponse:
            await request.flags.aload()
            return self.answer(request)

        @requires_flag("x")
        def answer(self, request: HttpRequest) -> HttpResponse:
            return HttpResponse("body")

    serve(Helped.as_view())
    assert Browser("asgi").text() == "body"


@method_decorator(requires_flag("off"), name="dispatch")
class DispatchedPlain(Plain):
    """The same, as Django's manual decorates a class."""


@method_decorator(requires_flag("off"), name="dispatch")
class DispatchedAwaited(Awaited):
    """The same, as Django's manual decorates a class."""


class OwnOptions(View):
    """A class that shows something to whoever asks so."""

    def options(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        """Answer an OPTIONS."""
        return HttpResponse("body")


class AOwnOptions(Awaited):
    """The same, async."""

    async def options(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:  # type: ignore[override]  # so be it
        """Answer an OPTIONS."""
        return HttpResponse("body")


class Things(ViewSet):  # type: ignore[misc]  # the framework is not typed
    """A set of views of Django REST framework."""

    def list(self, request: Any) -> HttpResponse:
        """Answer."""
        return HttpResponse("body")


def listed(viewset: Any, verb: str = "get") -> AnyView:
    """The view that lists, for this verb."""
    return viewset.as_view({verb: "list"})  # type: ignore[no-any-return]  # a view


OWN_OPTIONS = [
    RedirectView.as_view(url="/hidden/"),
    OwnOptions.as_view(),
    listed(Things, "options"),
]


class TestOptions:
    """`OPTIONS`, which browsers send without cookies before the request of another site's page."""

    @pytest.mark.parametrize(
        "gated",
        [
            requires_flag("off")(Plain.as_view()),
            requires_flag("off", redirect_to="/")(Awaited.as_view()),
            DecoratedPlain.as_view(),
            DecoratedAwaited.as_view(),
            DispatchedPlain.as_view(),
            DispatchedAwaited.as_view(),
            MixedPlain.as_view(),
            MixedAwaited.as_view(),
            flag_switch("off", on=Plain.as_view(), off=plain_other),
            flagged_path("off", "", Plain.as_view()).callback,
        ],
    )
    def test_is_answered_by_a_class_of_views(
        self, browser: Browser, serve: Serve, service: ScriptedService, gated: AnyView
    ) -> None:
        """The class tells its verbs, and no flag is read for that; a GET meets the gate."""
        serve(gated)
        response = browser.options()
        assert (response.status_code, response["Allow"]) == (200, "GET, HEAD, OPTIONS")
        assert not service.requests
        assert browser.get().content != b"body"

    @pytest.mark.parametrize("options", [{}, {"status": 403}, {"redirect_to": "/"}])
    def test_shows_no_page_of_a_function(
        self, browser: Browser, serve: Serve, view: AnyView, options: dict[str, Any]
    ) -> None:
        """A function would answer with its page: while its flag is off, the answer is empty."""
        serve(requires_flag("off", **options)(view), on=requires_flag("x")(view))
        response = browser.options()
        assert (response.status_code, response.content) == (204, b"")
        assert browser.options("/on/").content == b"body"

    @pytest.mark.parametrize("own", OWN_OPTIONS, ids=["redirect", "own", "action"])
    def test_shows_nothing_of_a_class_that_answers_it_in_its_own_way(
        self, browser: Browser, serve: Serve, own: Any
    ) -> None:
        """While its flag is off, the answer is empty; while it is on, the class's own."""
        serve(requires_flag("off")(own), on=requires_flag("x")(own), plain=own)
        response = browser.options()
        assert (response.status_code, response.content) == (204, b"")
        assert not response.has_header("Location")
        on, alone = browser.options("/on/"), browser.options("/plain/")
        assert (on.status_code, on.content) == (alone.status_code, alone.content)

    @pytest.mark.parametrize("base", [OwnOptions, AOwnOptions])
    def test_shows_nothing_however_that_class_is_gated(
        self, browser: Browser, serve: Serve, base: Any
    ) -> None:
        """By the mixin, the decorator, and Django's helper."""
        gate: Any = requires_flag("off")
        mixed: Any = type("Mixed", (RequiresFlagMixin, base), {"required_flag": "off"})
        dispatched: Any = method_decorator(gate, name="dispatch")(type("D", (base,), {}))
        method: Any = method_decorator(gate, name="options")(type("M", (base,), {}))
        serve(
            mixed.as_view(),
            decorated=gate(type("Decorated", (base,), {})).as_view(),
            dispatched=dispatched.as_view(),
            method=method.as_view(),
        )
        for page in ("/", "/decorated/", "/dispatched/", "/method/"):
            response = browser.options(page)
            assert (response.status_code, response.content) == (204, b""), page

    def test_is_answered_by_the_rest_framework(self, browser: Browser, serve: Serve) -> None:
        """Its classes tell what they take, whatever the flag is."""
        serve(requires_flag("off")(APIView.as_view()), set=requires_flag("off")(listed(Things)))
        for page in ("/", "/set/"):
            assert browser.options(page).status_code == 200

    def test_goes_to_the_other_function(self, browser: Browser, serve: Serve) -> None:
        """Where another function answers instead, it answers this as well."""
        serve(flag_switch("off", on=plain, off=awaited_other))
        assert browser.options().content == b"other other"


@pytest.mark.parametrize(
    ("keys", "options"),
    [
        ((), {}),
        (("",), {}),
        (("!",), {}),
        ((plain,), {}),
        (("x",), {"redirect_to": "/", "fallback": plain}),
    ],
)
def test_mistakes_are_found_at_import(keys: Any, options: dict[str, Any]) -> None:
    """A gate without a flag, or with two answers, is refused before it serves anything."""
    with pytest.raises(ValueError, match=r"name at least one flag|not both"):
        requires_flag(*keys, **options)


@pytest.mark.parametrize("on", VIEWS.values(), ids=VIEWS)
@pytest.mark.parametrize("off", [plain_other, awaited_other], ids=VIEWS)
def test_one_of_two_views_answers(
    browser: Browser, serve: Serve, service: ScriptedService, on: AnyView, off: AnyView
) -> None:
    """`flag_switch` chooses between two views, whichever of them is async."""
    serve(
        flag_switch("x", on=on, off=off),
        off=flag_switch("off", on=on, off=off),
        colour=flag_switch("colour", on=on, off=off, value="blue"),
    )
    assert browser.text() == "body"
    assert browser.text("/off/") == "other other"
    assert browser.text("/colour/") == "body"


class TestExemptions:
    """What Django's own middleware reads from a view."""

    def test_are_kept(self) -> None:
        """A gated view is exempt where the view is."""
        gated: Any = requires_flag("x")(csrf_exempt(login_not_required(plain_other)))
        assert gated.csrf_exempt is True
        assert gated.login_required is False

    @pytest.mark.parametrize(
        ("on", "off", "exempt"),
        [(True, True, True), (True, False, False), (False, True, False), (False, False, False)],
    )
    def test_need_both_views(self, on: bool, off: bool, exempt: bool) -> None:
        """One of two views is exempt only where both are, so that none is open by accident."""

        def made(is_exempt: bool) -> AnyView:
            def view(request: HttpRequest) -> HttpResponse:
                return HttpResponse("")

            return csrf_exempt(login_not_required(view)) if is_exempt else view

        switch: Any = flag_switch("x", on=made(on), off=made(off))
        assert getattr(switch, "csrf_exempt", False) is exempt
        assert getattr(switch, "login_required", True) is not exempt

    def test_are_not_taken_on_trust(self) -> None:
        """Of a fallback that is only named it is not known that it is exempt."""
        gated: Any = requires_flag("x", fallback="a.b")(csrf_exempt(lambda request: None))
        assert gated.csrf_exempt is False


def included() -> list[Any]:
    """URLs for an include."""
    return [
        path("one/", plain, name="one"),
        path("two/<word>/", awaited, name="two"),
        path("deep/", include([path("three/", Plain.as_view(), name="three")])),
    ]


@pytest.mark.parametrize("key", ["x", "off"])
def test_a_url_exists_while_its_flag_is_on(
    browser: Browser, settings: Settings, configure: Configure, key: str
) -> None:
    """Paths, regular expressions and whole includes are gated, and can be reversed regardless."""
    urls = [
        flagged_path(key, "path/<word>/", plain, name="path"),
        flagged_re_path(key, r"^re/(?P<word>\w+)/$", awaited, name="re"),
        flagged_path([key, "!nothing"], "inc/", include((included(), "inner"))),
        flagged_re_path(key, r"^rinc/", include(included())),
        flagged_path(key, "other/", plain, {"word": "extra"}, fallback=plain_other),
        path("open/", include([flagged_path(key, "deeper/", plain)])),
    ]
    settings.ROOT_URLCONF = Urls(*urls)
    is_on = key == "x"
    for page, body in {
        "/path/w/": "w",
        "/re/w/": "w",
        "/inc/one/": "body",
        "/inc/one/?again": "body",
        "/inc/two/w/": "w",
        "/inc/deep/three/": "body",
        "/rinc/one/": "body",
        "/open/deeper/": "body",
    }.items():
        response = browser.get(page)
        assert response.status_code == (200 if is_on else 404), page
        if is_on:
            assert response.content.decode() == body
    assert browser.text("/other/") == ("extra" if is_on else "other extra")
    assert browser.get("/inc/none/").status_code == 404
    assert reverse("inner:two", kwargs={"word": "w"}) == "/inc/two/w/"
    assert reverse("re", kwargs={"word": "w"}) == "/re/w/"


def test_a_gate_answers_as_django_does() -> None:
    """404 and 403 are the exceptions that give the site's own pages."""
    request = RequestFactory().get("/")
    with pytest.raises(Http404):
        Gate(("x",)).refuse(request)
    with pytest.raises(PermissionDenied):
        Gate(("x",), status=403).refuse(request)


def test_a_gated_view_needs_a_request() -> None:
    """Called with something else, it says so."""
    with pytest.raises(TypeError, match="called with a request"):
        requires_flag("x")(plain)("no request")  # type: ignore[arg-type]  # the mistake


def test_a_flag_that_fails_closed(
    browser: Browser, serve: Serve, service: ScriptedService, view: AnyView
) -> None:
    """While the service is down and nothing is known, a gated view is not there."""
    service.fail(503)
    serve(requires_flag("x")(view))
    assert browser.get().status_code == 404
