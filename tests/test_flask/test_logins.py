"""Logins and logouts during a request, and receivers of Flask-Login's that read a flag then."""

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest
from flask import Flask, copy_current_request_context
from flask import request as this_request
from shipsilently_flask import ShipSilently, current, flags
from shipsilently_flask.people import current_context

from shipsilently_core.testing import ScriptedService

from .apps import bare_app, client_of, for_user
from .login import User, use_flask_login


@pytest.fixture
def service() -> ScriptedService:
    """A service that tells everybody who they are."""
    return ScriptedService(for_user)


@pytest.fixture
def app(service: ScriptedService) -> Flask:
    """An app with Flask-Login, of which each page says whose flags it read, step by step."""
    made = bare_app()
    ShipSilently(made, client=client_of(service))
    login = use_flask_login(made)

    def visit(steps: str) -> str:
        read = [flags.get("me", "")]
        for step in steps.split("-"):
            if step == "out":
                login.logout_user()
            else:
                login.login_user(User(step))
            read += [flags.get("me", ""), flags.get("me", "")]
        return " ".join(read)

    made.add_url_rule("/<steps>", view_func=visit)
    return made


#: Whether a receiver hears of something before this package does; blinker has no order.
ORDER = pytest.mark.parametrize("first", [True, False], ids=["before", "after"])


@contextmanager
def hearing(signal: Any, receive: Callable[..., Any], first: bool) -> Iterator[None]:
    """Connect a receiver that is called before, or after, the one of this package."""
    by_blinker = signal.receivers_for

    def in_order(sender: Any) -> list[Any]:
        return sorted(by_blinker(sender), key=lambda one: (one is receive) is not first)

    signal.receivers_for = in_order
    try:
        with signal.connected_to(receive):
            yield
    finally:
        del signal.receivers_for


@ORDER
@pytest.mark.parametrize(
    ("steps", "read", "heard"),
    [
        ("out", "ada nobody nobody", "ada"),
        ("out-bob", "ada nobody nobody bob bob", "ada"),
        ("bob-out", "ada bob bob nobody nobody", "bob"),
        ("out-out", "ada nobody nobody nobody nobody", "ada nobody"),
        ("out-ada-out", "ada nobody nobody ada ada nobody nobody", "ada ada"),
    ],
)
def test_a_flag_read_during_a_logout_is_not_kept_for_what_comes_after(
    app: Flask, steps: str, read: str, heard: str, first: bool
) -> None:
    """A receiver that reads before Flask-Login changes the user leaves nothing of that user's."""
    import flask_login  # type: ignore[import-untyped]

    told: list[str] = []

    def audit(sender: Flask, **_: Any) -> None:
        told.append(flags.get("me", ""))

    client = app.test_client()
    client.get("/ada")
    with hearing(flask_login.user_logged_out, audit, first):
        assert client.get(f"/{steps}").text == read
    assert " ".join(told) == heard


@ORDER
def test_a_flag_read_during_a_login_is_not_kept_for_what_comes_after(
    app: Flask, first: bool
) -> None:
    """Flask-Login tells of a login when the user has changed; the request goes on as that user."""
    import flask_login

    heard: list[str] = []

    def audit(sender: Flask, **_: Any) -> None:
        heard.append(flags.get("me", ""))

    with hearing(flask_login.user_logged_in, audit, first):
        assert app.test_client().get("/ada-bob").text == "nobody ada ada bob bob"
    assert len(heard) == 2


@ORDER
def test_one_user_object_may_come_back(app: Flask, first: bool) -> None:
    """Where users are kept in memory, one who logs out and in again has flags that are kept."""
    import flask_login

    ada = User("ada")
    app.login_manager.user_loader({"ada": ada}.get)  # type: ignore[attr-defined]

    @app.get("/again/now")
    def again() -> str:
        flask_login.logout_user()
        flask_login.login_user(ada)
        return f"{flags.get('me', '')} {flags.context is flags.context}"

    client = app.test_client()
    client.get("/ada")

    def audit(sender: Flask, **_: Any) -> None:
        flags.get("me", "")

    with hearing(flask_login.user_logged_out, audit, first):
        assert client.get("/again/now").text == "ada True"


def test_one_object_may_stand_for_everybody_without_an_account(app: Flask) -> None:
    """A logout of nobody changes nothing: the request keeps its flags from then on as before."""
    nobody = app.login_manager.anonymous_user()  # type: ignore[attr-defined]
    app.login_manager.anonymous_user = lambda: nobody  # type: ignore[attr-defined]
    import flask_login

    @app.get("/nobody/out")
    def out() -> str:
        flask_login.logout_user()
        first = flags.context
        return str(first is flags.context)

    assert app.test_client().get("/nobody/out").text == "True"


# Flask-Login itself does so, to set its cookie.
@pytest.mark.filterwarnings("ignore:datetime.datetime.utcnow:DeprecationWarning")
@pytest.mark.parametrize("remembered", [True, False], ids=["cookie", "request"])
def test_a_flag_read_while_the_user_is_loaded(app: Flask, remembered: bool) -> None:
    """A receiver told of a user from a cookie reads that user's flags; where Flask-Login itself
    would load the user for ever, it reads nobody's."""
    import flask_login

    heard: list[str] = []

    def note(sender: Flask, **_: Any) -> None:
        heard.append(flags.get("me", ""))

    client = app.test_client()
    app.add_url_rule("/", "who", lambda: f"{flask_login.current_user.get_id()} {flags.get('me')}")
    if remembered:
        app.add_url_rule(
            "/remember/ada",
            "remember",
            lambda: str(flask_login.login_user(User("ada"), remember=True)),
        )
        client.get("/remember/ada")
        client.delete_cookie("session")
        with flask_login.user_loaded_from_cookie.connected_to(note):
            assert client.get("/").text == "ada ada"
        assert heard == ["ada"]
    else:
        app.login_manager.request_loader(lambda request: User("ada"))  # type: ignore[attr-defined]
        assert client.get("/").text == "ada ada"
        with flask_login.user_loaded_from_request.connected_to(note):
            assert client.get("/").text == "ada ada"
        assert set(heard) == {"nobody"}


@pytest.mark.parametrize("first", ["flag", "user"])
@pytest.mark.parametrize("own", [True, False], ids=["loader", "login"])
def test_a_flag_in_the_loader_of_users_is_nobodys(
    service: ScriptedService, caplog: pytest.LogCaptureFixture, first: str, own: bool
) -> None:
    """It never fails and never goes by who asked first; the request has its user's flags, and one
    line in the log says what to change."""
    app = bare_app()
    shipsilently = ShipSilently(app, client=client_of(service))
    login = use_flask_login(app)
    if own:
        shipsilently.context_loader(
            lambda: {"userId": getattr(login.current_user, "name", "nobody")}
        )
    read: list[str] = []

    @app.login_manager.user_loader  # type: ignore[attr-defined]  # put there by Flask-Login
    def load(name: str) -> User:
        read.append(flags.get("me", ""))
        return User(name)

    @app.get("/")
    def page() -> str:
        if first == "user":
            assert login.current_user.get_id() == "ada"
        return f"{flags.get('me', '')} {login.current_user.get_id()} {flags.get('me', '')}"

    app.add_url_rule("/in", "in", lambda: str(login.login_user(User("ada"))))
    client = app.test_client()
    client.get("/in")
    assert [client.get("/").text for _ in range(2)] == ["ada ada ada", "ada ada ada"]
    assert set(read) == {"nobody"}
    (line,) = [record.getMessage() for record in caplog.records if record.name == "shipsilently"]
    assert "as to nobody in particular: take the flag out of the loader" in line


FIRST_READ_IN_A_RECEIVER = """
from flask import Flask
from shipsilently_core import ShipSilentlyClient
from shipsilently_core.testing import ScriptedService
from shipsilently_flask import ShipSilently, flags
from shipsilently_flask.people import current_context

app = Flask("shop")
app.secret_key = "made up"
service = ScriptedService(lambda context: {"me": context.get("userId", "nobody")})
ShipSilently(app, client=ShipSilentlyClient(api_key="sk_test", transport=service))

import flask_login as login

class User(login.UserMixin):
    def __init__(self, name):
        self.id = name

login.LoginManager(app).user_loader(User)

@login.user_logged_out.connect
def audit(sender, **_):
    print("heard", flags.get("me", ""))

@app.get("/in")
def log_in():
    return str(login.login_user(User("ada")))

@app.get("/out")
def log_out():
    login.logout_user()
    return flags.get("me", "")

client = app.test_client()
client.get("/in")
print(client.get("/out").text)
"""


def test_the_first_flag_of_a_process_may_be_read_during_a_logout() -> None:
    """Logins are followed from the first request on, though Flask-Login came after the set-up."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", FIRST_READ_IN_A_RECEIVER],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert (done.stdout.splitlines(), done.stderr) == (["heard ada", "nobody"], "")


@pytest.mark.parametrize("step", ["in", "reload"])
def test_what_was_loaded_before_a_login_in_another_thread_is_not_kept(
    service: ScriptedService, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """A request's threads share its flags; of a first read amid a login all see the new user's."""
    app = bare_app()
    shipsilently = ShipSilently(app, client=client_of(service))
    login = use_flask_login(app)
    users = ["bob"]
    if step == "reload":
        shipsilently.context_loader(lambda: {"userId": users[-1]})

    def amid(*given: Any) -> Any:
        found = current_context(*given)
        monkeypatch.undo()
        users.append("ada")
        if step == "in":
            login.login_user(User("ada"))
        else:
            shipsilently.reload_context()
        return found

    monkeypatch.setattr("shipsilently_flask.current.current_context", amid)
    with app.test_request_context():
        assert [flags.get("me", ""), flags.get("me", "")] == ["ada", "ada"]


class Interrupted(dict[str, Any]):
    """What a request holds, of which the nth call lets another thread come before it goes on."""

    def __init__(self, held: dict[str, Any], calls: int, come: Callable[[], object]) -> None:
        super().__init__(held)
        self.left = calls
        self.come = come

    def _called(self, found: Any) -> Any:
        self.left -= 1
        if self.left == 0:
            self.come()
        return found

    def get(self, *given: Any) -> Any:
        """As of any dictionary."""
        return self._called(super().get(*given))

    def setdefault(self, *given: Any) -> Any:
        """As of any dictionary."""
        return self._called(super().setdefault(*given))


@pytest.mark.parametrize("calls", range(1, 6))
def test_a_login_in_another_thread_is_seen_up_to_the_moment_of_keeping(
    service: ScriptedService, calls: int
) -> None:
    """Also a first read that has looked for a login already keeps nothing of the user before."""
    app = bare_app()
    shipsilently = ShipSilently(app, client=client_of(service))
    login = use_flask_login(app)
    users = ["bob"]
    shipsilently.context_loader(lambda: {"userId": users[-1]})

    def come() -> None:
        users.append("ada")
        login.login_user(User("ada"))

    with app.test_request_context():
        request: Any = this_request._get_current_object()  # type: ignore[attr-defined]
        request.__dict__ = Interrupted(vars(request), calls, come)
        flags.get("me", "")
        if users == ["bob"]:
            come()
        assert flags.get("me", "") == "ada"


@pytest.mark.parametrize("step", ["_note_leaving", "forget_flags"])
@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
def test_a_read_in_the_midst_of_a_logout_keeps_nobody(
    app: Flask, monkeypatch: pytest.MonkeyPatch, step: str, before: bool
) -> None:
    """Another thread that reads while a logout is noted leaves nothing of the one who goes."""
    real: Callable[..., None] = getattr(current, step)

    def amid(*given: Any) -> None:
        if before:
            flags.get("me", "")
        real(*given)
        flags.get("me", "")

    client = app.test_client()
    client.get("/ada")
    monkeypatch.setattr(current, step, amid)
    assert client.get("/out").text == "ada nobody nobody"


def test_a_read_that_a_logout_overtakes_keeps_nobody(
    app: Flask, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who was loaded before Flask-Login changed the user is not kept after it has."""
    import flask_login

    def amid(*given: Any) -> Any:
        found = current_context(*given)
        app.login_manager._update_request_context_with_user()  # type: ignore[attr-defined]
        return found

    def overtaken(sender: Flask, **_: Any) -> None:
        with monkeypatch.context() as patched:
            patched.setattr(current, "current_context", amid)
            flags.get("me", "")

    client = app.test_client()
    client.get("/ada")
    with hearing(flask_login.user_logged_out, overtaken, first=False):
        assert client.get("/out").text == "ada nobody nobody"


def test_logins_are_followed_before_any_request(
    service: ScriptedService, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A logout before the first flag is heard, also in a request that is pushed by hand."""
    flask_login = sys.modules["flask_login"]
    monkeypatch.setattr(current, "_followed", None)
    flask_login.user_logged_in.disconnect(current._on_login)
    flask_login.user_logged_out.disconnect(current._on_logout)
    ShipSilently(bare_app(), client=client_of(service))
    assert current._on_login in list(flask_login.user_logged_in.receivers_for(None))
    assert current._on_logout in list(flask_login.user_logged_out.receivers_for(None))


@pytest.mark.parametrize(("step", "then"), [("out", "nobody"), ("bob", "bob")])
@pytest.mark.parametrize("own", [True, False], ids=["loader", "login"])
def test_a_copy_of_the_request_that_knows_the_user_before_keeps_nobody(
    service: ScriptedService, step: str, then: str, own: bool
) -> None:
    """A thread with a `flask.g` of its own, in which the user stays whoever it was, decides for
    nobody else."""
    app = bare_app()
    shipsilently = ShipSilently(app, client=client_of(service))
    login = use_flask_login(app)
    if own:
        shipsilently.context_loader(
            lambda: {"userId": getattr(login.current_user, "name", "nobody")}
        )
    knows, gone = threading.Event(), threading.Event()

    with app.test_request_context(), ThreadPoolExecutor() as pool:
        login.login_user(User("ada"))

        @copy_current_request_context
        def read() -> None:
            assert login.current_user.get_id() == "ada"
            knows.set()
            assert gone.wait(10)
            flags.get("me", "")

        reading = pool.submit(read)
        assert knows.wait(10)
        login.logout_user() if step == "out" else login.login_user(User(step))
        gone.set()
        reading.result(10)
        assert [flags.get("me", ""), flags.get("me", "")] == [then, then]
        assert flags.context is flags.context


def test_a_loader_that_logs_in_comes_to_an_end(service: ScriptedService) -> None:
    """Its flags are nobody's for long, and each read asks it anew."""
    app = bare_app()
    shipsilently = ShipSilently(app, client=client_of(service))
    login = use_flask_login(app)

    @shipsilently.context_loader
    def load() -> dict[str, str]:
        login.login_user(User("ada"))
        return {"userId": "ada"}

    with app.test_request_context():
        assert [flags.get("me", ""), flags.get("me", "")] == ["ada", "ada"]
