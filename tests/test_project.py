"""The project keeps its own rules: exports, borders of the core, dependencies, no traces."""

import ast
import importlib
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = {
    "shipsilently_core": "shipsilently_core",
    "shipsilently_local": "shipsilently_local",
    "shipsilently_cli": "shipsilently_cli",
    "shipsilently_django": "integrations/django/shipsilently_django",
    "shipsilently_flask": "integrations/flask/shipsilently_flask",
    "shipsilently_fastapi": "integrations/fastapi/shipsilently_fastapi",
}
EXTRAS = {
    "browser",
    "cli",
    "dev",
    "django",
    "examples",
    "fastapi",
    "flask",
    "local",
    "observability",
    "redis",
    "test",
}

# What may hold a connection, a thread or a loop is imported where forks and deadlines are
# handled, and nowhere else.
BORDER_MODULES = {
    "_answers.py",
    "_connection.py",
    "_http.py",
    "_network.py",
    "_process.py",
    "_proxied.py",
    "_tasks.py",
}
BORDER_IMPORTS = {
    "_thread",
    "anyio",
    "asyncio",
    "concurrent",
    "h11",
    "httpcore",
    "httpcore2",
    "httpx",
    "httpx2",
    "multiprocessing",
    "queue",
    "select",
    "selectors",
    "signal",
    "socket",
    "ssl",
    "subprocess",
    "threading",
}


def pyproject() -> dict[str, dict[str, object]]:
    """The project's table of pyproject.toml."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        project: dict[str, dict[str, object]] = tomllib.load(file)["project"]
    return project


def tracked_files() -> list[Path]:
    """Every file under version control."""
    listing = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout
    return [path for name in listing.split("\0") if name and (path := ROOT / name).is_file()]


def imported_roots(tree: ast.AST) -> Iterator[str]:
    """The top-level name of each absolute import in a module."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield node.module.partition(".")[0]


def sleeps(tree: ast.AST) -> bool:
    """Whether a module uses or imports `time.sleep`."""
    for node in ast.walk(tree):
        match node:
            case ast.ImportFrom(module="time", names=names):
                if any(alias.name == "sleep" for alias in names):
                    return True
            case ast.Attribute(value=ast.Name(id="time"), attr="sleep"):
                return True
    return False


def core_modules() -> list[Path]:
    """The source modules of the core."""
    return sorted((ROOT / "shipsilently_core").rglob("*.py"))


@pytest.mark.parametrize("package", PACKAGES)
def test_exported_names_exist(package: str) -> None:
    """Every name in a package's `__all__` can be imported from it."""
    module = importlib.import_module(package)
    missing = [name for name in getattr(module, "__all__", ()) if not hasattr(module, name)]
    assert not missing


@pytest.mark.parametrize("package", PACKAGES)
def test_public_names_are_exported(package: str) -> None:
    """Every public function or class that a package's top binds from its own modules is listed."""
    module = importlib.import_module(package)
    exported = set(getattr(module, "__all__", ()))
    public = {
        name
        for name, value in vars(module).items()
        if not name.startswith("_")
        and not isinstance(value, ModuleType)
        and str(getattr(value, "__module__", "")).partition(".")[0] == package
    }
    assert public <= exported


@pytest.mark.parametrize(("package", "folder"), PACKAGES.items())
def test_packages_are_typed(package: str, folder: str) -> None:
    """Every package tells type checkers that it is typed."""
    assert (ROOT / folder / "py.typed").is_file()
    assert importlib.import_module(package).__doc__


@pytest.mark.parametrize(
    "folder", ["integrations", *(f.rpartition("/")[0] for f in PACKAGES.values())]
)
def test_folders_between_never_become_packages(folder: str) -> None:
    """No folder above a package can be imported in the place of the framework it is named after."""
    assert not (ROOT / folder / "__init__.py").exists()


@pytest.mark.parametrize("module", core_modules(), ids=lambda path: path.name)
def test_only_the_border_knows_connections_threads_and_loops(module: Path) -> None:
    """Only the border modules import httpx, sockets, threads or event loops."""
    roots = set(imported_roots(ast.parse(module.read_text(encoding="utf-8"))))
    if module.name not in BORDER_MODULES:
        assert not roots & BORDER_IMPORTS


@pytest.mark.parametrize("module", core_modules(), ids=lambda path: path.name)
def test_the_core_never_sleeps(module: Path) -> None:
    """The core waits only on what `close()` can end, never with `time.sleep`."""
    assert not sleeps(ast.parse(module.read_text(encoding="utf-8")))


def test_the_core_knows_no_framework() -> None:
    """The core imports neither a framework nor one of the other packages."""
    foreign = (set(PACKAGES) - {"shipsilently_core"}) | {
        "click",
        "django",
        "fastapi",
        "flask",
        "rich",
        "starlette",
        "uvicorn",
        "watchfiles",
        "yaml",
    }
    found = {
        (module.name, root)
        for module in core_modules()
        for root in imported_roots(ast.parse(module.read_text(encoding="utf-8")))
        if root in foreign
    }
    assert not found


@pytest.mark.parametrize(
    ("source", "roots"),
    [
        ("import asyncio.events", {"asyncio"}),
        ("def f():\n    from threading import Lock", {"threading"}),
        ("from . import socket", set()),
    ],
)
def test_imports_are_found(source: str, roots: set[str]) -> None:
    """Imports in functions and of submodules are seen, relative ones are not taken for absolute."""
    assert set(imported_roots(ast.parse(source))) == roots


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("import time\ntime.sleep(1)", True),
        ("from time import sleep", True),
        ("event.wait(1)", False),
    ],
)
def test_sleeping_is_found(source: str, found: bool) -> None:
    """Both spellings of `time.sleep` are seen."""
    assert sleeps(ast.parse(source)) is found


# Written with brackets so that this file does not match itself.
TRACES = re.compile(
    r"/[w]ork/|/[r]oot/|/[h]ome/[a-z]|/[U]sers/[a-z]|[C]:\\Users|\.\./[s]hared|/[o]pt/|[.]pyenv/versions/\d"
    r"|[p]ypi\.org|[p]ythonhosted|[n]pmjs|[-]-(?:extra-)?index-url|[f]ile:///",
)


def test_no_file_names_a_machine_or_a_registry() -> None:
    """No file names a path of the machine it was written on or a package registry's host."""
    found = []
    for path in tracked_files():
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        found += [
            f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
            for number, line in enumerate(text.splitlines(), 1)
            if TRACES.search(line)
        ]
    assert not found


@pytest.mark.parametrize("text", ["/ro{}ot/.cache", "https://py{}pi.org/simple", "../sh{}ared/x"])
def test_traces_are_found(text: str) -> None:
    """A path of a home folder and a registry's host are recognised."""
    assert TRACES.search(text.format(""))


def test_extras_are_the_documented_ones() -> None:
    """The distribution has exactly the documented extras, and the core six dependencies."""
    project = pyproject()
    assert set(project["optional-dependencies"]) == EXTRAS
    names = [re.split(r"[^\w-]", str(line))[0] for line in project["dependencies"]]
    assert names == ["httpx", "h11", "certifi", "blinker", "msgspec", "platformdirs"]


def requirement_names() -> Iterator[str]:
    """The name of every requirement of the distribution and its extras, except itself."""
    project = pyproject()
    lists = [project["dependencies"], *project["optional-dependencies"].values()]
    for requirements in lists:
        assert isinstance(requirements, list | dict)
        for line in requirements:
            name = re.split(r"[^\w.-]", str(line))[0]
            if name != "shipsilently":
                yield name


def test_each_dependency_has_a_reason() -> None:
    """The architecture page names every requirement of the distribution and of its extras."""
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8").lower()
    missing = {name for name in requirement_names() if not re.search(rf"\b{name.lower()}\b", page)}
    assert not missing


CONSTRAINT = re.compile(
    r"(?P<name>[A-Za-z0-9][\w.-]*)==[0-9][\w.!+]*( ; python_version (<|>=) \"3\.\d+\")?"
)


def test_constraints_hold_names_versions_and_markers_only() -> None:
    """Each line of the constraints pins one name to one version, perhaps for some Pythons only."""
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    assert lines
    assert [line for line in lines if not CONSTRAINT.fullmatch(line)] == []


def test_every_requirement_is_pinned() -> None:
    """The constraints pin every requirement of the distribution and of its extras."""
    pinned = set()
    for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines():
        match = CONSTRAINT.fullmatch(line)
        assert match
        pinned.add(match["name"].lower())
    assert {name.lower() for name in requirement_names()} <= pinned


def test_the_oldest_versions_are_those_of_the_bounds() -> None:
    """Each bound of what users install is pinned for the tests with the oldest, and only once."""
    script = [sys.executable, str(ROOT / ".ci" / "oldest.py")]
    shown = subprocess.run(script, capture_output=True, text=True, timeout=30, check=True)
    pinned: dict[str, str] = {}
    for line in shown.stdout.splitlines():
        match = CONSTRAINT.fullmatch(line)
        assert match
        name = re.sub(r"[-_.]+", "-", match["name"]).lower()
        assert name not in pinned
        pinned[name] = line
    project = pyproject()
    extras = project["optional-dependencies"]
    for name in EXTRAS - {"browser", "dev", "test"}:
        for bound in [*lines_of(project["dependencies"]), *lines_of(extras[name])]:
            # FastAPI asks for more than what Django's and Flask's sites need.
            if not bound.startswith("opentelemetry-api"):
                assert bound.replace(">=", "==") in pinned.values()
    assert {"pytest", "hypothesis", "opentelemetry-api"} <= set(pinned)


def lines_of(requirements: object) -> list[str]:
    """A list of requirements, as strings."""
    assert isinstance(requirements, list)
    return [str(line) for line in requirements]
