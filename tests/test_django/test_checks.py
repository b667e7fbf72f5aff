"""What `manage.py check` says."""

from typing import Any

import pytest
from django.core.checks import CheckMessage, run_checks
from django.core.management import call_command
from django.http import HttpResponse
from django.template import engines
from django.urls import include, path, reverse_lazy
from django.utils.decorators import method_decorator
from django.views import View
from django.views.decorators.cache import never_cache
from pytest_django import Settings
from shipsilently_django import FlagsMiddleware, RequiresFlagMixin, flagged_path, requires_flag
from shipsilently_django.checks import check_targets

from shipsilently_core import ShipSilentlyClient
from shipsilently_core.signals import connection_state_changed
from shipsilently_core.testing import ScriptedService

from .site import Urls

AUTH = "django.contrib.auth.middleware.AuthenticationMiddleware"
SESSION = "django.contrib.sessions.middleware.SessionMiddleware"
OURS = "shipsilently_django.FlagsMiddleware"
RIGHT = {
    "API_KEY": "sk_test",
    "DEFAULTS": {"x": False},
    "ON_STATE_CHANGE": "tests.test_django.test_checks.on_state_change",
}
TEMPLATES: dict[str, Any] = {
    "BACKEND": "django.template.backends.django.DjangoTemplates",
    "APP_DIRS": True,
}


def on_state_change(state: object) -> None:
    """A hook that a setting names."""


class SitesOwn(FlagsMiddleware):
    """A site's own kind of the middleware."""


def ids(deploy: bool = False) -> list[str]:
    """The ids of what this package's checks find."""
    found: list[CheckMessage] = run_checks(tags=["shipsilently"], include_deployment_checks=deploy)
    assert all(message.hint or message.id == "shipsilently.E003" for message in found)
    return sorted(str(message.id).removeprefix("shipsilently.") for message in found)


def test_a_right_site_is_clean(settings: Settings) -> None:
    """Nothing is found where everything is as it should be."""
    settings.SHIPSILENTLY = RIGHT
    assert ids(deploy=True) == []
    call_command("check")


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ({"API_KEY": ""}, ["E001"]),
        ({**RIGHT, "TIMOUT": 1}, ["E002"]),
        ({**RIGHT, "TIMEOUT": 0}, ["E003"]),
        ({**RIGHT, "TIMEOUT": 0, "TIMOUT": 1}, ["E002", "E003"]),
    ],
)
def test_wrong_settings_are_errors(
    settings: Settings, given: dict[str, Any], found: list[str]
) -> None:
    """Each problem of the settings is an error of its own."""
    settings.SHIPSILENTLY = given
    assert ids() == found


@pytest.mark.parametrize(
    ("middleware", "found"),
    [
        ([SESSION, AUTH, OURS], []),
        ([SESSION, AUTH, "shipsilently_django.middleware.FlagsMiddleware"], []),
        ([SESSION, AUTH, "tests.test_django.test_checks.SitesOwn"], []),
        ([OURS], []),
        ([SESSION, AUTH], ["W001"]),
        ([SESSION, AUTH, "nowhere.Middleware"], ["W001"]),
        ([SESSION, OURS, AUTH], ["W002"]),
        ([SESSION, AUTH, OURS, OURS], ["W003"]),
        ([OURS, SESSION, AUTH, OURS], ["W002", "W003"]),
    ],
)
def test_the_middleware_has_its_place(
    settings: Settings, middleware: list[str], found: list[str]
) -> None:
    """It is warned of a middleware that is missing, too early, or there twice."""
    settings.SHIPSILENTLY = RIGHT
    settings.MIDDLEWARE = middleware
    assert ids() == found


class SessionsOfSomebodyElse:
    """A middleware that keeps sessions in a way of its own."""


@pytest.mark.parametrize(
    ("place", "middleware", "found"),
    [
        ("session", [SESSION, AUTH, OURS], []),
        ("session", [OURS], ["W005"]),
        ("session", ["tests.test_django.test_checks.SessionsOfSomebodyElse", OURS], []),
        ("cookie", [OURS], []),
        ("cookie", [SESSION, AUTH], ["W001", "W005"]),
        (None, [OURS], []),
    ],
)
def test_visitors_without_a_place_for_their_id_are_found(
    settings: Settings, place: str | None, middleware: list[str], found: list[str]
) -> None:
    """W005: ids are kept by the middleware of sessions, or by this package's own."""
    settings.SHIPSILENTLY = {**RIGHT, "ANONYMOUS_ID": place}
    settings.MIDDLEWARE = middleware
    assert ids() == found


@pytest.mark.parametrize(
    ("attributes", "found"),
    [
        (["email", "name:get_full_name", "staff:is_staff"], []),
        (["nope"], ["W006"]),
        (["a:nope", "b:nope.deeper"], ["W006", "W006"]),
        (["groups.count", "first:groups.first.name", "logentry_set.count"], []),
        (["id:pk", "joined:date_joined.year", "manager:groups.name"], []),
    ],
)
def test_attributes_that_users_do_not_have_are_found(
    settings: Settings, attributes: list[str], found: list[str]
) -> None:
    """W006: a misspelt attribute would be left out of each context without a word."""
    settings.SHIPSILENTLY = {**RIGHT, "ATTRIBUTES": attributes}
    assert ids() == found
    settings.SHIPSILENTLY = {**settings.SHIPSILENTLY, "CONTEXT": lambda request: {}}
    assert ids() == []


def page(request: object) -> HttpResponse:
    """A view."""
    return HttpResponse("page")


class Page(RequiresFlagMixin, View):
    """A class of views with the mixin."""

    required_flag = "x"
    flag_redirect_to = "lgoin"

    def get(self, request: object) -> None:
        """A page."""


class Methods(View):
    """A class of views one of whose methods is gated."""

    @method_decorator(requires_flag("x", redirect_to="lgoin"))
    def get(self, request: object) -> None:
        """A page."""


@requires_flag("x", redirect_to="lgoin")
class Decorated(View):
    """A class of views that is gated as a whole."""


GATED = {
    "function": path("", requires_flag("x", redirect_to="lgoin")(page)),
    "under another decorator": path("", never_cache(requires_flag("x", redirect_to="lgoin")(page))),
    "mixin": path("", Page.as_view()),
    "mixin, told later": path("", Page.as_view(flag_redirect_to="nwohere")),
    "method": path("", Methods.as_view()),
    "class": path("", Decorated.as_view()),
    "path": flagged_path("x", "", page, redirect_to="lgoin"),
    "include": flagged_path("x", "", include([path("", page)]), redirect_to="lgoin"),
    "included": path("a/", include([path("", requires_flag("x", redirect_to="lgoin")(page))])),
}


@pytest.mark.parametrize("pattern", GATED.values(), ids=GATED)
def test_a_gate_that_leads_nowhere_is_found(settings: Settings, pattern: Any) -> None:
    """W007: a misspelt URL's name would be an error once the flag is off."""
    settings.SHIPSILENTLY = RIGHT
    settings.ROOT_URLCONF = Urls(pattern)
    assert ids() == ["W007"]


@pytest.mark.parametrize(
    ("target", "found"),
    [
        ("login", []),
        ("/nowhere/", []),
        ("https://example.com/", []),
        ("user", ["W007"]),
        (None, []),
    ],
)
def test_a_gate_that_leads_somewhere_is_right(
    settings: Settings, target: str | None, found: list[str]
) -> None:
    """Names of URLs, paths and addresses; not a name whose URL needs arguments."""
    settings.SHIPSILENTLY = RIGHT
    settings.ROOT_URLCONF = Urls(
        path("", requires_flag("x", redirect_to=target)(page)),
        path("login/", page, name="login"),
        path("<name>/", page, name="user"),
    )
    assert ids() == found


@pytest.mark.parametrize(
    ("target", "written"),
    [(reverse_lazy("nope"), "reverse_lazy('nope')"), (Page.as_view(), "Page")],
    ids=["lazy", "view"],
)
def test_each_gate_is_looked_at_by_itself(settings: Settings, target: Any, written: str) -> None:
    """A target that is no text is told of as it is written, and hides no other."""
    right: Any = reverse_lazy("right")
    settings.SHIPSILENTLY = RIGHT
    settings.ROOT_URLCONF = Urls(
        path("a/", requires_flag("x", redirect_to="lgoin")(page)),
        path("b/", requires_flag("x", redirect_to=target)(page)),
        path("c/", requires_flag("x", redirect_to=right)(page)),
        path("right/", page, name="right"),
    )
    texts = [found.msg for found in check_targets()]
    assert len(texts) == 2
    assert any("redirect_to='lgoin'," in text for text in texts)
    assert any(f"redirect_to={written}," in text for text in texts)


def test_urls_that_cannot_be_loaded_are_djangos_to_tell(settings: Settings) -> None:
    """This package's checks say nothing of them."""
    settings.SHIPSILENTLY = RIGHT
    settings.ROOT_URLCONF = "there.is.no.such.module"
    assert ids() == []


@pytest.mark.parametrize(
    ("templates", "found"),
    [
        ([TEMPLATES], []),
        ([], []),
        ([{"BACKEND": "django.template.backends.jinja2.Jinja2"}], []),
        (
            [{**TEMPLATES, "OPTIONS": {"libraries": {"shipsilently": "django.templatetags.tz"}}}],
            ["W004"],
        ),
    ],
)
def test_another_library_of_that_name_is_found(
    settings: Settings, templates: list[Any], found: list[str]
) -> None:
    """It is warned where `{% load shipsilently %}` would load something else."""
    settings.SHIPSILENTLY = RIGHT
    settings.TEMPLATES = templates
    assert ids() == found


def test_tags_that_cannot_be_loaded_are_found(settings: Settings) -> None:
    """It is warned where the tags' library is not there at all."""
    settings.SHIPSILENTLY = RIGHT
    settings.TEMPLATES = [TEMPLATES]
    engine: Any = engines["django"]
    del engine.engine.libraries["shipsilently"]
    assert ids() == ["W004"]


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ({"DEFAULTS": {}}, ["W011"]),
        ({"ON_STATE_CHANGE": None}, ["W012"]),
        ({"API_URL": "http://127.0.0.1:4400"}, ["W013"]),
        ({"API_URL": "https://localhost"}, ["W013"]),
        ({"API_URL": "http://flags.example.com"}, ["W013"]),
        ({"API_URL": "https://flags.example.com"}, []),
        ({"API_KEY": ""}, ["E001"]),
    ],
)
def test_a_deployment_is_looked_at_more_closely(
    settings: Settings, change: dict[str, Any], found: list[str]
) -> None:
    """`check --deploy` warns of no defaults, nobody who is told, and a developer's address."""
    settings.SHIPSILENTLY = {**RIGHT, **change}
    assert ids(deploy=True) == found
    assert ids() == [one for one in found if one.startswith("E")]


def test_a_receiver_counts_as_somebody_who_is_told(settings: Settings) -> None:
    """A receiver of the signal is as good as the hook."""
    settings.SHIPSILENTLY = {**RIGHT, "ON_STATE_CHANGE": None}
    with connection_state_changed.connected_to(on_state_change):
        assert ids(deploy=True) == []


def test_a_client_of_the_sites_own_is_trusted(settings: Settings) -> None:
    """What CLIENT was made with is its maker's business."""
    client = ShipSilentlyClient(api_key="sk_test", transport=ScriptedService())
    settings.SHIPSILENTLY = {"CLIENT": client}
    assert ids(deploy=True) == []


STORED = {**RIGHT, "STORE": "django-cache:flags"}


def test_a_store_on_a_cache_that_does_not_exist_is_an_error(settings: Settings) -> None:
    """E005: it could never be used."""
    settings.SHIPSILENTLY = STORED
    assert ids() == ["E005"]
    settings.CACHES = {
        "default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"},
        "flags": {"BACKEND": "django.core.cache.backends.filebased.FileBasedCache"},
    }
    assert ids(deploy=True) == []


@pytest.mark.parametrize("backend", ["locmem.LocMemCache", "dummy.DummyCache"])
def test_a_store_that_ends_with_the_process_is_told_on_deployment(
    backend: str, settings: Settings
) -> None:
    """W014: it keeps nothing for the next process; while developing, that is fine."""
    settings.SHIPSILENTLY = STORED
    settings.CACHES = {
        "default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"},
        "flags": {"BACKEND": f"django.core.cache.backends.{backend}"},
    }
    assert ids() == []
    assert ids(deploy=True) == ["W014"]
