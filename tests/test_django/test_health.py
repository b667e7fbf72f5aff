"""The page for monitoring."""

from collections.abc import Callable

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import path
from pytest_django import Settings
from shipsilently_django import get_client
from shipsilently_django.health import health

from shipsilently_core.testing import ScriptedService

from .site import Browser, Urls

Serve = Callable[..., None]


def test_it_tells_how_the_client_is(
    browser: Browser, serve: Serve, service: ScriptedService
) -> None:
    """What was asked, what failed and what is held, with what is served, never from a cache."""
    serve(health)
    before = browser.get()
    assert (before.status_code, before.json()["attempts"]) == (200, 0)
    assert (before.json()["serving"], before.json()["settings_errors"]) == ("nothing_yet", [])
    assert "no-store" in before["Cache-Control"]
    service.fail(503)
    get_client().evaluate("x", {"userId": "secret of ada"}, False)
    after = browser.get()
    assert (after.status_code, after.json()["serving"]) == (503, "defaults")
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
    """A key that is missing is no idle process: only defaults are left, and the page says why."""
    serve(health)
    settings.SHIPSILENTLY = {"API_KEY": ""}
    told = browser.get()
    assert (told.status_code, told.json()["serving"]) == (503, "defaults")
    assert told.json()["ready"] is False
    (error,) = told.json()["settings_errors"]
    assert error["kind"] == "shipsilently.E001"
    assert error["message"].startswith("SHIPSILENTLY['API_KEY'] is empty")


def test_it_answers_200_while_values_are_served(
    browser: Browser, serve: Serve, configure: Serve, service: ScriptedService
) -> None:
    """During an outage with values known, and with a wrong setting that costs none of them."""
    serve(health)
    configure(PREFETCH="yes")
    get_client().evaluate_all({"userId": "1"})
    service.fail(503)
    get_client().evaluate_all({"userId": "2"})
    told = browser.get()
    assert (told.status_code, told.json()["serving"]) == (200, "values")
    assert told.json()["settings_errors"] == [
        {"kind": "shipsilently.E003", "message": "SHIPSILENTLY['PREFETCH'] must be True or False"}
    ]


@pytest.mark.parametrize("given", [{"OFFLINE": True}, {}])
def test_a_site_that_is_to_ask_nobody_is_well(
    browser: Browser, serve: Serve, settings: Settings, given: dict[str, object]
) -> None:
    """Told to serve defaults, or in its tests, it does what it should."""
    serve(health)
    settings.SHIPSILENTLY = {"API_KEY": "sk_test", **given}
    told = browser.get()
    assert (told.status_code, told.json()["serving"]) == (200, "defaults")


def test_the_status_without_values_can_be_chosen(
    browser: Browser, settings: Settings, serve: Serve
) -> None:
    """A site that is fine with its defaults says so where it has the page."""
    settings.ROOT_URLCONF = Urls(path("", health, {"unavailable": 200}))
    settings.SHIPSILENTLY = {"API_KEY": ""}
    told = browser.get()
    assert (told.status_code, told.json()["serving"]) == (200, "defaults")


@pytest.mark.parametrize(
    ("given", "message"),
    [(lambda: 1 / 0, "raised ZeroDivisionError"), (lambda: "x", "made no ShipSilentlyClient")],
    ids=["raises", "something else"],
)
def test_a_client_that_cannot_be_made_is_told(
    browser: Browser, serve: Serve, settings: Settings, given: object, message: str
) -> None:
    """What CLIENT failed with is on the page."""
    serve(health)
    settings.SHIPSILENTLY = {"CLIENT": given}
    told = browser.get()
    assert told.status_code == 503
    assert told.json()["settings_errors"][0]["message"].endswith(message)
