"""The one logger, and how to write to it where nothing may be raised."""

from __future__ import annotations

import contextlib
import logging
import sys
import traceback

__all__ = ["say"]

log: logging.Logger = logging.getLogger("shipsilently")


def say(level: int, message: str, *values: object, error: BaseException | None = None) -> None:
    """Log a line, whatever the site's own logging does with it.

    `logging` catches what handlers raise while they write, and not what filters raise. Many a
    filter asks for the current request, and where the background logs there is none.

    Args:
        level: As in `logging`.
        message: A format for `values`.
        values: Never a key, a ticket, a context's value or a body.
        error: Whose traceback is to be logged, too.
    """
    try:
        log.log(level, message, *values, exc_info=error, stacklevel=2)
    except Exception:
        # As `logging` itself does with what it catches.
        if logging.raiseExceptions and sys.stderr is not None:
            with contextlib.suppress(Exception):
                traceback.print_exc()
