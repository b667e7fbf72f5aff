"""Where the commands print: pipes and encodings that are not what a terminal is."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from shipsilently_local import LocalService

from .running import OWN

ROOT = Path(__file__).resolve().parent.parent.parent


def printed(encoding: str, *words: str) -> tuple[int, str]:
    """The status and what a command prints into a pipe of this encoding; nothing goes wrong."""
    shown = subprocess.run(
        [sys.executable, "-W", "error", *OWN, *words],
        cwd=ROOT,
        env={**os.environ, "PYTHONIOENCODING": encoding},
        capture_output=True,
        timeout=30,
        check=False,
    )
    assert shown.stderr == b""
    return shown.returncode, shown.stdout.decode(encoding)


@pytest.mark.parametrize("encoding", ["cp1252", "latin-1", "utf-8"])
def test_json_survives_every_encoding(service: LocalService, encoding: str) -> None:
    """What the output's encoding does not have is escaped as JSON has it."""
    service.set_flag("snow", default="☃ é 😀")
    status, text = printed(encoding, "evaluate", "snow", "--json")
    assert (status, json.loads(text)["value"]) == (0, "☃ é 😀")
    assert "é" in text


def test_a_report_survives_every_encoding(
    service: LocalService, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A report goes into a file of Windows too, though its arrows do not."""
    monkeypatch.setenv("SHIPSILENTLY_API_KEY", "sk_live_of_another")
    status, text = printed("cp1252", "doctor", "--quick")
    assert status == 2
    assert "key            sk_live_… (18 characters)" in text
    assert "\\u2192 Copy the SDK key" in text
    assert text.splitlines()[-1] == "The cause: access: the key is refused (HTTP 401)."


def test_without_an_output_the_status_tells(service: LocalService) -> None:
    """With standard output closed the doctor looks all the same."""
    shown = subprocess.run(
        ["sh", "-c", 'exec "$@" >&-', "sh", sys.executable, *OWN, "doctor", "--quick"],
        cwd=ROOT,
        stderr=subprocess.PIPE,
        timeout=30,
        check=False,
    )
    assert (shown.returncode, shown.stderr) == (0, b"")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no such device here")
@pytest.mark.parametrize("words", [["--help"], ["evaluate", "off"], ["schema"], ["doctor"]])
def test_a_full_disk_is_told_in_one_line(service: LocalService, words: list[str]) -> None:
    """A report that cannot be written is no fault of the program, and no success."""
    with open("/dev/full", "wb") as full:
        shown = subprocess.run(
            [sys.executable, "-W", "error", *OWN, *words],
            cwd=ROOT,
            stdout=full,
            stderr=subprocess.PIPE,
            timeout=60,
            check=False,
        )
    assert shown.returncode == 1
    assert shown.stderr.decode().splitlines()[-1:] == [
        "Error: the output cannot be written: No space left on device"
    ]
    assert b"Traceback" not in shown.stderr
