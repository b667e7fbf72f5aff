"""The debug toolbar's panel, and the flags that note what is read of them."""

import asyncio
import re
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from debug_toolbar.toolbar import DebugToolbar, debug_toolbar_urls
from django.http import HttpRequest, HttpResponse
from django.template import RequestContext, Template
from django.test import AsyncRequestFactory, RequestFactory
from django.urls import path
from pytest_django import Settings
from shipsilently_django import FlagsMiddleware, FlagsRequest, get_client
from shipsilently_django.panel import FlagsPanel
from shipsilently_django.recording import RecordedFlags, record, recorded

from shipsilently_core.testing import ManualClock, ScriptedService

from .site import Browser, Urls

Configure = Callable[..., None]


@pytest.fixture(autouse=True)
def _flags(configure: Configure, service: ScriptedService) -> None:
    service.set({"x": True, "text": "<b>", "unread": 1})


def panel_for(get_response: Any) -> Any:
    """A panel, with as much of a toolbar as it needs."""
    store = SimpleNamespace(save_panel=lambda *args: None)
    toolbar = SimpleNamespace(stats={}, server_timing_stats={}, store=store, request_id="1")
    return FlagsPanel(toolbar, get_response)


def view(request: FlagsRequest) -> HttpResponse:
    """Read in several ways."""
    source = '{% load shipsilently %}{% flag "x" %}on{% endflag %}'
    text = Template(source).render(RequestContext(request))
    assert "unread" in request.flags
    return HttpResponse(f"{text} {request.flags.get('text', '')} {request.flags.is_enabled('x')}")


def test_a_panel_shows_what_was_read() -> None:
    """Each flag that was read, with its value, its reads and their time; safe inside HTML."""
    panel = panel_for(FlagsMiddleware(view))
    request = RequestFactory().get("/")
    response = panel.process_request(request)
    assert response.content == b"on <b> True"
    panel.generate_stats(request, response)
    panel.generate_server_timing(request, response)
    stats = panel.get_stats()
    shown = {flag["key"]: (flag["value"], flag["source"], flag["reads"]) for flag in stats["flags"]}
    assert shown == {"text": ('"<b>"', "server", 1), "x": ("true", "server", 2)}
    assert stats["attempts"] == 1
    assert panel.nav_subtitle == "2 flags read"
    assert "&quot;&lt;b&gt;&quot;" in panel.content


def test_a_value_that_stands_in_is_shown_with_its_age(
    service: ScriptedService, clock: ManualClock
) -> None:
    """In an outage a flag is last known good, and so old."""
    get_client().evaluate_all({})
    service.fail(503)
    clock.advance(180)
    panel = panel_for(FlagsMiddleware(view))
    request = RequestFactory().get("/")
    panel.generate_stats(request, panel.process_request(request))
    assert {flag["source"] for flag in panel.get_stats()["flags"]} == {"cache, 3 min old"}


@pytest.fixture
def toolbar(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """The whole toolbar, with this panel alone, on a site with a plain and an async page."""

    def plain(request: FlagsRequest) -> HttpResponse:
        return HttpResponse(f"<body>{request.flags.is_enabled('x')}</body>")

    async def awaited(request: FlagsRequest) -> HttpResponse:
        return HttpResponse(f"<body>{await request.flags.ais_enabled('x')}</body>")

    def silent(request: FlagsRequest) -> HttpResponse:
        return HttpResponse("<body></body>")

    monkeypatch.setattr(DebugToolbar, "_panel_classes", None)
    settings.DEBUG = True
    settings.INTERNAL_IPS = ["127.0.0.1"]
    settings.DEBUG_TOOLBAR_PANELS = ["shipsilently_django.panel.FlagsPanel"]
    settings.MIDDLEWARE = [
        "debug_toolbar.middleware.DebugToolbarMiddleware",
        "shipsilently_django.FlagsMiddleware",
    ]
    settings.ROOT_URLCONF = Urls(
        path("plain/", plain),
        path("async/", awaited),
        path("silent/", silent),
        *debug_toolbar_urls(),
    )


@pytest.mark.usefixtures("toolbar")
@pytest.mark.parametrize("page", ["/plain/", "/async/"])
def test_the_toolbar_shows_the_panel(browser: Browser, page: str) -> None:
    """Plain and async pages have it at their edge, and the time of the reads in their headers."""
    response = browser.get(page)
    text = response.content.decode()
    assert "True" in text
    assert "1 flag read" in text
    assert re.search(
        r'FlagsPanel_flags;dur=[\d.]+;desc="1 flag read"', response.headers["Server-Timing"]
    )
    (request_id,) = re.findall(r'data-request-id="(\w+)"', text)
    asked = f"/__debug__/render_panel/?request_id={request_id}&panel_id=FlagsPanel"
    content = browser.get(asked).json()["content"]
    assert "<td><code>x</code></td><td><code>true</code></td><td>default</td>" in content
    assert "Calls to the service: 1." in content


@pytest.mark.usefixtures("toolbar")
def test_the_toolbar_reads_no_flag(browser: Browser, service: ScriptedService) -> None:
    """A page that reads none has a panel that says so, and nobody is asked."""
    assert "0 flags read" in browser.text("/silent/")
    assert not service.requests


def test_a_panel_of_a_page_without_flags_is_empty() -> None:
    """Nothing is asked for the panel's sake."""
    panel = panel_for(FlagsMiddleware(lambda request: HttpResponse("")))
    request = RequestFactory().get("/")
    panel.generate_stats(request, panel.process_request(request))
    assert panel.get_stats()["attempts"] == 0
    assert panel.nav_subtitle == "0 flags read"
    assert "has read no flag" in panel.content


def test_a_request_that_was_not_recorded_is_empty() -> None:
    """Where flags of another make are in the way, the panel shows none."""
    panel = panel_for(lambda request: HttpResponse(""))
    request = RequestFactory().get("/")
    panel.process_request(request)
    request.flags = None  # type: ignore[attr-defined]  # somebody else's
    panel.generate_stats(request, HttpResponse(""))
    assert panel.get_stats()["flags"] == []
    assert recorded(request) is None


def test_awaited_reads_are_noted(service: ScriptedService) -> None:
    """Under ASGI the panel works as well, and reads that fail are noted too."""

    async def async_view(request: FlagsRequest) -> HttpResponse:
        await request.flags.aevaluate_all()
        seen = [
            await request.flags.ais_enabled("x"),
            await request.flags.aget("text", ""),
            (await request.flags.adetail("x", False)).value,
        ]
        return HttpResponse(str(seen))

    async def run() -> list[Any]:
        request: Any = AsyncRequestFactory().get("/")
        panel = panel_for(FlagsMiddleware(async_view))
        response = await panel.process_request(request)
        panel.generate_stats(request, response)
        return [(flag["key"], flag["reads"]) for flag in panel.get_stats()["flags"]]

    assert asyncio.run(run()) == [("text", 1), ("x", 2)]


def test_recorded_flags_read_as_the_others_do() -> None:
    """What is recorded is not changed."""
    request: HttpRequest = RequestFactory().get("/")
    record(request)
    flags = recorded(request)
    assert isinstance(flags, RecordedFlags)
    assert flags.results() == []
    assert flags.context.body == b"{}"
    assert flags.detail("x", False).value is True
    assert set(flags.evaluate_all()) == {"x", "text", "unread"}
    ((result, seconds, reads),) = flags.results()
    assert (result.flag_key, reads) == ("x", 1)
    assert seconds > 0
