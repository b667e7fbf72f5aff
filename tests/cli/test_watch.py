"""`shipsilently watch`, as a process with real signals."""

import json
import subprocess
import sys
from typing import Any

import pytest

from shipsilently_local import LocalService

from .running import OWN, ROOT, running


def test_changes_are_printed_as_they_come(service: LocalService) -> None:
    """First every flag, then the state and each change, a line each; Ctrl-C ends with 0."""
    with running(*OWN, "watch") as command:
        command.read_all(
            "streaming", 'banner  "Good morning" (default)', "checkout-v2  false (default)"
        )
        service.set_flag("banner", default="Good night")
        line = command.read_until("Good night")
        assert line.endswith('change    banner  "Good morning" → "Good night" (default)')
        service.remove_flag("banner")
        assert command.read_until("banner").endswith('"Good night" → not there')
        service.set_flag("new", default=1)
        assert command.read_until("new").endswith("not there → 1 (default)")
        assert command.end() == (0, "")


@pytest.mark.parametrize(
    ("old", "new"),
    [(True, 1), (1, True), (0, False), ({"n": [True]}, {"n": [1]}), ("1", 1)],
    ids=str,
)
def test_a_value_of_another_type_is_a_change(old: Any, new: Any, service: LocalService) -> None:
    """What Python takes for equal may be another value: `true` and 1, `false` and 0."""
    service.set_flag("kind", default=old)
    with running(*OWN, "watch", "--json") as command:
        command.read_all("streaming", '"kind"')
        service.set_flag("kind", default=new)
        told = json.loads(command.read_until('"change"'))
        assert command.end() == (0, "")
    assert (told["event"], told["flag"]) == ("change", "kind")
    assert (repr(told["old"]), repr(told["new"])) == (repr(old), repr(new))


def test_a_value_that_stays_is_no_change(service: LocalService) -> None:
    """Of two flags in one change, the one that changes is told alone."""
    service.set_flag("kind", default={"n": [1, True]})
    with running(*OWN, "watch", "--json") as command:
        command.read_all("streaming", '"kind"', '"banner"')
        service.set_flag("banner", default="Good night")
        assert json.loads(command.read_until('"change"'))["flag"] == "banner"
        assert command.end() == (0, "")
    assert sum('"change"' in line for line in command.lines) == 1


def test_an_outage_is_told_as_one(service: LocalService) -> None:
    """An outage is a state and never a flag that is off; its end is a state, too."""
    with running(*OWN, "watch", "--json") as command:
        command.read_all("streaming", "banner")
        service.stop()
        command.read_all("reconnecting")
        service.start()
        command.read_until("streaming")
        assert command.end() == (0, "")
    told = [json.loads(line) for line in command.lines]
    assert not [line for line in told if line["event"] == "change"]
    assert {line["failure"] for line in told if line["event"] == "failure"} <= {"network"}
    states = [line["state"] for line in told if line["event"] == "state"]
    assert states == ["streaming", "reconnecting", "streaming"]


def test_a_service_that_is_down_is_told(service: LocalService) -> None:
    """Started during an outage, it says what failed instead of showing no flags."""
    service.stop()
    with running(*OWN, "watch") as command:
        command.read_all("failure   network", "state     reconnecting")
        assert command.end() == (0, "")
    assert not [line for line in command.lines if "  flag  " in line]


def test_a_wrong_key_is_told(service: LocalService, monkeypatch: pytest.MonkeyPatch) -> None:
    """A key that is refused is a failure with its status; the key itself is not shown."""
    monkeypatch.setenv("SHIPSILENTLY_API_KEY", "sk_live_recognisable")
    with running(*OWN, "watch") as command:
        assert command.read_until("failure").endswith("failure   auth (HTTP 401)")
        assert command.end() == (0, "")
    assert "recognisable" not in "\n".join(command.lines)


def test_flags_are_those_of_the_context(service: LocalService) -> None:
    """`--context` says whom for, and is not shown."""
    with running(*OWN, "watch", "--json", "--context", '{"plan": "pro"}') as command:
        line = json.loads(command.read_until("checkout-v2"))
        assert (line["new"], line["reason"]) == (True, "rule_match")
        assert command.end() == (0, "")
    assert "plan" not in "".join(command.lines)


def test_it_ends_when_nobody_reads_on(service: LocalService) -> None:
    """A reader that has enough, as `head` has, ends it without an error."""
    with running(*OWN, "watch") as command:
        assert command.process.stdout
        command.read_until("streaming")
        command.process.stdout.close()
        service.set_flag("banner", default="Good night")
        assert command.process.wait(15) in (0, 1)
        assert command.process.stderr
        assert "Traceback" not in command.process.stderr.read()
        # `communicate` must not read what is closed.
        command.process.stdout = None


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ('{"plan":', "is not JSON at character 9"),
        ("recognisable", "is not NAME=VALUE and no JSON object"),
        ('["recognisable"]', "must be a JSON object"),
        ('{"plan": ["recognisable"]}', "the attribute 'plan' must be a string, a number"),
    ],
)
def test_a_wrong_context_is_one_line(given: str, message: str) -> None:
    """What is no object of attributes is refused before anything is asked, and not repeated."""
    shown = subprocess.run(
        [sys.executable, *OWN, "watch", "--context", given],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert shown.returncode == 2
    assert message in shown.stderr
    assert "recognisable" not in shown.stderr
