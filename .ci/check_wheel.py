"""Prove that the archives in dist/ are complete and that the wheel works without the tree.

Run it with the Python that the wheel is to be tested on, after `make dist`. The modules beside it:
`archives` looks into the archives, `environments` installs the wheel for each framework alone on
each of the `pythons`, and runs `probe` there.
"""

import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from archives import PACKAGES, check_metadata, check_sdist, check_wheel, only
from environments import check_alone, install, make_environment
from pythons import pythons

ROOT = Path(__file__).resolve().parent.parent
#: The tests that need nothing of the tree but themselves and what they read as data.
TESTS = ("tests/core", "tests/test_django", "tests/test_flask", "tests/test_fastapi")
DATA = ("tests", "examples", "docs")
ORIGINS = """
import sys
from importlib.util import find_spec
print("\\n".join(find_spec(name).origin for name in sys.argv[1:]))
"""
#: As in the Makefile.
PARALLEL = ("-n", "3", "--dist", "worksteal")


def run_tests(wheel: Path, folder: Path) -> None:
    """The tests of the core and of each framework pass where only the wheel can be imported."""
    python = make_environment(folder / "venv", sys.executable)
    install(python, f"{wheel}[test]")
    copy = folder / "copy"
    for name in DATA:
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", copy)
    where = subprocess.run(
        [python, "-c", ORIGINS, *PACKAGES],
        cwd=copy,
        check=True,
        capture_output=True,
        text=True,
    )
    outside = [name for name in where.stdout.splitlines() if str(folder / "venv") not in name]
    if outside:
        sys.exit(f"the tests would import {', '.join(outside)}, not the installed wheel")
    subprocess.run([python, "-m", "pytest", *PARALLEL, *TESTS], cwd=copy, check=True)


def main() -> None:
    """Check both archives, then the wheel in environments of its own."""
    wheel, sdist = only("shipsilently-*.whl"), only("shipsilently-*.tar.gz")
    with tempfile.TemporaryDirectory(prefix="shipsilently-wheel-") as name:
        folder = Path(name).resolve()
        checks: dict[str, Callable[[], None]] = {
            "the wheel is complete": lambda: check_wheel(wheel),
            "its metadata are right": lambda: check_metadata(wheel),
            "the source archive makes the same wheel": lambda: check_sdist(sdist, wheel),
            "each framework works alone": lambda: check_alone(wheel, pythons(), folder),
            "the tests pass against it": lambda: run_tests(wheel, folder),
        }
        for what, check in checks.items():
            began = time.monotonic()
            try:
                check()
            except subprocess.CalledProcessError as failure:
                sys.exit(f"exit code {failure.returncode} from: {failure.cmd}")
            print(f"{wheel.name}: {what} ({time.monotonic() - began:.0f} s)", flush=True)


if __name__ == "__main__":
    main()
