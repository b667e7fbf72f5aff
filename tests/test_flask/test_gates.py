"""Gates: who passes, what the others get, on every kind of view."""

import functools
import inspect
import logging
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, ClassVar

import pytest
from flask import Blueprint, Flask, request
from flask.typing import ResponseReturnValue
from flask.views import MethodView, View
from shipsilently_flask import flags, requires_flag
from shipsilently_flask.signals import gate_refused
from werkzeug.exceptions import HTTPException, NotFound

from shipsilently_core import ConfigurationError
from shipsilently_core.testing import ScriptedService

from .apps import client_of, for_user, make_app

FLAGS = {"on": True, "off": False, "color": "blue", "one": 1, "text": "true", "none": None}


def site(flags: Any = FLAGS) -> Flask:
    """An app with these flags."""
    return make_app(ScriptedService(flags))


def plain_view(name: str = "you") -> str:
    """A view."""
    return f"hello {name}"


async def async_view(name: str = "you") -> str:
    """The same, async."""
    return f"hello {name}"


BOTH = pytest.mark.parametrize("view", [plain_view, async_view], ids=["sync", "async"])


def visit(app: Flask, view: Callable[..., Any], rule: str = "/", path: str = "/") -> Any:
    """The answer of a view that is routed to."""
    app.add_url_rule(rule, "page", view)
    return app.test_client().get(path)


@BOTH
@pytest.mark.parametrize(
    ("keys", "options", "passes"),
    [
        (("on",), {}, True),
        (("off",), {}, False),
        (("unknown",), {}, False),
        (("!on",), {}, False),
        (("!off",), {}, True),
        (("!unknown",), {}, True),
        (("on", "!off"), {}, True),
        (("on", "off"), {}, False),
        (("text",), {}, False),
        (("one",), {}, False),
        (("color",), {"value": "blue"}, True),
        (("color",), {"value": "green"}, False),
        (("!color",), {"value": "green"}, True),
        (("one",), {"value": 1.0}, True),
        (("one",), {"value": True}, False),
        (("on",), {"value": 1}, False),
        (("off",), {"value": False}, True),
        (("unknown",), {"value": "blue"}, False),
    ],
)
def test_a_gate_lets_pass_whom_it_should(
    view: Callable[..., Any], keys: tuple[str, ...], options: dict[str, Any], passes: bool
) -> None:
    """A view answers when all its flags are as wanted, by JSON's types, and is a 404 otherwise."""
    answer = visit(site(), requires_flag(*keys, **options)(view))
    assert answer.status_code == (200 if passes else 404)


@BOTH
def test_an_outage_closes_what_was_never_known_to_be_open(view: Callable[..., Any]) -> None:
    """With the service down from the start a gate is shut, whether the view is async or not."""
    service = ScriptedService()
    service.fail(503)
    assert visit(make_app(service), requires_flag("on")(view)).status_code == 404


@BOTH
def test_an_outage_changes_nothing_for_those_who_were_in(view: Callable[..., Any]) -> None:
    """A gate that was open stays open while the service is down."""
    service = ScriptedService(FLAGS)
    app = make_app(client=client_of(service, max_age=0))
    app.add_url_rule("/", "page", requires_flag("on")(view))
    assert app.test_client().get("/").status_code == 200
    service.fail(503)
    assert app.test_client().get("/").status_code == 200
    assert len(service.requests) == 2


@BOTH
def test_a_view_keeps_its_name_and_arguments(view: Callable[..., Any]) -> None:
    """The gated view is still itself for Flask, and gets what the URL says."""
    gated = requires_flag("on")(view)
    assert (gated.__name__, gated.__doc__) == (view.__name__, view.__doc__)
    assert visit(site(), gated, "/<name>", "/ada").text == "hello ada"


@BOTH
def test_what_is_no_function_can_be_gated(view: Callable[..., Any]) -> None:
    """A partial, sync or async, is a view like any other."""
    gated = requires_flag("on")(functools.partial(view, "ada"))
    assert visit(site(), gated).text == "hello ada"
    assert inspect.iscoroutinefunction(gated) is (view is async_view)


@BOTH
def test_another_status_goes_to_the_apps_error_handlers(view: Callable[..., Any]) -> None:
    """The app's handler of that error answers, with an ordinary exception of werkzeug's."""
    app = site()
    app.register_error_handler(403, lambda error: (f"no: {error.code}", 403))
    assert visit(app, requires_flag("off", status=403)(view)).text == "no: 403"


def test_every_error_may_be_the_answer() -> None:
    """Any status of an error is what refused requests get, also one without an exception."""
    app, statuses = site(), list(range(400, 600))
    for status in statuses:
        app.add_url_rule(f"/{status}", str(status), requires_flag("off", status=status)(plain_view))
    client = app.test_client()
    assert [client.get(f"/{status}").status_code for status in statuses] == statuses


@BOTH
def test_an_error_without_an_exception_goes_to_the_handler_of_all(view: Callable[..., Any]) -> None:
    """Where werkzeug has no exception for a status, handlers of `HTTPException` still see it."""
    app = site()

    def handle(error: HTTPException) -> tuple[str, int]:
        assert error.code is not None
        return f"{error.code} {error.name}", error.code

    app.register_error_handler(HTTPException, handle)
    answer = visit(app, requires_flag("off", status=402)(view))
    assert (answer.status_code, answer.text) == (402, "402 Payment Required")


class NotPaid(HTTPException):
    """An app's own exception for a status that werkzeug has none for."""

    code = 402


def test_an_exception_that_the_app_has_for_a_status_is_raised() -> None:
    """What `abort` raises in the app, a gate raises, so that its handler answers."""
    app = site()
    app.aborter.mapping[402] = NotPaid
    app.register_error_handler(NotPaid, lambda error: ("our plans", 402))
    assert visit(app, requires_flag("off", status=402)(plain_view)).text == "our plans"


def test_a_404_is_an_ordinary_not_found() -> None:
    """Handlers that know nothing of flags see the exception that a missing page raises."""
    app = site()
    seen: list[Exception] = []

    def handle(error: Exception) -> tuple[str, int]:
        seen.append(error)
        return "nothing here", 404

    app.register_error_handler(NotFound, handle)
    answer = visit(app, requires_flag("off")(plain_view))
    assert answer.text == "nothing here"
    assert type(seen[0]) is NotFound
    assert "off" not in str(seen[0])


@BOTH
@pytest.mark.parametrize(
    ("target", "location"),
    [
        ("soon", "/coming-soon"),
        ("/sorry", "/sorry"),
        ("https://example.com/x", "https://example.com/x"),
    ],
)
def test_refused_requests_can_be_sent_elsewhere(
    view: Callable[..., Any], target: str, location: str
) -> None:
    """`redirect_to` takes an endpoint, a path or a URL."""
    app = site()
    app.add_url_rule("/coming-soon", "soon", lambda: "soon")
    answer = visit(app, requires_flag("off", redirect_to=target)(view))
    assert (answer.status_code, answer.location) == (302, location)


@BOTH
@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_fallback_takes_the_views_place(view: Callable[..., Any], asynchronous: bool) -> None:
    """A plain or async fallback answers for a plain or async view, with the same arguments."""

    def plain(name: str) -> str:
        return f"old {name}"

    async def awaited(name: str) -> str:
        return f"old {name}"

    gated = requires_flag("off", fallback=awaited if asynchronous else plain)(view)
    assert visit(site(), gated, "/<name>", "/ada").text == "old ada"


def test_gates_can_be_stacked() -> None:
    """Two gates on one view must both be open."""
    for inner, status in (("on", 200), ("off", 404)):
        gated = requires_flag("on")(requires_flag(inner)(plain_view))
        assert visit(site(), gated).status_code == status


def test_each_user_meets_the_gate_for_himself() -> None:
    """A gate asks the flags of the one who makes the request."""
    app = site(lambda context: {"beta": context.get("userId") == "ada"})
    app.add_url_rule("/", "page", requires_flag("beta")(plain_view))
    client = app.test_client()
    answers = [client.get("/", headers={"User": name}).status_code for name in ("ada", "bob")]
    assert answers == [200, 404]


class Page(View):
    """A class based view whose gate is in its `decorators`."""

    decorators: ClassVar = [requires_flag("off")]

    def dispatch_request(self) -> ResponseReturnValue:
        """The page."""
        return "page"


class AsyncPage(View):
    """The same with an async body, and open."""

    decorators: ClassVar = [requires_flag("on")]

    async def dispatch_request(self) -> str:  # type: ignore[override]  # Flask allows it
        """The page."""
        return "page"


class Methods(MethodView):
    """A class of which one method is gated."""

    def get(self) -> str:
        """Open."""
        return "get"

    @requires_flag("off")
    def post(self) -> str:
        """Shut."""
        return "post"

    @requires_flag("on")
    async def put(self) -> str:
        """Open, and async."""
        return "put"


def test_class_based_views_are_gated_by_their_decorators() -> None:
    """`decorators` of a `View` gate it, whether its body is async or not."""
    assert visit(site(), Page.as_view("page")).status_code == 404
    assert visit(site(), AsyncPage.as_view("page")).text == "page"


def test_single_methods_can_be_gated() -> None:
    """A gate on one method of a `MethodView` concerns that method alone."""
    app = site()
    app.add_url_rule("/", view_func=Methods.as_view("methods"))
    client = app.test_client()
    assert client.get("/").text == "get"
    assert client.post("/").status_code == 404
    assert client.put("/").text == "put"


def blueprints() -> tuple[Blueprint, Blueprint]:
    """A blueprint inside another, with one page each."""
    outer, inner = Blueprint("outer", __name__, url_prefix="/o"), Blueprint("inner", __name__)
    outer.add_url_rule("/", "page", plain_view, methods=["GET", "POST", "DELETE"])
    inner.add_url_rule("/<name>", "page", async_view)
    return outer, inner


@pytest.mark.parametrize(("key", "status"), [("on", 200), ("off", 404)])
def test_a_gate_before_a_blueprint_covers_all_of_it(key: str, status: int) -> None:
    """Every verb of a gated blueprint and of those nested in it is gated; other pages are not."""
    app = site()
    outer, inner = blueprints()
    flags.gate(outer, key)
    outer.register_blueprint(inner)
    app.register_blueprint(outer)
    app.add_url_rule("/", "page", plain_view)
    client = app.test_client()
    found = [client.get("/o/"), client.post("/o/"), client.delete("/o/"), client.get("/o/ada")]
    assert [answer.status_code for answer in found] == [status] * 4
    assert client.get("/").status_code == 200
    assert client.options("/o/").status_code == 200


@pytest.mark.parametrize("target", ["soon", "/soon"])
def test_a_gate_before_the_app_covers_every_page(target: str) -> None:
    """A gated app has one page left: the one that refused requests are sent to."""
    app = site()
    flags.gate(app, "off", redirect_to=target)
    app.add_url_rule("/", "page", plain_view)
    app.add_url_rule("/soon", "soon", lambda: "soon")
    answer = app.test_client().get("/", follow_redirects=True)
    assert (answer.text, answer.history[0].status_code) == ("soon", 302)


def test_a_gated_blueprint_may_keep_its_own_page_for_the_refused() -> None:
    """An endpoint that is named relative to the blueprint passes its gate."""
    app = site()
    outer, _ = blueprints()
    flags.gate(outer, "off", redirect_to=".soon")
    outer.add_url_rule("/soon", "soon", lambda: "soon")
    app.register_blueprint(outer)
    answer = app.test_client().get("/o/", follow_redirects=True)
    assert (answer.text, answer.history[0].status_code) == ("soon", 302)


@pytest.mark.parametrize("asynchronous", [False, True])
def test_the_fallback_of_a_blueprint_gets_the_views_arguments(asynchronous: bool) -> None:
    """The fallback of a gated blueprint knows what the URL said."""

    async def awaited(**arguments: Any) -> str:
        return f"instead: {arguments}"

    def plain(**arguments: Any) -> str:
        return f"instead: {arguments}"

    app = site()
    _, inner = blueprints()
    flags.gate(inner, "off", fallback=awaited if asynchronous else plain)
    app.register_blueprint(inner)
    assert app.test_client().get("/ada").text == "instead: {'name': 'ada'}"


def test_a_refusal_is_told_with_the_app_as_sender() -> None:
    """The signal `gate_refused` names the flag, and comes for those who were turned away only."""
    app = site(for_user)
    told: list[tuple[Any, str, str]] = []

    def note(sender: Flask, flag_key: str) -> None:
        told.append((sender, flag_key, request.path))

    app.add_url_rule("/<name>", "page", requires_flag("on", "!off", "beta")(plain_view))
    app.add_url_rule("/open/<name>", "open", requires_flag("on")(plain_view))
    with gate_refused.connected_to(note, sender=app):
        app.test_client().get("/ada")
        app.test_client().get("/open/ada")
    assert told == [(app, "beta", "/ada")]


@BOTH
def test_async_receivers_are_told_too(view: Callable[..., Any]) -> None:
    """A receiver may be a coroutine function, as with Flask's own signals, whatever the view is."""
    app = site()
    told: list[str] = []

    async def anote(sender: Flask, flag_key: str) -> None:
        told.append(f"async {flag_key}")

    def note(sender: Flask, flag_key: str) -> None:
        told.append(flag_key)

    with gate_refused.connected_to(anote, app), gate_refused.connected_to(note, app):
        assert visit(app, requires_flag("off")(view)).status_code == 404
    assert sorted(told) == ["async off", "off"]


@BOTH
def test_a_receiver_that_fails_changes_no_answer(
    view: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    """Receivers that raise, plain or async, are logged; the others are told, and the answer is
    the gate's."""
    app = site()
    told: list[str] = []

    def broken(sender: Flask, flag_key: str) -> None:
        raise LookupError("broken receiver")

    async def abroken(sender: Flask, flag_key: str) -> None:
        raise LookupError("broken async receiver")

    def note(sender: Flask, flag_key: str) -> None:
        told.append(flag_key)

    with ExitStack() as connected:
        for receiver in (broken, note, abroken):
            connected.enter_context(gate_refused.connected_to(receiver, app))
        with caplog.at_level(logging.ERROR):
            assert visit(app, requires_flag("off")(view)).status_code == 404
    assert told == ["off"]
    assert caplog.text.count("a receiver of the signal gate-refused raised") == 2
    assert "LookupError: broken receiver" in caplog.text
    assert "LookupError: broken async receiver" in caplog.text


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        ((), {}, "needs the key of a flag"),
        ((plain_view,), {}, r'write @requires_flag\("x"\)'),
        ((1,), {}, "a flag key is a string, not a int"),
        (("",), {}, "a flag key is empty"),
        (("!",), {}, "a flag key is empty"),
        (("x",), {"status": 200}, "status must be that of an error"),
        (("x",), {"status": "404"}, "status must be that of an error"),
        (("x",), {"status": 399}, "status must be that of an error"),
        (("x",), {"status": 600}, "status must be that of an error"),
        (("x",), {"redirect_to": ""}, "redirect_to must be an endpoint"),
        (("x",), {"redirect_to": ["/"]}, "redirect_to must be an endpoint"),
        (("x",), {"redirect_to": "http://[x/"}, "redirect_to must be an endpoint"),
        (("x",), {"redirect_to": "http://shop:port/"}, "redirect_to must be an endpoint"),
        (("x",), {"fallback": "view"}, "fallback must be a view function"),
        (("x",), {"fallback": plain_view, "redirect_to": "/"}, "not both"),
    ],
)
def test_mistakes_are_refused_while_decorating(
    arguments: tuple[Any, ...], options: dict[str, Any], message: str
) -> None:
    """A gate that makes no sense is an error when it is written, not when it is met."""
    with pytest.raises(ConfigurationError, match=message):
        requires_flag(*arguments, **options)
    with pytest.raises(ConfigurationError, match=message):
        flags.gate(Blueprint("b", __name__), *arguments, **options)


def test_decorating_a_class_is_refused_with_the_way() -> None:
    """A decorated class would not be a class any more: the error names `decorators`."""
    with pytest.raises(ConfigurationError, match=r"decorators = \[requires_flag\('x'\)\]"):
        requires_flag("x")(Methods)


def test_decorating_nothing_is_refused() -> None:
    """What is not a function cannot be gated."""
    with pytest.raises(ConfigurationError, match="decorates a view function"):
        requires_flag("x")("view")  # type: ignore[type-var]  # the mistake
