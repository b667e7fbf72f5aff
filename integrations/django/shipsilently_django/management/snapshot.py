"""``manage.py shipsilently snapshot``: results to ship with the site, for ``BOOTSTRAP``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from shipsilently_cli._snapshot import NoAnswerError, take, write
from shipsilently_core import ShipSilentlyClient

__all__ = ["add_parser", "run"]


def add_parser(subparsers: Any) -> Any:
    """The words of the command line, beside those that say whom for."""
    parser = subparsers.add_parser(
        "snapshot", help="every flag's value as JSON, to ship with the site as BOOTSTRAP"
    )
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="FILE",
        help="write there, whole or not at all; - is standard output",
    )
    return parser


def run(
    command: BaseCommand,
    client: ShipSilentlyClient,
    context: dict[str, Any] | None,
    *,
    output: Path | None,
) -> None:
    """Evaluate, and print or write.

    Raises:
        CommandError: The service did not answer, or the file cannot be written.
    """
    try:
        taken = take(client, context)
    except NoAnswerError as error:
        raise CommandError(str(error)) from None
    if output is None or output == Path("-"):
        command.stdout.write(taken.document)
    else:
        try:
            write(output, taken)
        except OSError as error:
            raise CommandError(f"{output}: {error.strerror}") from None
    for note in taken.notes:
        command.stderr.write(note)
