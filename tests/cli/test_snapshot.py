"""`shipsilently snapshot`."""

import json
import os
import stat
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from shipsilently_cli import main
from shipsilently_core import ShipSilentlyClient, Source
from shipsilently_core.testing import ScriptedService
from shipsilently_local import LocalService
from tests.cli.streams import APART

PRO = ("--context", '{"plan": "pro"}')


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test has a folder of its own."""
    monkeypatch.chdir(tmp_path)


def run(*words: str) -> Result:
    """What the command does."""
    return CliRunner(**APART).invoke(main, ["snapshot", *words])


def flags_of(text: str) -> Any:
    """The flags of a document, once its head is right."""
    document = json.loads(text)
    assert list(document) == ["format", "evaluated", "flags"]
    assert document["format"] == 1
    age = datetime.now(UTC) - datetime.fromisoformat(document["evaluated"])
    assert timedelta(0) <= age < timedelta(minutes=1)
    return document["flags"]


def test_a_dash_is_standard_output(service: LocalService, tmp_path: Path) -> None:
    """As for other commands, no file of that name is made."""
    shown = run("-o", "-")
    assert (shown.exit_code, shown.stderr) == (0, "2 flags\n")
    assert set(flags_of(shown.stdout)) == {"banner", "checkout-v2"}
    assert list(tmp_path.iterdir()) == []


def test_what_is_printed_is_what_bootstrap_reads(service: LocalService, tmp_path: Path) -> None:
    """Every flag for the background context, after one call; a client serves it in an outage."""
    shown = run()
    assert shown.exit_code == 0
    assert flags_of(shown.stdout) == {
        "banner": {"value": "Good morning", "reason": "default"},
        "checkout-v2": {"value": False, "reason": "default"},
    }
    assert shown.stderr == "2 flags\n"
    assert [request.path for request in service.requests] == ["/v1/evaluate/batch"]
    (tmp_path / "flags.json").write_text(shown.stdout)
    silent = ScriptedService()
    silent.fail(503)
    client = ShipSilentlyClient(
        api_key="sk_test", bootstrap="flags.json", transport=silent, background=False
    )
    found = client.flags({"userId": "ada"}).detail("banner", "")
    assert (found.value, found.source) == ("Good morning", Source.BOOTSTRAP)


def test_keys_are_sorted_and_what_is_not_ascii_stays_readable(service: LocalService) -> None:
    """So that a difference between two files is one of flags, and can be read."""
    service.set_flags({"ü": {"default": {"b": "größer", "a": 1}}, "a": {"default": True}})
    lines = run().stdout.splitlines()
    assert [line.strip() for line in lines[3:]] == [
        '"flags": {',
        '"a": {',
        '"reason": "default",',
        '"value": true',
        "},",
        '"ü": {',
        '"reason": "default",',
        '"value": {',
        '"a": 1,',
        '"b": "größer"',
        "}",
        "}",
        "}",
        "}",
    ]


def test_what_a_rule_made_is_left_out(service: LocalService) -> None:
    """It holds for this context alone, so it would be served to nobody; that is said."""
    shown = run(*PRO)
    assert shown.exit_code == 0
    assert list(flags_of(shown.stdout)) == ["banner"]
    assert shown.stderr.splitlines() == [
        "1 flag",
        "left out, since a rule made them for this context alone: checkout-v2",
    ]


def test_a_file_is_replaced_as_a_whole(service: LocalService, tmp_path: Path) -> None:
    """It keeps its permissions, a link stays one, and nothing is left beside it."""
    real, link = tmp_path / "real.json", tmp_path / "link.json"
    real.write_text('{"flags": {"old": {"value": 1, "reason": "default"}}}')
    real.chmod(0o640)
    link.symlink_to(real)
    shown = run("-o", "link.json")
    assert (shown.exit_code, shown.stdout, shown.stderr) == (0, "", "link.json: 2 flags\n")
    assert link.is_symlink()
    assert list(flags_of(real.read_text())) == ["banner", "checkout-v2"]
    assert stat.S_IMODE(real.stat().st_mode) == 0o640
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link.json", "real.json"]


def test_a_new_file_can_be_read_by_others(service: LocalService, tmp_path: Path) -> None:
    """It has the permissions of any new file: it is shipped, and holds no secret."""
    assert run("-o", "flags.json").exit_code == 0
    (tmp_path / "plain").touch()
    assert (tmp_path / "flags.json").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_the_same_flags_leave_a_file_as_it_is(service: LocalService, tmp_path: Path) -> None:
    """No difference but for the time; `1` and `true` are not the same."""
    service.set_flags({"a": {"default": True}})
    run("-o", "flags.json")
    path = tmp_path / "flags.json"
    path.write_text(path.read_text().replace("20", "19", 1))
    before = path.read_text()
    assert run("-o", "flags.json").stderr == "flags.json: unchanged, 1 flag\n"
    assert path.read_text() == before
    for number in (2, 1):
        service.set_flags({"a": {"default": number}})
    assert run("-o", "flags.json").stderr == "flags.json: 1 flag\n"
    assert flags_of(path.read_text())["a"]["value"] == 1


def test_what_is_no_file_is_written_to(service: LocalService) -> None:
    """A device or a pipe stays what it is."""
    assert run("-o", os.devnull).exit_code == 0
    assert stat.S_ISCHR(os.stat(os.devnull).st_mode)


@pytest.mark.parametrize(
    ("how", "reason"),
    [
        ("stopped", "the service cannot be reached"),
        ("refused", "the key is refused (HTTP 401)"),
        ("failing", "the service failed (HTTP 503)"),
    ],
)
def test_without_an_answer_nothing_is_written(
    how: str, reason: str, service: LocalService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The old file stays, the reason is one line without the key, and the status is 2."""
    (tmp_path / "flags.json").write_text("old")
    if how == "stopped":
        service.stop()
    elif how == "refused":
        monkeypatch.setenv("SHIPSILENTLY_API_KEY", "sk_live_recognisable")
    else:
        service.fault(status=503)
    for words in ([], ["-o", "flags.json"]):
        shown = run(*words)
        assert (shown.exit_code, shown.stdout) == (2, "")
        assert shown.stderr == f"Error: {reason}\n"
        assert len(shown.stderr.splitlines()) == 1
        assert "recognisable" not in shown.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["flags.json"]
    assert (tmp_path / "flags.json").read_text() == "old"


def test_with_the_cache_switched_off_a_failure_is_one_line(
    service: LocalService, tmp_path: Path
) -> None:
    """What raises for an app's own client is told as any other failure."""
    service.stop()
    (tmp_path / "quiet_app.py").write_text(
        "from shipsilently_core import ShipSilentlyClient\n"
        "client = ShipSilentlyClient(disable_cache=True)\n"
    )
    words = ["snapshot", "--app", "quiet_app:client"]
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "shipsilently_cli", *words],
        capture_output=True,
        text=True,
        timeout=50,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("Error: ")
    assert len(done.stderr.splitlines()) == 1


def test_a_file_that_cannot_be_written_is_one_line(service: LocalService, tmp_path: Path) -> None:
    """The status is 2, and nothing is left behind."""
    shown = run("-o", "missing/flags.json")
    assert shown.exit_code == 2
    assert shown.stderr == "Error: missing/flags.json: No such file or directory\n"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("flags.json", '{"flags": {"on": {"enabled": true, "default": true, "rules": []}}}'),
        ("flags.toml", "[flags.on]\nenabled = true\n"),
        ("notes.txt", "not to be lost"),
    ],
)
def test_what_is_no_snapshot_is_not_replaced(
    service: LocalService, tmp_path: Path, name: str, text: str
) -> None:
    """A flags file of the local service, or anything else, stays; an empty file may be filled."""
    path = tmp_path / name
    path.write_text(text)
    shown = run("-o", name)
    assert (shown.exit_code, path.read_text()) == (2, text)
    assert shown.stderr == (
        f"Error: {name}: holds something else than a snapshot; move it away, or name another file\n"
    )
    assert list(tmp_path.iterdir()) == [path]
    path.write_text("\n")
    assert run("-o", name).exit_code == 0
    assert run("--check", name).exit_code == 0


def test_a_file_can_be_checked(service: LocalService, tmp_path: Path) -> None:
    """`--check` asks no service and needs no key; what would be served to nobody is named."""
    run("-o", "flags.json")
    service.stop()
    service.requests.clear()
    shown = run("--check", "flags.json")
    assert (shown.exit_code, shown.stdout) == (0, "flags.json: 2 flags\n")
    personal = {"flags": {"a": {"value": 1, "reason": "rollout"}}}
    (tmp_path / "flags.json").write_text(json.dumps(personal))
    shown = run("--check", "flags.json")
    assert (shown.exit_code, shown.stdout.splitlines()[1]) == (
        0,
        "flags.json: served to nobody, since a rule for somebody made them: a",
    )


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (None, "cannot be read"),
        ("{", "is not the JSON that `shipsilently snapshot` writes"),
        ('{"a": true}', "no object `flags`"),
        (
            '{"flags": {"a": {"value": 1, "reason": "default"}, "b": {"value": 1}}}',
            "flag 'b' is no result: it needs a value and a reason",
        ),
    ],
)
def test_a_file_that_would_not_be_taken_is_told(
    text: str | None, told: str, tmp_path: Path
) -> None:
    """`--check` says what is wrong and ends with status 2."""
    if text is not None:
        (tmp_path / "flags.json").write_text(text)
    shown = run("--check", "flags.json")
    assert shown.exit_code == 2
    assert shown.stderr.startswith("Error: flags.json: ")
    assert told in shown.stderr
