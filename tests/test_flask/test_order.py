"""A gate above the route guards nothing; that is found, and only that."""

import functools
import gc
from collections.abc import Callable
from typing import Any

import pytest
from flask import Blueprint, Flask
from shipsilently_flask import requires_flag

from shipsilently_core import ConfigurationError
from shipsilently_core.testing import ScriptedService

from .apps import make_app


@pytest.fixture
def app() -> Flask:
    """An app whose flag is on, so that only a wrong order can stop a request."""
    return make_app(ScriptedService({"x": True}))


def logged(view: Callable[..., Any]) -> Callable[..., Any]:
    """A decorator of somebody else's."""

    @functools.wraps(view)
    def serve(*args: Any, **kwargs: Any) -> Any:
        return view(*args, **kwargs)

    return serve


def is_refused(app: Flask) -> bool:
    """Whether requests fail for the order of decorators; twice, as the error must stay."""
    app.testing = app.config["PROPAGATE_EXCEPTIONS"] = False
    app.logger.disabled = True
    first, second = (app.test_client().get("/").status_code == 500 for _ in range(2))
    assert first is second
    return first


def test_a_gate_below_the_route_is_right(app: Flask) -> None:
    """The order of the manual is served."""

    @app.get("/")
    @requires_flag("x")
    def page() -> str:
        return "page"

    assert app.test_client().get("/").text == "page"
    assert not is_refused(app)


def test_a_gate_above_the_route_is_refused(app: Flask) -> None:
    """The other order would show the page to all: no request is served, and one learns why."""

    @requires_flag("x")
    @app.get("/")
    def page() -> str:
        return "page"

    with pytest.raises(ConfigurationError, match=r"route of the endpoint 'page'.*below it"):
        app.test_client().get("/")
    assert is_refused(app)


def test_a_second_gate_above_the_route_is_refused(app: Flask) -> None:
    """Of two gates with the route between them only one would guard the page."""

    @requires_flag("!x")
    @app.get("/")
    @requires_flag("x")
    def page() -> str:
        return "page"

    assert is_refused(app)


def test_a_gated_view_that_nobody_kept_was_not_routed_to(app: Flask) -> None:
    """The mistake is found in a factory, too, where nothing else refers to the gated view."""

    def page() -> str:
        return "page"

    app.add_url_rule("/", "page", page)
    requires_flag("x")(page)
    gc.collect()
    assert is_refused(app)


def test_a_gate_above_a_blueprints_route_is_refused(app: Flask) -> None:
    """Views of blueprints are looked at as well, also async ones."""
    blueprint = Blueprint("b", __name__)

    @requires_flag("x")
    @blueprint.get("/page")
    async def page() -> str:
        return "page"

    app.register_blueprint(blueprint)
    assert is_refused(app)


def test_a_gate_under_another_decorator_is_right(app: Flask) -> None:
    """Decorators of others above the gate do not hide it."""

    @app.get("/")
    @logged
    @requires_flag("x")
    def page() -> str:
        return "page"

    assert not is_refused(app)


def test_a_gate_above_route_and_decorator_is_refused(app: Flask) -> None:
    """Decorators of others below the route do not hide the mistake."""

    @requires_flag("x")
    @app.get("/")
    @logged
    def page() -> str:
        return "page"

    assert is_refused(app)


def open_page() -> str:
    """A view that the module's users know by its name."""
    return "page"


def test_a_view_that_is_gated_in_another_app_is_nobodys_mistake(app: Flask) -> None:
    """What another app made of a view of a module says nothing about this app."""
    make_app().add_url_rule("/", "page", requires_flag("x")(open_page))
    gc.collect()
    app.add_url_rule("/", "page", open_page)
    assert not is_refused(app)


def test_one_view_may_be_routed_to_with_and_without_a_gate(app: Flask) -> None:
    """A view that is open at one address and gated at another is nobody's mistake."""

    def page() -> str:
        return "page"

    app.add_url_rule("/", "open", page)
    app.add_url_rule("/gated", "gated", requires_flag("x")(page))
    assert not is_refused(app)
