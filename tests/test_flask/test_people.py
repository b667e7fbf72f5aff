"""Whom flags are for: the app's loader, Flask-Login's user, or nobody in particular."""

from typing import Any

import pytest
from flask import Flask, request, session
from shipsilently_flask import ShipSilently, flags

from shipsilently_core import Context
from shipsilently_core.testing import ScriptedService

from .apps import bare_app, client_of, for_user
from .login import User, use_flask_login


def site(
    service: ScriptedService | None = None, name: str = "shop", **settings: Any
) -> tuple[Flask, ShipSilently]:
    """An app without a context loader, and its extension."""
    app = bare_app(name)
    extension = ShipSilently(
        app, client=client_of(service or ScriptedService(for_user), **settings)
    )
    app.add_url_rule("/", view_func=lambda: flags.get("me", ""), endpoint="me")
    return app, extension


def test_without_a_loader_the_context_is_empty() -> None:
    """An app that says nothing gets the flags of nobody in particular."""
    app, _ = site()
    assert app.test_client().get("/").text == "nobody"


@pytest.mark.parametrize(
    "given",
    [{"userId": "ada"}, {"user_id": "ada"}, Context(user_id="ada")],
    ids=["wire", "python", "Context"],
)
def test_the_loader_says_whom_flags_are_for(given: Any) -> None:
    """A loader may return a mapping in either spelling, or a `Context`."""
    app, extension = site()

    @extension.context_loader
    def load() -> Any:
        return given

    assert app.test_client().get("/").text == "ada"
    assert load() is given


def test_the_loader_runs_once_in_a_request() -> None:
    """However many flags a request reads, its context is loaded once."""
    app, extension = site()
    loaded = []

    @extension.context_loader
    def load() -> dict[str, str]:
        loaded.append(request.path)
        return {"userId": "ada"}

    app.add_url_rule("/two", view_func=lambda: flags.get("me", "") + flags.get("me", ""))
    assert app.test_client().get("/two").text == "adaada"
    assert loaded == ["/two"]


def test_a_loader_that_reads_a_flag_reads_nobodys(caplog: pytest.LogCaptureFixture) -> None:
    """What it needs to say whom flags are for is served as to nobody, and one line says so; the
    request has the flags of whom the loader names."""
    app, extension = site()
    read: list[str] = []

    @extension.context_loader
    def load() -> dict[str, str]:
        read.append(flags.get("me", ""))
        return {"userId": "ada"}

    client = app.test_client()
    assert [client.get("/").text for _ in range(2)] == ["ada", "ada"]
    assert read == ["nobody", "nobody"]
    (line,) = [record.getMessage() for record in caplog.records if record.name == "shipsilently"]
    assert "take the flag out of the loader" in line


def test_an_error_in_the_loader_is_the_apps_own() -> None:
    """What the loader raises reaches the app's error handlers: nobody becomes somebody else."""
    app, extension = site()

    @extension.context_loader
    def load() -> None:
        raise LookupError("no such user")

    app.register_error_handler(LookupError, lambda error: (str(error), 418))
    answer = app.test_client().get("/")
    assert (answer.status_code, answer.text) == (418, "no such user")


@pytest.fixture
def signed_in() -> tuple[Flask, Any, ScriptedService]:
    """An app with Flask-Login, its module, and the service."""
    service = ScriptedService(for_user)
    app, _ = site(service)
    login = use_flask_login(app)

    @app.get("/login/<name>")
    def log_in(name: str) -> str:
        before = flags.get("me", "")
        login.login_user(User(name))
        return f"{before} {flags.get('me', '')} {flags.get('me', '')}"

    @app.get("/logout")
    def log_out() -> str:
        before = flags.get("me", "")
        login.logout_user()
        return f"{before} {flags.get('me', '')}"

    return app, login, service


def test_flask_logins_user_is_the_default(signed_in: Any) -> None:
    """Where the app uses Flask-Login, flags are for the user who is logged in."""
    app, _, _ = signed_in
    ada, bob, visitor = (app.test_client() for _ in range(3))
    ada.get("/login/ada")
    bob.get("/login/bob")
    assert [one.get("/").text for one in (ada, bob, visitor)] == ["ada", "bob", "nobody"]


def test_a_login_during_a_request_is_followed_once(signed_in: Any) -> None:
    """After a login the same request reads the flags of the new user, evaluated once."""
    app, _, service = signed_in
    assert app.test_client().get("/login/ada").text == "nobody ada ada"
    assert len(service.requests) == 2


def test_a_logout_during_a_request_is_followed(signed_in: Any) -> None:
    """After a logout the same request reads the flags of nobody."""
    app, _, _ = signed_in
    client = app.test_client()
    client.get("/login/ada")
    assert client.get("/logout").text == "ada nobody"
    assert client.get("/").text == "nobody"


def test_flask_login_in_another_app_of_the_process_changes_nothing(signed_in: Any) -> None:
    """An app without Flask-Login has nobody, though the process has imported it."""
    app, _ = site()
    assert app.test_client().get("/").text == "nobody"


def test_without_a_request_nobody_is_logged_in(signed_in: Any) -> None:
    """In a bare app context, as in a script, Flask-Login is not asked."""
    app, _, _ = signed_in
    with app.app_context():
        assert flags.get("me", "") == "nobody"


def test_a_request_to_another_app_is_not_taken_for_ones_own(signed_in: Any) -> None:
    """Inside another app's context, the user of the first app's request is not that app's user."""
    app, login, _ = signed_in
    other, _ = site(name="other")
    other.login_manager = app.login_manager  # type: ignore[attr-defined]  # it has users, too
    with app.test_request_context():
        login.login_user(User("ada"))
        assert flags.get("me", "") == "ada"
        with other.app_context():
            assert flags.get("me", "") == "nobody"
        assert flags.get("me", "") == "ada"


def test_a_login_of_ones_own_is_followed_when_told() -> None:
    """With `reload_context` after a login by hand, the same request reads the new user's flags."""
    app, extension = site()
    extension.context_loader(lambda: {"userId": session["user"]} if "user" in session else None)

    @app.get("/login")
    def log_in() -> str:
        before = flags.get("me", "")
        session["user"] = "ada"
        unchanged = flags.get("me", "")
        extension.reload_context()
        return f"{before} {unchanged} {flags.get('me', '')}"

    assert app.test_client().get("/login").text == "nobody nobody ada"


def test_a_script_may_ask_again() -> None:
    """`reload_context` in a bare app context makes the next read a new evaluation."""
    service = ScriptedService(for_user)
    app, extension = site(service, max_age=0)
    with app.app_context():
        extension.reload_context()
        assert flags.get("me", "") == "nobody"
        service.set({"me": "changed"})
        assert flags.get("me", "") == "nobody"
        extension.reload_context()
        assert flags.get("me", "") == "changed"


def test_without_a_request_the_loader_is_not_asked() -> None:
    """In a script the loader, which would look for a session, is not called."""
    app, extension = site()
    extension.context_loader(lambda: {"userId": session["user"]})
    with app.app_context():
        assert flags.get("me", "") == "nobody"
