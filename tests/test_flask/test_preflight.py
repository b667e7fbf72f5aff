"""`OPTIONS` at a gate: what browsers ask before they ask for the page itself."""

import functools
from collections.abc import Callable
from typing import Any

import pytest
from flask import Blueprint, Flask, Response, current_app, request
from shipsilently_flask import flags, requires_flag
from shipsilently_flask.signals import gate_refused

from shipsilently_core.testing import ScriptedService

from .apps import make_app

FLAGS = {"on": True, "off": False}

OPTIONS_TOO = ["GET", "POST", "OPTIONS"]


@pytest.fixture
def served() -> list[str]:
    """The methods with which `answering` was run."""
    return []


@pytest.fixture(params=[False, True], ids=["sync", "async"])
def asynchronous(request: pytest.FixtureRequest) -> Any:
    """Whether views are async."""
    return request.param


@pytest.fixture
def answering(served: list[str], asynchronous: bool) -> Callable[..., Any]:
    """A view, plain or async, that answers `OPTIONS` by hand."""

    def serve() -> str:
        served.append(request.method)
        return "page"

    async def aserve() -> str:
        return serve()

    return aserve if asynchronous else serve


@pytest.mark.parametrize("key", ["on", "off"])
@pytest.mark.parametrize("place", ["view", "blueprint", "app"])
def test_a_view_that_answers_options_is_asked_only_while_its_gate_is_open(
    answering: Callable[..., Any], served: list[str], place: str, key: str
) -> None:
    """Behind a shut gate nothing of a view is run or shown: Flask's own answer takes its place."""
    app = make_app(ScriptedService(FLAGS))
    blueprint = Blueprint("b", __name__)
    gated = requires_flag(key)(answering) if place == "view" else answering
    blueprint.add_url_rule("/", "page", gated, methods=OPTIONS_TOO)
    if place != "view":
        flags.gate(app if place == "app" else blueprint, key)
    app.register_blueprint(blueprint)
    answer = app.test_client().options("/")
    assert answer.status_code == 200
    if key == "on":
        assert (answer.text, served) == ("page", ["OPTIONS"])
        return
    assert (answer.text, served) == ("", [])
    assert set(answer.allow) == {"GET", "HEAD", "POST", "OPTIONS"}
    assert app.test_client().get("/").status_code == 404


@pytest.mark.parametrize("options", [{"redirect_to": "/soon"}, {"fallback": lambda: "old"}])
def test_options_is_neither_sent_elsewhere_nor_refused(
    answering: Callable[..., Any], served: list[str], options: dict[str, Any]
) -> None:
    """Browsers follow no redirect of a preflight: it gets Flask's answer, and nobody is told."""
    app = make_app(ScriptedService(FLAGS))
    told: list[str] = []

    def note(sender: Flask, flag_key: str) -> None:
        told.append(flag_key)

    app.add_url_rule("/", "page", requires_flag("off", **options)(answering), methods=OPTIONS_TOO)
    with gate_refused.connected_to(note, app):
        answer = app.test_client().options("/")
    assert (answer.status_code, answer.text, served, told) == (200, "", [], [])


def allow_origin(response: Response) -> Response:
    """What lets scripts of other sites read an answer."""
    response.headers["Access-Control-Allow-Origin"] = "*"
    return response


def test_a_preflight_is_answered_for_the_whole_app_without_an_evaluation() -> None:
    """What an extension adds to every answer is there for gated pages, and no flag is read."""
    service = ScriptedService(FLAGS)
    app = make_app(service)
    app.after_request(allow_origin)
    labs = Blueprint("labs", __name__, url_prefix="/labs")
    labs.add_url_rule("/", "page", lambda: "page", methods=["GET", "POST"])
    flags.gate(labs, "off")
    app.register_blueprint(labs)
    app.add_url_rule("/", "page", requires_flag("off")(lambda: "page"))
    for path in ("/", "/labs/", "/nowhere"):
        answer = app.test_client().options(path)
        assert answer.headers["Access-Control-Allow-Origin"] == "*"
        assert answer.status_code == (404 if path == "/nowhere" else 200)
    assert service.requests == []


@pytest.mark.parametrize("place", ["above", "below", "blueprint"])
def test_a_preflight_that_a_decorator_answers_works_through_a_shut_gate(
    answering: Callable[..., Any], served: list[str], place: str
) -> None:
    """A decorator that answers `OPTIONS` for its view, by Flask's contract for such ones, does so
    wherever the gate is, and the view stays hidden."""

    def cross_origin(view: Any) -> Any:
        view.required_methods = {"OPTIONS"}
        view.provide_automatic_options = False

        @functools.wraps(view)
        def serve(*args: Any, **kwargs: Any) -> Any:
            if request.method == "OPTIONS":
                return allow_origin(current_app.make_default_options_response())
            return current_app.ensure_sync(view)(*args, **kwargs)

        return serve

    app = make_app(ScriptedService(FLAGS))
    blueprint = Blueprint("b", __name__)
    view = {
        "above": lambda: requires_flag("off")(cross_origin(answering)),
        "below": lambda: cross_origin(requires_flag("off")(answering)),
        "blueprint": lambda: cross_origin(answering),
    }[place]()
    if place == "blueprint":
        flags.gate(blueprint, "off")
    blueprint.add_url_rule("/", "page", view)
    app.register_blueprint(blueprint)
    answer = app.test_client().options("/")
    assert (answer.text, answer.headers["Access-Control-Allow-Origin"]) == ("", "*")
    assert app.test_client().get("/").status_code == 404
    assert served == []


@pytest.mark.parametrize("place", ["decorated", "blueprint", "both"])
def test_a_view_that_is_to_answer_by_hand_is_not_run_behind_a_shut_gate(
    answering: Callable[..., Any], served: list[str], place: str
) -> None:
    """Flask's attributes for that are trusted on what is put around a view, not on itself."""
    answering.required_methods = {"OPTIONS"}  # type: ignore[attr-defined]
    answering.provide_automatic_options = False  # type: ignore[attr-defined]
    app = make_app(ScriptedService(FLAGS))
    blueprint = Blueprint("b", __name__)
    view = answering
    if place != "blueprint":
        view = requires_flag("off" if place == "decorated" else "on")(answering)
    if place != "decorated":
        flags.gate(blueprint, "off")
    blueprint.add_url_rule("/", "page", view)
    app.register_blueprint(blueprint)
    answer = app.test_client().options("/")
    assert (answer.status_code, answer.text, served) == (200, "", [])
    assert app.test_client().get("/").status_code == 404
