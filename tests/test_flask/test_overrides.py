"""Flags that a test sets: seen through every door of an app, and gone afterwards."""

import asyncio
import unittest
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from flask import Flask, copy_current_request_context, render_template_string
from shipsilently_flask import flags, override_flags, requires_flag

from shipsilently_core.testing import ScriptedService

from .apps import in_thread, make_app

#: What every door says while the flag `x` is on.
ON = {
    "view": "True",
    "async": "True",
    "gate": "200",
    "async gate": "200",
    "template": "tag test True",
    "thread": "True",
    "all": "True",
}
OFF = {
    "view": "False",
    "async": "False",
    "gate": "404",
    "async gate": "404",
    "template": "- - False",
    "thread": "False",
    "all": "False",
}
TEMPLATE = (
    '{% flag "x" %}tag{% else %}-{% endflag %} '
    '{% if "x" is active_flag %}test{% else %}-{% endif %} {{ flag("x", false) }}'
)


@pytest.fixture
def app() -> Flask:
    """An app with a view for each door, whose service says that `x` is off."""
    app = make_app(ScriptedService({"x": False}))

    async def asynchronous() -> str:
        return str(await flags.ais_enabled("x"))

    async def gated() -> str:
        return "200"

    def threaded() -> str:
        return str(in_thread(copy_current_request_context(lambda: flags.is_enabled("x"))))

    views: dict[str, Callable[[], Any]] = {
        "view": lambda: str(flags.is_enabled("x")),
        "async": asynchronous,
        "gate": requires_flag("x")(lambda: "200"),
        "async gate": requires_flag("x")(gated),
        "template": lambda: render_template_string(TEMPLATE),
        "thread": threaded,
        "all": lambda: str(flags.evaluate_all()["x"].value),
    }
    for name, view in views.items():
        app.add_url_rule(f"/{name}", name, view)
    app.register_error_handler(404, lambda error: ("404", 404))
    return app


def look(app: Flask) -> dict[str, str]:
    """What every door says."""
    client = app.test_client()
    return {name: client.get(f"/{name}").text for name in ON}


def test_an_override_wins_in_every_door_and_is_gone_afterwards(app: Flask) -> None:
    """Views, gates, templates and threads see the override, also with a warm cache."""
    assert look(app) == OFF
    with override_flags({"x": True}):
        assert look(app) == ON
    assert look(app) == OFF


def test_overrides_nest_and_survive_errors(app: Flask) -> None:
    """The innermost override counts, and an error in its block takes it away, too."""
    with override_flags(x=True):
        with override_flags(x=False):
            assert look(app) == OFF
        with pytest.raises(LookupError), override_flags(x=False):
            raise LookupError
        assert look(app) == ON
    assert look(app) == OFF


@override_flags(x=True)
def test_a_decorated_test_sees_them(app: Flask) -> None:
    """A decorator sets flags for one test."""
    assert look(app) == ON


@override_flags(x=True)
async def test_a_decorated_async_test_sees_them(app: Flask) -> None:
    """A decorator sets flags for an async test."""
    assert await asyncio.to_thread(look, app) == ON


@override_flags(x=True)
class TestClass:
    """A decorated class of pytest."""

    def test_all_of_its_tests_see_them(self, app: Flask) -> None:
        """Each test of a decorated class has the flags."""
        assert look(app) == ON


@pytest.mark.flags(x=True)
def test_a_marked_test_sees_them(app: Flask) -> None:
    """The pytest plugin's mark sets flags for every door of an app."""
    assert look(app) == ON


@pytest.mark.flags(x=True)
async def test_a_marked_async_test_sees_them(app: Flask) -> None:
    """The mark sets flags for an async test, in the thread that serves the app, too."""
    assert await asyncio.to_thread(look, app) == ON


def test_the_fixture_of_pytest_changes_flags_between_requests(
    app: Flask, request: pytest.FixtureRequest
) -> None:
    """The plugin's fixture `flags` sets and changes a flag that a test client then sees."""
    of_test = request.getfixturevalue("flags")
    for value, doors in ((True, ON), (False, OFF)):
        of_test["x"] = value
        assert look(app) == doors


def test_a_client_that_keeps_its_context_sees_the_requests_flags(app: Flask) -> None:
    """Inside `with app.test_client()` the test reads what the request has read."""
    with override_flags(x=True), app.test_client() as client:
        assert client.get("/view").text == "True"
        assert flags.is_enabled("x") is True


def test_many_threads_of_requests_see_one_override(app: Flask) -> None:
    """Requests that are served in threads of their own all see the override, and none later."""
    with ThreadPoolExecutor(8) as pool:
        with override_flags(x=True):
            during = list(pool.map(lambda _: look(app), range(16)))
        after = list(pool.map(lambda _: look(app), range(16)))
    assert during == [ON] * 16
    assert after == [OFF] * 16


def test_nothing_is_left_by_other_tests(app: Flask) -> None:
    """In any order of tests, one without overrides has none."""
    assert look(app) == OFF


def test_an_override_needs_no_service() -> None:
    """A test that sets all the flags it reads never asks the service."""
    service = ScriptedService()
    app = make_app(service)
    app.add_url_rule("/", "page", requires_flag("x")(lambda: flags.get("color", "")))
    with override_flags({"x": True, "color": "blue"}):
        assert app.test_client().get("/").text == "blue"
    assert service.requests == []


def test_an_override_within_a_request_counts_at_once(app: Flask) -> None:
    """A test that holds a request open may change flags under it."""
    with app.test_request_context():
        before = flags.is_enabled("x")
        with override_flags(x=True):
            during = flags.is_enabled("x")
        assert (before, during, flags.is_enabled("x")) == (False, True, False)


def test_unittest_classes_can_be_decorated() -> None:
    """A `TestCase` has the flags in its fixtures and its tests."""
    seen: list[Any] = []

    @override_flags(x=True)
    class Case(unittest.TestCase):
        def setUp(self) -> None:
            self.app = make_app(ScriptedService({"x": False}))

        def runTest(self) -> None:
            with self.app.test_request_context():
                seen.append(flags.is_enabled("x"))

    result = Case().run()
    assert result is not None
    assert result.wasSuccessful()
    assert seen == [True]
