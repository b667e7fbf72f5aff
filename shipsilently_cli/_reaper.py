"""Ends the demo's children when the demo itself was killed and could not.

Run as a script with a folder as its argument. It reads lines from its standard input,
``+PID`` for a child that was started and ``-PID`` for one that has ended. The end of the
input is the end of the demo: what is left of the children is killed, and the folder goes.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sys
from collections.abc import Iterable

__all__ = ["kill_group", "left_over"]


def left_over(lines: Iterable[str]) -> set[int]:
    """The processes that were started and have not ended, once the lines are at their end."""
    alive: set[int] = set()
    for line in lines:
        pid = int(line[1:])
        if line.startswith("+"):
            alive.add(pid)
        else:
            alive.discard(pid)
    return alive


def kill_group(pid: int, number: int) -> None:
    """Send a signal to a process and, where there are such, the group that it leads."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if os.name == "posix":
            os.killpg(pid, number)
        else:  # Windows
            os.kill(pid, number)


if __name__ == "__main__":
    for child in left_over(sys.stdin):
        kill_group(child, getattr(signal, "SIGKILL", signal.SIGTERM))
    shutil.rmtree(sys.argv[1], ignore_errors=True)
