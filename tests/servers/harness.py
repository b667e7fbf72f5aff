"""Servers and scripts as processes of their own: started, asked, ended and timed.

Each has a session of its own, writes into a file, and is killed with everything it
has started when the test is over, however that ends.
"""

from __future__ import annotations

import contextlib
import http.client
import itertools
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, TypeVar
from urllib.parse import urlencode

from shipsilently_local import LocalService
from tests.ports import free_port

__all__ = [
    "ROOT",
    "Answer",
    "Ended",
    "Program",
    "Server",
    "clean_environment",
    "delivered_events",
    "eventually",
    "local_service",
    "opened_streams",
    "run_script",
    "spawn",
    "user_names",
]

T = TypeVar("T")

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent

_numbers = itertools.count()

#: Seconds after which whatever is still running is beyond hope.
_HARD_LIMIT = 120

# A shell's background job, and so a test run started in one, ignores SIGINT, and its children
# would inherit that. An alarm outlives the exec: nothing stays behind, not even if the tests are
# killed.
_SHIM = f"""\
import os, signal, sys
signal.signal(signal.SIGINT, signal.SIG_DFL)
signal.alarm({_HARD_LIMIT})
os.execv(sys.argv[1], sys.argv[1:])
"""


def eventually(
    condition: Callable[[], T], what: str, *, timeout: float = 20.0, pause: float = 0.02
) -> T:
    """Wait until `condition` gives something true, and give that; fails with `what`."""
    limit = time.monotonic() + timeout
    idle = threading.Event()
    while True:
        found = condition()
        if found:
            return found
        assert time.monotonic() < limit, f"{what}: not within {timeout:g} s"
        idle.wait(pause)


def user_names(count: int) -> list[str]:
    """So many different users, whom `local_service` knows when they are at most 200."""
    return [f"user-{number}" for number in range(count)]


def local_service(users: int = 200) -> LocalService:
    """A service that tells each user who they are, and which version is current."""
    rules = [
        {"when": [{"attribute": "userId", "operator": "equals", "value": name}], "serve": name}
        for name in user_names(users)
    ]
    return LocalService(
        {"who": {"default": "nobody", "rules": rules}, "version": 1}, max_recorded=100_000
    )


def opened_streams(service: LocalService) -> tuple[int, int]:
    """How many tickets were asked for and how many streams were opened, ever."""
    paths = [request.path for request in service.requests]
    return paths.count("/v1/stream/ticket"), paths.count("/v1/stream")


def delivered_events(service: LocalService) -> int:
    """How many events were delivered, ever."""
    return sum(
        len(json.loads(request.body)["events"])
        for request in service.requests
        if request.path == "/v1/analytics/events"
    )


def clean_environment(service: LocalService | None, **more: str) -> dict[str, str]:
    """The environment without what would disturb: proxies, and the measuring of coverage.

    Measuring slows a server down and prints warnings of its own when that is killed.
    """
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.upper().endswith("_PROXY")
        and not name.startswith(("COVERAGE_", "DJANGO_", "PYTEST_"))
    }
    if service is not None:
        kept |= {"SHIPSILENTLY_API_URL": service.url, "SHIPSILENTLY_API_KEY": service.key}
    paths = os.pathsep.join(filter(None, [str(ROOT), kept.get("PYTHONPATH")]))
    return {**kept, "PYTHONPATH": paths, "PYTHONUNBUFFERED": "1", **more}


def spawn(
    command: Sequence[str | Path], output: Path, *, environment: Mapping[str, str], folder: Path
) -> subprocess.Popen[bytes]:
    """Start a command in a session of its own; standard output and error go into `output`."""
    with output.open("ab") as file:
        return subprocess.Popen(
            [sys.executable, "-c", _SHIM, *map(str, command)],
            cwd=folder,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            start_new_session=True,
        )


def kill(process: subprocess.Popen[bytes]) -> None:
    """End a process and everything it has started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait(10)


@dataclass(frozen=True)
class Answer:
    """What a page of the sites says.

    Attributes:
        pid: The process that answered.
        who: Whom the service takes the visitor for.
        version: The version that was served.
        state: The state of that process's connection.
    """

    pid: int
    who: str
    version: int
    state: str


class Program:
    """A program that runs until the test is over, or until it ends by itself.

    Args:
        command: What to run; a program of this environment, and its arguments.
        service: The service that it is told of.
        folder: Where to run it, for its files and its output.
        environment: Further variables.
    """

    def __init__(
        self,
        command: Sequence[str | Path],
        service: LocalService | None,
        folder: Path,
        **environment: str,
    ) -> None:
        program, *arguments = command
        self.output_file = folder / f"output-{next(_numbers)}.txt"
        self.process = spawn(
            [BIN / program, *arguments],
            self.output_file,
            environment=clean_environment(service, HOME=str(folder), **environment),
            folder=folder,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        kill(self.process)

    @property
    def output(self) -> str:
        """Everything it has written so far."""
        return self.output_file.read_text(encoding="utf-8", errors="replace")

    def said(self, word: str, count: int = 1) -> list[list[str]]:
        """Wait for so many lines that begin with `word`, and give the words of each."""

        def lines() -> list[list[str]]:
            found = [line.split() for line in self.output.splitlines()]
            found = [words for words in found if words[:1] == [word]]
            assert len(found) >= count or self.process.poll() is None, self.output
            return found if len(found) >= count else []

        try:
            return eventually(lines, f"{count} lines with {word!r}")
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.output}") from None

    def stop(self, how: signal.Signals, *, limit: float = 15.0) -> float:
        """Send SIGTERM to the program, or SIGINT to its whole group as Ctrl-C does.

        Returns:
            The seconds until it had ended.
        """
        begin = time.monotonic()
        if how is signal.SIGINT:
            os.killpg(self.process.pid, how)
        else:
            self.process.send_signal(how)
        self.process.wait(limit)
        return time.monotonic() - begin


class Server(Program):
    """A server; ``{port}`` in its command stands for the port to listen on."""

    def __init__(
        self,
        command: Sequence[str],
        service: LocalService | None,
        folder: Path,
        **environment: str,
    ) -> None:
        self.port = free_port()
        parts = [part.format(port=self.port) for part in command]
        super().__init__(parts, service, folder, **environment)

    def __enter__(self) -> Self:
        try:
            eventually(self._answers, f"{self.process.args!r} answers", timeout=30)
        except BaseException:
            self.__exit__()
            raise
        return self

    def get(self, page: str, **query: str) -> dict[str, Any]:
        """One page, over a connection of its own."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=15)
        with contextlib.closing(connection):
            connection.request("GET", f"{page}?{urlencode(query)}", headers={"Connection": "close"})
            response = connection.getresponse()
            body = response.read()
        assert response.status == 200, f"{response.status} {body[:500]!r}\n{self.output}"
        found: dict[str, Any] = json.loads(body)
        return found

    def ask(self, user: str, **query: str) -> Answer:
        """The flags of one user."""
        return Answer(**self.get("/flags", user=user, **query))

    def ask_all(self, users: Iterable[str], *, at_once: int = 8, **query: str) -> list[Answer]:
        """The flags of many users, several asked for at the same moment."""
        with ThreadPoolExecutor(at_once) as pool:
            return list(pool.map(lambda user: self.ask(user, **query), users))

    def _answers(self) -> bool:
        assert self.process.poll() is None, f"it has ended:\n{self.output}"
        with contextlib.suppress(OSError, http.client.HTTPException):
            self.get("/ping")
            return True
        return False


@dataclass(frozen=True)
class Ended:
    """How a script ended.

    Attributes:
        status: The exit status.
        output: Standard output.
        errors: Standard error.
        seconds: How long it took from the line ``print("end")``, or in all without one.
    """

    status: int
    output: str
    errors: str
    seconds: float

    @property
    def lines(self) -> list[str]:
        """Standard output by line."""
        return self.output.splitlines()


def run_script(
    source: str,
    folder: Path,
    service: LocalService | None = None,
    *,
    python: str | Path = sys.executable,
    options: Sequence[str] = ("-W", "error"),
    limit: float = 30.0,
    **environment: str,
) -> Ended:
    """Run a Python script to its end. Fails, and kills it, when it takes longer than `limit`."""
    script = folder / "script.py"
    script.write_text(source, encoding="utf-8")
    process = subprocess.Popen(
        [sys.executable, "-c", _SHIM, str(python), *options, str(script)],
        cwd=folder,
        env=clean_environment(service, **environment),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    begin = time.monotonic()
    errors: list[str] = []
    lines: list[str] = []
    assert process.stdout is not None
    assert process.stderr is not None
    watchdog = threading.Timer(limit, lambda: os.killpg(process.pid, signal.SIGKILL))
    reader = threading.Thread(target=lambda: errors.append(process.stderr.read()), daemon=True)  # type: ignore[union-attr]
    with contextlib.ExitStack() as stack:
        stack.callback(process.wait)
        stack.callback(_kill_group, process.pid)
        stack.enter_context(process.stdout)
        stack.enter_context(process.stderr)
        stack.callback(reader.join, 5)
        stack.callback(watchdog.cancel)
        watchdog.start()
        reader.start()
        for line in process.stdout:
            if line == "end\n":
                begin = time.monotonic()
            lines.append(line)
        status = process.wait()
        seconds = time.monotonic() - begin
        reader.join(5)
        assert watchdog.is_alive(), f"not ended within {limit} s:\n{''.join(lines)}{errors}"
    return Ended(status, "".join(lines), "".join(errors), seconds)


def _kill_group(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
