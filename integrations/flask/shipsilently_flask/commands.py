"""``flask shipsilently``: what the service says, asked from a shell."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
from flask import current_app
from flask.cli import AppGroup, ScriptInfo
from msgspec import Struct

from shipsilently_core import EvaluationError, EvaluationResult, ShipSilentlyClient

from .doctor import doctor
from .state import state_of

__all__ = ["commands", "everywhere"]

_HELP = "Ask for feature flags, as this app's client sees them."

#: `ShipSilently` puts it into the app.
commands: AppGroup = AppGroup("shipsilently", help=_HELP)
commands.add_command(doctor)


class _Everywhere(AppGroup):
    """The same among Flask's own commands, which come before an app's.

    An app that cannot be loaded has no commands, and its doctor is to say why. What an app
    itself has under this name goes before.
    """

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Their names."""
        return (_in_app(ctx) or commands).list_commands(ctx)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """One of them."""
        return (_in_app(ctx) or commands).get_command(ctx, cmd_name)


def _in_app(ctx: click.Context) -> click.Group | None:
    """What the app has under this name; ``None`` where it has nothing, or cannot be loaded."""
    try:
        found = ctx.ensure_object(ScriptInfo).load_app().cli.commands.get(commands.name or "")
    except (Exception, SystemExit):
        # Whoever needs the app will say so.
        return None
    return found if isinstance(found, click.Group) else None


everywhere: AppGroup = _Everywhere("shipsilently", help=_HELP)

_user = click.option("--user", metavar="ID", help="The userId to ask for.")


def _typed(ctx: click.Context, param: click.Parameter, given: tuple[str, ...]) -> dict[str, Any]:
    from shipsilently_cli._context import MistypedError, attributes_of

    try:
        return attributes_of(given)
    except MistypedError as error:
        raise click.BadParameter(str(error)) from None


_attributes = click.option(
    "--attr",
    "--context",
    "attributes",
    metavar="NAME=VALUE|JSON",
    multiple=True,
    callback=_typed,
    help="Another attribute of the context; VALUE is JSON, or else a string. Or an object of "
    "several. May be repeated.",
)
_as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


class _Row(Struct, frozen=True):
    """One flag as it is printed."""

    result: EvaluationResult

    def as_dict(self) -> dict[str, Any]:
        """The flag for ``--json``."""
        found = self.result
        return {
            "flagKey": found.flag_key,
            "value": found.value,
            "reason": str(found.reason),
            "ruleId": found.rule_id,
            "source": str(found.source),
            "error": None if found.error is None else str(found.error),
        }

    def as_columns(self) -> tuple[str, ...]:
        """The flag as a line of the table."""
        found = self.result
        why = found.reason if found.rule_id is None else f"{found.reason} ({found.rule_id})"
        value = json.dumps(found.value, ensure_ascii=False)
        return found.flag_key, value, str(why), str(found.error or found.source)


@commands.command("evaluate")
@click.argument("key")
@click.option("--default", metavar="JSON", help="What to serve if there is nothing better.")
@_user
@_attributes
@_as_json
def evaluate(
    key: str, default: str | None, user: str | None, attributes: dict[str, Any], as_json: bool
) -> None:
    """Evaluate the flag KEY with one call to the service.

    Ends with status 1 when nothing better than a default could be served.
    """
    from shipsilently_cli._context import json_or_text

    given = () if default is None else (json_or_text(default),)
    with _failing_loudly():
        result = _client().evaluate_detail(key, _context(user, attributes), *given)
    _print([_Row(result)], as_json)
    if result.error is not None:
        raise SystemExit(1)


@commands.command("list")
@_user
@_attributes
@_as_json
def list_(user: str | None, attributes: dict[str, Any], as_json: bool) -> None:
    """List every flag of the environment, with one call to the service.

    Ends with status 1 when the service did not answer.
    """
    from shipsilently_cli._failures import failures_of

    client = _client()
    with _failing_loudly(), failures_of(client) as failures:
        results = client.evaluate_all(_context(user, attributes))
    if failures:
        raise click.ClickException(failures[0])
    _print([_Row(results[key]) for key in sorted(results)], as_json)


@commands.command("watch")
@_user
@_attributes
@click.option("--count", type=click.IntRange(min=1), help="End after so many lines.")
@click.option("--json", "as_json", is_flag=True, help="Print an object a line.")
def watch(user: str | None, attributes: dict[str, Any], count: int | None, as_json: bool) -> None:
    """Print states, flag changes and failures as they come, until Ctrl-C."""
    from shipsilently_cli._watching import watch as follow

    follow(_client(), _context(user, attributes), click.echo, as_json=as_json, count=count)


@commands.command("snapshot")
@_user
@_attributes
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write there, whole or not at all.",
)
def snapshot(user: str | None, attributes: dict[str, Any], output: Path | None) -> None:
    """Print every flag's value as JSON, to ship with the app (SHIPSILENTLY_BOOTSTRAP).

    They are those of the client's own background context, unless another is given. Without an
    answer of the service nothing is written.
    """
    from shipsilently_cli._snapshot import NoAnswerError, take
    from shipsilently_cli.snapshot import put

    try:
        taken = take(_client(), _context(user, attributes) or None)
    except NoAnswerError as error:
        raise click.ClickException(str(error)) from None
    put(taken, output)


def _client() -> ShipSilentlyClient:
    try:
        return state_of(current_app).client
    except RuntimeError as error:
        raise click.UsageError(str(error)) from None


@contextmanager
def _failing_loudly() -> Iterator[None]:
    """With the cache switched off a failed call raises: one line is enough for it."""
    try:
        yield
    except EvaluationError as error:
        from shipsilently_cli._failures import explained

        raise click.ClickException(explained(error)) from None


def _context(user: str | None, attributes: dict[str, Any]) -> dict[str, Any]:
    return attributes if user is None else {**attributes, "userId": user}


def _print(rows: list[_Row], as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps([row.as_dict() for row in rows], ensure_ascii=False, indent=2))
        return
    table = [("flag", "value", "reason", "from"), *(row.as_columns() for row in rows)]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for line in table:
        cells = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        click.echo("  ".join(cells).rstrip())
