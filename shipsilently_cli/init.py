"""``shipsilently init``: a flags file to start from."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Never

import click

__all__ = ["STARTER", "init"]

#: The file that is written.
STARTER = """\
# Flags for `shipsilently serve`. Save this file while it runs: your app follows.

[flags.new-checkout]
enabled = true
default = false              # served when no rule matches, and when not enabled

# The first rule that serves wins.
[[flags.new-checkout.rules]]
name = "paying customers"
when = [{ attribute = "plan", operator = "in", value = ["pro", "team"] }]
serve = true

[[flags.new-checkout.rules]]
name = "a tenth of everybody else"
serve = true
rollout = 10                 # percent of userIds; the same users every time

[flags.banner]
default = "Welcome"          # a boolean, a string, a number or a table
"""


@click.command()
@click.argument("file", type=click.Path(path_type=Path), default=Path("flags.toml"))
def init(file: Path) -> None:
    """Write a flags file to start from (flags.toml, if FILE is not given)."""
    if file.suffix.lower() != ".toml":
        _fail(f"{file}: expected a name that ends in .toml")
    try:
        with file.open("x", encoding="utf-8") as target:
            target.write(STARTER)
    except FileExistsError:
        _fail(f"{file} exists already; nothing was changed")
    except OSError as error:
        _fail(f"cannot write {file}: {error.strerror}")
    click.echo(f"Wrote {file}. Next:  shipsilently serve {shlex.quote(str(file))}")


def _fail(problem: str) -> Never:
    click.echo(f"Error: {problem}", err=True)
    sys.exit(2)
