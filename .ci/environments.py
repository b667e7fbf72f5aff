"""Install the wheel into clean environments, for each framework alone, and try it there."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

__all__ = ["check_alone", "install", "make_environment"]

ROOT = Path(__file__).resolve().parent.parent
PROBE = Path(__file__).resolve().parent / "probe.py"
#: Which requirement of the wheel each probe needs.
EXTRAS = {"core": "", "django": "[django]", "flask": "[flask]", "fastapi": "[fastapi]"}
PLUGIN_TEST = '''
"""The plugin is there without a line of configuration."""

import pytest
from shipsilently_core import ShipSilentlyClient


@pytest.mark.flags({"banner": "green"}, limit=3)
def test_marks(flags):
    client = ShipSilentlyClient(api_key="sk_test")
    assert client.evaluate("banner", {}, "") == "green"
    flags.set("limit", 4)
    assert client.evaluate("limit", {}, 0) == 4
'''


def make_environment(folder: Path, python: str) -> Path:
    """A new environment of that Python with nothing in it, not even pip; its interpreter."""
    make = [python, "-m", "venv", "--without-pip", str(folder)]
    subprocess.run(make, check=True)
    return folder / "bin" / "python"


def install(python: Path, *requirements: str) -> None:
    """Install into that environment, with the versions that this project pins."""
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", str(python)]
    constraints = ["-c", str(ROOT / "constraints.txt")]
    subprocess.run([*pip, "install", "-qq", *constraints, *requirements], check=True)


def run(python: Path, *words: str | Path, cwd: Path) -> None:
    """Run Python there, with warnings as errors, away from every source tree."""
    subprocess.run([python, "-W", "error", *words], cwd=cwd, check=True, timeout=120)


def check_one(wheel: Path, python: str, what: str, folder: Path) -> str:
    """One extra on one Python: a real request is answered, and nothing else has come along."""
    environment = make_environment(folder / "venv", python)
    install(environment, f"{wheel}{EXTRAS[what]}")
    empty = folder / "empty"
    empty.mkdir()
    run(environment, "-I", PROBE, what, cwd=empty)
    if what == "core":
        install(environment, "pytest")
        (empty / "test_plugin.py").write_text(PLUGIN_TEST, encoding="utf-8")
        run(environment, "-m", "pytest", "-q", "-p", "no:cacheprovider", cwd=empty)
    return what


def check_alone(wheel: Path, interpreters: dict[str, str], folder: Path) -> None:
    """Each extra alone on each Python, two environments at a time."""
    with ThreadPoolExecutor(2) as pool:
        checks = []
        for version, python in interpreters.items():
            for what in EXTRAS:
                place = folder / f"{what}-{version}"
                place.mkdir()
                checks.append(pool.submit(check_one, wheel, python, what, place))
        for check in checks:
            check.result()
    print(f"each of {', '.join(EXTRAS)} works alone on Python {', '.join(interpreters)}")
