"""``shipsilently doctor``: what is wrong between here and the service, if anything is."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from shipsilently_core import Config, ConfigurationError

from ._asking import app_option, load_app, quiet_log
from .checkup import Subject, examine, print_report
from .checkup.findings import failure

__all__ = ["doctor"]


@click.command()
@app_option
@click.option(
    "--source",
    "sources",
    type=click.Path(path_type=Path, exists=True),
    multiple=True,
    help="A folder whose code reads flags; with --app its own is taken.",
)
@click.option("--quick", is_flag=True, help="Measure less and do not wait for a heartbeat.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def doctor(app: str | None, sources: tuple[Path, ...], quick: bool, as_json: bool) -> None:
    """Check the way to the service and the production checklist.

    The key and the address come from SHIPSILENTLY_API_KEY and SHIPSILENTLY_API_URL, or
    from an app's own client. Ends with status 0 if all is well, 1 with warnings, 2 with
    failures.
    """
    quiet_log()
    subject = _subject(app, sources)
    # There is none where it was closed, as for some jobs of a daemon.
    if not as_json and sys.stdout is not None and sys.stdout.isatty():
        try:
            from ._rich_report import print_rich
        except ModuleNotFoundError:
            pass
        else:
            sys.exit(print_rich(subject, quick=quick))
    findings = examine(subject, quick=quick, progress=lambda text: click.echo(text, err=True))
    sys.exit(print_report(findings, click.echo, as_json=as_json))


def _subject(app: str | None, sources: tuple[Path, ...]) -> Subject:
    try:
        if app is None:
            return Subject(config=Config.from_env(), sources=sources)
        client, own = load_app(app)
        return Subject(config=client.config, app=app, client=client, sources=sources or own)
    except ConfigurationError as error:
        problem = failure(
            "configuration", str(error), "See the page Configuration of the manual for each name."
        )
        return Subject(config=None, problems=(problem,), sources=sources)
