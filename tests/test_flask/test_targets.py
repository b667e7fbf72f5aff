"""Where a gate sends those it turns away, and which page it leaves open for that."""

import logging
from typing import Any

import pytest
from flask import Blueprint, Flask
from shipsilently_flask import flags, requires_flag

from shipsilently_core.testing import ScriptedService

from .apps import make_app


@pytest.fixture
def app() -> Flask:
    """An app whose flag is off, with a page for those who are turned away."""
    made = make_app(ScriptedService({"off": False}))
    for name, path in (("home", "/"), ("soon", "/soon"), ("slash", "/slash/"), ("cafe", "/café")):
        made.add_url_rule(path, name, lambda path=path: f"this is {path}")
    return made


def follow(app: Flask, path: str, **options: Any) -> str:
    """What a browser shows in the end."""
    return app.test_client().get(path, follow_redirects=True, **options).text


@pytest.mark.parametrize(
    ("target", "page"),
    [
        ("soon", "/soon"),
        ("/soon", "/soon"),
        ("/soon?from=gate", "/soon"),
        ("/soon#form", "/soon"),
        ("http://localhost/soon", "/soon"),
        ("http://LOCALHOST:80/soon?from=gate", "/soon"),
        ("//localhost/soon", "/soon"),
        ("slash", "/slash/"),
        ("/slash/", "/slash/"),
        ("/slash", "/slash/"),
        ("/slash?from=gate", "/slash/"),
        ("/café", "/café"),
        ("/caf%C3%A9", "/café"),
        ("/", "/"),
        ("http://localhost", "/"),
    ],
)
def test_the_page_of_the_refused_is_found_however_it_is_written(
    app: Flask, target: str, page: str
) -> None:
    """Host, query and a slash at the end make no other page of it, and nobody goes in circles."""
    flags.gate(app, "off", redirect_to=target)
    for path in ("/soon", "/slash/", "/"):
        assert follow(app, path) == f"this is {page}"


@pytest.mark.parametrize(
    "target", ["https://example.com/soon", "http://localhost:3000/soon", "http://[::1]:3000/soon"]
)
def test_a_page_of_another_site_opens_no_page_of_this_one(app: Flask, target: str) -> None:
    """The same path on another host, or at another port, is another page."""
    flags.gate(app, "off", redirect_to=target)
    answer = app.test_client().get("/soon")
    assert (answer.status_code, answer.location) == (302, target)


@pytest.mark.parametrize("target", ["/shop/soon", "/soon", "soon", "http://a.test/shop/soon"])
def test_an_app_below_a_path_knows_its_page(app: Flask, target: str) -> None:
    """Under `SCRIPT_NAME` a path may be given as browsers see it, or as the app does."""
    flags.gate(app, "off", redirect_to=target)
    under = {"base_url": "http://a.test/shop/"}
    assert app.test_client().get("/soon", **under).text == "this is /soon"
    assert app.test_client().get("/", **under).status_code == 302


def nested(app: Flask, *, gated: str, soon_in: str) -> None:
    """Three blueprints in each other with a page each; one is gated, some have a page `soon`."""
    around: Any = None
    made = {}
    for name in ("one", "two", "three"):
        made[name] = blueprint = Blueprint(name, __name__, url_prefix=f"/{name}")
        blueprint.add_url_rule("/", "page", lambda: "page")
        if name in soon_in:
            blueprint.add_url_rule("/soon", "soon", lambda name=name: f"soon in {name}")
    flags.gate(made[gated], "off", redirect_to=".soon")
    for name in ("two", "three"):
        around = made["one" if name == "two" else "two"]
        around.register_blueprint(made[name])
    app.register_blueprint(made["one"])


@pytest.mark.parametrize(
    ("gated", "soon_in", "shown"),
    [
        ("one", "one", "soon in one"),
        ("one", "one three", "soon in one"),
        ("two", "two", "soon in two"),
        ("two", "one three", "soon in one"),
        ("three", "one", "soon in one"),
        ("three", "one two", "soon in two"),
    ],
)
def test_a_relative_endpoint_is_that_of_the_gated_blueprint(
    app: Flask, gated: str, soon_in: str, shown: str
) -> None:
    """`.soon` is looked for where the gate is and around it, never in blueprints inside of it."""
    nested(app, gated=gated, soon_in=soon_in)
    assert follow(app, "/one/two/three/") == shown
    if gated == "one":
        assert follow(app, "/one/") == follow(app, "/one/two/") == shown
    if "three" in soon_in:
        assert follow(app, "/one/two/three/soon") == shown


def test_a_blueprint_that_is_registered_twice_has_a_page_in_each_place(app: Flask) -> None:
    """`.soon` is the one beside the page that was asked for."""
    labs = Blueprint("labs", __name__)
    labs.add_url_rule("/", "page", lambda: "page")
    labs.add_url_rule("/soon", "soon", lambda: "soon")
    flags.gate(labs, "off", redirect_to=".soon")
    for name in ("red", "blue"):
        app.register_blueprint(labs, name=name, url_prefix=f"/{name}")
    for name in ("red", "blue"):
        assert app.test_client().get(f"/{name}/").location == f"/{name}/soon"
        assert follow(app, f"/{name}/") == "soon"


def test_a_relative_endpoint_of_a_view_is_looked_for_around_it(app: Flask) -> None:
    """A single gated view takes the nearest: its blueprint's, an outer one's, the app's."""
    outer, inner = (Blueprint(name, __name__, url_prefix=f"/{name}") for name in ("o", "i"))
    for depth, place in enumerate((inner, outer, app)):
        gated = requires_flag("off", redirect_to=f".soon{depth}")(lambda: "page")
        inner.add_url_rule(f"/{depth}", f"page{depth}", gated)
        place.add_url_rule(f"/soon{depth}", f"soon{depth}", lambda depth=depth: f"soon {depth}")
    outer.register_blueprint(inner)
    app.register_blueprint(outer)
    for depth, location in enumerate(("/o/i/soon0", "/o/soon1", "/soon2")):
        assert app.test_client().get(f"/o/i/{depth}").location == location


def test_a_relative_endpoint_of_the_apps_gate_is_one_of_the_app(app: Flask) -> None:
    """Before a whole app `.soon` is the app's, also for a page of a blueprint that has its own."""
    labs = Blueprint("labs", __name__, url_prefix="/labs")
    labs.add_url_rule("/soon", "soon", lambda: "hidden")
    flags.gate(app, "off", redirect_to=".soon")
    app.register_blueprint(labs)
    assert follow(app, "/labs/soon") == "this is /soon"


@pytest.mark.parametrize("target", ["nowhere", ".nowhere", "nowhere.soon", "person"])
def test_an_endpoint_without_a_url_is_a_refusal_and_a_warning(
    app: Flask, target: str, caplog: pytest.LogCaptureFixture
) -> None:
    """What cannot be redirected to gets the gate's status, and the log says so once."""
    app.add_url_rule("/people/<name>", "person", lambda name: name)
    labs = Blueprint("labs", __name__, url_prefix="/labs")
    labs.add_url_rule("/", "page", lambda: "page")
    flags.gate(labs, "off", redirect_to=target, status=403)
    app.register_blueprint(labs)
    with caplog.at_level(logging.WARNING):
        answers = [app.test_client().get("/labs/").status_code for _ in range(3)]
    assert answers == [403] * 3
    (line,) = caplog.messages
    assert f"before the endpoint 'labs.page' should redirect to {target!r}" in line
