"""``shipsilently schema``: the JSON Schema of the flags file, for editors."""

from __future__ import annotations

import click

from shipsilently_local.schema import render_schema

__all__ = ["schema"]


@click.command()
def schema() -> None:
    """Print the JSON Schema of the flags file."""
    click.echo(render_schema(), nl=False)
