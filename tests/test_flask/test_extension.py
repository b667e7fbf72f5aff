"""The extension: what it keeps, what it shares, and what it refuses."""

import socket
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from flask import Flask
from shipsilently_flask import ShipSilently, flags

from shipsilently_core import ConfigurationError, ShipSilentlyError
from shipsilently_core.testing import ScriptedService

from .apps import bare_app, client_of, make_app


def test_nothing_of_an_app_is_on_the_extension() -> None:
    """Setting up apps leaves the extension as it was; what they have is in `app.extensions`."""
    extension = ShipSilently(api_key="sk_1")
    before = dict(vars(extension))
    first, second = bare_app("first"), bare_app("second", SHIPSILENTLY_API_KEY="sk_2")
    extension.init_app(first)
    extension.init_app(second)
    assert vars(extension) == before
    keys = [app.extensions["shipsilently"].client.config.api_key for app in (first, second)]
    assert keys == ["sk_1", "sk_2"]


def test_apps_with_the_same_configuration_share_a_client() -> None:
    """Two apps with equal settings have one client, a third with another timeout its own."""
    apps = []
    for timeout in (1.0, 1.0, 1.5):
        app = Flask("shop")
        ShipSilently(app, api_key="sk_shared", timeout=timeout)
        apps.append(app)
    first, second, third = (app.extensions["shipsilently"].client for app in apps)
    assert first is second
    assert first is not third


def test_a_closed_client_is_not_shared() -> None:
    """An app that is made after the shared client was closed gets a new one."""
    clients = []
    for _ in range(2):
        app = Flask("shop")
        ShipSilently(app, api_key="sk_closed")
        clients.append(app.extensions["shipsilently"].client)
        clients[-1].close()
    assert clients[0] is not clients[1]


def test_apps_under_test_share_nothing() -> None:
    """With `TESTING`, equal settings still give each app a client of its own."""
    apps = [bare_app(), bare_app()]
    for app in apps:
        ShipSilently(app, api_key="sk_1")
    first, second = (app.extensions["shipsilently"].client for app in apps)
    assert first is not second


def test_an_app_may_come_under_test_after_its_factory() -> None:
    """`TESTING` that is set on a finished app, as Flask's manual does it, counts from the start."""
    apps = [Flask("shop") for _ in range(4)]
    for app in apps:
        ShipSilently(app, api_key="sk_factory")
    for app in apps[:2]:
        app.config.update(TESTING=True)
    with ThreadPoolExecutor(8) as pool:
        clients = [
            set(pool.map(lambda app: app.extensions["shipsilently"].client, [app] * 16))
            for app in apps
        ]
    assert [len(ones) for ones in clients] == [1] * 4
    first, second, third, fourth = (ones.pop() for ones in clients)
    assert third is fourth
    assert len({first, second, third}) == 3
    assert first.config == third.config


def test_a_client_that_was_used_stays() -> None:
    """`TESTING` that comes after the first use changes nothing any more."""
    app = Flask("shop")
    ShipSilently(app, api_key="sk_used")
    client = app.extensions["shipsilently"].client
    app.testing = True
    assert app.extensions["shipsilently"].client is client


def test_a_given_client_is_the_one_that_is_used() -> None:
    """A ready client is taken as it is, whenever the app comes under test."""
    app, client = Flask("shop"), client_of(ScriptedService())
    ShipSilently(app, client=client)
    app.testing = True
    assert app.extensions["shipsilently"].client is client


def test_setting_up_twice_is_refused() -> None:
    """A second extension on the same app is an error that says so."""
    app = make_app()
    with pytest.raises(ConfigurationError, match="set up already"):
        ShipSilently(app, client=client_of(ScriptedService()))


def test_setting_up_opens_and_starts_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """`init_app` makes no socket and no thread, whatever the service does."""

    def refuse(*args: Any) -> None:
        raise AssertionError("a socket was made")

    monkeypatch.setattr(socket.socket, "__init__", refuse)
    before = set(threading.enumerate())
    app = Flask("shop")
    ShipSilently(app, api_key="sk_1", api_url="http://127.0.0.1:9")
    # A thread of an earlier test may end meanwhile.
    assert not set(threading.enumerate()) - before


def test_a_request_without_flags_asks_nothing() -> None:
    """A page that reads no flag costs no evaluation and loads no context."""
    service = ScriptedService({"x": True})
    app = make_app(service)

    def refuse() -> None:
        raise AssertionError("the context was loaded")

    app.extensions["shipsilently"].extension.context_loader(refuse)
    app.add_url_rule("/", view_func=lambda: "page", endpoint="page")
    assert app.test_client().get("/").text == "page"
    assert service.requests == []


def test_no_hook_is_left_after_the_first_request() -> None:
    """The check of the first request takes itself away, so that later ones cost nothing."""
    app = make_app()
    app.add_url_rule("/", view_func=lambda: "page", endpoint="page")
    app.test_client().get("/")
    assert not any(app.before_request_funcs.values())
    assert not any(app.teardown_request_funcs.values())
    assert not app.teardown_appcontext_funcs


def test_the_client_outlives_every_request() -> None:
    """Requests and app contexts that end do not end the client."""
    service = ScriptedService({"x": True})
    app = make_app(service)
    app.add_url_rule("/", view_func=lambda: str(flags.is_enabled("x")), endpoint="page")
    for _ in range(3):
        assert app.test_client().get("/").text == "True"
    assert len(service.requests) == 1


@pytest.mark.parametrize("loader", [42, "user"])
def test_a_loader_must_be_callable(loader: Any) -> None:
    """What cannot be called is refused as a context loader."""
    with pytest.raises(ConfigurationError, match="must be a function"):
        ShipSilently(context_loader=loader)


def test_a_coroutine_function_is_refused_as_a_loader() -> None:
    """An async context loader is refused at once, since a template could not wait for it."""
    extension = ShipSilently()

    async def loader() -> None: ...

    with pytest.raises(ConfigurationError, match="must be a plain function"):
        extension.context_loader(loader)  # type: ignore[type-var]  # the mistake


def test_errors_of_the_set_up_are_the_projects_own() -> None:
    """A wrong configuration can be caught as `ShipSilentlyError` and as `ValueError`."""
    for kind in (ShipSilentlyError, ValueError):
        with pytest.raises(kind):
            ShipSilently(bare_app(), api_key="")


def test_what_is_no_app_is_refused_without_being_shown() -> None:
    """Whoever gives the key in the app's place is told where it goes."""
    given: Any = "sk_secret"
    with pytest.raises(ConfigurationError, match=r"^app: is a str, .* a key goes to api_key=$"):
        ShipSilently(given)


FACTORY_IN_A_PARENT = """
import threading
from flask import Flask
from shipsilently_flask import ShipSilently

def create_app():
    app = Flask("shop")
    ShipSilently(app, api_key="sk_1", api_url="http://127.0.0.1:9")
    print("threads", threading.active_count(), flush=True)
    return app
"""


def test_commands_of_flask_start_nothing(tmp_path: Any) -> None:
    """`flask routes` makes the app, in which nothing runs, and ends at once."""
    (tmp_path / "shop.py").write_text(FACTORY_IN_A_PARENT)
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "flask", "--app", "shop", "routes"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    assert "threads 1" in done.stdout
    assert done.stderr == ""
