"""The ``shipsilently`` command.

- `group`: the command itself and the table of its subcommands
- `serve`: the local service until Ctrl-C
- `doctor`, `evaluate`, `watch`: what the service says, and whether it can be heard (`checkup`
  holds the checks, for the commands of the frameworks too)
- `snapshot`: results to ship with an app
- `_asking`, `_apps`, `_context`, `_failures`: what the commands that ask share
- `init`: a flags file to start from
- `schema`: the JSON Schema of the flags file
"""

from __future__ import annotations

import sys

__all__ = ["main"]

try:
    from .group import main
except ModuleNotFoundError as error:
    if error.name != "click":
        raise

    def main() -> None:  # type: ignore[misc]
        """Say in one line what is missing."""
        sys.exit("shipsilently needs click: install it with  pip install 'shipsilently[cli]'")
