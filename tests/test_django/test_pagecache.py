"""Pages with flags and Django's cache of pages: nobody is served another's."""

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.cache import cache
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.utils.decorators import method_decorator
from django.views import View
from django.views.decorators.cache import cache_page
from django.views.decorators.vary import vary_on_cookie, vary_on_headers
from pytest_django import Settings
from rest_framework.response import Response
from rest_framework.views import APIView
from rest_framework.viewsets import ViewSet
from shipsilently_django import (
    FlagsRequest,
    RequiresFlagMixin,
    default_context,
    requires_flag,
)

from shipsilently_core.testing import ScriptedService

from .site import Browser

Serve = Callable[..., None]
Configure = Callable[..., None]
AnyView = Callable[..., Any]

SESSIONS = "django.contrib.sessions.middleware.SessionMiddleware"
AUTHENTICATION = "django.contrib.auth.middleware.AuthenticationMiddleware"
FLAGS = "shipsilently_django.FlagsMiddleware"
UPDATE = "django.middleware.cache.UpdateCacheMiddleware"
FETCH = "django.middleware.cache.FetchFromCacheMiddleware"
kept = cache_page(60)


@pytest.fixture(autouse=True)
def _pages_of_its_own(configure: Configure, service: ScriptedService) -> None:
    """A cache that is empty, and flags that tell who they are for."""
    cache.clear()
    made.clear()
    service.set(lambda context: {"who": context.get("userId", "nobody"), "x": True})


#: Whom a page was made for, rather than taken from the cache.
made: list[str] = []


def page(request: FlagsRequest) -> HttpResponse:
    """Say whom the flags are for."""
    made.append(request.flags.get("who", "?"))
    return HttpResponse(made[-1])


async def apage(request: FlagsRequest) -> HttpResponse:
    """The same, async."""
    made.append(await request.flags.aget("who", "?"))
    return HttpResponse(made[-1])


class Page(View):
    """The same, as a class."""

    def get(self, request: FlagsRequest) -> HttpResponse:
        """Answer a GET."""
        return page(request)


class APage(View):
    """The same, async."""

    async def get(self, request: FlagsRequest) -> HttpResponse:
        """Answer a GET."""
        return await apage(request)


PAGES = pytest.mark.parametrize("view", [page, apage], ids=["sync", "async"])
CLASSES = pytest.mark.parametrize("base", [Page, APage], ids=["sync", "async"])


def visits(browser: Browser, ada: User, bob: User, page: str = "/") -> list[str]:
    """What ada, bob and somebody else see, each twice, with names for their ids."""
    names = {str(ada.pk): "ada", str(bob.pk): "bob"}
    seen = []
    for user in (ada, bob, None):
        visitor = Browser(browser.server)
        if user is not None:
            visitor.login(user)
        for _ in range(2):
            text = visitor.text(page)
            seen.append(names.get(text, text))
    return seen


RIGHT = ["ada", "ada", "bob", "bob", "nobody", "nobody"]


@PAGES
def test_a_page_with_somebodys_flags_is_not_kept(
    browser: Browser,
    serve: Serve,
    ada: User,
    bob: User,
    view: AnyView,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Each gets a page of their own, and one line in the log says what to write."""
    serve(kept(view))
    assert visits(browser, ada, bob) == RIGHT
    assert len(made) == 6
    assert caplog.text.count("kept out of Django's cache") == 1
    assert f"the page of {view.__qualname__}" in caplog.text
    assert "`vary_on_cookie` directly below `cache_page`" in caplog.text


@PAGES
@pytest.mark.parametrize(
    "vary", [vary_on_cookie, vary_on_headers("Accept-Language", "Cookie")], ids=["alone", "several"]
)
def test_a_page_that_varies_is_kept_for_each(
    browser: Browser,
    serve: Serve,
    ada: User,
    bob: User,
    view: AnyView,
    vary: Any,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """With `vary_on_cookie` below `cache_page` each has a copy, and nothing is said."""
    serve(kept(vary(view)))
    assert visits(browser, ada, bob) == RIGHT
    assert len(made) == 3
    assert "cache" not in caplog.text


@PAGES
@pytest.mark.parametrize(
    "around",
    [
        lambda view: vary_on_cookie(kept(view)),
        lambda view: kept(vary_on_cookie(cache_page(60, key_prefix="inner")(view))),
        lambda view: kept(vary_on_headers("Accept-Language")(view)),
        lambda view: requires_flag("x")(kept(view)),
        lambda view: requires_flag("x")(requires_flag("!off")(kept(view))),
    ],
    ids=["vary above", "vary between", "another header", "gate above", "gates above"],
)
def test_what_does_not_tell_copies_apart_does_not_count(
    browser: Browser, serve: Serve, ada: User, bob: User, view: AnyView, around: Any
) -> None:
    """A header that names another thing, or is added after the page was kept, is none for us."""
    serve(around(view))
    assert visits(browser, ada, bob) == RIGHT


@PAGES
def test_a_gate_below_the_cache_tells_pages_apart(
    browser: Browser, serve: Serve, service: ScriptedService, ada: User, bob: User, view: AnyView
) -> None:
    """Behind a gate a page is kept for each who has passed, and refused to others."""
    service.set(
        lambda context: {"x": context.get("userId") == str(ada.pk), "who": context.get("userId")}
    )
    serve(kept(requires_flag("x")(view)))
    other = Browser(browser.server)
    browser.login(ada)
    other.login(bob)
    for visitor, status in ((browser, 200), (other, 404), (browser, 200)):
        response = visitor.get()
        assert (response.status_code, "Cookie" in response["Vary"]) == (status, True)
    assert made == [str(ada.pk)]


@CLASSES
def test_the_mixin_below_the_cache_tells_pages_apart(
    browser: Browser, serve: Serve, ada: User, bob: User, base: Any
) -> None:
    """So does the mixin, and a page behind it is kept for each."""
    gated = type("Gated", (RequiresFlagMixin, base), {"required_flag": "x"})
    serve(kept(gated.as_view()))  # type: ignore[attr-defined]  # it is a view
    assert visits(browser, ada, bob) == RIGHT
    assert len(made) == 3


def test_a_gate_without_a_cookie_adds_no_header(
    browser: Browser, serve: Serve, configure: Configure
) -> None:
    """Where nobody was looked at, a gated page is one for all."""
    configure(CONTEXT=lambda request: {"country": "is"})
    serve(kept(requires_flag("x")(page)))
    assert "Vary" not in browser.get()
    browser.get()
    assert made == ["nobody"]


@PAGES
def test_flags_of_nobody_in_particular_are_kept_for_all(
    browser: Browser, serve: Serve, configure: Configure, ada: User, bob: User, view: AnyView
) -> None:
    """A hook that looks at nobody makes a page that everybody may see."""
    configure(CONTEXT=lambda request: {"country": "is"})
    serve(kept(view))
    assert visits(browser, ada, bob) == ["nobody"] * 6
    assert made == ["nobody"]


@PAGES
def test_a_hook_that_looks_at_somebody_is_noticed(
    browser: Browser, serve: Serve, configure: Configure, ada: User, bob: User, view: AnyView
) -> None:
    """It is enough that the session was looked at, whatever is sent."""

    def hook(request: HttpRequest) -> dict[str, Any]:
        return {"userId": str(request.user.pk)} if request.user.is_authenticated else {}

    configure(CONTEXT=hook)
    serve(kept(view))
    assert visits(browser, ada, bob) == RIGHT


@PAGES
@pytest.mark.parametrize("first", [[], [UPDATE]], ids=["view", "site"])
def test_a_header_that_a_hook_reads_tells_copies_apart_once_it_is_named(
    browser: Browser,
    serve: Serve,
    service: ScriptedService,
    settings: Settings,
    configure: Configure,
    view: AnyView,
    first: list[str],
) -> None:
    """By `vary_on_headers` strangers from two countries have two copies, as the manual says."""
    configure(
        CONTEXT=lambda request: {
            **default_context(request),
            "country": request.headers.get("X-Country", ""),
        }
    )
    service.set(lambda context: {"who": context.get("country", "?")})
    settings.MIDDLEWARE = [*first, SESSIONS, AUTHENTICATION, FLAGS, *([FETCH] if first else [])]
    varied = vary_on_headers("X-Country", "Cookie")(view)
    serve(varied if first else kept(varied))
    seen = [browser.text(headers={"X-Country": country}) for country in ("US", "DE", "US", "DE")]
    assert seen == ["US", "DE", "US", "DE"]
    assert made == ["US", "DE"]


# What dispatch hands back in an async class is not awaited by Django's own decorators.
@pytest.mark.parametrize(("base", "place"), [(Page, "dispatch"), (Page, "get"), (APage, "get")])
@pytest.mark.parametrize(
    ("decorators", "pages"),
    [
        ([kept], 6),
        ([kept, vary_on_cookie], 3),
        ([vary_on_cookie, kept], 6),
        ([kept, requires_flag("x")], 3),
        ([requires_flag("x"), kept], 6),
    ],
    ids=["alone", "vary below", "vary above", "gate below", "gate above"],
)
def test_classes_of_views(
    browser: Browser,
    serve: Serve,
    ada: User,
    bob: User,
    base: Any,
    place: str,
    decorators: list[Any],
    pages: int,
) -> None:
    """What `method_decorator` puts around a class's methods is seen, in its order."""
    made_class: Any = type("Made", (base,), {})
    made_class = method_decorator(decorators, name=place)(made_class)
    serve(made_class.as_view())
    assert visits(browser, ada, bob) == RIGHT
    assert len(made) == pages


def early(get_response: Any) -> Any:
    """A middleware that reads a flag before the view is known."""

    def middleware(request: FlagsRequest) -> Any:
        request.flags.is_enabled("x")
        return get_response(request)

    return middleware


@PAGES
def test_flags_that_were_read_before_the_view_count(
    browser: Browser, serve: Serve, settings: Settings, ada: User, bob: User, view: AnyView
) -> None:
    """What a middleware has evaluated keeps no page that the view makes of it."""
    settings.MIDDLEWARE = [SESSIONS, AUTHENTICATION, FLAGS, f"{__name__}.early"]
    serve(kept(view))
    assert visits(browser, ada, bob) == RIGHT


@PAGES
def test_prefetched_flags_count(
    serve: Serve, configure: Configure, ada: User, bob: User, view: AnyView
) -> None:
    """So it is with what `PREFETCH` has evaluated."""
    configure(PREFETCH=True)
    serve(kept(view))
    assert visits(Browser("asgi"), ada, bob) == RIGHT


def test_a_template_that_reads_late_counts(
    browser: Browser, serve: Serve, settings: Settings, ada: User, bob: User
) -> None:
    """A page whose template reads its first flag when the view is done is not kept either."""
    settings.TEMPLATES = [
        {
            "BACKEND": "django.template.backends.django.DjangoTemplates",
            "OPTIONS": {
                "loaders": [
                    (
                        "django.template.loaders.locmem.Loader",
                        {"page": '{% load shipsilently %}{% flag_value "who" %}'},
                    )
                ],
            },
        }
    ]
    serve(kept(lambda request: TemplateResponse(request, "page", {"request": request})))
    assert visits(browser, ada, bob) == RIGHT


@PAGES
@pytest.mark.parametrize(
    ("first", "pages"), [([UPDATE, SESSIONS], 3), ([SESSIONS, UPDATE], 6)], ids=["first", "later"]
)
def test_a_site_that_is_cached_as_a_whole(
    browser: Browser,
    serve: Serve,
    settings: Settings,
    ada: User,
    bob: User,
    view: AnyView,
    first: list[str],
    pages: int,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """In its place the whole site's cache sees `Vary`; in a later one it keeps no such page."""
    settings.MIDDLEWARE = [*first, AUTHENTICATION, FLAGS, FETCH]
    serve(view)
    assert visits(browser, ada, bob) == RIGHT
    assert len(made) == pages
    assert ("kept out" in caplog.text) is (pages == 6)


@PAGES
@pytest.mark.parametrize("around", [lambda view: view, requires_flag("x")], ids=["view", "gated"])
def test_a_page_that_is_cached_twice(
    browser: Browser,
    serve: Serve,
    settings: Settings,
    ada: User,
    bob: User,
    view: AnyView,
    around: Any,
) -> None:
    """On a site that is cached as a whole `cache_page` is as it is elsewhere."""
    settings.MIDDLEWARE = [UPDATE, SESSIONS, AUTHENTICATION, FLAGS, FETCH]
    serve(around(cache_page(60, key_prefix="page")(view)))
    assert visits(browser, ada, bob) == RIGHT


def late(get_response: Any) -> Any:
    """A middleware that reads a flag when the page is made, and fills what is empty with it."""

    def middleware(request: FlagsRequest) -> Any:
        response = get_response(request)
        who = request.flags.get("who", "?")
        if not response.content:
            response.content = who.encode()
        return response

    return middleware


async def silent(request: HttpRequest) -> HttpResponse:
    """A page without flags."""
    made.append("")
    return HttpResponse("")


def with_session(request: HttpRequest) -> HttpResponse:
    """A page without flags that looks at the session."""
    made.append(str(request.session.get("basket")))
    return HttpResponse("")


LATE = f"{__name__}.late"
GZIP = "django.middleware.gzip.GZipMiddleware"
SECURE = "django.middleware.security.SecurityMiddleware"


@pytest.mark.parametrize(
    ("middleware", "view", "pages"),
    [
        ([UPDATE, LATE, SESSIONS, AUTHENTICATION, FLAGS], silent, 6),
        ([UPDATE, SECURE, GZIP, SESSIONS, AUTHENTICATION, LATE, FLAGS], silent, 3),
        ([UPDATE, SESSIONS, AUTHENTICATION, FLAGS, LATE], silent, 3),
        ([UPDATE, LATE, SESSIONS, AUTHENTICATION, FLAGS], with_session, 3),
        ([UPDATE, LATE, SESSIONS, AUTHENTICATION, FLAGS], vary_on_cookie(silent), 3),
        ([UPDATE, LATE, SESSIONS, AUTHENTICATION, FLAGS], page, 3),
    ],
    ids=["outside", "between", "below", "session seen", "varied", "read before"],
)
def test_flags_that_are_first_read_when_the_page_is_made(
    browser: Browser,
    serve: Serve,
    settings: Settings,
    ada: User,
    bob: User,
    caplog: pytest.LogCaptureFixture,
    middleware: list[str],
    view: AnyView,
    pages: int,
) -> None:
    """A page whose headers do not tell the user is not kept, and one line says why."""
    settings.MIDDLEWARE = [*middleware, FETCH]
    serve(view)
    assert visits(browser, ada, bob) == RIGHT
    assert len(made) == pages
    assert caplog.text.count("a middleware outside of FlagsMiddleware") == (pages == 6)


@pytest.mark.django_db
@pytest.mark.parametrize("kept_in", ["cookie", "session"])
@pytest.mark.parametrize("place", [1, 2, 3], ids=["outside", "between", "below"])
def test_visitors_whose_flags_are_first_read_when_the_page_is_made(
    browser: Browser,
    serve: Serve,
    settings: Settings,
    configure: Configure,
    kept_in: str,
    place: int,
) -> None:
    """No visitor who has an id is served another's page."""
    configure(ANONYMOUS_ID=kept_in)
    settings.MIDDLEWARE = [UPDATE, SESSIONS, FLAGS, FETCH]
    settings.MIDDLEWARE.insert(place, LATE)
    serve(silent, seen=page)
    visitors = [browser, Browser(browser.server)]
    ids = [visitor.text("/seen/") for visitor in visitors]
    assert ids[0] != ids[1]
    for _ in range(2):
        assert [visitor.text() for visitor in visitors] == ids


def test_flags_of_nobody_may_be_read_when_the_page_is_made(
    browser: Browser, serve: Serve, settings: Settings, configure: Configure, ada: User, bob: User
) -> None:
    """What a hook makes of nobody is one page for all, wherever it is read."""
    configure(CONTEXT=lambda request: {"country": "is"})
    settings.MIDDLEWARE = [UPDATE, LATE, SESSIONS, AUTHENTICATION, FLAGS, FETCH]
    serve(silent)
    assert visits(browser, ada, bob) == ["nobody"] * 6
    assert len(made) == 1


@pytest.mark.django_db
@pytest.mark.parametrize("kept_in", ["cookie", "session"])
@PAGES
def test_the_page_of_a_new_visitor_is_nobody_elses(
    browser: Browser, serve: Serve, configure: Configure, kept_in: str, view: AnyView
) -> None:
    """Who has no cookie yet gets no page of another who had none; the next page is kept."""
    configure(ANONYMOUS_ID=kept_in)
    serve(kept(vary_on_cookie(view)))
    other = Browser(browser.server)
    first, second = browser.text(), other.text()
    assert first != second
    assert [browser.text(), browser.text(), other.text()] == [first, first, second]
    assert len(made) == 4


def by_token(get_response: Any) -> Any:
    """A middleware that knows users by a header, though there are sessions for other things."""

    def middleware(request: HttpRequest) -> Any:
        if hasattr(request, "session"):
            request.session.get("basket")
        request.user = User(pk=int(request.headers.get("X-Token", "0")))
        return get_response(request)

    return middleware


@pytest.mark.parametrize(
    ("around", "pages"),
    [
        (lambda view: view, 4),
        (requires_flag("x"), 4),
        (vary_on_cookie, 4),
        (vary_on_headers("X-Token"), 2),
        (vary_on_headers("Cookie", "X-Token"), 2),
    ],
    ids=["alone", "gated", "by cookie", "varied", "by both"],
)
@pytest.mark.parametrize("before", [[], [SESSIONS]], ids=["no sessions", "sessions"])
def test_users_who_are_known_by_a_header(
    browser: Browser, serve: Serve, settings: Settings, around: Any, pages: int, before: list[str]
) -> None:
    """Where no cookie tells the user, only a `Vary` of the site's own lets a page be kept."""
    settings.MIDDLEWARE = [*before, f"{__name__}.by_token", FLAGS]
    serve(kept(around(page)))
    seen = [browser.text(headers={"X-Token": token}) for token in ("7", "7", "8", "8")]
    assert seen == ["7", "7", "8", "8"]
    assert len(made) == pages


@pytest.mark.parametrize(
    ("decorators", "told"),
    [([kept], True), ([vary_on_cookie, kept], True), ([kept, vary_on_cookie], False), ([], False)],
    ids=["alone", "vary above", "vary below", "not kept"],
)
def test_a_method_of_the_rest_framework_that_is_kept_is_told_of(
    serve: Serve, decorators: list[Any], told: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """No mark reaches what decorates a handler there, so the log says what it needs."""

    class Things(ViewSet):  # type: ignore[misc]  # the framework is not typed
        @method_decorator(decorators)
        def list(self, request: Any) -> Response:
            return Response(request.flags.get("who"))

    class Thing(APIView):  # type: ignore[misc]  # as above
        get = Things.list

    serve(Things.as_view({"get": "list"}), thing=Thing.as_view())
    for address in ("/", "/thing/"):
        assert Browser("wsgi").get(address).status_code == 200
    for name in ("Things", "Thing"):
        assert (f"a method of {Things.__qualname__[:-6]}{name} answers" in caplog.text) is told


def test_a_view_of_the_rest_framework_is_as_others_are(
    browser: Browser, serve: Serve, ada: User, bob: User
) -> None:
    """What stands around its view, or its `dispatch`, is seen."""

    class Things(APIView):  # type: ignore[misc]  # as above
        def get(self, request: Any) -> HttpResponse:
            return page(request)

    serve(kept(Things.as_view()))
    assert visits(browser, ada, bob) == RIGHT
    assert len(made) == 6


def test_a_page_of_flags_that_nobody_awaited_is_not_kept(serve: Serve, ada: User) -> None:
    """What an async view serves before it is known for whom is nobody's for long."""

    async def view(request: FlagsRequest) -> HttpResponse:
        made.append(request.flags.get("who", "?"))
        return HttpResponse("")

    serve(kept(view))
    browser = Browser("asgi")
    browser.login(ada)
    browser.get()
    browser.get()
    assert len(made) == 2


def test_what_reads_no_flag_is_kept_as_ever(browser: Browser, serve: Serve) -> None:
    """A page without flags is none of our business."""

    def view(request: HttpRequest) -> HttpResponse:
        made.append("")
        return HttpResponse("")

    serve(kept(view))
    browser.get()
    browser.get()
    assert made == [""]


class Unhashable:
    """A view that is an object and has no hash."""

    __hash__ = None  # type: ignore[assignment]  # that is the point

    def __call__(self, request: FlagsRequest) -> HttpResponse:
        """Answer."""
        return page(request)


def test_a_view_may_be_anything(
    browser: Browser, serve: Serve, settings: Settings, ada: User, bob: User
) -> None:
    """Of an object that cannot be remembered no page is kept, and nothing is raised."""
    settings.MIDDLEWARE = [SESSIONS, UPDATE, AUTHENTICATION, FLAGS, FETCH]
    serve(Unhashable())
    assert visits(browser, ada, bob) == RIGHT
    assert len(made) == 6
