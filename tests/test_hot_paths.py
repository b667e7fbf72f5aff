"""The three hottest paths do not become longer unnoticed: their instructions are counted."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import hot_paths
from benchmarks.hot_paths import Counts

SCRIPT = Path(hot_paths.__file__)


def counted(*arguments: str) -> Counts:
    """What a process of its own counts: nothing of this one can disturb it."""
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith("COVERAGE_")
    }
    done = subprocess.run(
        [sys.executable, SCRIPT, "--json", *arguments],
        env={**environment, "PYTHONHASHSEED": "0", "PYTHONPATH": str(SCRIPT.parent.parent)},
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    counts: Counts = json.loads(done.stdout)
    return counts


def test_no_hot_path_has_become_longer_by_more_than_a_tenth() -> None:
    """Each path takes at most a tenth more than is kept for this version of Python."""
    kept = hot_paths.read_kept().get(hot_paths.VERSION)
    if kept is None:
        pytest.skip(f"no numbers are kept for Python {hot_paths.VERSION}: run `make hot-paths`")
    now = counted()
    assert set(now) == set(kept)
    assert hot_paths.risen(now, kept) == [], "if that is meant, run `make hot-paths`"


def test_a_path_longer_by_eleven_percent_is_found() -> None:
    """Every path that takes 11 percent more than before is told, by name."""
    now = counted()
    assert hot_paths.risen(now, now) == []
    found = hot_paths.risen(counted("--longer", "11"), now)
    assert [line.partition(":")[0] for line in found] == list(now)


def test_counts_are_the_same_each_time() -> None:
    """Two processes count the same, so no rise is an accident."""
    assert counted() == counted()


@pytest.mark.parametrize(("number", "risen"), [(90, False), (110, False), (111, True)])
def test_a_tenth_more_is_allowed(number: int, risen: bool) -> None:
    """A number may rise by a tenth and no further."""
    now, kept = {"path": {"instructions": number}}, {"path": {"instructions": 100}}
    assert bool(hot_paths.risen(now, kept)) is risen


def test_a_path_of_which_nothing_is_kept_counts_as_risen() -> None:
    """A new path has to be kept before it passes."""
    assert hot_paths.risen({"new": {"instructions": 1}}, {}) == ["new: 1 instructions, kept were 0"]
