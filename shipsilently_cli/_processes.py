"""The demo's child processes, none of which outlives it."""

from __future__ import annotations

import contextlib
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType

from ._reaper import kill_group

__all__ = ["Child", "Children", "free_ports"]

#: Seconds that all children together get to end before they are killed.
_PATIENCE = 3.0

#: Below the ports that systems give to outgoing connections, one of which would otherwise
#: take the service's port while it is down.
_PORTS = range(20_000, 32_768)

_KILL = getattr(signal, "SIGKILL", signal.SIGTERM)


def free_ports(count: int) -> list[int]:
    """Ports of 127.0.0.1 that nothing listens on.

    Raises:
        OSError: There are not enough of them.
    """
    found: list[int] = []
    for port in random.sample(_PORTS, 1_000):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        found.append(port)
        if len(found) == count:
            return found
    raise OSError("no free port was found on 127.0.0.1")


class Child:
    """One process in a group of its own, whose output goes to a file."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self.process = process
        self._log = log

    @property
    def ended(self) -> bool:
        """Whether it has ended by itself or otherwise."""
        return self.process.poll() is not None

    def last_lines(self, count: int = 15) -> list[str]:
        """The last lines that it and its predecessors of the same name have put out."""
        text = self._log.read_text(encoding="utf-8", errors="replace")
        return text.splitlines()[-count:]


class Children:
    """Starts processes and ends them all when the block ends, in whatever way.

    Args:
        folder: Where their logs go; deleted too if this process is killed.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._running: list[Child] = []

    def __enter__(self) -> Children:
        self._reaper = subprocess.Popen(  # noqa: S603 - our own script
            [sys.executable, "-I", str(Path(__file__).with_name("_reaper.py")), str(self._folder)],
            stdin=subprocess.PIPE,
            start_new_session=True,
        )
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for child in self._running:
            if not child.ended:
                kill_group(child.process.pid, signal.SIGTERM)
        limit = time.monotonic() + _PATIENCE
        for child in list(self._running):
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.process.wait(max(0.0, limit - time.monotonic()))
            # Also for what it may have started itself.
            kill_group(child.process.pid, _KILL)
            self.ended(child)
        assert self._reaper.stdin
        # Somebody may have ended the reaper; its work is done here all the same.
        with contextlib.suppress(OSError):
            self._reaper.stdin.close()
        self._reaper.wait()

    def start(
        self, name: str, command: Sequence[str], *, folder: Path, env: Mapping[str, str]
    ) -> Child:
        """Start a process.

        Args:
            name: Names its log; a second of the same name goes on in the same file.
            command: The program and its arguments.
            folder: Where it runs.
            env: Its whole environment.
        """
        log = self._folder / f"{name.lower()}.log"
        with log.open("ab") as output:
            process = subprocess.Popen(  # noqa: S603 - our own commands
                command,
                cwd=folder,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                # Ctrl-C is for the demo, which then ends them itself.
                start_new_session=True,
            )
        child = Child(process, log)
        self._running.append(child)
        self._tell("+", child)
        return child

    def kill(self, child: Child) -> None:
        """End a process at once, without a chance to say good-bye."""
        kill_group(child.process.pid, _KILL)
        self.ended(child)

    def ended(self, child: Child) -> None:
        """Take leave of a process that has ended or is about to."""
        child.process.wait()
        self._running.remove(child)
        self._tell("-", child)

    def _tell(self, sign: str, child: Child) -> None:
        assert self._reaper.stdin
        with contextlib.suppress(OSError):
            self._reaper.stdin.write(f"{sign}{child.process.pid}\n".encode())
            self._reaper.stdin.flush()
