"""The request being handled, for code that does not have it at hand."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from django.test import RequestFactory
from pytest_django import Settings
from shipsilently_django import aflag_enabled, flag_enabled
from shipsilently_django.current import get_request

from shipsilently_core.testing import ScriptedService

from .site import Browser

Serve = Callable[..., None]
Configure = Callable[..., None]


def plain(request: HttpRequest) -> HttpResponse:
    """Read without naming the request."""
    return HttpResponse(str(flag_enabled("x")))


async def awaited(request: HttpRequest) -> HttpResponse:
    """Read without naming the request."""
    return HttpResponse(str(await aflag_enabled("x")))


@pytest.mark.parametrize("view", [plain, awaited], ids=["sync", "async"])
def test_the_request_need_not_be_named(
    browser: Browser, serve: Serve, service: ScriptedService, ada: User, view: Any
) -> None:
    """Plain functions see the flags of the request that is being handled."""
    service.set(lambda context: {"x": context.get("userId") == str(ada.pk)})
    serve(view)
    assert browser.text() == "False"
    browser.login(ada)
    assert browser.text() == "True"


def test_the_request_may_be_named(configure: Configure) -> None:
    """A request given wins over the one being handled."""
    assert flag_enabled("x", RequestFactory().get("/"))
    assert asyncio.run(aflag_enabled("x", RequestFactory().get("/")))


def test_outside_of_a_request_the_default_is_served(settings: Settings) -> None:
    """In a shell or a command it is the declared default, else off; nothing raises."""
    settings.SHIPSILENTLY = {"API_KEY": "sk_test", "DEFAULTS": {"declared": True}}
    assert not flag_enabled("x")
    assert flag_enabled("declared")
    assert asyncio.run(aflag_enabled("declared"))


def test_nothing_is_left_after_a_request(browser: Browser, serve: Serve) -> None:
    """After the response, and after an exception, no request is being handled."""

    def failing(request: HttpRequest) -> HttpResponse:
        raise ZeroDivisionError

    serve(plain, failing=failing)
    browser.get()
    assert get_request() is None
    with pytest.raises(ZeroDivisionError):
        browser.get("/failing/")
    assert get_request() is None


def test_threads_and_tasks(serve: Serve, service: ScriptedService, settings: Settings) -> None:
    """What copies the context sees the request; a bare thread sees none, and no other's."""

    async def view(request: HttpRequest) -> HttpResponse:
        await aflag_enabled("x")
        with ThreadPoolExecutor(1) as pool:
            loop = asyncio.get_running_loop()
            bare = await loop.run_in_executor(pool, get_request)
        seen = [
            await sync_to_async(flag_enabled)("x"),
            await asyncio.to_thread(flag_enabled, "x"),
            await asyncio.create_task(aflag_enabled("x")),
        ]
        return HttpResponse(f"{seen} {bare}")

    serve(view)
    assert Browser("asgi").text() == "[True, True, True] None"


def test_two_requests_at_once_do_not_mix(serve: Serve, service: ScriptedService) -> None:
    """Twenty tasks handle requests of two users at once; each sees its own."""
    from django.test import AsyncClient

    async def view(request: HttpRequest) -> HttpResponse:
        await asyncio.sleep(0)
        current = get_request()
        await asyncio.sleep(0.001)
        return HttpResponse(str(current is get_request() is request))

    async def run() -> set[bytes]:
        answers = await asyncio.gather(*(AsyncClient().get("/") for _ in range(20)))
        return {answer.content for answer in answers}

    serve(view)
    assert asyncio.run(run()) == {b"True"}


def sync_only(get_response: Any) -> Any:
    """A middleware that knows no async, so that Django moves what is around it into threads."""

    def middleware(request: HttpRequest) -> Any:
        return get_response(request)

    return middleware


@pytest.mark.parametrize("place", [0, 1, None], ids=["before", "after", "without"])
@pytest.mark.parametrize("view", [plain, awaited], ids=["sync", "async"])
def test_hops_between_threads_raise_nothing(
    browser: Browser, serve: Serve, settings: Settings, place: int | None, view: Any
) -> None:
    """With a plain middleware before or after ours the request is seen, and gone afterwards."""
    ours = "shipsilently_django.FlagsMiddleware"
    settings.MIDDLEWARE = [ours]
    if place is not None:
        settings.MIDDLEWARE.insert(place, "tests.test_django.test_current.sync_only")
    serve(view)
    assert browser.text() == browser.text() == "True"
    assert get_request() is None


def test_bare_threads_get_the_default(serve: Serve) -> None:
    """A thread that a view starts by itself is outside of the request: default, no exception."""
    seen: list[bool] = []

    def view(request: HttpRequest) -> HttpResponse:
        flag_enabled("x")
        thread = threading.Thread(target=lambda: seen.append(get_request() is None))
        thread.start()
        thread.join()
        return HttpResponse("")

    serve(view)
    Browser("wsgi").get()
    assert seen == [True]
