"""Prove that the wheel and the source archive are complete, and say what they should."""

import email
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from pathlib import Path

__all__ = ["PACKAGES", "check_metadata", "check_sdist", "check_wheel", "only"]

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


def only(pattern: str, folder: Path = ROOT / "dist") -> Path:
    """The one file in the folder that matches."""
    found = sorted(folder.glob(pattern))
    if len(found) != 1:
        sys.exit(
            f"{folder.name}/ holds {len(found)} files like {pattern}, expected one: run `make dist`"
        )
    return found[0]


def tracked() -> list[str]:
    """Every file under version control."""
    listing = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True
    )
    return [name for name in listing.stdout.split("\0") if name]


def files_of(wheel: Path) -> set[str]:
    """What a wheel holds."""
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def check_wheel(wheel: Path) -> None:
    """Every file that is needed at run time is there, and no other top-level package."""
    names = files_of(wheel)
    sources = {
        name.removeprefix("integrations/").partition("/")[2]
        if name.startswith("integrations/")
        else name
        for name in tracked()
        if name.startswith((*PACKAGES, "integrations/")) and (ROOT / name).is_file()
    }
    missing = sorted((sources | set(NEEDED)) - names)
    if missing:
        sys.exit(f"{wheel.name} lacks {', '.join(missing)}")
    foreign = {name.split("/")[0] for name in names} - set(PACKAGES)
    foreign = {name for name in foreign if not name.endswith(".dist-info")}
    if foreign:
        sys.exit(f"{wheel.name} also brings {', '.join(sorted(foreign))}")


def check_metadata(wheel: Path) -> None:
    """The wheel says of itself what pyproject.toml says, and holds its licence."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    with zipfile.ZipFile(wheel) as archive:
        (path,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        info = path.removesuffix("METADATA")
        said = email.message_from_bytes(archive.read(path))
        licence = archive.read(f"{info}licenses/LICENSE")
        scripts = archive.read(f"{info}entry_points.txt").decode()
    expected = {
        "Name": [project["name"]],
        "Summary": [project["description"]],
        "Requires-Python": [project["requires-python"]],
        "License-Expression": [project["license"]],
        "License-File": project["license-files"],
        "Description-Content-Type": ["text/markdown"],
        "Classifier": project["classifiers"],
        "Provides-Extra": sorted(project["optional-dependencies"]),
    }
    for field, values in expected.items():
        if sorted(said.get_all(field, [])) != sorted(values):
            sys.exit(f"{wheel.name} says {field}: {said.get_all(field)}, expected {values}")
    if licence != (ROOT / "LICENSE").read_bytes():
        sys.exit(f"{wheel.name} holds another licence")
    if said.get_payload().strip() != (ROOT / "README.md").read_text(encoding="utf-8").strip():
        sys.exit(f"{wheel.name} is described by another text than README.md")
    own = [project["scripts"], *project["entry-points"].values()]
    missing = [target for group in own for target in group.values() if target not in scripts]
    if missing:
        sys.exit(f"{wheel.name} lacks the entry points {', '.join(missing)}")


def check_sdist(sdist: Path, wheel: Path) -> None:
    """Every file under version control is there, tests too, and it makes the same wheel."""
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    missing = [name for name in tracked() if name not in names and (ROOT / name).is_file()]
    if missing:
        sys.exit(f"{sdist.name} lacks {', '.join(missing)}")
    with tempfile.TemporaryDirectory(prefix="shipsilently-sdist-") as folder:
        with tarfile.open(sdist) as archive:
            archive.extractall(folder, filter="data")
        (source,) = Path(folder).iterdir()
        build = [sys.executable, "-m", "build", "-q", "--wheel", "--outdir", folder, str(source)]
        subprocess.run(build, check=True)
        other = only("*.whl", Path(folder))
        differing = files_of(other) ^ files_of(wheel)
        if other.name != wheel.name or differing:
            sys.exit(f"a wheel made of {sdist.name} differs in {', '.join(sorted(differing))}")
