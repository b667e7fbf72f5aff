"""Django's cache of pages where it cannot be seen around a view, or comes after a first read."""

import functools
import threading
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.contrib.sessions.middleware import SessionMiddleware
from django.core.cache import cache
from django.http import HttpRequest, HttpResponse
from django.test import Client, RequestFactory
from django.utils.decorators import method_decorator
from django.utils.deprecation import MiddlewareMixin
from django.views import View
from django.views.decorators.cache import cache_page
from django.views.decorators.vary import vary_on_cookie
from pytest_django import Settings
from rest_framework.generics import GenericAPIView
from rest_framework.response import Response
from shipsilently_django import (
    FlagsMiddleware,
    FlagsRequest,
    RequiresFlagMixin,
    pagecache,
    requires_flag,
)
from shipsilently_django import flags as flags_module
from shipsilently_django.flags import RequestFlags, flags_of
from shipsilently_django.surroundings import surroundings_of

from shipsilently_core.testing import ScriptedService

from .site import Browser
from .test_pagecache import (
    AUTHENTICATION,
    FETCH,
    FLAGS,
    RIGHT,
    SESSIONS,
    UPDATE,
    AnyView,
    Configure,
    Page,
    Serve,
    apage,
    early,
    kept,
    made,
    page,
    visits,
)

__all__ = ["early"]

EARLY = f"{__name__}.early"
READS_IN_PROCESS_VIEW = f"{__name__}.ReadsInProcessView"


@pytest.fixture(autouse=True)
def _pages_of_its_own(configure: Configure, service: ScriptedService) -> None:
    """A cache that is empty, and flags that tell who they are for."""
    cache.clear()
    made.clear()
    service.set(lambda context: {"who": context.get("userId", "nobody"), "x": True})


class CacheMixin:
    """For classes of views: their pages are kept, as no decorator shows."""

    def dispatch(self, *args: Any, **kwargs: Any) -> Any:
        """Answer any method."""
        return kept(super().dispatch)(*args, **kwargs)  # type: ignore[misc]  # a view's


class Cached(CacheMixin, Page):
    """A page that is kept."""


class GatedCached(RequiresFlagMixin, CacheMixin, Page):
    """The same, behind a flag."""

    required_flag = "x"


class Parent(View):
    """A page that is kept, as its method shows."""

    @method_decorator(kept)
    def get(self, request: FlagsRequest) -> HttpResponse:
        """Answer a GET."""
        return page(request)


class Child(Parent):
    """The same, and a flag is read first."""

    def get(self, request: FlagsRequest) -> HttpResponse:
        """Answer a GET."""
        request.flags.is_enabled("x")
        return super().get(request)


def calls_cache(request: FlagsRequest) -> Any:
    """Read a flag, then answer with a page that is kept."""
    request.flags.is_enabled("x")
    return kept(page)(request)


def hidden(view: AnyView) -> AnyView:
    """A decorator that does not tell what it stands around."""

    def inner(request: HttpRequest) -> Any:
        return view(request)

    return inner


def hidden_gate(view: AnyView) -> AnyView:
    """The same, and it reads a flag."""

    def inner(request: FlagsRequest) -> Any:
        request.flags.is_enabled("x")
        return view(request)

    return inner


READ_BEFORE = {
    "mixin": GatedCached.as_view(),
    "parent": Child.as_view(),
    "called": calls_cache,
    "hidden": hidden_gate(kept(page)),
    "partial": hidden_gate(functools.partial(kept(page))),
    "gated": requires_flag("x")(hidden(kept(page))),
}


@pytest.mark.parametrize("view", READ_BEFORE.values(), ids=READ_BEFORE)
def test_a_cache_that_comes_after_a_read_is_noticed(
    browser: Browser,
    serve: Serve,
    ada: User,
    bob: User,
    view: AnyView,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A page is not kept for all, though its first flag was read before the cache was asked."""
    serve(view)
    assert visits(browser, ada, bob) == RIGHT
    assert len(made) == 6
    assert caplog.text.count("kept out of Django's cache") == 1


class ReadsInProcessView(MiddlewareMixin):
    """A middleware that reads a flag when the view is known."""

    def process_view(self, request: FlagsRequest, *view: Any) -> None:
        """Read a flag."""
        request.flags.is_enabled("x")


HIDDEN = {"mixin": Cached.as_view(), "hidden": hidden(cache_page(60, key_prefix="page")(page))}


@pytest.mark.parametrize("view", HIDDEN.values(), ids=HIDDEN)
def test_a_cache_that_comes_after_process_view_is_noticed(
    serve: Serve, settings: Settings, ada: User, bob: User, view: AnyView
) -> None:
    """So it is where a middleware has read a flag for a view that it knows."""
    settings.MIDDLEWARE = [SESSIONS, AUTHENTICATION, FLAGS, READS_IN_PROCESS_VIEW]
    serve(view)
    assert visits(Browser("wsgi"), ada, bob) == RIGHT


ORDERS = {
    "read in between": [UPDATE, SESSIONS, AUTHENTICATION, FLAGS, FETCH, EARLY],
    "read before": [UPDATE, SESSIONS, AUTHENTICATION, FLAGS, EARLY, FETCH],
    "read for the view": [UPDATE, SESSIONS, AUTHENTICATION, FLAGS, FETCH, READS_IN_PROCESS_VIEW],
    "fetched before": [UPDATE, SESSIONS, AUTHENTICATION, FETCH, FLAGS],
    "not read": [UPDATE, SESSIONS, AUTHENTICATION, FLAGS, FETCH],
}


@pytest.mark.parametrize("order", ORDERS.values(), ids=ORDERS)
@pytest.mark.parametrize(
    "view", [*HIDDEN.values(), cache_page(60, key_prefix="page")(page)], ids=[*HIDDEN, "seen"]
)
def test_a_cache_within_that_of_the_whole_site_is_noticed(
    browser: Browser,
    serve: Serve,
    settings: Settings,
    ada: User,
    bob: User,
    view: AnyView,
    order: list[str],
) -> None:
    """Whoever reads before it, a second cache is not taken for the whole site's."""
    settings.MIDDLEWARE = order
    serve(view)
    assert visits(browser, ada, bob) == RIGHT


@pytest.mark.parametrize("order", ORDERS.values(), ids=ORDERS)
def test_a_site_that_is_cached_as_a_whole_keeps_its_pages(
    browser: Browser, serve: Serve, settings: Settings, ada: User, bob: User, order: list[str]
) -> None:
    """Where there is no second cache, each has a copy, whoever reads first."""
    settings.MIDDLEWARE = order
    serve(page)
    assert visits(browser, ada, bob) == RIGHT
    assert len(made) == 3


def test_prefetched_flags_and_two_caches(
    serve: Serve, settings: Settings, configure: Configure, ada: User, bob: User
) -> None:
    """What was loaded after the whole site's cache had been asked is judged again at the view."""
    configure(PREFETCH=True)
    settings.MIDDLEWARE = ORDERS["fetched before"]
    serve(cache_page(60, key_prefix="page")(apage))
    assert visits(Browser("asgi"), ada, bob) == RIGHT


@pytest.mark.parametrize(("order", "defined"), [([UPDATE, FLAGS, FETCH], True), ([FLAGS], False)])
def test_only_a_cached_site_has_a_step_more(
    settings: Settings, order: list[str], defined: bool
) -> None:
    """Elsewhere Django calls the middleware once for a request."""
    settings.MIDDLEWARE = order
    assert hasattr(FlagsMiddleware(lambda request: HttpResponse("")), "process_view") is defined


@method_decorator(vary_on_cookie, name="dispatch")
class Varied(Cached):
    """A page that is kept, and varies further out."""


OUTSIDE: dict[str, AnyView] = {
    "vary": vary_on_cookie(hidden(kept(page))),
    "vary, class": vary_on_cookie(Cached.as_view()),
    "vary, method": Varied.as_view(),
    "two caches": kept(vary_on_cookie(hidden_gate(cache_page(60, key_prefix="page")(page)))),
}


@pytest.mark.parametrize("view", OUTSIDE.values(), ids=OUTSIDE)
def test_what_may_stand_outside_of_a_cache_does_not_count(
    browser: Browser, serve: Serve, ada: User, bob: User, view: AnyView
) -> None:
    """Where it is not seen which of two decorators is outside, the page is not kept."""
    serve(view)
    assert visits(browser, ada, bob) == RIGHT


def test_a_request_that_finds_no_view_is_looked_at_once(
    configure: Configure, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where a template is rendered for a mail: the second read answers from memory."""
    resolved = []
    resolve = RequestFlags._resolve

    def counting(self: RequestFlags) -> Any:
        resolved.append(self)
        return resolve(self)

    monkeypatch.setattr(RequestFlags, "_resolve", counting)
    request: Any = RequestFactory().get("/")
    for _ in range(3):
        assert flags_of(request).is_enabled("x")
    assert len(resolved) == 1


def test_a_cache_that_is_met_while_another_thread_reads_is_noticed(
    serve: Serve, configure: Configure, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It counts for the next read, though it came before the first had ended."""
    configure(CONTEXT=lambda request: {"userId": request.headers["X-User"]})
    look = surroundings_of
    looked, met = threading.Event(), threading.Event()
    readers: list[threading.Thread] = []

    def amid(view: Any) -> Any:
        found = look(view)
        if threading.current_thread() in readers:
            looked.set()
            met.wait(10)
        return found

    def inner(request: FlagsRequest) -> HttpResponse:
        met.set()
        readers[-1].join()
        return page(request)

    def view(request: FlagsRequest) -> Any:
        looked.clear()
        met.clear()
        readers.append(threading.Thread(target=request.flags.load))
        readers[-1].start()
        looked.wait(10)
        return kept(inner)(request)

    monkeypatch.setattr(flags_module, "surroundings_of", amid)
    serve(view)
    seen = [Client().get("/", headers={"X-User": user}).content for user in ("ada", "bob")]
    assert seen == [b"ada", b"bob"]


def test_a_page_that_another_thread_keeps_out_stays_out(
    configure: Configure, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A read for nobody that ends later does not let the page of a user be kept."""
    request: Any = RequestFactory().get("/")
    request._cache_update_cache = True
    look = pagecache._is_personal

    def amid(*given: Any) -> bool:
        found = look(*given)
        monkeypatch.undo()
        request.user = User(pk=7)
        other = threading.Thread(target=flags_of(request).load)
        other.start()
        other.join()
        return found

    monkeypatch.setattr(pagecache, "_is_personal", amid)
    flags_of(request).load()
    assert request._cache_update_cache is False


class KeepsSessions(MiddlewareMixin):
    """A middleware for sessions that is none of Django's."""

    def __init__(self, get_response: Callable[..., Any]) -> None:
        super().__init__(get_response)
        self._inner = SessionMiddleware(get_response)

    def process_request(self, request: HttpRequest) -> None:
        """Give the request its session."""
        self._inner.process_request(request)

    def process_response(self, request: HttpRequest, response: HttpResponse) -> HttpResponse:
        """Add what tells sessions apart."""
        return self._inner.process_response(request, response)


def test_sessions_of_another_middleware_count(
    browser: Browser, serve: Serve, settings: Settings, ada: User, bob: User
) -> None:
    """What adds `Vary` later than the whole site's cache is known by its name."""
    settings.MIDDLEWARE = [f"{__name__}.KeepsSessions", UPDATE, AUTHENTICATION, FLAGS, FETCH]
    serve(page)
    assert visits(browser, ada, bob) == RIGHT
    assert len(made) == 6


def keeps_value(get_response: Any) -> Any:
    """A middleware that puts a flag's value onto the request."""

    def middleware(request: Any) -> Any:
        request.who = request.flags.get("who", "?")
        return get_response(request)

    return middleware


def silent(request: HttpRequest) -> HttpResponse:
    """Read no flag."""
    return HttpResponse("fine")


@pytest.mark.parametrize(
    ("view", "order", "told"),
    [
        (kept(silent), [EARLY], True),
        (hidden(kept(silent)), [EARLY], True),
        (kept(vary_on_cookie(silent)), [EARLY], False),
        (silent, [EARLY], False),
        (kept(silent), [], False),
        (requires_flag("x")(kept(silent)), [], False),
        (kept(page), [EARLY], False),
    ],
    ids=["kept", "kept unseen", "varied", "not kept", "not read", "gated", "read again"],
)
def test_a_value_that_was_read_before_a_kept_view_is_told_of(
    browser: Browser,
    serve: Serve,
    settings: Settings,
    view: AnyView,
    order: list[str],
    told: bool,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The page may show it, which cannot be seen; so the log says once what to write."""
    settings.MIDDLEWARE = [SESSIONS, AUTHENTICATION, FLAGS, *order]
    serve(view, other=view)
    for address in ("/", "/other/", "/"):
        browser.get(address)
    assert caplog.text.count("flags of one user had been read before") == told


@pytest.mark.parametrize(
    ("first", "pages"), [([UPDATE, SESSIONS], 3), ([SESSIONS, UPDATE], 6)], ids=["first", "later"]
)
def test_a_value_that_was_read_before_on_a_site_that_is_cached(
    browser: Browser,
    serve: Serve,
    settings: Settings,
    ada: User,
    bob: User,
    first: list[str],
    pages: int,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A cache that keeps pages without `Vary` keeps none that may show it, and the log says so."""

    def view(request: Any) -> HttpResponse:
        made.append(request.who)
        return HttpResponse(request.who)

    settings.MIDDLEWARE = [*first, AUTHENTICATION, FLAGS, f"{__name__}.keeps_value", FETCH]
    serve(view)
    assert visits(browser, ada, bob) == RIGHT
    assert len(made) == pages
    assert ("flags of one user had been read before" in caplog.text) is (pages == 6)


def test_prefetched_flags_are_not_told_of(
    serve: Serve, configure: Configure, caplog: pytest.LogCaptureFixture
) -> None:
    """What nobody has read is on no page."""
    configure(PREFETCH=True)

    async def view(request: HttpRequest) -> HttpResponse:
        return HttpResponse("fine")

    serve(kept(view))
    Browser("asgi").get()
    assert "cache" not in caplog.text


@pytest.mark.parametrize("order", [[], [EARLY]], ids=["not before", "read before"])
@pytest.mark.parametrize("name", ["list", "retrieve"])
def test_what_answers_a_get_of_the_rest_framework_is_looked_at(
    serve: Serve, settings: Settings, name: str, order: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    """A generic class's `get` calls another method, around which a cache may stand."""

    def answer(self: Any, request: Any) -> Response:
        return Response(request.flags.get("who"))

    def get(self: Any, request: Any) -> Any:
        return getattr(self, name)(request)

    members = {name: method_decorator(kept)(answer), "get": get}
    kind: Any = type("Things", (GenericAPIView,), members)
    settings.MIDDLEWARE = [SESSIONS, AUTHENTICATION, FLAGS, *order]
    serve(kind.as_view())
    assert Browser("wsgi").get().status_code == 200
    assert "a method of Things answers is kept" in caplog.text
