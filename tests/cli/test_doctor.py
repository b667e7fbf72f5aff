"""`shipsilently doctor`."""

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from shipsilently_cli import main
from shipsilently_local import LocalService
from tests.cli.streams import APART
from tests.local.test_cli_group import run_without


def run(*words: str) -> Result:
    """What the command does."""
    return CliRunner(**APART).invoke(main, ["doctor", *words])


def test_all_is_well(service: LocalService) -> None:
    """Against a service that is well it ends with 0, having waited for a heartbeat."""
    shown = run()
    assert (shown.exit_code, shown.stdout.splitlines()[-1]) == (0, "All is well.")
    assert "waiting for a heartbeat" in shown.stderr
    assert any(line.startswith("ok       heartbeat") for line in shown.stdout.splitlines())


def test_quick_does_not_wait(service: LocalService) -> None:
    """With `--quick` no heartbeat is waited for, and less is measured."""
    shown = run("--quick")
    assert (shown.exit_code, shown.stderr) == (0, "")
    assert "(of 3 each)" in shown.stdout


def test_json_is_one_document(service: LocalService) -> None:
    """`--json` prints one document and nothing else on standard output."""
    report = json.loads(run("--json").stdout)
    assert report["result"] == "ok"
    names = [check["check"] for check in report["checks"]]
    assert names.index("dns") < names.index("access") < names.index("heartbeat")


def test_a_service_that_is_down_is_told(service: LocalService) -> None:
    """With the service down it ends with 2 and names what is."""
    service.stop()
    shown = run("--json")
    assert shown.exit_code == 2
    report = json.loads(shown.stdout)
    assert report["result"] == "failure"
    assert [c["check"] for c in report["checks"] if c["level"] == "failure"] == ["tcp"]


def test_without_a_key_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a key there is a report all the same, whose first line names it."""
    for name in ("SHIPSILENTLY_API_KEY", "SHIPSILENTLY_KEY"):
        monkeypatch.delenv(name, raising=False)
    shown = run()
    assert shown.exit_code == 2
    assert shown.stdout.startswith("failure  configuration  api_key: is missing; set it")


def test_rich_is_not_needed(service: LocalService) -> None:
    """Without rich the same comes as plain text."""
    shown = run_without({"rich"}, "doctor", "--quick")
    assert (shown.returncode, shown.stderr) == (0, "")
    assert shown.stdout.endswith("All is well.\n")


FASTAPI = """
from fastapi import APIRouter, FastAPI
from shipsilently_fastapi import ShipSilently
shipsilently = ShipSilently()
app = FastAPI(lifespan=shipsilently.lifespan)
installed = FastAPI()
shipsilently.install(installed)
bare = FastAPI()
included = FastAPI(lifespan=shipsilently.lifespan)
included.include_router(APIRouter())
"""

FLASK = """
from flask import Flask
from shipsilently_flask import ShipSilently
app = Flask(__name__)
ShipSilently(app)
app.get("/")(lambda: flags.get("banner"))
bare = Flask("bare")
create_app = lambda: app
number = 7
"""

BROKEN = {
    "broken": "recognisable = {'sk_live_recognisable': 0}\n\n1 / recognisable.popitem()[1]",
    "attribute": "import json; json.recognisable",
    "syntax": "x = 1\nrecognisable = = 2",
    "needs": "import made_for_doctor_nowhere",
    "exit": "import sys\nsys.exit('recognisable')",
    "django": "from django.core.handlers.wsgi import WSGIHandler as W\napp = W.__new__(W)",
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The current folder, in which apps are."""
    monkeypatch.chdir(tmp_path)
    path, modules = list(sys.path), set(sys.modules)
    (tmp_path / "made_for_doctor").mkdir()
    (tmp_path / "made_for_doctor" / "fast.py").write_text(FASTAPI)
    (tmp_path / "made_for_doctor_flask.py").write_text(FLASK)
    (tmp_path / "templates").mkdir()
    (tmp_path / "templates" / "page.html").write_text("{{ flag('checkout-v2') }}")
    for name, text in BROKEN.items():
        (tmp_path / f"made_for_doctor_{name}.py").write_text(text)
    (tmp_path / "made_for_doctor_wrong.py").write_text(
        "from shipsilently_core import Config\nConfig(api_key='sk_x', timeout=-1)"
    )
    (tmp_path / "made_for_doctor" / "__init__.py").write_text("")
    yield tmp_path
    sys.path[:] = path
    for name in set(sys.modules) - modules:
        if name.startswith("made_for_doctor"):
            del sys.modules[name]


@pytest.mark.parametrize(
    "name",
    [
        "made_for_doctor.fast:app",
        "made_for_doctor.fast:installed",
        "made_for_doctor.fast:included",
        "made_for_doctor.fast:shipsilently",
        "made_for_doctor.fast:shipsilently.client",
        "made_for_doctor_flask:app",
    ],
)
def test_an_app_is_examined(service: LocalService, folder: Path, name: str) -> None:
    """`--app` takes the client of an app, of an extension, or itself, and the checklist counts."""
    shown = run("--quick", "--json", "--app", name)
    checks = {check["check"]: check for check in json.loads(shown.stdout)["checks"]}
    assert name in checks["configuration"]["text"]
    assert checks["access"]["level"] == "ok"
    assert checks["hooks"]["level"] == "warning"
    assert checks["fork"]["level"] == "ok"
    if "flask" in name:
        text = checks["defaults"]["text"]
        assert "banner (made_for_doctor_flask.py:6), checkout-v2 (page.html:1)" in text


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("made_for_doctor.fast", "write MODULE:NAME, like main:app"),
        ("made_for_doctor_nowhere:app", "there is no module made_for_doctor_nowhere"),
        ("made_for_doctor.fast:nothing", "made_for_doctor.fast has no nothing"),
        (
            "made_for_doctor_broken:app",
            (
                "importing made_for_doctor_broken raised ZeroDivisionError "
                "(made_for_doctor_broken.py, line 3); see all of it with  "
                "python -c 'import made_for_doctor_broken'"
            ),
        ),
        (
            "made_for_doctor_attribute:app",
            (
                "importing made_for_doctor_attribute raised AttributeError "
                "(made_for_doctor_attribute.py, line 1)"
            ),
        ),
        (
            "made_for_doctor_syntax:app",
            (
                "importing made_for_doctor_syntax raised SyntaxError "
                "(made_for_doctor_syntax.py, line 2)"
            ),
        ),
        (
            "made_for_doctor_needs:app",
            (
                "importing made_for_doctor_needs: there is no module made_for_doctor_nowhere "
                "(made_for_doctor_needs.py, line 1)"
            ),
        ),
        (
            "made_for_doctor_exit:app",
            "importing made_for_doctor_exit raised SystemExit (made_for_doctor_exit.py, line 2)",
        ),
        (
            "made_for_doctor.fast:bare",
            "made_for_doctor.fast:bare has no ShipSilently: give the app its lifespan",
        ),
        (
            "made_for_doctor_flask:bare",
            "made_for_doctor_flask:bare has no ShipSilently: call ShipSilently(app)",
        ),
        (
            "made_for_doctor_flask:create_app",
            (
                "is a function, not an app: name what it returns, in a module that calls it; of "
                "Flask's factories,  flask --app made_for_doctor_flask shipsilently doctor  calls"
            ),
        ),
        ("made_for_doctor_flask:Flask", "is a class, not an app"),
        (
            "made_for_doctor_flask:number",
            "is of the type int: name a FastAPI, Starlette or Flask app",
        ),
        ("made_for_doctor_django:app", "is Django's: run  python manage.py shipsilently doctor"),
    ],
)
def test_an_app_that_is_none_is_one_line(
    service: LocalService, folder: Path, name: str, message: str
) -> None:
    """What is wrong with `--app` is one line: what, where, and nothing of others' messages."""
    shown = run("--app", name)
    assert (shown.exit_code, shown.stdout) == (2, "")
    assert message in shown.stderr
    assert "recognisable" not in shown.stderr
    assert len(shown.stderr.splitlines()) == 1


def test_wrong_settings_of_an_app_are_the_cause(service: LocalService, folder: Path) -> None:
    """An app whose settings are wrong is a failure of `configuration`, told with its place."""
    shown = run("--json", "--app", "made_for_doctor_wrong:app")
    assert shown.exit_code == 2
    first = json.loads(shown.stdout)["checks"][0]
    assert (first["check"], first["level"]) == ("configuration", "failure")
    assert first["text"] == (
        "importing made_for_doctor_wrong: timeout: must be more than 0 seconds "
        "(made_for_doctor_wrong.py, line 2)"
    )


def test_a_folder_of_sources_is_read(service: LocalService, folder: Path) -> None:
    """`--source` says where flags are read, without loading anything."""
    (folder / "views.py").write_text('flags.get("bannr", "")')
    shown = run("--quick", "--source", os.fspath(folder))
    assert shown.exit_code == 1
    assert "read, but not in this environment: bannr (views.py:1)" in shown.stdout
