"""``manage.py shipsilently watch``: states and flags of the site's client as they change."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand

from shipsilently_cli._watching import watch
from shipsilently_core import ShipSilentlyClient

__all__ = ["add_parser", "run"]


def add_parser(subparsers: Any) -> Any:
    """The words of the command line, beside those that say whom for."""
    parser = subparsers.add_parser("watch", help="follow states, flags and failures until Ctrl-C")
    parser.add_argument("--count", type=int, help="end after so many lines")
    return parser


def run(
    command: BaseCommand,
    client: ShipSilentlyClient,
    context: dict[str, Any],
    *,
    as_json: bool,
    count: int | None,
) -> None:
    """Follow the client until Ctrl-C."""

    def write(line: str) -> None:
        command.stdout.write(line)
        command.stdout.flush()

    watch(client, context, write, as_json=as_json, count=count)
