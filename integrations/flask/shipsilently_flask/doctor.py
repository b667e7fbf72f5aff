"""``flask shipsilently doctor``: the doctor's checks, with the app's client and Flask's own."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click
from flask import Flask, current_app
from flask.cli import with_appcontext

from shipsilently_core import ConfigurationError

from .order import check_order
from .state import State, state_of

if TYPE_CHECKING:
    from shipsilently_cli.checkup import Finding

__all__ = ["doctor"]

_COLOURS = {"ok": "green", "warning": "yellow", "failure": "red", "skipped": "bright_black"}


@click.command()
@click.option("--quick", is_flag=True, help="Measure less and do not wait for a heartbeat.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@with_appcontext
def doctor(quick: bool, as_json: bool) -> None:
    """Check the way to the service, the app and the production checklist.

    Ends with status 0 if all is well, 1 with warnings, 2 with failures.
    """
    # Here, not above: every app imports this module, and few of its processes are the doctor.
    from shipsilently_cli.checkup import Subject, examine, print_report

    app: Flask = current_app._get_current_object()  # type: ignore[attr-defined]  # of LocalProxy
    state = state_of(app)
    subject = Subject(
        config=state.client.config,
        app=f"the app {app.name!r}",
        client=state.client,
        sources=tuple(_sources(app)),
        framework=lambda flags: _framework(app, state, flags),
    )
    findings = examine(subject, quick=quick, progress=lambda text: click.echo(text, err=True))
    code = print_report(
        findings,
        click.echo,
        as_json=as_json,
        paint=lambda level, text: click.style(text, fg=_COLOURS[level]),
    )
    sys.exit(code)


def _sources(app: Flask) -> Iterator[Path]:
    """Where the app's code is: its package; or the file that it is in, and its templates."""
    file = getattr(sys.modules.get(app.import_name), "__file__", None)
    if file is None:
        # Made without a module of its own, as in a test: its root path is just any folder.
        return
    if Path(file).name == "__init__.py":
        yield Path(app.root_path)
        return
    # Whatever else lies in the folder of a single file may be no part of the app.
    yield Path(file)
    if app.template_folder is not None:
        yield Path(app.root_path, app.template_folder)


def _framework(app: Flask, state: State, flags: frozenset[str] | None) -> Iterator[Finding]:
    from shipsilently_cli.checkup.findings import failure, ok, warning

    if state.extension.loader is not None:
        yield ok("context", "a context loader says whom flags are for")
    elif hasattr(app, "login_manager"):
        yield ok("context", "flags are for Flask-Login's current user")
    else:
        # That may be meant so.
        yield ok("context", "no context loader and no Flask-Login: everybody gets the same flags")
    try:
        check_order(app)
    except ConfigurationError as error:
        yield failure("gates", str(error), "Write @app.route first and @requires_flag below it.")
    else:
        yield ok("gates", "every @requires_flag stands below its route")
    unknown = [key for key in state.settings.client_flags if flags and key not in flags]
    if unknown:
        yield warning(
            "browser",
            f"SHIPSILENTLY_CLIENT_FLAGS: there is no flag {', '.join(map(repr, unknown))}",
            "Correct its spelling, or make it in this environment.",
        )
