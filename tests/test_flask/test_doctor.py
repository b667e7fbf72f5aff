"""`flask shipsilently doctor`: the doctor's checks, and what it finds in the app itself."""

import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from flask import Flask
from shipsilently_flask import ShipSilently, requires_flag

from shipsilently_local import LocalService
from tests.cli.streams import APART

from .apps import bare_app, user_of_header

pytestmark = pytest.mark.usefixtures("fresh_process")

FLAGS = {"on": True, "color": "blue"}
ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalService]:
    """A service with these flags and quick heartbeats."""
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    with LocalService(FLAGS, heartbeat=0.1) as running:
        yield running


def site(service: LocalService, *, loader: Any = user_of_header, **settings: Any) -> Flask:
    """An app on that service."""
    app = bare_app()
    told: dict[str, Any] = {"api_key": service.key, "api_url": service.url, **settings}
    ShipSilently(app, context_loader=loader, **told)
    return app


def examine(app: Flask, *words: str) -> Result:
    """What the doctor says."""
    return app.test_cli_runner(**APART).invoke(args=["shipsilently", "doctor", *words])


def checks(result: Any) -> dict[str, dict[str, Any]]:
    """Each check of the report."""
    return {check["check"]: check for check in json.loads(result.stdout)["checks"]}


def test_a_good_set_up_is_ok(service: LocalService) -> None:
    """With a loader, gates in order, hooks, a service and a stream all is well."""
    settings: dict[str, Any] = {"on_state_change": print, "on_error": print}
    app = site(service, client_flags=("on",), defaults={"on": False}, **settings)
    app.add_url_rule("/", "page", requires_flag("on")(lambda: "page"))
    result = examine(app)
    assert (result.exit_code, result.stdout.splitlines()[-1]) == (0, "All is well.")
    assert "waiting for a heartbeat" in result.stderr
    for name in ("heartbeat", "context", "gates"):
        assert any(line.startswith(f"ok       {name} ") for line in result.stdout.splitlines())


def test_an_unknown_flag_for_the_browser_is_a_warning(service: LocalService) -> None:
    """A flag that a browser is to get and that does not exist is told."""
    named = ("on", "gone", "col*", "public-*")
    result = examine(site(service, client_flags=named), "--quick", "--json")
    assert result.exit_code == 1
    text = checks(result)["browser"]["text"]
    assert text.endswith("there is no flag 'gone', 'public-*'")


@pytest.mark.parametrize(
    ("login", "text"), [(False, "everybody gets the same flags"), (True, "Flask-Login's")]
)
def test_whom_flags_are_for_is_told(service: LocalService, login: bool, text: str) -> None:
    """Without a loader it is Flask-Login's user, or nobody in particular."""
    app = site(service, loader=None)
    if login:
        app.login_manager = object()  # type: ignore[attr-defined]  # as Flask-Login does
    context = checks(examine(app, "--quick", "--json"))["context"]
    assert (context["level"], text in context["text"]) == ("ok", True)


@pytest.mark.parametrize("place", ["session", "cookie"])
def test_visitors_without_a_secret_key_are_a_failure(service: LocalService, place: str) -> None:
    """A visitor's id that cannot be signed is told; one that can is no line of the report."""
    app = site(service, anonymous_id=place)
    assert "visitors" not in checks(examine(app, "--quick", "--json"))
    app.secret_key = None
    result = examine(app, "--quick", "--json")
    assert (result.exit_code, checks(result)["visitors"]["level"]) == (2, "failure")
    assert "SECRET_KEY" in checks(result)["visitors"]["text"]


def test_a_gate_above_its_route_is_a_failure(service: LocalService) -> None:
    """The doctor finds gates that guard nothing, without a request."""
    app = site(service)

    @requires_flag("on")
    @app.get("/")
    def page() -> str:
        return "page"

    result = examine(app, "--quick", "--json")
    assert (result.exit_code, checks(result)["gates"]["level"]) == (2, "failure")


def test_an_open_view_whose_gate_nobody_uses_is_a_warning(service: LocalService) -> None:
    """What requests are served in spite of is seen in the report."""
    app = site(service)

    def page() -> str:
        return "page"

    app.add_url_rule("/", "page", page)
    requires_flag("on")(page)
    gates = checks(examine(app, "--quick", "--json"))["gates"]
    assert (gates["level"], "the endpoint 'page'" in gates["text"]) == ("warning", True)


@pytest.fixture
def flask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Runs ``flask`` beside the file of an app, with the commands that the distribution brings."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        brought = tomllib.load(file)["project"]["entry-points"]["flask.commands"]
    lines = [f"{name} = {target}" for name, target in brought.items()]
    installed = tmp_path / "installed" / "made_for_flask-1.dist-info"
    installed.mkdir(parents=True)
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: made-for-flask\nVersion: 1\n")
    (installed / "entry_points.txt").write_text("\n".join(["[flask.commands]", *lines, ""]))
    folders = [os.fspath(installed.parent), *filter(None, sys.path)]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(folders))
    for name in ("SHIPSILENTLY_API_KEY", "SHIPSILENTLY_KEY"):
        monkeypatch.delenv(name, raising=False)

    def run(text: str, *words: str) -> subprocess.CompletedProcess[str]:
        (tmp_path / "app.py").write_text(text)
        return subprocess.run(
            [sys.executable, "-m", "flask", "shipsilently", *words],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=40,
            check=False,
        )

    return run


OWN_COMMANDS = """
import click
from flask import Flask

app = Flask("shop")

@app.cli.group("shipsilently")
def own(): "The app's own."

@own.command("mine")
def mine(): click.echo("the app's own command")
"""
MORE_COMMANDS = """
import click
from flask import Flask
from shipsilently_flask import ShipSilently

app = Flask("shop")
ShipSilently(app, api_key="sk_local", api_url="http://127.0.0.1:9")

@app.cli.commands["shipsilently"].command("mine")
def mine(): click.echo("the app's own command")
"""


@pytest.mark.parametrize("text", [OWN_COMMANDS, MORE_COMMANDS], ids=["own", "more"])
def test_an_app_may_have_commands_of_its_own_under_this_name(
    flask: Callable[..., Any], text: str
) -> None:
    """What the distribution brings to every app does not stand before what an app has itself."""
    assert flask(text, "mine").stdout == "the app's own command\n"
    assert "mine" in flask(text, "--help").stdout


def test_a_gate_that_leads_nowhere_is_a_failure(service: LocalService) -> None:
    """A misspelt `redirect_to` is found while the flag is still on, and nobody refused."""
    app = site(service)
    app.add_url_rule("/", "page", requires_flag("on", redirect_to="lgoin")(lambda: "page"))
    result = examine(app, "--quick", "--json")
    assert (result.exit_code, checks(result)["gates"]["level"]) == (2, "failure")
    assert "the gate of 'page' has redirect_to='lgoin'" in checks(result)["gates"]["text"]


@pytest.mark.parametrize("as_json", [False, True])
def test_settings_that_keep_the_app_from_loading_are_a_failure(
    flask: Callable[..., Any], as_json: bool
) -> None:
    """An app whose import raises for a missing key is a failure with status 2, no traceback."""
    broken = "from flask import Flask\nfrom shipsilently_flask import ShipSilently\n"
    broken += "app = Flask('shop')\nShipSilently(app)"
    ended = flask(broken, "doctor", *(["--json"] if as_json else []))
    assert (ended.returncode, ended.stderr) == (2, "")
    if as_json:
        first = json.loads(ended.stdout)["checks"][0]
        assert (first["check"], first["level"]) == ("configuration", "failure")
    else:
        assert ended.stdout.startswith("failure  configuration  SHIPSILENTLY_API_KEY: is missing")


def test_an_app_that_loads_is_examined_as_before(
    flask: Callable[..., Any], service: LocalService
) -> None:
    """The command of the distribution does for a good app what the app's own does."""
    good = "from flask import Flask\nfrom shipsilently_flask import ShipSilently\n"
    good += f"app = Flask('shop')\nShipSilently(app, api_key='sk_local', api_url={service.url!r})"
    ended = flask(good, "doctor", "--quick", "--json")
    assert checks(ended)["access"]["level"] == "ok"
    shown = flask(good, "list", "--json")
    assert [row["flagKey"] for row in json.loads(shown.stdout)] == ["color", "on"]


@pytest.mark.parametrize("word", ["doctor", "list"])
def test_an_app_without_the_extension_is_told_so(flask: Callable[..., Any], word: str) -> None:
    """Where no ShipSilently was set up, that is one line and status 2."""
    ended = flask("from flask import Flask\napp = Flask('shop')", word)
    assert ended.returncode == 2
    assert "the app 'shop' has no ShipSilently: write ShipSilently(app)" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_wrong_key_is_named(service: LocalService) -> None:
    """A refused key is a failure at its own line, and is not shown."""
    result = examine(site(service, api_key="sk_live_recognisable"), "--quick")
    assert result.exit_code == 2
    assert result.stdout.splitlines()[-1] == "The cause: access: the key is refused (HTTP 401)."
    assert "recognisable" not in result.stdout + result.stderr


@pytest.mark.parametrize("alone", [False, True])
def test_reads_are_found_in_the_apps_own_code(
    service: LocalService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, alone: bool
) -> None:
    """A package is searched as a whole, a single file with its templates and nothing beside it."""
    name = f"made_for_flask_doctor_{alone}".lower()
    folder = tmp_path if alone else tmp_path / name
    (folder / "templates").mkdir(parents=True)
    (folder / "templates" / "page.html").write_text("{% if flag('page') %}{% endif %}")
    (folder / "other.py").write_text("flags.get('other')")
    (folder / (f"{name}.py" if alone else "__init__.py")).write_text(
        "def view():\n    return flags.get('main')"
    )
    monkeypatch.syspath_prepend(tmp_path)
    __import__(name)
    app = Flask(name)
    ShipSilently(app, api_key=service.key, api_url=service.url)
    text = checks(examine(app, "--quick", "--json"))["defaults"]["text"]
    assert ("main (" in text, "page (" in text, "other (" in text) == (True, True, not alone)
