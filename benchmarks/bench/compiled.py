"""Our own code compiled to C as it is: how much of what it costs is Python's interpreter.

Nothing of it is shipped. A copy of the project is made, and Cython translates the modules that
every request with a flag goes through, line by line, with nothing declared or changed; the calls
that they make, the objects and the locks stay the same. As it is and compiled take turns, each in
a process of its own.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

from .outcome import Figure, Outcome, Settings
from .timing import added, median

ROOT = Path(__file__).resolve().parents[2]
_COPIED = ("shipsilently_core", "integrations", "benchmarks")
_INTEGRATIONS = ("django", "flask", "fastapi")
#: By folder.
_MODULES = {
    "shipsilently_core": ("_cache", "_seen", "_snapshot", "client", "flags"),
    "integrations/django/shipsilently_django": (
        "current",
        "flags",
        "middleware",
        "pagecache",
        "surroundings",
        "users",
    ),
    "integrations/flask/shipsilently_flask": ("contexts", "current", "people", "proxy"),
    "integrations/fastapi/shipsilently_fastapi": ("connection", "lookup", "middleware"),
}
#: Types that are only written down for readers stay so.
_CYTHON = (
    "-m",
    "Cython.Build.Cythonize",
    "-i",
    "-q",
    "-3",
    "-j",
    "2",
    "-X",
    "annotation_typing=False",
)


def run(settings: Settings) -> Outcome:
    """Measure."""
    missing = _missing()
    rows: list[Figure] = []
    with tempfile.TemporaryDirectory() as folder:
        if not missing:
            missing = _compile(Path(folder))
        places = {"as it is": ROOT} if missing else {"as it is": ROOT, "compiled": Path(folder)}
        runs: dict[str, list[dict[str, float]]] = {name: [] for name in places}
        for number in range(1 if settings.quick else 4):
            for name in places if number % 2 else list(places)[::-1]:
                runs[name].append(_measured_in(places[name], settings))
    for what in runs["as it is"][0]:
        values = {name: median([figures[what] for figures in runs[name]]) for name in places}
        rows.append(Figure(f"{what}, as it is", values["as it is"], "µs", 1.0, "added"))
        name = f"{what}, compiled"
        if missing:
            rows.append(Figure(name, None, "µs", note=missing))
        else:
            times = values["as it is"] / values["compiled"]
            rows.append(Figure(name, values["compiled"], "µs", times, "added"))
    return Outcome(rows, [])


def _missing() -> str:
    """What there is not, of all that compiling needs."""
    if find_spec("Cython") is None:
        return "Cython is not installed"
    if shutil.which(os.environ.get("CC", "cc")) is None:
        return "there is no C compiler"
    return ""


def _compile(folder: Path) -> str:
    """Put a copy there and compile it; why not, where it cannot be done."""
    for name in _COPIED:
        shutil.copytree(
            ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info")
        )
    modules = [f"{place}/{name}.py" for place, names in _MODULES.items() for name in names]
    done = subprocess.run(
        [sys.executable, *_CYTHON, *modules],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        return (done.stderr.strip().splitlines() or ["it could not be compiled"])[-1]
    return ""


def _measured_in(place: Path, settings: Settings) -> dict[str, float]:
    paths = [str(place), *(str(place / "integrations" / name) for name in _INTEGRATIONS)]
    done = subprocess.run(
        [sys.executable, "-m", __name__, "--quick" if settings.quick else ""],
        cwd=place,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True,
        text=True,
        check=True,
    )
    figures, is_compiled = json.loads(done.stdout)
    assert is_compiled is (place != ROOT)
    assert isinstance(figures, dict)
    return figures


def _measure(settings: Settings) -> dict[str, float]:
    """Microseconds that each adds, with the code that this process finds."""
    from . import depends, sites

    wanted = {sites.OURS: "no flag read", sites.ONE: "one read", sites.TEN: "ten reads"}
    found: dict[str, float] = {}
    for framework, site in sites.SITES.items():
        runs, _ = site(settings)
        figures = sites.measure({name: runs[name] for name in (sites.BARE, *wanted)}, settings)
        bare = figures[sites.BARE]
        for name, what in wanted.items():
            found[f"{framework}, {what}"] = added(figures[name], bare) * 1e6
    runs, _ = depends.endpoints(settings)
    figures = sites.measure({name: runs[name] for name in (sites.BARE, sites.OURS)}, settings)
    found["Depends(flags) and one read"] = added(figures[sites.OURS], figures[sites.BARE]) * 1e6
    return found


if __name__ == "__main__":
    import shipsilently_core.flags as module

    found = _measure(Settings.of(quick="--quick" in sys.argv, own=True))
    print(json.dumps([found, not str(module.__file__).endswith(".py")]))
