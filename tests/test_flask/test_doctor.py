"""`flask shipsilently doctor`: what it finds in good and bad set-ups."""

from collections.abc import Iterator
from typing import Any, NoReturn

import pytest
from click.testing import Result
from flask import Flask
from shipsilently_flask import ShipSilently, requires_flag

from shipsilently_core import Failure, ShipSilentlyClient
from shipsilently_core.testing import ScriptedService

from .apps import bare_app, user_of_header

FLAGS = {"on": True, "color": "blue"}


@pytest.fixture
def clients() -> Iterator[list[ShipSilentlyClient]]:
    """The clients of a test, which are closed after it."""
    made: list[ShipSilentlyClient] = []
    yield made
    for client in made:
        client.close()


def site(
    clients: list[ShipSilentlyClient],
    service: ScriptedService,
    *,
    client_flags: tuple[str, ...] = (),
    loader: Any = user_of_header,
    **settings: Any,
) -> Flask:
    """An app on a scripted service, with a real clock."""
    client = ShipSilentlyClient(api_key="sk_secret", transport=service, **settings)
    clients.append(client)
    app = bare_app()
    ShipSilently(app, client=client, context_loader=loader, client_flags=client_flags)
    return app


def examine(app: Flask, *words: str) -> Result:
    """What the doctor says."""
    return app.test_cli_runner().invoke(args=["shipsilently", "doctor", *words])


def verdicts(result: Result) -> dict[str, str]:
    """The verdict on each thing that was looked at."""
    lines = [line.split(maxsplit=2) for line in result.output.splitlines()]
    return {what: verdict for verdict, what, *_ in lines}


def test_a_good_set_up_is_ok(clients: list[ShipSilentlyClient]) -> None:
    """With a loader, gates in order, a service and a stream everything is `ok`, and the key is
    not shown."""
    app = site(clients, ScriptedService(FLAGS, streaming=True), client_flags=("on",))
    app.add_url_rule("/", "page", requires_flag("on")(lambda: "page"))
    result = examine(app)
    assert (result.exit_code, set(verdicts(result).values())) == (0, {"ok"})
    assert set(verdicts(result)) == {"context", "gates", "service", "stream"}
    assert "2 flags in" in result.output
    assert "sk_secret" not in result.output


def test_what_may_be_meant_so_is_a_note(clients: list[ShipSilentlyClient]) -> None:
    """No loader, an unknown flag for the browser and a plan without streaming are notes."""
    app = site(clients, ScriptedService(FLAGS), client_flags=("on", "gone"), loader=None)
    result = examine(app)
    assert result.exit_code == 0
    assert verdicts(result) == {
        "context": "note",
        "gates": "ok",
        "service": "ok",
        "browser": "note",
        "stream": "note",
    }
    assert "there is no flag 'gone'" in result.output
    assert "polled every 30 s" in result.output


def test_flask_login_is_seen(clients: list[ShipSilentlyClient]) -> None:
    """An app with a login manager needs no loader."""
    app = site(clients, ScriptedService(FLAGS), loader=None)
    app.login_manager = object()  # type: ignore[attr-defined]  # as Flask-Login does
    assert "Flask-Login's current user" in examine(app).output


@pytest.mark.parametrize("off", ["stream", "background"])
def test_a_stream_that_is_switched_off_is_a_note(
    clients: list[ShipSilentlyClient], off: str
) -> None:
    """A stream that the configuration has switched off is not waited for."""
    settings: dict[str, Any] = {off: False}
    app = site(clients, ScriptedService(FLAGS, streaming=True), **settings)
    result = examine(app)
    assert (result.exit_code, verdicts(result)["stream"]) == (0, "note")


def test_a_stream_that_does_not_open_is_bad(clients: list[ShipSilentlyClient]) -> None:
    """A stream that is still not there after the wait is a fault."""

    class NoStream(ScriptedService):
        def open_stream(self, ticket: str) -> NoReturn:
            raise ConnectionError

    result = examine(site(clients, NoStream(FLAGS, streaming=True)), "--wait", "0.1")
    assert (result.exit_code, verdicts(result)["stream"]) == (1, "bad")


def test_a_gate_above_its_route_is_bad(clients: list[ShipSilentlyClient]) -> None:
    """The doctor finds gates that guard nothing, without a request."""
    app = site(clients, ScriptedService(FLAGS, streaming=True))

    @requires_flag("on")
    @app.get("/")
    def page() -> str:
        return "page"

    result = examine(app)
    assert (result.exit_code, verdicts(result)["gates"]) == (1, "bad")


@pytest.mark.parametrize("disable_cache", [False, True])
@pytest.mark.parametrize(
    ("way", "advice"),
    [
        ({"status": 401}, "SHIPSILENTLY_API_KEY"),
        ({"status": 429}, "asks for a pause"),
        ({"status": 503}, "the service itself has an error"),
        ({"status": 200, "body": b"<html>"}, "something else answers"),
        ({"connected": False}, "no connection"),
        ({"failure": Failure.TIMEOUT}, "SHIPSILENTLY_TIMEOUT"),
    ],
)
def test_a_service_that_fails_is_bad(
    clients: list[ShipSilentlyClient], way: dict[str, Any], advice: str, disable_cache: bool
) -> None:
    """Each way to fail has its advice, and the stream is not tried then."""
    service = ScriptedService(FLAGS, streaming=True)
    service.fail(**way)
    result = examine(site(clients, service, disable_cache=disable_cache))
    assert (result.exit_code, verdicts(result)["service"]) == (1, "bad")
    assert advice in result.output
    assert "stream" not in verdicts(result)
