"""ASGI: what is evaluated before the view, and a server that tells of its start and its end."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.asgi import get_asgi_application
from django.http import HttpRequest, HttpResponse
from django.template import RequestContext, Template
from django.test import RequestFactory
from pytest_django import Settings
from shipsilently_django import FlagsMiddleware, FlagsRequest, get_client
from shipsilently_django.asgi import with_lifespan

from shipsilently_core.testing import ScriptedService
from shipsilently_local import LocalService

from .site import SILENT, Browser

Serve = Callable[..., None]
Configure = Callable[..., None]


async def view(request: FlagsRequest) -> HttpResponse:
    """Read and render without awaiting."""
    source = '{% load shipsilently %}{% flag "x" %}on{% else %}off{% endflag %}'
    rendered = Template(source).render(RequestContext(request))
    return HttpResponse(f"{request.flags.is_enabled('x')} {rendered}")


def test_prefetched_flags_need_no_await(
    serve: Serve, configure: Configure, settings: Settings, ada: User
) -> None:
    """With PREFETCH plain reads and templates in async views just work, in DEBUG as well."""
    configure(PREFETCH=True, RAISE_IN_DEBUG=True)
    settings.DEBUG = True
    serve(view)
    browser = Browser("asgi")
    browser.login(ada)
    assert browser.text() == "True on"


def test_paths_can_be_excluded(
    serve: Serve, configure: Configure, service: ScriptedService
) -> None:
    """On excluded paths nothing is prefetched."""
    configure(PREFETCH=True, EXCLUDE_PATHS=["/health"])
    serve(SILENT["async"], health=SILENT["async"], other=SILENT["async"])
    browser = Browser("asgi")
    browser.get("/health/")
    assert not service.requests
    browser.get("/other/")
    assert len(service.requests) == 1


def test_without_prefetch_nothing_is_asked(serve: Serve, service: ScriptedService) -> None:
    """By default a page that reads no flag asks for none."""
    serve(SILENT["async"])
    Browser("asgi").get()
    assert not service.requests


def test_prefetch_changes_nothing_under_wsgi(
    configure: Configure, service: ScriptedService
) -> None:
    """There plain reads wait for themselves."""
    configure(PREFETCH=True)
    FlagsMiddleware(lambda request: HttpResponse(""))(RequestFactory().get("/"))
    assert not service.requests


async def live(application: Any, between: Callable[[], object]) -> list[str]:
    """What an application answers to a server that starts, does something, and ends."""
    answers: list[str] = []
    messages = iter(["lifespan.startup", "lifespan.shutdown"])

    async def receive() -> dict[str, str]:
        if answers:
            await asyncio.to_thread(between)
        return {"type": next(messages)}

    async def send(message: Any) -> None:
        answers.append(message["type"])

    await application({"type": "lifespan"}, receive, send)
    return answers


COMPLETE = ["lifespan.startup.complete", "lifespan.shutdown.complete"]


def test_the_client_lives_as_long_as_the_server(settings: Settings) -> None:
    """It streams before the first request, and is gone when the server has ended."""
    seen: list[Any] = []
    with LocalService({"x": True}) as service:
        settings.SHIPSILENTLY = {
            "API_KEY": service.key,
            "API_URL": service.url,
            "OFFLINE": False,
        }

        def look() -> None:
            client = get_client()
            assert service.wait_for_streams(1, 20)
            assert client.wait_ready(5)
            seen.append((client, client.get("x", False)))

        assert asyncio.run(live(with_lifespan(get_asgi_application()), look)) == COMPLETE
        assert service.wait_for_streams(0)
    ((client, value),) = seen
    assert value is True
    assert get_client() is not client


@pytest.mark.parametrize("broken", [{"API_KEY": ""}, {"API_KEY": "sk_test", "OFFLINE": True}])
def test_a_server_starts_whatever_the_settings_are(settings: Settings, broken: Any) -> None:
    """Broken settings and being offline keep no server from starting."""
    settings.SHIPSILENTLY = broken
    assert asyncio.run(live(with_lifespan(get_asgi_application()), lambda: None)) == COMPLETE


def test_a_server_starts_at_once_while_the_service_hangs(settings: Settings) -> None:
    """Nobody waits for the service when the server starts, and the end is quick as well."""
    with LocalService({"x": True}) as service:
        service.fault("*", silence=True)
        settings.SHIPSILENTLY = {
            "API_KEY": service.key,
            "API_URL": service.url,
            "OFFLINE": False,
            "TIMEOUT": 30,
        }

        async def timed() -> float:
            loop = asyncio.get_running_loop()
            began = loop.time()
            await live(with_lifespan(get_asgi_application()), lambda: None)
            return loop.time() - began

        assert asyncio.run(timed()) < 10


def test_a_client_of_the_sites_own_is_not_closed(
    configure: Configure, service: ScriptedService
) -> None:
    """What the site has made it closes itself."""
    asyncio.run(live(with_lifespan(get_asgi_application()), lambda: None))
    client = get_client()
    assert client.evaluate("x", None, False)
    client.close()


def test_requests_pass_through(serve: Serve) -> None:
    """Everything but lifespan is Django's."""
    calls: list[str] = []

    async def application(scope: Any, receive: Any, send: Any) -> None:
        calls.append(scope["type"])

    asyncio.run(with_lifespan(application)({"type": "http"}, None, None))
    assert calls == ["http"]


def test_the_request_type_names_the_flags(serve: Serve) -> None:
    """`FlagsRequest` is for annotations: it is Django's request with `flags`."""
    assert issubclass(FlagsRequest, HttpRequest)
    assert "flags" in FlagsRequest.__annotations__
