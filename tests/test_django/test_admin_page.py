"""The page for staff."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth.models import User
from django.http import HttpRequest
from django.urls import path
from pytest_django import Settings
from shipsilently_django import get_client
from shipsilently_django.admin_page import flags_page

from shipsilently_core.stores import FileStore
from shipsilently_core.testing import ScriptedService
from tests.core.running import running
from tests.core.support import setup

from .site import Browser, Urls

Configure = Callable[..., None]


@pytest.fixture(autouse=True)
def _site(settings: Settings, configure: Configure, service: ScriptedService) -> None:
    service.set(lambda context: {"x": context.get("userId") == "1", "text": "<script>"})
    settings.ROOT_URLCONF = Urls(path("flags/", flags_page), path("admin/", admin.site.urls))


@pytest.fixture
def staff(db: None) -> User:
    """Somebody who may see the admin."""
    return User.objects.create_superuser("root", "root@example.com", "demo", pk=1)


def test_staff_see_the_flags(browser: Browser, service: ScriptedService, staff: User) -> None:
    """Every flag with value, reason and source, what the service is told, and how it does."""
    browser.login(staff)
    page = browser.text("/flags/")
    assert "<th>x</th><td><code>true</code></td><td>default</td>" in page
    assert "&quot;&lt;script&gt;&quot;" in page
    assert "The service is told: userId." in page
    assert 'id="state">idle' in page
    assert "The service last answered 0 s ago" in page
    service.fail(503)
    assert "1 call made" in browser.text("/flags/")
    get_client().evaluate("x", {"userId": "9"}, False)
    assert "the last failure was <strong>server</strong> (503)" in browser.text("/flags/")


def test_the_store_and_the_age_of_values_are_shown(
    settings: Settings, browser: Browser, staff: User, tmp_path: Path
) -> None:
    """A page of a process that has only what an earlier one left, and what was shipped."""
    context = {"userId": "1"}
    store = FileStore(tmp_path / "flags.snapshot")
    with running({"x": True}, store=store) as run:
        run.client.flags(context).get("x")
    made = setup(store=store, bootstrap={"shipped": {"value": 1}})
    made.service.fail(503)
    made.clock.advance(180)
    settings.SHIPSILENTLY = {"CLIENT": made.client}
    browser.login(staff)
    page = browser.text("/flags/")
    assert "<td></td><td>cache, 3 min old</td>" in page
    assert "<td></td><td>bootstrap</td>" in page
    assert 'kept in a FileStore, which <span id="store">works</span>' in page


def test_another_user_can_be_chosen(browser: Browser, staff: User, bob: User) -> None:
    """The values are those of the user whose name is given."""
    browser.login(staff)
    assert "<th>x</th><td><code>false</code></td>" in browser.text("/flags/?user=bob")
    page = browser.text("/flags/?user=<eve>")
    assert "there is no user &#x27;&lt;eve&gt;&#x27;" in page
    assert "<th>x</th>" not in page


def test_others_see_nothing(browser: Browser, bob: User) -> None:
    """Whoever is not staff is sent to the login, and no service is asked."""
    for _ in range(2):
        response = browser.get("/flags/")
        assert response.status_code == 302
        assert response["Location"].startswith("/admin/login/")
        browser.login(bob)


def test_the_page_changes_nothing(browser: Browser, staff: User) -> None:
    """It can be read, and nothing can be sent to it."""
    browser.login(staff)
    assert browser.post("/flags/").status_code == 405


def test_a_hook_that_raises_is_told(browser: Browser, configure: Configure, staff: User) -> None:
    """The page shows the kind of error, and no secret."""

    def hook(request: HttpRequest) -> dict[str, Any]:
        raise LookupError("secret")

    configure(CONTEXT=hook)
    browser.login(staff)
    page = browser.text("/flags/")
    assert "could not be made (LookupError)" in page
    assert "secret" not in page


def test_a_site_that_asks_nobody_says_so(browser: Browser, settings: Settings, staff: User) -> None:
    """Offline the page shows the declared defaults, and that they are that."""
    settings.SHIPSILENTLY = {"API_KEY": "sk_test", "DEFAULTS": {"declared": 7}}
    browser.login(staff)
    page = browser.text("/flags/")
    assert "this site asks no service" in page
    assert "has not answered this process yet" in page
    assert "<th>declared</th><td><code>7</code></td>" in page
