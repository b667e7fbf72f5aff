"""A stable id for visitors, and what it costs those who need none."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.contrib.sessions.backends.signed_cookies import SessionStore
from django.http import HttpRequest
from django.test import RequestFactory
from pytest_django import Settings
from shipsilently_django import adefault_context, default_context, visitors
from shipsilently_django.visitors import COOKIE

from shipsilently_core.testing import ScriptedService

from .site import READING, SILENT, Browser, View
from .test_users import contexts

Serve = Callable[..., None]
Configure = Callable[..., None]


@pytest.mark.django_db
@pytest.mark.parametrize("kept_in", ["cookie", "session"])
@pytest.mark.parametrize("view", READING.values(), ids=READING)
def test_a_visitor_keeps_an_id(
    browser: Browser,
    serve: Serve,
    configure: Configure,
    service: ScriptedService,
    kept_in: str,
    view: View,
) -> None:
    """Two visits of one browser are one visitor; another browser is another."""
    configure(ANONYMOUS_ID=kept_in)
    serve(view)
    browser.get()
    browser.get()
    Browser(browser.server).get()
    first, second = contexts(service)
    assert first["anonymous"] is second["anonymous"] is True
    assert first["userId"].startswith("visitor-")
    assert first["userId"] != second["userId"]


@pytest.mark.django_db
@pytest.mark.parametrize("kept_in", ["cookie", "session"])
@pytest.mark.parametrize("view", SILENT.values(), ids=SILENT)
def test_without_a_flag_there_is_no_id(
    browser: Browser, serve: Serve, configure: Configure, kept_in: str, view: View
) -> None:
    """No cookie is set, and no session made, by a page that reads no flag."""
    configure(ANONYMOUS_ID=kept_in)
    serve(view)
    response = browser.get()
    assert not response.cookies
    assert "Vary" not in response


@pytest.mark.parametrize("secure", [True, False])
def test_the_cookie_is_guarded(
    browser: Browser, serve: Serve, configure: Configure, settings: Settings, secure: bool
) -> None:
    """It is signed, HttpOnly, SameSite, Secure under HTTPS, and pages vary by it."""
    configure(ANONYMOUS_ID="cookie")
    settings.SECURE_PROXY_SSL_HEADER = ("HTTP_X_PROTO", "https")
    serve(READING["sync"])
    headers: dict[str, Any] = {"headers": {"x-proto": "https"}} if secure else {}
    response = browser.get(**headers)
    cookie = response.cookies[COOKIE]
    assert cookie["httponly"] is True
    assert cookie["samesite"] == "Lax"
    assert bool(cookie["secure"]) is secure
    assert ":" in cookie.value
    assert "Cookie" in response["Vary"]


def test_a_forged_cookie_is_replaced(
    browser: Browser, serve: Serve, configure: Configure, service: ScriptedService
) -> None:
    """An id that was not signed here is not taken over."""
    configure(ANONYMOUS_ID="cookie")
    serve(READING["sync"])
    browser.cookies[COOKIE] = "visitor-of-somebody:forged"
    response = browser.get()
    assert COOKIE in response.cookies
    assert contexts(service)[0]["userId"] != "visitor-of-somebody"


def test_a_known_cookie_is_not_set_again(
    browser: Browser, serve: Serve, configure: Configure
) -> None:
    """The second response sets no cookie, and still varies by it."""
    configure(ANONYMOUS_ID="cookie")
    serve(READING["sync"])
    browser.get()
    response = browser.get()
    assert not response.cookies
    assert "Cookie" in response["Vary"]


def test_a_user_needs_no_id(
    browser: Browser, serve: Serve, configure: Configure, service: ScriptedService, ada: User
) -> None:
    """Who is logged in is known by the account, and gets no cookie."""
    configure(ANONYMOUS_ID="cookie")
    serve(READING["async"])
    browser.login(ada)
    assert COOKIE not in browser.get().cookies
    assert contexts(service) == [{"userId": str(ada.pk)}]


def test_one_request_is_one_visitor(configure: Configure) -> None:
    """However often the context is made, a new visitor gets one id."""
    configure(ANONYMOUS_ID="cookie")
    request = RequestFactory().get("/")
    assert default_context(request) == default_context(request)


@pytest.mark.parametrize("kept_in", ["cookie", "session"])
def test_threads_of_one_request_are_one_visitor(
    configure: Configure, monkeypatch: pytest.MonkeyPatch, kept_in: str
) -> None:
    """Of two threads that find no id at the same time, both get the one that is kept."""
    configure(ANONYMOUS_ID=kept_in)
    request = RequestFactory().get("/")
    request.session = SessionStore()
    make, found = visitors._new_id, []

    def amid() -> str:
        made = make()
        monkeypatch.undo()
        other = threading.Thread(target=lambda: found.append(default_context(request)))
        other.start()
        other.join()
        return made

    monkeypatch.setattr(visitors, "_new_id", amid)
    found.append(default_context(request))
    assert found[0] == found[1] == default_context(request)


async def test_tasks_of_one_request_are_one_visitor(configure: Configure) -> None:
    """So do two tasks, of which each looks into the session before the other has kept one."""

    class Slow(SessionStore):
        async def aget(self, key: str, default: Any = None) -> Any:
            found = await super().aget(key, default)
            await asyncio.sleep(0)
            return found

    configure(ANONYMOUS_ID="session")
    request = RequestFactory().get("/")
    request.session = Slow()
    one, other = await asyncio.gather(adefault_context(request), adefault_context(request))
    assert one == other == await adefault_context(request)


def test_without_sessions_there_is_none_in_them(configure: Configure) -> None:
    """Where the site has no sessions, a visitor is nobody, and nothing raises."""
    configure(ANONYMOUS_ID="session")
    request: HttpRequest = RequestFactory().get("/")
    assert default_context(request) == {}
