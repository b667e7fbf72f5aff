"""`FlagsMiddleware`, through Django's whole stack."""

import asyncio
import json
import threading
import timeit
from collections.abc import Callable
from typing import Any

import pytest
from asgiref.sync import iscoroutinefunction
from django.contrib.auth.models import User
from django.core.handlers.asgi import ASGIHandler
from django.db import connection
from django.http import HttpRequest, HttpResponse
from django.test import AsyncRequestFactory, RequestFactory
from django.test.utils import CaptureQueriesContext
from pytest_django import Settings
from shipsilently_django import FlagsMiddleware, FlagsRequest

from shipsilently_core.testing import ScriptedService

from .site import READING, SILENT, Browser, View, request_of, sync_view

Serve = Callable[..., None]


@pytest.mark.parametrize("view", READING.values(), ids=READING)
@pytest.mark.parametrize("value", [True, False])
def test_a_view_reads_a_flag(
    browser: Browser, serve: Serve, service: ScriptedService, view: View, value: bool
) -> None:
    """Sync and async views see the service's value under WSGI and under ASGI."""
    service.set({"x": value})
    serve(view)
    assert browser.text() == str(value)


@pytest.mark.parametrize("view", READING.values(), ids=READING)
def test_the_user_is_the_context(
    browser: Browser, serve: Serve, service: ScriptedService, view: View, ada: User
) -> None:
    """The service is told the user's pk as a string, and nothing else of the user."""
    serve(view)
    browser.login(ada)
    browser.get()
    assert [json.loads(request.body) for request in service.requests] == [
        {"context": {"userId": str(ada.pk)}}
    ]


@pytest.mark.parametrize("view", READING.values(), ids=READING)
def test_a_visitor_has_an_empty_context(
    browser: Browser, serve: Serve, service: ScriptedService, view: View
) -> None:
    """Of an anonymous visitor the service is told nothing."""
    serve(view)
    browser.get()
    assert [json.loads(request.body) for request in service.requests] == [{"context": {}}]


NOTHING = {"queries": 0, "session": False, "vary": False}


@pytest.mark.parametrize(
    ("views", "who", "cost"),
    [
        (SILENT, "anonymous", NOTHING),
        (SILENT, "stale cookie", NOTHING),
        (SILENT, "logged in", NOTHING),
        (READING, "anonymous", {"queries": 0, "session": True, "vary": True}),
        (READING, "stale cookie", {"queries": 1, "session": True, "vary": True}),
        (READING, "logged in", {"queries": 2, "session": True, "vary": True}),
    ],
    ids=lambda value: None if isinstance(value, str) else "",
)
@pytest.mark.parametrize("kind", ["sync", "async"])
def test_what_a_request_costs(
    browser: Browser,
    serve: Serve,
    ada: User,
    views: dict[str, View],
    who: str,
    cost: dict[str, Any],
    kind: str,
) -> None:
    """Queries, session and Vary: none without a flag; with one, what it takes to know the user."""
    serve(views[kind])
    if who == "logged in":
        browser.login(ada)
    elif who == "stale cookie":
        browser.cookies["sessionid"] = "0" * 32
    with CaptureQueriesContext(connection) as queries:
        response = browser.get()
    assert {
        "queries": len(queries),
        "session": request_of(response).session.accessed,
        "vary": "Cookie" in response.get("Vary", ""),
    } == cost


@pytest.mark.parametrize("view", READING.values(), ids=READING)
def test_a_context_without_the_user_leaves_vary_alone(
    browser: Browser,
    serve: Serve,
    configure: Callable[..., None],
    ada: User,
    view: View,
) -> None:
    """A hook that does not look at the user costs no query and adds no Vary."""
    configure(CONTEXT=lambda request: {"country": "is"})
    serve(view)
    browser.login(ada)
    with CaptureQueriesContext(connection) as queries:
        response = browser.get()
    assert not queries
    assert "Vary" not in response


def test_one_request_sees_one_set_of_values(
    browser: Browser, serve: Serve, service: ScriptedService
) -> None:
    """A flag that changes during a request keeps its value until the end of it."""

    def view(request: FlagsRequest) -> HttpResponse:
        before = request.flags.is_enabled("x")
        service.set({"x": False})
        return HttpResponse(f"{before} {request.flags.is_enabled('x')}")

    serve(view)
    assert browser.text() == "True True"
    assert len(service.requests) == 1


def test_two_users_never_share_a_value(
    browser: Browser, serve: Serve, service: ScriptedService, ada: User, bob: User
) -> None:
    """Each user gets what the service says of that user, also when it is down afterwards."""
    service.set(lambda context: {"x": context["userId"] == str(ada.pk)})
    serve(sync_view)
    for _ in range(2):
        for user, value in ((ada, "True"), (bob, "False")):
            browser.login(user)
            assert browser.text() == value
        service.fail(503)


def test_the_async_stack_stays_async(serve: Serve) -> None:
    """Under ASGI a request with an async view is handled in the event loop's own thread."""
    threads: list[int] = []

    async def view(request: FlagsRequest) -> HttpResponse:
        threads.append(threading.get_ident())
        return HttpResponse(str(await request.flags.ais_enabled("x")))

    async def inner(request: HttpRequest) -> HttpResponse:
        return await view(request)  # type: ignore[arg-type]  # the middleware has been there

    middleware = FlagsMiddleware(inner)
    assert iscoroutinefunction(middleware)
    response = asyncio.run(_awaited(middleware(AsyncRequestFactory().get("/"))))
    assert response.content == b"True"
    assert threads == [threading.get_ident()]


async def _awaited(response: Any) -> HttpResponse:
    awaited: HttpResponse = await response
    return awaited


def test_no_thread_is_needed_by_the_middleware_under_asgi(settings: Settings, serve: Serve) -> None:
    """Django adapts the class to no thread: it is loaded as a coroutine function."""
    serve(SILENT["async"])
    settings.MIDDLEWARE = ["shipsilently_django.FlagsMiddleware"]
    handler: Any = ASGIHandler()
    handler.load_middleware(is_async=True)
    # Django's own wrapper that turns exceptions into responses is async as well.
    assert iscoroutinefunction(handler._middleware_chain)
    assert FlagsMiddleware.async_capable
    assert FlagsMiddleware.sync_capable


def test_an_exception_of_the_view_passes_through(browser: Browser, serve: Serve) -> None:
    """The middleware neither hides nor changes what a view raises."""

    def view(request: HttpRequest) -> HttpResponse:
        raise ZeroDivisionError

    serve(view)
    with pytest.raises(ZeroDivisionError):
        browser.get()


def test_a_request_without_flags_is_cheap() -> None:
    """Where no flag is read the middleware adds a few attributes, far less than 10 µs."""
    request = RequestFactory().get("/")
    response = HttpResponse()
    middleware = FlagsMiddleware(lambda request: response)
    best = min(timeit.repeat(lambda: middleware(request), number=1000, repeat=5)) / 1000
    assert best < 10e-6
