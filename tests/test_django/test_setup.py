"""The process's one client: made when first used, remade when settings change."""

import logging
import threading
from typing import Any

import pytest
from django.test import override_settings
from pytest_django import Settings
from shipsilently_django import get_client
from shipsilently_django.setup import get_setup

from shipsilently_core import ShipSilentlyClient
from shipsilently_core.testing import ScriptedService

from .site import READING, Browser


def make_client() -> ShipSilentlyClient:
    """A client that a setting names."""
    return ShipSilentlyClient(api_key="sk_test", transport=ScriptedService({"x": True}))


def test_there_is_one_client(settings: Settings) -> None:
    """Twenty threads that come first get the same client."""
    settings.SHIPSILENTLY = {"API_KEY": "sk_test"}
    clients: list[ShipSilentlyClient] = []
    threads = [threading.Thread(target=lambda: clients.append(get_client())) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(map(id, clients))) == 1


def test_changed_settings_make_a_new_client() -> None:
    """`override_settings` counts while it lasts, and the settings before it afterwards."""
    with override_settings(SHIPSILENTLY={"API_KEY": "sk_test", "DEFAULTS": {"x": 1}}):
        outer = get_client()
        with override_settings(SHIPSILENTLY={"API_KEY": "sk_test", "DEFAULTS": {"x": 2}}):
            assert get_client().get("x") == 2
        assert get_client() is not outer
        assert get_client().get("x") == 1
        with override_settings(TIME_ZONE="UTC"):
            assert get_client().get("x") == 1


def test_a_client_of_the_sites_own_is_used_and_not_closed(settings: Settings) -> None:
    """CLIENT may be an object: it is the site's to close."""
    client = make_client()
    settings.SHIPSILENTLY = {"CLIENT": client}
    assert get_client() is client
    settings.SHIPSILENTLY = {"API_KEY": "sk_test"}
    assert client.evaluate("x", None, False)


@pytest.mark.parametrize("given", [make_client, "tests.test_django.test_setup.make_client"])
def test_a_function_may_make_the_client(settings: Settings, given: Any) -> None:
    """CLIENT may be a function or its path: what it makes is closed when settings change."""
    settings.SHIPSILENTLY = {"CLIENT": given}
    client = get_client()
    assert client is get_client()
    assert client.evaluate("x", None, False)
    settings.SHIPSILENTLY = {"API_KEY": "sk_test"}
    assert client.evaluate_detail("x", {"userId": "new"}, False).error


@pytest.mark.parametrize(
    "given", [lambda: 1 / 0, lambda: "a client"], ids=["raises", "something else"]
)
def test_a_function_that_makes_no_client_costs_no_request(
    browser: Browser, settings: Settings, caplog: pytest.LogCaptureFixture, given: Any
) -> None:
    """Defaults are served, and the log says why."""
    settings.ROOT_URLCONF = __name__
    settings.SHIPSILENTLY = {"CLIENT": given}
    assert browser.text() == "False"
    assert "SHIPSILENTLY['CLIENT']" in caplog.text


urlpatterns: list[Any] = []


@pytest.fixture(autouse=True)
def _urls() -> None:
    from django.urls import path

    urlpatterns[:] = [path("", READING["sync"]), path("async/", READING["async"])]


@pytest.mark.parametrize("page", ["/", "/async/"])
@pytest.mark.parametrize(
    ("broken", "says"),
    [
        ({"API_KEY": ""}, "API_KEY"),
        ({"API_KEY": "sk_test", "API_URL": "nowhere"}, "API_URL"),
        ("sk_test", "must be a dictionary"),
    ],
    ids=["key", "address", "no dictionary"],
)
def test_a_broken_configuration_serves_defaults(
    browser: Browser,
    settings: Settings,
    caplog: pytest.LogCaptureFixture,
    page: str,
    broken: Any,
    says: str,
) -> None:
    """No request fails, nobody is asked, and one clear line says what to do."""
    settings.ROOT_URLCONF = __name__
    settings.SHIPSILENTLY = broken
    with caplog.at_level(logging.INFO, "shipsilently"):
        assert [browser.text(page), browser.text(page)] == ["False", "False"]
    lines = [record.getMessage() for record in caplog.records if record.name == "shipsilently"]
    assert len(lines) == 1
    assert says in lines[0]
    assert "manage.py check" in lines[0]


def test_declared_defaults_survive_a_broken_key(settings: Settings) -> None:
    """A site whose key is missing still has the defaults that it declares."""
    settings.SHIPSILENTLY = {"API_KEY": "", "DEFAULTS": {"x": True, "limit": 5}}
    flags = get_client().flags()
    assert flags.is_enabled("x")
    assert flags.get("limit", 0) == 0
    assert flags.get("limit") == 5


def test_wrong_defaults_and_a_broken_key_serve_nothing(settings: Settings) -> None:
    """Where both are wrong, nothing raises either."""
    settings.SHIPSILENTLY = {"API_KEY": "", "DEFAULTS": ["x"]}
    assert not get_client().flags().is_enabled("x")


def test_no_settings_at_all_are_no_exception(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """An app that was only just installed serves defaults, and its tests need no key."""
    monkeypatch.delenv("SHIPSILENTLY_API_KEY", raising=False)
    assert not hasattr(settings, "SHIPSILENTLY")
    assert not get_client().flags().is_enabled("x")
    assert not caplog.text


def test_tests_ask_no_service(settings: Settings) -> None:
    """While Django's tests run, the site's own client asks nobody, unless it is told to."""
    settings.SHIPSILENTLY = {"API_KEY": "sk_test", "API_URL": "http://127.0.0.1:9"}
    assert get_client().evaluator.closed
    settings.SHIPSILENTLY = {**settings.SHIPSILENTLY, "OFFLINE": False}
    assert not get_client().evaluator.closed
    settings.SHIPSILENTLY = {**settings.SHIPSILENTLY, "OFFLINE": True}
    assert get_client().evaluator.closed


def test_it_is_loud_only_in_debug(settings: Settings) -> None:
    """RAISE_IN_DEBUG has no effect in production."""
    settings.SHIPSILENTLY = {"API_KEY": "sk_test", "RAISE_IN_DEBUG": True}
    assert not get_setup().loud
    settings.DEBUG = True
    assert get_setup().loud
    settings.SHIPSILENTLY = {"API_KEY": "sk_test"}
    assert not get_setup().loud
