"""A trial tells a client that held from one that did not."""

from __future__ import annotations

import json
import mmap
import socket
from pathlib import Path
from typing import Any

import pytest

from tests.core.certificate import Authority

from . import __main__ as command
from .faults import FAULTS
from .service import FLAG
from .subject import HOST, RECOVERY, Memory, Names
from .toxics import Changed, edited
from .trial import INVARIANTS, MOST_MEGABYTES, Fault, judge, run

SAID: dict[str, Any] = {
    "reads": 100,
    "failures": {"timeout": 3},
    "broken": {},
    "examples": [],
    "slowest": 0.5,
    "served": 9,
    "recovery": 0.5,
    "growth": 1.0,
    "stuck": 0,
    "closed": 0.1,
}
HITS = {"thread": 1, "task": 1}
FAULT = Fault("one", "for a test", lambda: Changed(lambda answer: answer), serves=True)


def no_authority() -> Authority:
    """For faults without TLS."""
    raise AssertionError("no certificate is wanted")


def test_a_client_that_held_is_said_to_have() -> None:
    """Everything within its bounds is held."""
    outcome = judge(FAULT, SAID, HITS, 5)
    assert (outcome.held, outcome.broken) == (True, {})
    assert outcome.as_json()["held"] is True


@pytest.mark.parametrize(
    ("said", "broken"),
    [
        ({"broken": {"raised": 1}}, "raised"),
        ({"broken": {"regressed": 2}}, "regressed"),
        ({"broken": {"crossed": 2}}, "crossed"),
        ({"broken": {"late": 2}}, "late"),
        ({"stuck": 1}, "late"),
        ({"growth": MOST_MEGABYTES + 1}, "memory"),
        ({"recovery": None}, "recovered"),
        ({"recovery": RECOVERY + 0.1}, "recovered"),
        ({"closed": 60.0}, "closed"),
        ({"served": 5}, "served"),
    ],
)
def test_each_invariant_can_be_broken(said: dict[str, Any], broken: str) -> None:
    """What is beyond a bound is named, and the fault has not been held."""
    outcome = judge(FAULT, {**SAID, **said}, HITS, 5)
    assert list(outcome.broken) == [broken]
    assert broken in INVARIANTS
    assert not outcome.held


def test_a_fault_that_nobody_met_is_no_proof() -> None:
    """Where no thread or no task has met it, it does not count as held."""
    outcome = judge(FAULT, SAID, {"thread": 4}, 5)
    assert outcome.broken == {"met": "never met by: task"}


def _lie(content: dict[str, Any]) -> None:
    for row in (content, *content.get("flags", {}).values()):
        if row.get("flagKey") == FLAG and row["value"].startswith("thread"):
            row["value"] = "somebody:5"
        elif row.get("flagKey") == FLAG:
            row["value"] = row["value"].partition(":")[0] + ":1"


def test_a_real_client_that_is_lied_to_is_found_out() -> None:
    """Values of others and of yesterday reach the checks through a whole trial."""
    liar = Fault("liar", "lies", lambda: Changed(edited(_lie), "batch", "evaluate"), seconds=1.0)
    outcome = run(liar, no_authority)
    assert {"crossed", "regressed"} <= set(outcome.broken)
    assert outcome.recovery is not None
    assert outcome.examples


def test_the_command_tries_a_fault_and_tells_in_json(capsys: pytest.CaptureFixture[str]) -> None:
    """What is held gives the exit status 0, and the figures of each invariant."""
    assert command.main(["--only", "server-error", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["tried"], report["held"]) == (1, 1)
    (fault,) = report["faults"]
    assert fault["failures"].keys() <= {"server", "timeout"}
    assert fault["reads"] > 0


def test_the_command_lists_every_fault(capsys: pytest.CaptureFixture[str]) -> None:
    """Each line begins with a name that `--only` takes."""
    assert command.main(["--list"]) == 0
    names = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert names == list(FAULTS)


def test_an_unknown_fault_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """A name that is no fault's is an error before anything is tried."""
    with pytest.raises(SystemExit, match="2"):
        command.main(["--only", "rain"])
    assert "there is no fault 'rain'" in capsys.readouterr().err


def test_a_table_names_what_was_broken(capsys: pytest.CaptureFixture[str]) -> None:
    """The row says NO, and the reason stands below."""
    outcome = judge(FAULT, {**SAID, "growth": 100.0}, HITS, 5)
    command.show(command.console(), [outcome])
    out = capsys.readouterr().out
    assert "NO" in out
    assert "one: memory: 100 MB more" in out


@pytest.mark.parametrize("hangs", [False, True])
def test_a_name_stops_to_resolve(hangs: bool) -> None:
    """It is found, then not, then found again; other names are left alone."""
    names = Names(hangs=hangs)
    names.install()
    try:
        there = socket.getaddrinfo(HOST, 80, type=socket.SOCK_STREAM)
        assert there[0][4] == ("127.0.0.1", 80)
        if not hangs:
            names.stop()
            with pytest.raises(socket.gaierror):
                socket.getaddrinfo(HOST, 80)
            assert names.hits == 1
        assert socket.getaddrinfo("127.0.0.1", 80)
        names.go_on()
        assert socket.getaddrinfo(HOST, 80)
    finally:
        names.uninstall()


@pytest.mark.skipif(
    not Path("/proc/self/clear_refs").exists(),
    reason="only Linux forgets the most memory that was in use",
)
def test_memory_that_was_given_back_counts() -> None:
    """The most that was in use at any moment is measured."""
    memory = Memory()
    memory.begin()
    # Not from the heap: what earlier tests left there is in use already.
    with mmap.mmap(-1, 50_000_000) as taken:
        for offset in range(0, len(taken), mmap.PAGESIZE):
            taken[offset] = 1
    assert memory.growth() > 40
