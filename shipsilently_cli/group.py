"""The command group. Subcommands are imported when they are used, so that each needs
only its own libraries and ``--help`` needs none."""

from __future__ import annotations

import codecs
import errno
import importlib
import io
import json
import sys
from collections.abc import Mapping
from typing import Any, NamedTuple

import click

__all__ = ["COMMANDS", "LazyGroup", "Subcommand", "main"]


class Subcommand(NamedTuple):
    """Where a subcommand is, what it does in a few words, and the extra it needs.

    The module holds a click command of the subcommand's name.
    """

    module: str
    summary: str
    extra: str


#: The subcommands by name, in the order in which the help lists them.
COMMANDS: Mapping[str, Subcommand] = {
    "demo": Subcommand(
        "shipsilently_cli.demo",
        "Show three sites through an outage.",
        "django,flask,fastapi,local,cli,examples",
    ),
    "serve": Subcommand(
        "shipsilently_cli.serve", "Run the service on this machine, from a flags file.", "local"
    ),
    "doctor": Subcommand(
        "shipsilently_cli.doctor",
        "Check the way to the service, and the app.",
        "cli",
    ),
    "evaluate": Subcommand("shipsilently_cli.evaluate", "Evaluate one flag.", "cli"),
    "watch": Subcommand("shipsilently_cli.watch", "Follow states and flags as they change.", "cli"),
    "snapshot": Subcommand(
        "shipsilently_cli.snapshot", "Write every flag's value, to ship with an app.", "cli"
    ),
    "init": Subcommand("shipsilently_cli.init", "Write a flags file to start from.", "cli"),
    "schema": Subcommand(
        "shipsilently_cli.schema", "Print the JSON Schema of the flags file.", "local"
    ),
}


#: What writing raises where a disk, a quota or a device is at its end.
_FULL = frozenset({errno.ENOSPC, errno.EFBIG, errno.EIO, getattr(errno, "EDQUOT", errno.ENOSPC)})


class _MissingLibraryError(click.ClickException):
    exit_code = 2


class LazyGroup(click.Group):
    """A group whose commands are named in a table and imported on use."""

    def __init__(self, *args: Any, table: Mapping[str, Subcommand] = COMMANDS, **more: Any) -> None:
        super().__init__(*args, **more)
        self._table = table

    def main(self, *args: Any, **more: Any) -> Any:
        """Run a command; output that cannot be written is one plain line, and the status 1."""
        try:
            return super().main(*args, **more)
        except OSError as error:
            if error.errno not in _FULL:
                raise
            # What is left in its buffer would be tried again at the end, and told in a traceback.
            sys.stdout = io.StringIO()
            click.echo(f"Error: the output cannot be written: {error.strerror}", err=True)
            sys.exit(1)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names, in the table's order."""
        return list(self._table)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import one; a missing library is one plain line that says what to install."""
        entry = self._table.get(cmd_name)
        if entry is None:
            return None
        try:
            module = importlib.import_module(entry.module)
        except ModuleNotFoundError as error:
            missing = (error.name or "").partition(".")[0]
            if missing.startswith("shipsilently"):
                raise
            raise _MissingLibraryError(
                f"`shipsilently {cmd_name}` needs {missing}: "
                f"install it with  pip install 'shipsilently[{entry.extra}]'"
            ) from None
        command: click.Command = getattr(module, cmd_name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands from the table, without importing any."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.summary) for name, entry in self._table.items()])


def _version(ctx: click.Context, param: click.Parameter, wanted: bool) -> None:
    if wanted:
        from shipsilently_core._version import __version__

        click.echo(f"shipsilently {__version__}")
        ctx.exit()


def _escaped(error: UnicodeError) -> tuple[str, int]:
    """As JSON escapes it, so that JSON stays what it is."""
    assert isinstance(error, UnicodeEncodeError)
    return json.dumps(error.object[error.start : error.end])[1:-1], error.end


def _print_anywhere() -> None:
    """Let no character end a command where the output's encoding does not have it."""
    output: Any = sys.stdout
    if getattr(output, "errors", None) == "strict" and hasattr(output, "reconfigure"):
        codecs.register_error("shipsilently", _escaped)
        output.reconfigure(errors="shipsilently")


@click.group(cls=LazyGroup, name="shipsilently")
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_version,
    help="Show the version and exit.",
)
def main() -> None:
    """Feature flags that stay right while the service is down."""
    _print_anywhere()
