"""A gate above the route guards nothing; that is found, and only that."""

import functools
import gc
import weakref
from collections.abc import Callable
from typing import Any

import pytest
from flask import Blueprint, Flask
from flask.views import MethodView
from shipsilently_flask import flags, requires_flag
from shipsilently_flask.order import is_gate

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


def unnamed(view: Callable[..., Any]) -> Callable[..., Any]:
    """A decorator of somebody else's that does not say what it is wrapped around."""

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


@pytest.fixture
def told(caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    """The errors in the package's log."""
    return lambda: [
        record.getMessage()
        for record in caplog.records
        if (record.name, record.levelname) == ("shipsilently", "ERROR")
    ]


Told = Callable[[], list[str]]


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

    def add_views() -> None:
        @requires_flag(
            "x",
        )
        @app.get("/")
        def page() -> str:
            return "page"

    add_views()
    gc.collect()
    assert is_refused(app)


def test_a_gate_above_the_route_is_refused_whatever_stands_above_it(app: Flask) -> None:
    """A decorator of somebody else's over the wrong order does not hide it."""

    @logged
    @requires_flag("x")
    @app.get("/")
    def page() -> str:
        return "page"

    assert is_refused(app)


def test_a_gate_above_a_decorator_that_hides_the_view_is_refused(app: Flask) -> None:
    """The order is seen, though the view that is routed to does not say which function it is."""

    @requires_flag("x")
    @app.get("/")
    @unnamed
    def page() -> str:
        return "page"

    assert is_refused(app)


def test_a_gate_inside_a_decorator_of_the_apps_own_is_refused_above_the_route(app: Flask) -> None:
    """A decorator that puts a gate around a view guards nothing above the route, either."""

    def members(view: Callable[..., Any]) -> Callable[..., Any]:
        return logged(requires_flag("x")(view))

    @members
    @app.get("/")
    def page() -> str:
        return "page"

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


ordinary = logged(open_page)


class Orders(MethodView):
    """A class based view."""

    def get(self) -> str:
        """The page."""
        return "page"


@pytest.mark.parametrize("kind", ["local", "lambda", "class", "decorated"])
def test_a_view_may_be_open_in_one_app_and_gated_in_another(
    app: Flask, told: Told, kind: str
) -> None:
    """What a living app gates by a call is no mistake of the app in which it is open."""

    def page() -> str:
        return "page"

    kinds: dict[str, Callable[..., Any]] = {
        "local": page,
        "lambda": lambda: "page",
        "class": Orders.as_view("orders"),
        "decorated": ordinary,
    }
    public = make_app(ScriptedService({"x": False}))
    public.add_url_rule("/", "page", requires_flag("x")(kinds[kind]))
    app.add_url_rule("/", "page", kinds[kind])
    assert not is_refused(app)
    assert public.test_client().get("/").status_code == 404
    assert told() == []


class UsedBy:
    """Ways in which something that is routed to may use what a gate has made."""

    @staticmethod
    def another_view(app: Flask, gated: Callable[..., Any]) -> None:
        """It is called by another view."""
        app.add_url_rule("/other", "other", lambda: gated())

    @staticmethod
    def a_decorator(app: Flask, gated: Callable[..., Any]) -> None:
        """A decorator hides it."""
        app.add_url_rule("/other", "other", unnamed(gated))

    @staticmethod
    def a_partial(app: Flask, gated: Callable[..., Any]) -> None:
        """It is called with arguments of its own."""
        app.add_url_rule("/other", "other", functools.partial(gated))

    @staticmethod
    def a_class(app: Flask, gated: Callable[..., Any]) -> None:
        """It is a method of a class based view."""

        class Other(MethodView):
            post = gated

        app.add_url_rule("/other", view_func=Other.as_view("other"))

    @staticmethod
    def a_fallback(app: Flask, gated: Callable[..., Any]) -> None:
        """It stands in for another view."""
        app.add_url_rule("/other", "other", requires_flag("no", fallback=gated)(lambda: "other"))

    @staticmethod
    def a_gate_before_a_blueprint(app: Flask, gated: Callable[..., Any]) -> None:
        """It stands in for a whole blueprint."""
        blueprint = Blueprint("other", __name__, url_prefix="/other")
        flags.gate(blueprint, "no", fallback=gated)
        blueprint.add_url_rule("/", "other", lambda: "other")
        app.register_blueprint(blueprint)

    @staticmethod
    def a_blueprint_that_is_not_registered(app: Flask, gated: Callable[..., Any]) -> None:
        """A module has it routed to for another process."""
        elsewhere.add_url_rule("/", "other", gated)


elsewhere = Blueprint("elsewhere", __name__)
not_set_up = Flask("not_set_up")


@pytest.mark.parametrize("use", [name for name in vars(UsedBy) if name[0] != "_"])
def test_what_a_gate_has_made_may_be_used_by_more_than_a_route(
    app: Flask, told: Told, use: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A view that is open and has a gate by a call is nobody's mistake where that is used."""
    monkeypatch.setattr(elsewhere, "deferred_functions", [])

    def page() -> str:
        return "page"

    app.add_url_rule("/", "page", page)
    getattr(UsedBy, use)(app, requires_flag("x")(page))
    assert not is_refused(app)
    assert told() == []


def test_what_a_call_returns_and_nobody_uses_is_told_once(app: Flask, told: Told) -> None:
    """It may be meant so: requests are served, and one error names the endpoint and the way."""

    def page() -> str:
        return "page"

    app.add_url_rule("/", "page", page)
    gated = requires_flag("x")(page)
    assert not is_refused(app)
    (line,) = told()
    assert "the endpoint 'page', and that endpoint is open" in line
    assert "route to that" in line
    assert gated is not page


def test_of_several_gates_of_a_view_one_that_is_used_is_enough(app: Flask, told: Told) -> None:
    """An app that is gone has left nothing behind that would be told of another."""

    def page() -> str:
        return "page"

    public = make_app()
    public.add_url_rule("/", "page", requires_flag("x")(page))
    requires_flag("x")(page)
    app.add_url_rule("/", "page", page)
    assert not is_refused(app)
    assert told() == []


def test_each_of_several_gates_of_a_view_is_known_as_one() -> None:
    """What was made first is still a gate when there is another."""

    def page() -> str:
        return "page"

    first, second = requires_flag("x")(page), requires_flag("y")(page)
    assert is_gate(first)
    assert is_gate(second)
    assert not is_gate(logged(page))
    assert not is_gate(page)


def test_one_stack_may_have_routes_of_two_apps(app: Flask, told: Told) -> None:
    """A gate between the routes of two apps guards the upper one."""
    public = make_app(ScriptedService({"x": False}))

    @public.get("/")
    @logged
    @requires_flag("x")
    @app.get("/")
    def page() -> str:
        return "page"

    assert not is_refused(app)
    assert public.test_client().get("/").status_code == 404
    assert told() == []


def test_one_stack_may_have_routes_of_two_blueprints(
    app: Flask, told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A gate between them guards the upper one, also where that is not registered."""
    monkeypatch.setattr(elsewhere, "deferred_functions", [])
    blueprint = Blueprint("b", __name__)

    @elsewhere.get("/")
    @requires_flag("x")
    @blueprint.get("/")
    def page() -> str:
        return "page"

    app.register_blueprint(blueprint)
    assert not is_refused(app)
    assert told() == []


def test_one_stack_may_have_a_route_of_an_app_that_is_not_set_up(app: Flask, told: Told) -> None:
    """A process that serves one app may import another that it does not set up."""

    @not_set_up.get("/")
    @requires_flag("x")
    @app.get("/")
    def page() -> str:
        return "page"

    assert not is_refused(app)
    assert told() == []


@pytest.mark.parametrize("hidden", [True, False], ids=["routed", "called"])
def test_a_gate_above_the_route_that_is_perhaps_used_is_told(
    app: Flask, told: Told, hidden: bool
) -> None:
    """Where the view of another route may call what the gate made, requests are served."""

    @requires_flag("x")
    @app.get("/")
    def page() -> str:
        return "page"

    other = unnamed(page) if hidden else lambda: f"the {page()}"
    app.add_url_rule("/other", "other", other)
    assert not is_refused(app)
    (line,) = told()
    assert "the endpoint 'page', and that endpoint is open" in line


def test_a_gated_fallback_in_a_stack_is_that_of_another_view(app: Flask, told: Told) -> None:
    """A gate that is made inside of the arguments of a decorator is none of that stack."""

    def old() -> str:
        return "old"

    app.add_url_rule("/", "old", old)

    @app.get("/new")
    @requires_flag("no", fallback=requires_flag("x")(old))
    def new() -> str:
        return "new"

    assert not is_refused(app)
    assert app.test_client().get("/new").text == "old"
    assert told() == []


def test_apps_are_not_kept_for_the_order_of_decorators() -> None:
    """An app that nobody else holds is gone, with all that it holds."""
    gone = weakref.ref(make_app())
    gc.collect()
    assert gone() is None
