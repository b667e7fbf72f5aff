"""The three example sites: where they are, what starts them, and what they need."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Site", "environment", "example_sites", "find_examples", "missing_libraries"]

#: Every library that the sites and the service import, by the extra that brings it.
_LIBRARIES = {
    "django": ("django",),
    "flask": ("flask",),
    "fastapi": ("fastapi", "starlette"),
    "local": ("uvicorn", "watchfiles", "yaml"),
    "examples": ("flask_login", "itsdangerous", "jinja2"),
}

#: Variables that would make a site or its server behave otherwise than the demo shows.
_FOREIGN = ("DJANGO_", "EXAMPLE_", "FLASK_", "SHIPSILENTLY_", "UVICORN_", "WERKZEUG_")
_FOREIGN_NAMES = ("DEBUG", "HTTPS", "PYTHONSAFEPATH", "SECRET_KEY", "WEB_CONCURRENCY")


@dataclass(frozen=True, slots=True)
class Site:
    """One example site.

    Attributes:
        name: The framework's.
        folder: Where the site is, and where its commands run.
        prepare: Arguments for Python that set it up, empty for none.
        serve: Arguments for Python that serve it on ``{port}``.
    """

    name: str
    folder: Path
    prepare: tuple[str, ...]
    serve: tuple[str, ...]

    def serve_on(self, port: int) -> list[str]:
        """The command that serves the site on a port of 127.0.0.1."""
        return [sys.executable, *(part.format(port=port) for part in self.serve)]

    def prepare_with(self) -> list[str]:
        """The command that sets the site up; empty for none."""
        return [sys.executable, *self.prepare] if self.prepare else []


def example_sites(examples: Path) -> tuple[Site, ...]:
    """The sites below a folder, in the order in which they are shown."""
    return (
        Site(
            "Django",
            examples / "django",
            ("manage.py", "migrate", "--no-input"),
            ("manage.py", "runserver", "--noreload", "127.0.0.1:{port}"),
        ),
        Site("Flask", examples / "flask", (), ("app.py", "--port", "{port}")),
        Site(
            "FastAPI",
            examples / "fastapi",
            (),
            ("-m", "uvicorn", "--app-dir", ".", "app:app", "--port", "{port}"),
        ),
    )


def find_examples(package: Path) -> Path:
    """The folder of the examples: in the package where it was installed, else beside it.

    Args:
        package: The folder of this package.

    Raises:
        FileNotFoundError: It is in neither place.
    """
    for place in (package / "examples", package.parent / "examples"):
        if (place / "flags.toml").is_file():
            return place
    raise FileNotFoundError("the example sites are not there: they come with the package")


def missing_libraries(
    find: Callable[[str], object | None] = importlib.util.find_spec,
) -> dict[str, list[str]]:
    """The libraries that are not installed, by the extra that brings them."""
    missing = {
        extra: [name for name in names if find(name) is None] for extra, names in _LIBRARIES.items()
    }
    return {extra: names for extra, names in missing.items() if names}


def environment(
    base: Mapping[str, str], *, api_url: str, api_key: str, database: Path
) -> dict[str, str]:
    """The environment of the sites: this process's, cleared of what would disturb them.

    Args:
        base: The environment of this process.
        api_url: The service's address.
        api_key: The key that it accepts.
        database: The file for Django's database.
    """
    kept = {
        name: value
        for name, value in base.items()
        if not name.startswith(_FOREIGN) and name not in _FOREIGN_NAMES
    }
    # A proxy is for other machines.
    near = ",".join(filter(None, (base.get("NO_PROXY", base.get("no_proxy")), "127.0.0.1")))
    return kept | {
        "SHIPSILENTLY_API_URL": api_url,
        "SHIPSILENTLY_API_KEY": api_key,
        "EXAMPLE_DB": str(database),
        "NO_PROXY": near,
        "no_proxy": near,
        "PYTHONUNBUFFERED": "1",
    }
