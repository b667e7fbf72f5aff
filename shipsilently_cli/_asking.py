"""What the commands that ask share: JSON that people type, and whose client to use."""

from __future__ import annotations

import importlib
import json
import logging
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import click

from shipsilently_core import Config, ConfigurationError, Context, ShipSilentlyClient

__all__ = ["app_option", "client_of", "context_option", "json_value", "load_app", "quiet_log"]


def json_value(ctx: click.Context, param: click.Parameter, given: str | None) -> Any:
    """What an option holds as JSON; an error says where it stops being that."""
    if given is None:
        return None
    try:
        return json.loads(given)
    except ValueError as error:
        # The text itself is not shown again: it may be about a person.
        where = f" at character {error.pos + 1}" if isinstance(error, json.JSONDecodeError) else ""
        raise click.BadParameter(
            f'is not JSON{where}; quote it for the shell, like \'{{"plan": "pro"}}\''
        ) from None


def _context(ctx: click.Context, param: click.Parameter, given: str | None) -> Any:
    value = json_value(ctx, param, given)
    if value is None:
        return None
    if not isinstance(value, dict):
        raise click.BadParameter('must be a JSON object, like \'{"plan": "pro"}\'')
    dropped = Context(value).dropped
    if dropped:
        raise click.BadParameter(
            f"the attribute {dropped[0]!r} must be a string, a number, true or false"
        )
    return value


context_option = click.option(
    "--context", metavar="JSON", callback=_context, help="Whom for: an object of attributes."
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
    if app is not None:
        return load_app(app)[0]
    try:
        return ShipSilentlyClient(Config.from_env())
    except ConfigurationError as error:
        fail(str(error))


def load_app(name: str) -> tuple[ShipSilentlyClient, tuple[Path, ...]]:
    """Import an app from the current folder; its client, and where its code is.

    Raises:
        click.ClickException: There is no such thing, or it has no client.
    """
    module_name, colon, attribute = name.partition(":")
    if not module_name or not colon or not attribute:
        fail("--app: write MODULE:NAME, like main:app")
    sys.path.insert(0, str(Path.cwd()))
    try:
        module = importlib.import_module(module_name)
        found: Any = module
        for part in attribute.split("."):
            found = getattr(found, part)
    except ConfigurationError as error:
        fail(f"--app: importing {module_name}: {error}")
    except ModuleNotFoundError as error:
        fail(f"--app: there is no module {error.name}")
    except AttributeError:
        fail(f"--app: {module_name} has no {attribute}")
    except Exception as error:
        fail(f"--app: importing {module_name} raised {type(error).__name__}")
    client = _client_in(found)
    if client is None:
        fail(
            f"--app: {name} has no ShipSilently: give the app its lifespan or call "
            "install(app), or name the ShipSilently itself"
        )
    file = getattr(module, "__file__", None)
    return client, () if file is None else _sources_of(Path(file), module_name)


def _client_in(found: Any) -> ShipSilentlyClient | None:
    """The client of whatever an app keeps it in."""
    places: list[Callable[[], Any]] = [
        lambda: found,
        lambda: found.client,
        lambda: found.state.shipsilently.client,
        lambda: found.router.lifespan_context.shipsilently.client,
        lambda: found.extensions["shipsilently"].client,
    ]
    for place in places:
        try:
            client = place()
        except (AttributeError, KeyError, TypeError):
            continue
        if isinstance(client, ShipSilentlyClient):
            return client
    return None


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
