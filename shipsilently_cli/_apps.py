"""What an app that was imported by name is, where its client is, and where its import failed."""

from __future__ import annotations

import importlib
import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from shipsilently_core import ConfigurationError, ShipSilentlyClient

__all__ = ["client_in", "place_of", "without_client"]

_MISSING = {
    "flask": "call ShipSilently(app)",
    "fastapi": "give the app its lifespan or call install(app), or name the ShipSilently itself",
}
_MISSING["starlette"] = _MISSING["fastapi"]


def client_in(found: Any) -> ShipSilentlyClient | None:
    """The client of whatever an app keeps it in.

    Raises:
        ConfigurationError: The client is made when it is first asked for, of wrong settings.
    """
    places: list[Callable[[], Any]] = [
        lambda: found,
        lambda: found.client,
        lambda: _in_asgi(found).client,
        lambda: found.extensions["shipsilently"].client,
    ]
    for place in places:
        client = _asked(place)
        if isinstance(client, ShipSilentlyClient):
            return client
    return None


def _asked(place: Callable[[], Any]) -> Any:
    try:
        return place()
    except ConfigurationError:
        raise
    except Exception:
        # It is no place where a client is; what others put into their messages is not shown.
        return None


def _in_asgi(app: Any) -> Any:
    """What the app was installed with; whoever made that has imported its package."""
    apps: Any = sys.modules["shipsilently_fastapi.apps"]
    return apps.installed(app)


def without_client(found: Any, module: str) -> str:
    """Why there is no client in it, and what to do, to be read after its name."""
    roots = {each.__module__.partition(".")[0] for each in type(found).__mro__}
    for framework, advice in _MISSING.items():
        if framework in roots:
            return f"has no ShipSilently: {advice}"
    if "shipsilently_flask" in roots:
        return "is the extension: name the Flask app that it is in"
    if "django" in roots:
        return "is Django's: run  python manage.py shipsilently doctor"
    if callable(found):
        what = "class" if isinstance(found, type) else "function"
        return (
            f"is a {what}, not an app: name what it returns, in a module that calls it; of "
            f"Flask's factories,  flask --app {module} shipsilently doctor  calls them itself"
        )
    return (
        f"is of the type {type(found).__name__}: name a FastAPI, Starlette or Flask app, "
        "a ShipSilently, or a client"
    )


def place_of(error: BaseException) -> str:
    """The file and the line where an import failed: in the app's own code, if that is known."""
    if isinstance(error, SyntaxError) and error.filename is not None:
        return f"{_short(error.filename)}, line {error.lineno}"
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith("<") and not _is_ours(frame.filename)
    ]
    if not frames:
        return "in no file"
    own = [frame for frame in frames if _is_apps(frame.filename)]
    last = (own or frames)[-1]
    return f"{_short(last.filename)}, line {last.lineno}"


def _is_ours(file: str) -> bool:
    return Path(file).parent in (Path(__file__).parent, Path(importlib.__file__).parent)


def _is_apps(file: str) -> bool:
    path = Path(file)
    return path.is_relative_to(Path.cwd()) and "site-packages" not in path.parts


def _short(file: str) -> str:
    """The file from here, where it is below."""
    path = Path(file)
    return os.fspath(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else file
