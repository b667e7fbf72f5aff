"""Findings as lines, in colours and as JSON."""

import io
import json
from collections.abc import Iterator

import pytest
from rich.console import Console

from shipsilently_cli._rich_report import print_rich
from shipsilently_cli.checkup import Finding, Level, Subject, exit_code, print_report
from shipsilently_cli.checkup.findings import failure, ok, skipped, warning
from shipsilently_cli.checkup.session import seconds
from shipsilently_cli.checkup.settings import redacted
from shipsilently_core import Config
from shipsilently_local import LocalService

GOOD = ok("dns", "fine")
ODD = warning("clock", "late", "Set it.")
BAD = failure("access", "refused", "Copy the key.")


def printed(findings: list[Finding], *, as_json: bool = False) -> tuple[list[str], int]:
    """The lines and the exit code."""
    lines: list[str] = []
    code = print_report(findings, lines.append, as_json=as_json)
    return lines, code


@pytest.mark.parametrize(
    ("findings", "code", "verdict"),
    [
        ([GOOD], 0, "All is well."),
        ([GOOD, ODD], 1, "It works, with 1 warning."),
        ([ODD, ODD], 1, "It works, with 2 warnings."),
        ([ODD, BAD, failure("tls", "x", "")], 2, "The cause: access: refused."),
        ([], 0, "All is well."),
    ],
)
def test_the_worst_decides(findings: list[Finding], code: int, verdict: str) -> None:
    """The exit code is that of the worst finding, and the first failure is called the cause."""
    lines, ended = printed(findings)
    assert (ended, exit_code(findings), lines[-1]) == (code, code, verdict)


def test_each_finding_is_a_line_with_its_advice() -> None:
    """A line tells level, check and text; what to do stands below it."""
    assert printed([GOOD, ODD])[0][:3] == [
        "ok       dns            fine",
        "warning  clock          late",
        "                        → Set it.",
    ]


def test_what_is_skipped_for_one_reason_is_one_line() -> None:
    """Checks that were left out for the same reason stand together, others apart."""
    lines, _ = printed([skipped("a", "why"), skipped("b", "why"), skipped("c", "else"), GOOD])
    assert lines[:3] == [
        "skipped                 a, b: why",
        "skipped  c              else",
        "ok       dns            fine",
    ]
    assert printed([skipped("a", "why")])[0][0] == "skipped  a              why"


def test_lines_come_as_soon_as_they_are_known() -> None:
    """A finding is printed before the next check begins."""
    lines: list[str] = []

    def findings() -> Iterator[Finding]:
        yield GOOD
        assert len(lines) == 1
        yield ODD

    print_report(findings(), lines.append, as_json=False)


def test_levels_can_be_painted() -> None:
    """The caller colours the word for the level, and nothing else."""
    lines: list[str] = []
    print_report([GOOD], lines.append, as_json=False, paint=lambda level, text: f"<{text}>")
    assert lines[0] == "<ok     >  dns            fine"


def test_json_tells_everything() -> None:
    """For programs the report is one document."""
    (document,), code = printed([GOOD, BAD], as_json=True)
    report = json.loads(document)
    assert (code, report["result"]) == (2, "failure")
    assert report["checks"] == [
        {"check": "dns", "level": "ok", "text": "fine", "advice": None},
        {"check": "access", "level": "failure", "text": "refused", "advice": "Copy the key."},
    ]


def test_a_terminal_gets_columns(service: LocalService) -> None:
    """On a terminal the same findings come in colours, wrapped inside their column."""
    output = io.StringIO()
    console = Console(file=output, force_terminal=True, width=60)
    config = Config(api_key="sk_live_wrong_but_long", api_url=service.url)
    assert print_rich(Subject(config=config), quick=True, console=console) == 2
    plain = output.getvalue()
    assert "\x1b[" in plain
    assert "is refused (HTTP 401)" in plain
    assert "sk_live_wrong" not in plain


def test_a_narrow_terminal_gets_all_of_an_address() -> None:
    """What is longer than its column goes on in the next line instead of being cut off."""
    output = io.StringIO()
    url = "http://127.0.0.1:9/a/path/that/is/longer/than/the/column/and/ends/in/v1-edge"
    print_rich(
        Subject(config=Config(api_key="sk_live_example", api_url=url)),
        quick=True,
        console=Console(file=output, width=60),
    )
    assert url in "".join(output.getvalue().split())
    assert "…/" not in output.getvalue()


def test_a_terminal_sees_that_it_waits(service: LocalService) -> None:
    """While a heartbeat is waited for, the terminal says so."""
    output = io.StringIO()
    console = Console(file=output, force_terminal=True, width=60)
    config = Config(api_key=service.key, api_url=service.url)
    assert print_rich(Subject(config=config), quick=False, console=console) == 0
    assert "heartbeat" in output.getvalue()


@pytest.mark.parametrize(
    ("key", "shown"),
    [
        ("sk_live_abcdef", "sk_live_… (14 characters)"),
        ("sk_test_abcdef", "sk_test_… (14 characters)"),
        ("sk_local", "sk_… (8 characters)"),
        ("abcdef", "… (6 characters)"),
    ],
)
def test_a_key_is_shown_by_its_prefix_only(key: str, shown: str) -> None:
    """Of a key, what every key of its kind begins with is shown, and its length."""
    assert redacted(key) == shown


@pytest.mark.parametrize(
    ("value", "text"), [(0.0012, "1.2 ms"), (0.25, "250 ms"), (2.0, "2 s"), (35.0, "35 s")]
)
def test_durations_are_for_people(value: float, text: str) -> None:
    """Milliseconds below a second, seconds above."""
    assert seconds(value) == text


def test_the_levels_are_words() -> None:
    """What programs compare is spelt in lower case."""
    assert [level.value for level in Level] == ["ok", "warning", "failure", "skipped"]
