"""The page for monitoring."""

from collections.abc import Callable

from django.contrib.auth.models import User
from django.db import connection
from django.test.utils import CaptureQueriesContext
from pytest_django import Settings
from shipsilently_django import get_client
from shipsilently_django.health import health

from shipsilently_core.testing import ScriptedService

from .site import Browser

Serve = Callable[..., None]


def test_it_tells_how_the_client_is(
    browser: Browser, serve: Serve, service: ScriptedService
) -> None:
    """What was asked, what failed and what is held, always with 200 and never from a cache."""
    serve(health)
    before = browser.get()
    assert (before.status_code, before.json()["attempts"]) == (200, 0)
    assert "no-store" in before["Cache-Control"]
    service.fail(503)
    get_client().evaluate("x", {"userId": "secret of ada"}, False)
    after = browser.get()
    assert after.status_code == 200
    assert after.json()["failures"] == {"server": 1}
    assert "secret" not in after.content.decode()
    assert "sk_test" not in after.content.decode()


def test_it_costs_nothing(
    browser: Browser, serve: Serve, service: ScriptedService, ada: User
) -> None:
    """No query, no session, no call to the service; and only reading is allowed."""
    serve(health)
    browser.login(ada)
    with CaptureQueriesContext(connection) as queries:
        response = browser.get()
    assert not queries
    assert "Vary" not in response
    assert not service.requests
    assert browser.post("/").status_code == 405


def test_it_is_open_where_a_site_asks_for_logins(
    browser: Browser, serve: Serve, settings: Settings
) -> None:
    """Monitoring has no account."""
    settings.MIDDLEWARE = [
        *settings.MIDDLEWARE,
        "django.contrib.auth.middleware.LoginRequiredMiddleware",
    ]
    serve(health)
    assert browser.get().status_code == 200


def test_it_answers_with_broken_settings(
    browser: Browser, serve: Serve, settings: Settings
) -> None:
    """A site that asks no service has a status too."""
    serve(health)
    settings.SHIPSILENTLY = {"API_KEY": ""}
    assert browser.get().json()["ready"] is False
