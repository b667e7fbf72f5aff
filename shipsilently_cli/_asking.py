"""What the commands that ask share: JSON that people type, and whose client to use."""

from __future__ import annotations

import importlib
import json
import logging
import sys
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

import click

from shipsilently_core import Config, ConfigurationError, ShipSilentlyClient

from ._apps import client_in, place_of, without_client
from ._context import MistypedError, attributes_of, refuse

__all__ = ["app_option", "client_of", "context_option", "json_value", "load_app", "quiet_log"]


def json_value(ctx: click.Context, param: click.Parameter, given: str | None) -> Any:
    """What an option holds as JSON; an error says where it stops being that."""
    if given is None:
        return None
    try:
        return json.loads(given, parse_constant=refuse)
    except ValueError as error:
        # The text itself is not shown again: it may be about a person.
        where = f" at character {error.pos + 1}" if isinstance(error, json.JSONDecodeError) else ""
        raise click.BadParameter(
            f"is not JSON{where}; quote it for the shell, a string like '\"blue\"'"
        ) from None


def _context(ctx: click.Context, param: click.Parameter, given: tuple[str, ...]) -> Any:
    try:
        return attributes_of(given) if given else None
    except MistypedError as error:
        raise click.BadParameter(str(error)) from None


context_option = click.option(
    "--context",
    "--attr",
    "context",
    metavar="JSON|NAME=VALUE",
    multiple=True,
    callback=_context,
    help="Whom for: an object of attributes, or one of them. May be repeated.",
)

app_option = click.option(
    "--app",
    metavar="MODULE:NAME",
    help="Use the client of this app: a FastAPI or Flask app, a ShipSilently, or a client.",
)


def quiet_log() -> None:
    """Leave the telling to the command: without a handler, Python prints warnings as well."""
    logging.getLogger("shipsilently").addHandler(logging.NullHandler())


def client_of(app: str | None) -> ShipSilentlyClient:
    """The client of an app, else one by the environment.

    Raises:
        click.ClickException: There is none.
    """
    try:
        return ShipSilentlyClient(Config.from_env()) if app is None else load_app(app)[0]
    except ConfigurationError as error:
        fail(str(error) if app is None else f"--app: {error}")


def load_app(name: str) -> tuple[ShipSilentlyClient, tuple[Path, ...]]:
    """Import an app from the current folder; its client, and where its code is.

    Raises:
        click.ClickException: There is no such thing, or it has no client.
        ConfigurationError: Its settings are wrong.
    """
    module_name, colon, attribute = name.partition(":")
    if not module_name or not colon or not attribute:
        fail("--app: write MODULE:NAME, like main:app")
    sys.path.insert(0, str(Path.cwd()))
    module = _imported(module_name)
    found: Any = module
    try:
        for part in attribute.split("."):
            found = getattr(found, part)
    except AttributeError:
        fail(f"--app: {module_name} has no {attribute}")
    client = client_in(found)
    if client is None:
        fail(f"--app: {name} {without_client(found, module_name)}")
    file = getattr(module, "__file__", None)
    return client, () if file is None else _sources_of(Path(file), module_name)


def _imported(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ConfigurationError as error:
        where = f"importing {name}: {error.setting}"
        raise ConfigurationError(where, f"{error.problem} ({place_of(error)})") from None
    except ModuleNotFoundError as error:
        if error.name is not None and f"{name}.".startswith(f"{error.name}."):
            fail(f"--app: there is no module {error.name}")
        fail(f"--app: importing {name}: there is no module {error.name} ({place_of(error)})")
    except (Exception, SystemExit) as error:
        # What others put into their messages is not known; this line ends up in tickets.
        fail(
            f"--app: importing {name} raised {type(error).__name__} ({place_of(error)}); "
            f"see all of it with  python -c 'import {name}'"
        )


def _sources_of(file: Path, module_name: str) -> tuple[Path, ...]:
    """The top package's folder; of a file that stands alone, itself and its templates."""
    depth = module_name.count(".")
    if depth == 0 and file.name != "__init__.py":
        templates = file.parent / "templates"
        return (file, templates) if templates.is_dir() else (file,)
    folder = file.parent
    for _ in range(depth - (file.name != "__init__.py")):
        folder = folder.parent
    return (folder,)


def fail(problem: str) -> NoReturn:
    """End with one line and status 2."""
    raise _Failed(problem)


class _Failed(click.ClickException):
    exit_code = 2
