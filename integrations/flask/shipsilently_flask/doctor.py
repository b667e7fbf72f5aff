"""``flask shipsilently doctor``: the doctor's checks, with the app's client and Flask's own."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click
from flask import Flask, current_app, has_app_context
from flask.cli import ScriptInfo
from flask.sessions import SecureCookieSessionInterface

from shipsilently_core import ConfigurationError

from .lost import wrong_targets
from .order import check_order, unused_gates
from .state import State, state_of

if TYPE_CHECKING:
    from shipsilently_cli.checkup import Finding, Subject

__all__ = ["doctor"]

_COLOURS = {"ok": "green", "warning": "yellow", "failure": "red", "skipped": "bright_black"}


@click.command()
@click.option("--quick", is_flag=True, help="Measure less and do not wait for a heartbeat.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def doctor(context: click.Context, quick: bool, as_json: bool) -> None:
    """Check the way to the service, the app and the production checklist.

    Ends with status 0 if all is well, 1 with warnings, 2 with failures.
    """
    # Here, not above: every app imports this module, and few of its processes are the doctor.
    from shipsilently_cli.checkup import examine, print_report

    subject = _subject(context)
    findings = examine(subject, quick=quick, progress=lambda text: click.echo(text, err=True))
    code = print_report(
        findings,
        click.echo,
        as_json=as_json,
        paint=lambda level, text: click.style(text, fg=_COLOURS[level]),
    )
    sys.exit(code)


def _subject(context: click.Context) -> Subject:
    """The app and its client; where it cannot be loaded for its settings, what is wrong with them.

    Flask's own `with_appcontext` would end with a traceback there.
    """
    from shipsilently_cli.checkup import Subject
    from shipsilently_cli.checkup.findings import failure

    try:
        if not has_app_context():
            context.with_resource(context.ensure_object(ScriptInfo).load_app().app_context())
    except ConfigurationError as error:
        problem = failure(
            "configuration", str(error), "See the page Configuration of the manual for each name."
        )
        return Subject(config=None, problems=(problem,))
    app: Flask = current_app._get_current_object()  # type: ignore[attr-defined]  # of LocalProxy
    try:
        state = state_of(app)
    except RuntimeError as error:
        raise click.UsageError(str(error)) from None
    return Subject(
        config=state.client.config,
        app=f"the app {app.name!r}",
        client=state.client,
        sources=tuple(_sources(app)),
        framework=lambda flags: _framework(app, state, flags),
    )


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
    from shipsilently_core.contrib.browser import may_see

    if state.extension.loader is not None:
        yield ok("context", "a context loader says whom flags are for")
    elif hasattr(app, "login_manager"):
        yield ok("context", "flags are for Flask-Login's current user")
    else:
        # That may be meant so.
        yield ok("context", "no context loader and no Flask-Login: everybody gets the same flags")
    place = state.settings.anonymous_id
    signed = place == "cookie" or isinstance(app.session_interface, SecureCookieSessionInterface)
    if place is not None and signed and not app.secret_key:
        yield failure(
            "visitors",
            "SHIPSILENTLY_ANONYMOUS_ID is set and SECRET_KEY is not: visitors have no id, so "
            "flags are for nobody in particular",
            "Set the app's SECRET_KEY, which signs the id.",
        )
    try:
        check_order(app)
    except ConfigurationError as error:
        yield failure("gates", str(error), "Write @app.route first and @requires_flag below it.")
    else:
        unused, lost = [*unused_gates(app)], [*wrong_targets(app)]
        for problem in unused:
            yield warning("gates", problem, "Route to what requires_flag returns.")
        for problem in lost:
            yield failure("gates", problem, "Name an endpoint, a path or a URL that is there.")
        if not unused and not lost:
            yield ok("gates", "every @requires_flag stands below its route")
    named = state.settings.client_flags
    unknown = [each for each in named if flags and not any(may_see(key, (each,)) for key in flags)]
    if unknown:
        yield warning(
            "browser",
            f"SHIPSILENTLY_CLIENT_FLAGS: there is no flag {', '.join(map(repr, unknown))}",
            "Correct its spelling, or make it in this environment.",
        )
