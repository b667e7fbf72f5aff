"""The benchmarks run; their figures are for people."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def test_the_frameworks_can_be_measured() -> None:
    """Each framework handles its requests in every variant, and no check of a flag is lost."""
    done = subprocess.run(
        [sys.executable, "-W", "error", ROOT / "benchmarks" / "frameworks.py"],
        env={**os.environ, "ROUNDS": "1", "ROUND": "0.001"},
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    for framework in ("Django, sync", "Django, async", "Flask", "FastAPI"):
        assert framework in done.stdout
    assert done.stderr == ""
