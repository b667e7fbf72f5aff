"""A gate that leads nowhere is found while nobody is refused yet."""

import functools
from collections.abc import Callable
from typing import Any

import pytest
from flask import Blueprint, Flask
from flask.views import MethodView
from shipsilently_flask import requires_flag
from shipsilently_flask.gates import gate
from shipsilently_flask.lost import wrong_targets

from .apps import make_app


@pytest.fixture
def app() -> Flask:
    """An app with the extension."""
    return make_app()


def lost(app: Flask) -> list[str]:
    """Where the gates are that lead nowhere."""
    return [text.split("'")[1] for text in wrong_targets(app)]


def page() -> str:
    """A view."""
    return "page"


def logged(view: Callable[..., Any]) -> Callable[..., Any]:
    """A decorator of somebody else's."""

    @functools.wraps(view)
    def serve(*args: Any, **kwargs: Any) -> Any:
        return view(*args, **kwargs)

    return serve


@pytest.mark.parametrize(
    ("target", "found"),
    [
        ("login", []),
        ("/login", []),
        ("https://example.com/login", []),
        ("lgoin", ["gated"]),
        ("user", ["gated"]),
        ("b.login", []),
        (".login", []),
        ("b.lgoin", ["gated"]),
    ],
)
def test_a_target_that_has_no_address_is_found(app: Flask, target: str, found: list[str]) -> None:
    """An endpoint that is not there, or whose address needs values, would be a 500 later."""
    blueprint = Blueprint("b", __name__)
    blueprint.add_url_rule("/b/login", "login", page)
    app.register_blueprint(blueprint)
    app.add_url_rule("/login", "login", page)
    app.add_url_rule("/user/<name>", "user", page)
    app.add_url_rule("/", "gated", logged(requires_flag("x", redirect_to=target)(page)))
    assert lost(app) == found


def test_each_kind_of_gate_is_looked_at(app: Flask) -> None:
    """Gates of blueprints, of the app, of classes and of their methods are."""
    blueprint = Blueprint("b", __name__)
    gate(blueprint, "x", redirect_to=".lgoin")

    class Page(MethodView):
        decorators = [requires_flag("x", redirect_to="lgoin")]  # noqa: RUF012  # as the manual does

        @requires_flag("x", redirect_to="lgoin")
        def get(self) -> str:
            return "page"

    blueprint.add_url_rule("/page", view_func=Page.as_view("page"))
    app.register_blueprint(blueprint)
    gate(app, "x", redirect_to="lgoin")
    assert sorted(lost(app)) == ["b", "b.page", "b.page", "shop"]


def test_an_app_may_make_addresses_itself(app: Flask) -> None:
    """Nothing is told where the app has an answer for endpoints that it does not know."""
    app.add_url_rule("/", "gated", requires_flag("x", redirect_to="lgoin")(page))
    app.add_url_rule("/<lang>/", "home", page)
    app.add_url_rule("/2", "second", requires_flag("x", redirect_to="home")(page))
    assert lost(app) == ["gated", "second"]
    app.url_defaults(lambda endpoint, values: values.setdefault("lang", "en"))
    assert lost(app) == ["gated"]
    app.url_build_error_handlers.append(lambda error, endpoint, values: "/")
    assert lost(app) == []


@pytest.mark.parametrize(
    ("target", "found"),
    [(".here", []), (".around", []), (".app", []), (".nowhere", ["outer.inner.x"])],
)
def test_a_target_of_the_blueprint_is_looked_for_around_it(
    app: Flask, target: str, found: list[str]
) -> None:
    """With a dot before it, an endpoint may be of the blueprint or of those around it."""
    outer, inner = Blueprint("outer", __name__), Blueprint("inner", __name__)
    inner.add_url_rule("/here", "here", page)
    outer.add_url_rule("/around", "around", page)
    app.add_url_rule("/app", "app", page)
    inner.add_url_rule("/x", "x", requires_flag("x", redirect_to=target)(page))
    outer.register_blueprint(inner)
    app.register_blueprint(outer)
    assert lost(app) == found
