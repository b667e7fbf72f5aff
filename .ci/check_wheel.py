"""Prove that the archives in dist/ are complete and that the wheel works without the tree.

Run it with the Python that the wheel is to be tested on, after `make dist`.
"""

import shutil
import subprocess
import sys
import tarfile
import tempfile
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = (
    "shipsilently_core",
    "shipsilently_local",
    "shipsilently_cli",
    "shipsilently_django",
    "shipsilently_flask",
    "shipsilently_fastapi",
)
NEEDED = (
    *(f"{package}/py.typed" for package in PACKAGES),
    "shipsilently_django/templatetags/shipsilently.py",
    "shipsilently_local/flags.schema.json",
    "shipsilently_cli/examples/README.md",
)


def only(pattern: str) -> Path:
    """The one file in dist/ that matches."""
    found = sorted((ROOT / "dist").glob(pattern))
    if len(found) != 1:
        sys.exit(f"dist/ holds {len(found)} files like {pattern}, expected one: run `make dist`")
    return found[0]


def check_wheel_contents(wheel: Path) -> None:
    """Every file that is needed at run time is there, and no other top-level package."""
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    missing = [name for name in NEEDED if name not in names]
    if missing:
        sys.exit(f"{wheel.name} lacks {', '.join(missing)}")
    foreign = {name.split("/")[0] for name in names} - set(PACKAGES)
    foreign = {name for name in foreign if not name.endswith(".dist-info")}
    if foreign:
        sys.exit(f"{wheel.name} also brings {', '.join(sorted(foreign))}")


def check_sdist_contents(sdist: Path) -> None:
    """Every file under version control is in the source archive."""
    listing = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True
    )
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    missing = [name for name in listing.stdout.split("\0") if name and name not in names]
    if missing:
        sys.exit(f"{sdist.name} lacks {', '.join(missing)}")


def run_core_tests(wheel: Path, folder: Path) -> None:
    """The core's tests pass where only the installed wheel can be imported."""
    venv.create(folder / "venv", with_pip=True)
    python = folder / "venv" / "bin" / "python"
    install = [python, "-m", "pip", "--disable-pip-version-check", "install", "-qq"]
    requirements = ["-c", ROOT / "constraints.txt", f"{wheel}[test]"]
    subprocess.run([*install, *requirements], check=True)
    copy = folder / "copy"
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "tests", copy / "tests", ignore=ignored)
    shutil.copy(ROOT / "pyproject.toml", copy)
    where = subprocess.run(
        [python, "-c", "import shipsilently_core; print(shipsilently_core.__file__)"],
        cwd=copy,
        check=True,
        capture_output=True,
        text=True,
    )
    if not Path(where.stdout.strip()).is_relative_to(folder / "venv"):
        sys.exit(f"the tests would import {where.stdout.strip()}, not the installed wheel")
    subprocess.run([python, "-m", "pytest", "tests/core"], cwd=copy, check=True)


def main() -> None:
    """Check both archives, then test the wheel."""
    wheel = only("shipsilently-*.whl")
    check_wheel_contents(wheel)
    check_sdist_contents(only("shipsilently-*.tar.gz"))
    with tempfile.TemporaryDirectory(prefix="shipsilently-wheel-") as folder:
        try:
            run_core_tests(wheel, Path(folder).resolve())
        except subprocess.CalledProcessError as failure:
            sys.exit(f"exit code {failure.returncode} from: {failure.cmd}")
    print(f"{wheel.name}: complete, and the core's tests pass against it")


if __name__ == "__main__":
    main()
