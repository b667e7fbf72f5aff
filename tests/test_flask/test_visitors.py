"""A stable id for visitors without an account: in the session or in a cookie, only on demand."""

from typing import Any

import pytest
from flask import Blueprint, Flask, Response, after_this_request, copy_current_request_context
from flask.testing import FlaskClient
from itsdangerous import TimestampSigner, URLSafeTimedSerializer
from shipsilently_flask import ShipSilently, flags

from shipsilently_core import Context
from shipsilently_core.testing import ScriptedService

from .apps import bare_app, client_of, for_user, in_thread, user_of_header

COOKIE = "shipsilently_visitor"


def site(place: str | None, *, loader: Any = user_of_header, **config: Any) -> Flask:
    """An app whose visitors have their id at `place`."""
    app = bare_app(**config)
    client = client_of(ScriptedService(for_user))
    ShipSilently(app, client=client, context_loader=loader, anonymous_id=place)
    app.add_url_rule("/", view_func=lambda: flags.get("me", ""), endpoint="me")
    app.add_url_rule("/plain", view_func=lambda: "no flag", endpoint="plain")
    return app


def cookies_of(client: FlaskClient, path: str = "/", **headers: str) -> list[str]:
    """The cookies that the answer sets."""
    return client.get(path, headers=headers).headers.getlist("Set-Cookie")


@pytest.mark.parametrize("place", ["session", "cookie"])
def test_a_visitor_keeps_an_id(place: str) -> None:
    """Each visitor has an id of its own, the same on every page and after other people's visits."""
    app = site(place)
    first, second = app.test_client(), app.test_client()
    ids = [client.get("/").text for client in (first, second, first, second)]
    assert ids[0].startswith("visitor-")
    assert ids[0] == ids[2] != ids[1] == ids[3]


@pytest.mark.parametrize("place", ["session", "cookie"])
def test_nothing_is_set_before_a_flag_is_read(place: str) -> None:
    """A page without flags sets no cookie and stays the same for all caches."""
    client = site(place).test_client()
    answer = client.get("/plain")
    assert "Set-Cookie" not in answer.headers
    assert "Vary" not in answer.headers


@pytest.mark.parametrize("place", ["session", "cookie"])
def test_a_page_with_flags_depends_on_the_cookie(place: str) -> None:
    """A page that read a visitor's flag says `Vary: Cookie`, at the first visit and later."""
    client = site(place).test_client()
    assert [client.get("/").headers["Vary"] for _ in range(2)] == ["Cookie", "Cookie"]


@pytest.mark.parametrize("place", ["session", "cookie"])
def test_users_need_no_visitor_id(place: str) -> None:
    """Whoever has a `userId` gets no cookie, in either spelling."""
    app = site(place)
    assert cookies_of(app.test_client(), User="ada") == []
    app = site(place, loader=lambda: {"user_id": "ada"})
    assert cookies_of(app.test_client()) == []
    app = site(place, loader=lambda: {"user_id": "ada", "userId": None})
    assert cookies_of(app.test_client()) == []


def test_visitors_are_off_by_default() -> None:
    """Without the setting nobody is given an id."""
    client = site(None).test_client()
    answer = client.get("/")
    assert (answer.text, "Set-Cookie" in answer.headers) == ("nobody", False)


def test_other_attributes_stay() -> None:
    """The loader's other attributes are sent beside the visitor's id."""
    seen: list[dict[str, Any]] = []

    def look(context: dict[str, Any]) -> dict[str, Any]:
        seen.append(context)
        return {"me": "x"}

    app = bare_app()
    client = client_of(ScriptedService(look))
    ShipSilently(
        app, client=client, context_loader=lambda: {"country": "FR"}, anonymous_id="session"
    )
    with app.test_request_context():
        flags.evaluate_all()
    assert seen[0]["country"] == "FR"
    assert seen[0]["userId"].startswith("visitor-")


@pytest.mark.parametrize("given", [Context(plan="pro"), "not a mapping"])
def test_what_cannot_be_added_to_is_left_alone(given: Any) -> None:
    """A ready `Context` is taken as it is, and so is a loader's mistake."""
    client = site("cookie", loader=lambda: given).test_client()
    answer = client.get("/")
    assert (answer.text, "Set-Cookie" in answer.headers) == ("nobody", False)


def test_the_cookie_is_signed_and_guarded() -> None:
    """The cookie is for the server only, and for this site only."""
    (cookie,) = cookies_of(site("cookie").test_client())
    assert cookie.startswith(f"{COOKIE}=")
    assert "HttpOnly" in cookie
    assert "SameSite=Lax" in cookie
    assert "Max-Age=31536000" in cookie
    assert "Secure" not in cookie


def test_the_cookie_is_secure_under_https() -> None:
    """Over HTTPS the cookie is never sent in the clear."""
    client = site("cookie").test_client()
    answer = client.get("/", base_url="https://localhost")
    assert "Secure" in answer.headers["Set-Cookie"]


def test_the_cookie_is_set_once() -> None:
    """A visitor who shows the cookie is not given it again."""
    client = site("cookie").test_client()
    assert len(cookies_of(client)) == 1
    assert cookies_of(client) == []


@pytest.mark.parametrize("forged", ["visitor-1", "InZpc2l0b3ItMSI.aaaa.bbbb", "%00", ""])
def test_a_forged_cookie_is_not_believed(forged: str) -> None:
    """A cookie without our signature is replaced by a new one."""
    client = site("cookie").test_client()
    client.set_cookie(COOKIE, forged)
    answer = client.get("/")
    assert answer.text.startswith("visitor-")
    assert answer.text != "visitor-1"
    assert COOKIE in answer.headers["Set-Cookie"]


@pytest.mark.parametrize(("longest", "known"), [(200, True), (100, False)])
def test_a_cookie_counts_for_as_long_as_it_was_given(longest: int, known: bool) -> None:
    """A visitor's cookie is believed until its age is over, however often it has been seen."""
    app = site("cookie", SHIPSILENTLY_ANONYMOUS_MAX_AGE=longest)
    assert app.secret_key

    class Earlier(TimestampSigner):
        def get_timestamp(self) -> int:
            return super().get_timestamp() - 150

    signer = URLSafeTimedSerializer(app.secret_key, salt="shipsilently-visitor", signer=Earlier)
    client = app.test_client()
    for _ in range(2):
        client.set_cookie(COOKIE, str(signer.dumps("visitor-of-old")))
        assert (client.get("/").text == "visitor-of-old") is known


def test_an_endless_cookie_is_not_looked_at() -> None:
    """A cookie that is longer than any of ours is replaced by a new one."""
    client = site("cookie").test_client()
    client.set_cookie(COOKIE, "x" * 2_000)
    assert COOKIE in client.get("/").headers["Set-Cookie"]


def test_a_cookie_of_ours_must_hold_an_id() -> None:
    """What is signed as a visitor's id and is none is replaced by a new one."""
    app = site("cookie")
    assert app.secret_key
    client = app.test_client()
    signer = URLSafeTimedSerializer(app.secret_key, salt="shipsilently-visitor")
    client.set_cookie(COOKIE, str(signer.dumps(["visitor-1"])))
    assert client.get("/").text.startswith("visitor-")


def test_other_reasons_for_a_page_to_vary_stay() -> None:
    """`Vary: Cookie` comes beside what the view says itself."""
    app = site("cookie")

    @app.get("/varying")
    def varying() -> tuple[str, dict[str, str]]:
        return flags.get("me", ""), {"Vary": "Accept"}

    assert app.test_client().get("/varying").headers["Vary"] == "Accept, Cookie"


def test_an_older_secret_key_still_counts() -> None:
    """After the secret key was changed, visitors keep their id while the old one is a fallback."""
    app = site("cookie")
    client = app.test_client()
    before = client.get("/").text
    app.config["SECRET_KEY_FALLBACKS"] = [app.secret_key]
    app.secret_key = "another made up one"
    assert client.get("/").text == before


@pytest.mark.parametrize("place", ["session", "cookie"])
def test_a_missing_secret_key_costs_no_request(
    place: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Flags are for nobody then, one line names the key, and once it is set visitors have ids."""
    app = site(place)
    app.secret_key = None
    client = app.test_client()
    assert [client.get("/").text for _ in range(2)] == ["nobody", "nobody"]
    lines = [record.getMessage() for record in caplog.records if record.name == "shipsilently"]
    assert len(lines) == 1
    assert "needs the app's SECRET_KEY" in lines[0]
    app.secret_key = "made up"
    assert client.get("/").text.startswith("visitor-")


def test_a_session_that_needs_no_secret_key_is_used() -> None:
    """A session that is kept on the server holds the id without one."""
    app = site("session")
    app.secret_key = None
    interface = app.session_interface
    kept: dict[str, Any] = {}

    class OnServer(type(interface)):  # type: ignore[misc]  # a class that is found out
        def open_session(self, app: Flask, request: Any) -> Any:
            return self.session_class(kept)

        def save_session(self, app: Flask, session: Any, response: Any) -> None:
            kept.update(session)

    app.session_interface = OnServer()
    client = app.test_client()
    first = client.get("/").text
    assert first.startswith("visitor-")
    assert client.get("/").text == first


@pytest.mark.parametrize("key", ["made up", None])
def test_a_request_without_a_session_has_no_visitor(
    key: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    """Where the session interface gives none, flags are for nobody; elsewhere nothing changes."""
    app = site("session")
    interface = app.session_interface

    class NotEverywhere(type(interface)):  # type: ignore[misc]  # a class that is found out
        def open_session(self, app: Flask, request: Any) -> Any:
            return None if request.path == "/api" else super().open_session(app, request)

    app.session_interface = NotEverywhere()
    app.add_url_rule("/api", view_func=lambda: flags.get("me", ""), endpoint="api")
    client = app.test_client()
    first = client.get("/").text
    app.secret_key = key
    answer = client.get("/api")
    assert (answer.text, "Set-Cookie" in answer.headers) == ("nobody", False)
    assert client.get("/api", headers={"User": "ada"}).text == "ada"
    lines = [record.getMessage() for record in caplog.records if record.name == "shipsilently"]
    assert ["needs the app's SECRET_KEY" in line for line in lines] == [True] * (key is None)
    app.secret_key = "made up"
    assert client.get("/").text == first


def test_the_threads_of_a_request_are_the_same_visitor() -> None:
    """A thread that reads first, and the request after it, have one id between them."""
    app = site("cookie")
    with app.test_request_context():
        copied = copy_current_request_context(lambda: flags.get("me", ""))
        assert in_thread(copied) == flags.get("me", "")


@pytest.mark.parametrize("place", ["session", "cookie"])
@pytest.mark.parametrize("where", ["app, earlier", "app", "blueprint", "this request", "async"])
def test_the_first_flag_may_be_read_when_the_answer_is_there(place: str, where: str) -> None:
    """A visitor whose first flag is read in an `after_request` function keeps the id as well."""

    def tail(response: Response) -> Response:
        response.headers["X-Me"] = flags.get("me", "")
        return response

    async def asynchronous_tail(response: Response) -> Response:
        return tail(response)

    app = bare_app()
    if where == "app, earlier":
        app.after_request(tail)
    ShipSilently(app, client=client_of(ScriptedService(for_user)), anonymous_id=place)
    blueprint = Blueprint("shop", __name__)

    @blueprint.get("/")
    def page() -> str:
        if where == "this request":
            after_this_request(tail)
        return "page"

    if where == "app":
        app.after_request(tail)
    elif where == "async":
        app.after_request(asynchronous_tail)
    elif where == "blueprint":
        blueprint.after_request(tail)
    app.register_blueprint(blueprint)
    client = app.test_client()
    first, second = client.get("/"), client.get("/")
    assert first.headers["X-Me"] == second.headers["X-Me"]
    assert first.headers["X-Me"].startswith("visitor-")
    assert (first.headers["Vary"], second.headers["Vary"]) == ("Cookie", "Cookie")
    assert len(first.headers.getlist("Set-Cookie")) == 1
    assert "Set-Cookie" not in second.headers or place == "session"


def test_an_answer_that_an_error_took_the_place_of_has_the_cookie() -> None:
    """Where a function that sees the answer has raised, the page of the error sets the cookie."""
    app = site("cookie")
    app.config["PROPAGATE_EXCEPTIONS"] = False
    app.logger.disabled = True
    read: list[str] = []

    @app.after_request
    def fail(response: Response) -> Response:
        read.append(flags.get("me", ""))
        if len(read) == 1:
            raise LookupError
        return response

    answer = app.test_client().get("/plain")
    assert answer.status_code == 500
    assert COOKIE in answer.headers["Set-Cookie"]


def test_the_first_flag_may_be_read_in_a_thread() -> None:
    """The id that a thread of the request was given reaches the browser."""
    app = site("cookie")
    app.add_url_rule(
        "/thread",
        "thread",
        lambda: in_thread(copy_current_request_context(lambda: flags.get("me", ""))),
    )
    client = app.test_client()
    answer = client.get("/thread")
    assert answer.headers["Vary"] == "Cookie"
    assert client.get("/thread").text == answer.text


@pytest.mark.parametrize("place", [None, "session"])
def test_only_a_cookie_of_its_own_costs_other_answers_something(place: str | None) -> None:
    """Without such a cookie nothing looks at the answers of an app."""
    assert not site(place).after_request_funcs


def test_a_reload_keeps_the_visitor() -> None:
    """A request that loads its context again still has the same visitor, and sets one id."""
    app = site("cookie")
    extension = app.extensions["shipsilently"].extension

    @app.get("/reload")
    def reload() -> str:
        before = flags.get("me", "")
        extension.reload_context()
        return "same" if flags.get("me", "") == before else "another"

    client = app.test_client()
    answer = client.get("/reload")
    assert answer.text == "same"
    assert len(answer.headers.getlist("Set-Cookie")) == 1
