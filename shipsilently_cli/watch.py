"""``shipsilently watch``: what happens to the connection and the flags, as it happens."""

from __future__ import annotations

import contextlib
import sys
from typing import Any

import click

from ._asking import app_option, client_of, context_option, quiet_log
from ._watching import watch as follow

__all__ = ["watch"]


@click.command()
@context_option
@app_option
@click.option("--json", "as_json", is_flag=True, help="Print an object a line.")
def watch(context: dict[str, Any] | None, app: str | None, as_json: bool) -> None:
    """Print states, flag changes and failures as they come, until Ctrl-C.

    The key and the address come from SHIPSILENTLY_API_KEY and SHIPSILENTLY_API_URL.
    """
    quiet_log()
    client = client_of(app)
    try:
        # click flushes each line.
        follow(client, context, click.echo, as_json=as_json)
    except BrokenPipeError:
        # Whoever read has enough, as `head` has. Nothing more may be written at exit.
        sys.stdout = None
    finally:
        with contextlib.suppress(KeyboardInterrupt):
            client.close()
