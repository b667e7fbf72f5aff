"""``shipsilently snapshot``: results to ship with an app, for ``bootstrap=``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from shipsilently_core import ConfigurationError

from ._asking import app_option, client_of, context_option, fail, quiet_log
from ._snapshot import NoAnswerError, Taken, check, take, write

__all__ = ["put", "snapshot"]

_PATH = click.Path(path_type=Path)


@click.command()
@context_option
@app_option
@click.option(
    "-o",
    "--output",
    type=_PATH,
    metavar="FILE",
    help="Write there, whole or not at all; - is standard output.",
)
@click.option(
    "--check", "checked", type=_PATH, metavar="FILE", help="Only say whether FILE can be shipped."
)
def snapshot(
    context: dict[str, Any] | None, app: str | None, output: Path | None, checked: Path | None
) -> None:
    """Print every flag's value as JSON, to ship with an app and to serve where nothing is known.

    They are those of the client's own background context, unless another is given. The key and
    the address come from SHIPSILENTLY_API_KEY and SHIPSILENTLY_API_URL. What a rule has made for
    this context alone is left out. Without an answer of the service nothing is written.
    """
    if checked is not None:
        try:
            notes = check(checked)
        except ConfigurationError as error:
            flag = error.setting.removeprefix("bootstrap")
            which = f"flag {flag[1:-1]} " if flag else ""
            fail(f"{checked}: {which}{error.problem}")
        for note in notes:
            click.echo(f"{checked}: {note}")
        return
    quiet_log()
    client = client_of(app)
    try:
        taken = take(client, context)
    except NoAnswerError as error:
        fail(str(error))
    finally:
        client.close()
    put(taken, output)


def put(taken: Taken, output: Path | None) -> None:
    """Print it, or write it into a file; what there is to say of it goes to standard error.

    Args:
        taken: The results.
        output: The file; none, or one that is called ``-``, is standard output.

    Raises:
        click.ClickException: It cannot be written.
    """
    where = ""
    if output == Path("-"):
        output = None
    if output is None:
        # In UTF-8 wherever standard output goes.
        click.echo(taken.document.encode(), nl=False)
    else:
        try:
            changed = write(output, taken)
        except OSError as error:
            fail(f"{output}: {error.strerror}")
        where = f"{output}: " if changed else f"{output}: unchanged, "
    for note in taken.notes:
        click.echo(f"{where}{note}", err=True)
        where = "" if output is None else f"{output}: "
