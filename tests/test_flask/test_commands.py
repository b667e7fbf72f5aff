"""`flask shipsilently evaluate`, `list` and `watch`, as people type them."""

import json
import signal
import threading
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from flask import Flask
from shipsilently_flask import ShipSilently

from shipsilently_core import ConnectionState, ShipSilentlyClient
from shipsilently_core.testing import ScriptedService
from tests.cli.streams import APART

from .apps import bare_app, client_of, make_app


def rows(context: dict[str, Any]) -> dict[str, Any]:
    """Flags that show what was asked."""
    return {"plan": context.get("plan"), "on": context.get("userId") == "ada", "limit": 3}


@pytest.fixture
def service() -> ScriptedService:
    """A service with these flags."""
    return ScriptedService(rows)


@pytest.fixture
def app(service: ScriptedService) -> Flask:
    """An app on that service."""
    return make_app(service)


def run(app: Flask, *words: str) -> Result:
    """What the command does."""
    return app.test_cli_runner(**APART).invoke(args=["shipsilently", *words])


def test_a_flag_is_evaluated_for_a_user(app: Flask, service: ScriptedService) -> None:
    """`evaluate` prints one flag for the user that is named, after one call."""
    result = run(app, "evaluate", "on", "--user", "ada")
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        "flag  value  reason   from",
        "on    true   default  server",
    ]
    assert len(service.requests) == 1


def test_attributes_are_json_or_strings(app: Flask) -> None:
    """`--attr` takes numbers and booleans as JSON spells them, and everything else as text."""
    for given, shown in (("pro", '"pro"'), ("3", "3"), ("true", "true"), ("a=b", '"a=b"')):
        result = run(app, "evaluate", "plan", "--attr", f"plan={given}", "--json")
        assert json.dumps(json.loads(result.stdout)[0]["value"]) == shown


def test_all_flags_are_listed_by_key(app: Flask, service: ScriptedService) -> None:
    """`list` prints every flag in the order of their keys, after one call."""
    result = run(app, "list", "--user", "bob", "--attr", "plan=pro")
    assert [line.split()[:2] for line in result.stdout.splitlines()[1:]] == [
        ["limit", "3"],
        ["on", "false"],
        ["plan", '"pro"'],
    ]
    assert len(service.requests) == 1


def test_json_tells_everything(app: Flask) -> None:
    """`--json` prints a list of objects that programs can read."""
    result = run(app, "list", "--json")
    assert json.loads(result.stdout)[0] == {
        "flagKey": "limit",
        "value": 3,
        "reason": "default",
        "ruleId": None,
        "source": "server",
        "error": None,
    }


def test_an_unknown_flag_is_a_failure(app: Flask) -> None:
    """A flag that does not exist gives the default, says so, and ends with status 1."""
    result = run(app, "evaluate", "nothing", "--default", '"blue"')
    assert result.exit_code == 1
    assert result.stdout.splitlines()[1].split() == [
        "nothing",
        '"blue"',
        "flag_not_found",
        "not_found",
    ]


def test_an_outage_is_told(app: Flask, service: ScriptedService) -> None:
    """Without an answer both commands end with status 1 and say what is wrong."""
    service.fail(401)
    result = run(app, "evaluate", "on")
    assert (result.exit_code, result.stdout.split()[-1]) == (1, "auth")
    result = run(app, "list")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == "Error: the key is refused (HTTP 401)\n"


@pytest.mark.parametrize("words", [["list"], ["evaluate", "on"]])
def test_an_outage_without_a_cache_is_one_line(service: ScriptedService, words: list[str]) -> None:
    """With the cache switched off the command ends with one line instead of a traceback."""
    service.fail(503)
    app = bare_app()
    ShipSilently(app, client=client_of(service, disable_cache=True))
    result = run(app, *words)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == "Error: the service failed (HTTP 503)\n"


@pytest.mark.parametrize("given", ["plan", "=pro"])
def test_an_attribute_needs_a_name_and_a_value(app: Flask, given: str) -> None:
    """An attribute that is not NAME=VALUE is refused before anything is asked."""
    result = run(app, "evaluate", "on", "--attr", given)
    assert result.exit_code == 2
    assert "is not NAME=VALUE" in result.stderr


@pytest.mark.parametrize(
    "words",
    [
        ("--context", "plan=pro", "--context", "userId=ada"),
        ("--context", '{"plan": "pro", "userId": "ada"}'),
        ("--attr", '{"plan": "pro"}', "--user", "ada"),
    ],
)
def test_the_forms_of_the_other_commands_are_taken(app: Flask, words: tuple[str, ...]) -> None:
    """What `shipsilently` and `manage.py` take as a context is one here as well."""
    shown = {
        row["flagKey"]: row["value"]
        for row in json.loads(run(app, "list", "--json", *words).output)
    }
    assert (shown["plan"], shown["on"]) == ("pro", True)


def test_the_group_explains_itself(app: Flask) -> None:
    """`flask shipsilently` lists its commands."""
    result = run(app, "--help")
    assert "evaluate" in result.stdout
    assert "list" in result.stdout


def test_watch_prints_what_there_is_and_what_changes() -> None:
    """`watch` prints every flag, then each change as it comes, and lets go of its subscription."""
    service = ScriptedService({"a": 1, "b": {"deep": True}, "c": "old"}, streaming=True)
    client = ShipSilentlyClient(api_key="sk_test", transport=service)
    pause = threading.Event()

    def change() -> None:
        for _ in range(500):
            if client.connection_state is ConnectionState.STREAMING and len(service.requests) >= 2:
                break
            pause.wait(0.01)
        service.set({"a": 1, "b": {"deep": False}})
        for _ in range(100):
            service.send_event()
            if pause.wait(0.05):
                break

    changer = threading.Thread(target=change)
    changer.start()
    try:
        result = run(make_app(client=client), "watch", "--user", "ada", "--count", "7")
    finally:
        pause.set()
        changer.join(10)
        client.close()
    assert result.exit_code == 0
    lines = [line.split("  ", 1)[1] for line in result.stdout.splitlines()]
    assert lines[0].startswith("watching")
    assert "state     streaming" in lines
    assert [line for line in lines if line.startswith(("flag", "change"))] == [
        "flag      a  1 (default)",
        'flag      b  {"deep": true} (default)',
        'flag      c  "old" (default)',
        'change    b  {"deep": true} → {"deep": false} (default)',
        'change    c  "old" → not there',
    ]


def test_watch_ends_quietly_on_ctrl_c(app: Flask) -> None:
    """An interrupt ends the command with status 0 and no traceback."""
    here, client = threading.get_ident(), app.extensions["shipsilently"].client
    pause = threading.Event()

    def interrupt() -> None:
        while client.connection_state is ConnectionState.IDLE:
            pause.wait(0.01)
        pause.wait(0.1)
        signal.pthread_kill(here, signal.SIGINT)

    interrupter = threading.Thread(target=interrupt)
    interrupter.start()
    result = run(app, "watch", "--count", "100")
    interrupter.join(10)
    client.close()
    assert result.exit_code == 0


def test_a_snapshot_is_what_bootstrap_reads(app: Flask, tmp_path: Path) -> None:
    """`snapshot` prints or writes every flag, for the client's own context or for a user."""
    printed = json.loads(run(app, "snapshot").stdout)
    assert printed["flags"]["on"] == {"value": False, "reason": "default"}
    path = tmp_path / "flags.json"
    result = run(app, "snapshot", "-o", str(path), "--user", "ada", "--attr", "plan=pro")
    assert (result.exit_code, result.stdout) == (0, "")
    written = json.loads(path.read_text())["flags"]
    assert (written["on"]["value"], written["plan"]["value"]) == (True, "pro")
    shop = bare_app(SHIPSILENTLY_API_KEY="sk_test", SHIPSILENTLY_BOOTSTRAP=str(path))
    ShipSilently(shop)


def test_a_snapshot_without_an_answer_is_a_failure(
    app: Flask, service: ScriptedService, tmp_path: Path
) -> None:
    """The reason is one line, and nothing is written."""
    service.fail(503)
    result = run(app, "snapshot", "-o", str(tmp_path / "flags.json"))
    assert result.exit_code == 1
    assert result.stderr == "Error: the service failed (HTTP 503)\n"
    assert list(tmp_path.iterdir()) == []
