"""``python -m shipsilently_cli``: the same as ``shipsilently``."""

from __future__ import annotations

from . import main

if __name__ == "__main__":
    main(prog_name="shipsilently")
