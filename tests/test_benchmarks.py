"""The benchmarks run; their figures are for people."""

import os
import platform
import re
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from benchmarks.bench.__main__ import measure
from benchmarks.bench.outcome import Figure, Goal, Outcome, Settings
from benchmarks.bench.page import tables
from benchmarks.bench.registry import MEASUREMENTS, Measurement
from benchmarks.bench.results import read_results, write_results
from benchmarks.bench.timing import added, over, percentile, ratio, repeated, take_turns
from benchmarks.bench.yardstick import KNOWN, compared, said

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results.md"


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Python in the project's folder; a warning is an error, and coverage is not counted."""
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith("COVERAGE_")
    }
    return subprocess.run(
        [sys.executable, "-W", "error", *arguments],
        cwd=ROOT,
        env={**environment, "ROUNDS": "1", "ROUND": "0.001"},
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )


def test_the_frameworks_can_be_measured() -> None:
    """Each framework handles its requests in every variant, and no check of a flag is lost."""
    done = run("benchmarks/frameworks.py")
    assert done.returncode == 0, done.stderr
    for framework in ("Django, sync", "Django, async", "Flask", "FastAPI"):
        assert framework in done.stdout
    assert done.stderr == ""


@pytest.mark.parametrize("name", MEASUREMENTS)
def test_ours_can_be_measured(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each measurement gives figures without the peers, and says why where it has none."""
    # Where there is wrk, it would take seconds.
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent))
    done = run("-m", "benchmarks.bench", "--in-process", name, "--quick", "--own")
    assert done.returncode == 0, done.stderr
    outcome = msgspec.json.decode(done.stdout.rpartition("\n")[2], type=Outcome)
    assert outcome.figures
    # What nobody is given has none.
    assert outcome.goals or name == "compiled"
    for figure in outcome.figures:
        assert figure.value is not None or figure.note
    for goal in outcome.goals:
        assert goal.measured is not None or goal.note


def test_a_request_is_told_in_instructions_of_python_too() -> None:
    """Beside a time of Python's own work stands how many instructions that is."""
    outcome = read_results(RESULTS)["cached_request"]
    counts: dict[str, int] = {}
    for figure in outcome.figures:
        if found := re.search(r"; ([\d,]+) instructions, ([\d.]+) ns each$", figure.note):
            counts[figure.who] = int(found[1].replace(",", ""))
            assert figure.value is not None
            assert float(found[2]) == pytest.approx(
                figure.value * 1e3 / counts[figure.who], abs=0.06
            )
    for framework in ("Django, sync", "Django, async", "Flask", "FastAPI"):
        one, ten = (
            counts[f"{framework}, shipsilently, {word}"] for word in ("one read", "ten reads")
        )
        assert 0 < one < ten


def test_the_command_shows_a_table_and_keeps_no_quick_figures() -> None:
    """`--quick` shows progress, figures and goals, and leaves what is written alone."""
    before = RESULTS.read_bytes() if RESULTS.exists() else None
    done = run("-m", "benchmarks.bench", "--quick", "--own", "--only", "outage")
    assert done.returncode == 0, done.stderr
    assert MEASUREMENTS["outage"].title in done.stdout
    assert "Goals" in done.stdout
    assert "p99" in done.stdout
    assert (RESULTS.read_bytes() if RESULTS.exists() else None) == before


def test_a_measurement_that_does_not_end_says_so_in_its_row() -> None:
    """What takes too long is ended and told of; the other measurements go on."""
    outcome, error = measure(
        Measurement("outage", "never done", 0.0), Settings.of(quick=True, own=True)
    )
    assert "not done after 0 s" in error
    assert [(figure.value, figure.note) for figure in outcome.figures] == [
        (None, "not done after 0 s")
    ]


def test_results_are_read_as_they_were_written(tmp_path: Path) -> None:
    """The file holds all figures and goals, so that one measurement can be repeated alone."""
    outcomes = {
        "reads": Outcome(
            [
                Figure("dict", 20.0, "ns", 5.5),
                Figure("a peer", None, "ns", note="is not installed"),
            ],
            [
                Goal("met", 4.0, 5.0),
                Goal("missed", 4.0, 5.0, at_least=True),
                Goal("unknown", None, 5.0, note="no peer"),
            ],
        )
    }
    path = tmp_path / "results.md"
    assert read_results(path) == {}
    write_results(path, outcomes)
    assert read_results(path) == outcomes
    text = path.read_text(encoding="utf-8")
    for line in (
        "| dict | 20.0 ns | 5.5 |  |",
        "| a peer | — |  | is not installed |",
        "| reads | met | 4 | met |",
        "| reads | missed | 4 | missed |",
        "| reads | unknown | — | not measured: no peer |",
    ):
        assert line in text


def test_results_say_how_fast_the_machine_is() -> None:
    """What others took where the goals were set stands beside what they take here."""
    outcomes = {
        "reads": Outcome([Figure("dict", 13.0, "ns")], []),
        "all_flags": Outcome(
            [Figure("dict, 200", 1.0, "µs"), Figure("dict, 1000", None, "µs")], []
        ),
    }
    rows = compared(outcomes)
    assert rows == {
        ("reads", "dict"): (Figure("dict", 13.0, "ns"), Figure("dict", 26.0, "ns"), 0.5),
        ("all_flags", "dict, 200"): (
            Figure("dict, 200", 1.0, "µs"),
            Figure("dict, 200", 0.5, "µs"),
            2.0,
        ),
    }
    assert "1.25 times as long here as there: the median of 2, which go from 0.50 to 2.00" in said(
        rows
    )
    assert said(compared({})) == ""


def test_each_thing_that_tells_how_fast_it_is_was_measured() -> None:
    """No row of that comparison is left out since a measurement calls it something else."""
    assert set(compared(read_results(RESULTS))) == set(KNOWN)


def test_each_missed_goal_has_a_cause() -> None:
    """Where a goal is missed, the results say why."""
    text = RESULTS.read_text(encoding="utf-8")
    for name, outcome in read_results(RESULTS).items():
        if any(goal.met is False for goal in outcome.goals):
            assert f"- **{name}**: " in text


def test_results_name_no_machine_and_no_place() -> None:
    """What is in the tree tells the kind of the machine, never its name, a path or an address."""
    text = RESULTS.read_text(encoding="utf-8")
    assert platform.node() not in text
    assert not re.search(r"(?<![\w/.])/(?:home|root|tmp|usr|work)\b", text)
    assert not re.search(r"https?://|127\.0\.0\.1|0x[0-9a-f]{6}", text)
    assert set(read_results(RESULTS)) == set(MEASUREMENTS)


def test_the_manual_quotes_the_ratios_that_were_measured() -> None:
    """The tables of the manual are those of the results, to the letter."""
    page = (ROOT / "docs" / "performance.md").read_text(encoding="utf-8")
    assert tables(read_results(RESULTS)) in page


@pytest.mark.parametrize(
    ("site", "ask"),
    [
        ("flask_app", "app.test_client().get('/').text"),
        ("fastapi_asking_app", "starlette.testclient.TestClient(app).get('/').text"),
        ("fastapi_app", "starlette.testclient.TestClient(app).get('/').text"),
        ("flask_noting_app", "app.test_client().get('/').text"),
        ("fastapi_noting_app", "starlette.testclient.TestClient(app).get('/').text"),
        (
            "django_noting_app",
            "django.test.Client(HTTP_HOST='localhost').get('/').content.decode()",
        ),
        ("django_app", "django.test.Client(HTTP_HOST='localhost').get('/').content.decode()"),
    ],
)
def test_the_sites_without_flags_show_the_same_page(site: str, ask: str) -> None:
    """What the examples are compared with shows the old checkout, and no tag is left in it."""
    done = run(
        "-c",
        "import django.test, starlette.testclient\n"
        f"from benchmarks.bench.plain_sites import {site}\napp = {site}()\nprint({ask})",
    )
    assert done.returncode == 0, done.stderr
    assert 'data-variation="old"' in done.stdout
    assert 'data-banner="blue"' in done.stdout
    assert "{%" not in done.stdout


def test_turns_are_taken_equally_often() -> None:
    """Everything that is compared has as many rounds, and what takes more shows it."""
    figures = take_turns(
        {
            "little": repeated("sum(few)", {"few": range(10)}),
            "much": repeated("sum(many)", {"many": range(10_000)}),
            "each": over(lambda: range(10_000), "sum(held)", {}),
        },
        Settings(rounds=3, seconds=0.001),
    )
    assert {len(rounds) for rounds in figures.values()} == {3}
    assert ratio(figures["much"], figures["little"]) > 1
    assert added(figures["each"], figures["little"]) > 0


def test_a_percentile_is_one_of_the_figures() -> None:
    """The figure that 99 of 100 are not above is among them, also where there are few."""
    assert percentile([float(number) for number in range(200)], 0.99) == 198.0
    assert percentile([3.0], 0.99) == 3.0
