"""A command in a process of its own, whose lines are read as they come."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["OWN", "Running", "running"]

ROOT = Path(__file__).resolve().parent.parent.parent
#: How the command is started.
OWN = ("-m", "shipsilently_cli")


class Running:
    """A started command and what it has printed."""

    def __init__(self, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-W", "error", *arguments],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            # A background job of a shell inherits SIGINT ignored; a person's terminal does not.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        )
        self.lines: list[str] = []

    def read_until(self, text: str) -> str:
        """The next line with ``text`` in it."""
        assert self.process.stdout
        for line in self.process.stdout:
            self.lines.append(line.rstrip("\n"))
            if text in line:
                return self.lines[-1]
        assert self.process.stderr
        raise AssertionError(f"ended: {self.lines} {self.process.stderr.read()}")

    def read_all(self, *texts: str) -> None:
        """Read on until each text has been in some line, in whatever order."""
        while missing := [t for t in texts if not any(t in line for line in self.lines)]:
            self.read_until(missing[0])

    def end(self, number: signal.Signals = signal.SIGINT) -> tuple[int, str]:
        """Send a signal; the exit status and what is on standard error."""
        self.process.send_signal(number)
        _, err = self.process.communicate(timeout=15)
        return self.process.returncode, err


@contextmanager
def running(*arguments: str) -> Iterator[Running]:
    """The command, which is killed if the test leaves it running, or after 40 seconds."""
    command = Running(*arguments)
    limit = threading.Timer(40, command.process.kill)
    limit.start()
    try:
        yield command
    finally:
        limit.cancel()
        limit.join()
        command.process.kill()
        command.process.communicate()
