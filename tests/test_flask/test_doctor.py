"""`flask shipsilently doctor`: the doctor's checks, and what it finds in the app itself."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from flask import Flask
from shipsilently_flask import ShipSilently, requires_flag

from shipsilently_local import LocalService

from .apps import bare_app, user_of_header

pytestmark = pytest.mark.usefixtures("fresh_process")

FLAGS = {"on": True, "color": "blue"}


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
    return app.test_cli_runner().invoke(args=["shipsilently", "doctor", *words])


def checks(result: Result) -> dict[str, dict[str, Any]]:
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
    result = examine(site(service, client_flags=("on", "gone")), "--quick", "--json")
    assert result.exit_code == 1
    assert "there is no flag 'gone'" in checks(result)["browser"]["text"]


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


def test_a_gate_above_its_route_is_a_failure(service: LocalService) -> None:
    """The doctor finds gates that guard nothing, without a request."""
    app = site(service)

    @requires_flag("on")
    @app.get("/")
    def page() -> str:
        return "page"

    result = examine(app, "--quick", "--json")
    assert (result.exit_code, checks(result)["gates"]["level"]) == (2, "failure")


def test_a_wrong_key_is_named(service: LocalService) -> None:
    """A refused key is a failure at its own line, and is not shown."""
    result = examine(site(service, api_key="sk_live_recognisable"), "--quick")
    assert result.exit_code == 2
    assert result.stdout.splitlines()[-1] == "The cause: access: the key is refused (HTTP 401)."
    assert "recognisable" not in result.output


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
