"""What the integration tells with the app as sender, and for how long it listens for that."""

import gc
import logging
import weakref
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest
from flask import Flask, copy_current_request_context, render_template_string
from shipsilently_flask import flags, override_flags, requires_flag
from shipsilently_flask.signals import flag_evaluated

from shipsilently_core import EvaluationResult, signals
from shipsilently_core.testing import ScriptedService

from .apps import bare_app, client_of, in_thread, make_app

FLAGS = {"a": True, "b": "text"}


@contextmanager
def told(sender: Any) -> Iterator[list[tuple[str, Any]]]:
    """The flags of which the signal tells for this app."""
    heard: list[tuple[str, Any]] = []

    def note(app: Flask, *, result: EvaluationResult) -> None:
        assert app is sender
        heard.append((result.flag_key, result.value))

    with flag_evaluated.connected_to(note, sender=sender):
        yield heard


def core_listeners() -> int:
    """How many listen to the client's own signal."""
    return len(signals.flag_evaluated.receivers)


@pytest.fixture
def app() -> Flask:
    """An app whose pages read flags in every way."""
    app = make_app(ScriptedService(FLAGS))

    async def asynchronous() -> str:
        return f"{await flags.aget('b', '')} {flags.get('b', '')}"

    def threaded() -> str:
        return str(in_thread(copy_current_request_context(lambda: flags.get("b", ""))))

    source = '{% flag "a" %}on{% endflag %}{{ flag("a") }}{{ "a"|flag }}'
    app.add_url_rule("/view", "view", lambda: f"{flags.is_enabled('a')} {flags.get('a', False)}")
    app.add_url_rule("/async", "async", asynchronous)
    app.add_url_rule("/gate", "gate", requires_flag("a")(lambda: flags.get("b", "")))
    app.add_url_rule("/template", "template", lambda: render_template_string(source))
    app.add_url_rule("/thread", "thread", threaded)
    return app


@pytest.mark.parametrize(
    ("path", "heard"),
    [
        ("/view", ["a"]),
        ("/async", ["b"]),
        ("/gate", ["a", "b"]),
        ("/template", ["a"]),
        ("/thread", ["b"]),
    ],
)
def test_a_read_is_told_once_for_each_flag_and_request(
    app: Flask, path: str, heard: list[str]
) -> None:
    """Views, async views, gates, templates and threads tell each flag once, with its value."""
    with told(app) as reads:
        for _ in range(2):
            assert app.test_client().get(path).status_code == 200
    assert reads == [(key, FLAGS[key]) for key in heard] * 2


def test_the_sender_is_the_app_that_is_served() -> None:
    """Of two apps that share a client, each tells of its own requests only."""
    client = client_of(ScriptedService(FLAGS))
    red, blue = (make_app(client=client, name=name) for name in ("red", "blue"))
    with told(red) as reds, told(blue) as blues:
        with red.test_request_context():
            flags.get("a", False)
            with blue.test_request_context():
                flags.get("b", "")
        client.evaluate("a", {}, False)
    assert (reds, blues) == ([("a", True)], [("b", "text")])


def test_a_read_by_another_client_is_not_the_apps(app: Flask) -> None:
    """Within a request, other clients and apps without the extension tell nothing."""
    other = client_of(ScriptedService(FLAGS))
    with told(app) as heard:
        with app.test_request_context():
            other.evaluate("a", {}, False)
        with bare_app("bare").app_context():
            other.evaluate("a", {}, False)
    assert heard == []


def test_an_app_context_and_its_client_are_told_of(app: Flask) -> None:
    """A script's reads are told, and each one that the app's client makes there."""
    with told(app) as heard, app.app_context():
        flags.get("a", False)
        app.extensions["shipsilently"].client.evaluate("b", {"userId": "ada"}, "")
    assert heard == [("a", True), ("b", "text")]


def test_flags_that_a_test_has_set_are_not_told(app: Flask) -> None:
    """An override is no evaluation."""
    with told(app) as heard, override_flags(a=False), app.test_request_context():
        assert flags.get("a", True) is False
    assert heard == []


def test_a_receiver_that_fails_spoils_no_page(app: Flask, caplog: pytest.LogCaptureFixture) -> None:
    """The page is served and the error logged."""

    def broken(sender: Flask, *, result: EvaluationResult) -> None:
        raise LookupError("broken receiver")

    with caplog.at_level(logging.ERROR), flag_evaluated.connected_to(broken, sender=app):
        assert app.test_client().get("/view").text == "True True"
    assert "flag-evaluated raised" in caplog.text


def test_a_receiver_that_fails_stops_no_other(app: Flask, caplog: pytest.LogCaptureFixture) -> None:
    """However many raise, those beside them are told of the read."""
    broken = [lambda sender, result, number=number: result[number] for number in range(3)]
    with caplog.at_level(logging.ERROR), told(app) as heard, ExitStack() as connected:
        for receiver in broken:
            connected.enter_context(flag_evaluated.connected_to(receiver, app))
        app.test_client().get("/view")
    assert heard == [("a", True)]
    assert caplog.text.count("a receiver of the signal flag-evaluated raised") == 3


def test_a_coroutine_function_is_refused() -> None:
    """No read can wait for one, so connecting one is an error that says so."""

    async def note(sender: Flask, *, result: EvaluationResult) -> None: ...

    with pytest.raises(TypeError, match="takes plain functions"):
        flag_evaluated.connect(note)
    assert not flag_evaluated.receivers


def test_nothing_is_listened_to_while_nobody_wants_to_know(app: Flask) -> None:
    """The client's own signal has a receiver more only while this one has receivers."""
    before = core_listeners()
    with told(app), told(app):
        assert core_listeners() == before + 1
    assert core_listeners() == before


def test_a_receiver_may_be_gone(app: Flask) -> None:
    """A receiver held weakly is not told any more once nothing else holds it."""
    heard = []

    def note(sender: Flask, *, result: EvaluationResult) -> None:
        heard.append(result.flag_key)

    reference = weakref.ref(note)
    flag_evaluated.connect(note, app)
    app.test_client().get("/view")
    del note
    gc.collect()
    assert reference() is None
    app.test_client().get("/view")
    assert heard == ["a"]
    with told(app):
        pass  # its end leaves nothing behind for other tests
