"""One fault, from begin to end: a stage, a process under test, and the verdict."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import ssl
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tests.core.certificate import Authority

from .adversary import Stage, Toxic
from .subject import HOST, RECOVERY

__all__ = ["INVARIANTS", "MOST_MEGABYTES", "Fault", "Outcome", "judge", "run"]

#: Megabytes by which the process under test may grow.
MOST_MEGABYTES = 40.0
#: Seconds in which a process under test must say something.
_PATIENCE = 45.0
#: Seconds that the end of a client may take.
_LONGEST_CLOSE = 5.0

ROOT = Path(__file__).resolve().parent.parent.parent

#: What must hold, in the order of the table, and its column there.
INVARIANTS = {
    "raised": "raises",
    "regressed": "older",
    "crossed": "crossed",
    "late": "late",
    "served": "served",
    "memory": "memory",
    "recovered": "back",
    "closed": "ends",
}


@dataclass(frozen=True)
class Fault:
    """One thing that goes wrong.

    Attributes:
        name: For the command line.
        about: For people.
        toxic: Makes what the adversary does.
        serves: Whether answers must get through all the same.
        seconds: How long it lasts.
        tls: Whether the service speaks TLS: the toxic is given the authority.
        names: What happens to names: nothing, or look-ups ``fail`` or ``hang``.
        whom: Who must have met it.
    """

    name: str
    about: str
    toxic: Callable[[], Toxic]
    serves: bool = False
    seconds: float = 2.5
    tls: Callable[[Authority], Toxic] | None = None
    names: str = ""
    whom: frozenset[str] = frozenset({"thread", "task"})


@dataclass
class Outcome:
    """What came of it.

    Attributes:
        fault: Its name.
        about: What it was.
        reads: How many reads there were.
        hits: How many times it was met, by whom.
        failures: What the client told of, by class.
        broken: What does not hold, with the reason for each.
        examples: Findings as text.
        slowest: Seconds that the longest read took.
        growth: Megabytes.
        recovery: Seconds; ``None`` for never.
    """

    fault: str
    about: str
    reads: int = 0
    hits: dict[str, int] = field(default_factory=dict)
    failures: dict[str, int] = field(default_factory=dict)
    broken: dict[str, str] = field(default_factory=dict)
    examples: list[str] = field(default_factory=list)
    slowest: float = 0.0
    growth: float = 0.0
    recovery: float | None = None

    @property
    def held(self) -> bool:
        """Whether everything holds that must."""
        return not self.broken

    def as_json(self) -> dict[str, Any]:
        """For machines."""
        return {**asdict(self), "held": self.held}


def judge(fault: Fault, said: dict[str, Any], hits: dict[str, int], first: int) -> Outcome:
    """What a process under test has found of itself, held against what must be.

    Args:
        fault: What it went through.
        said: What it said at the end.
        hits: How many times it met the fault, by whom.
        first: The version that was current when the fault began.
    """
    outcome = Outcome(
        fault.name,
        fault.about,
        said["reads"],
        hits,
        said["failures"],
        examples=said["examples"],
        slowest=said["slowest"],
        growth=said["growth"],
        recovery=said["recovery"],
    )
    broken = outcome.broken
    for what, count in said["broken"].items():
        broken[what] = f"{count} reads"
    if said["stuck"]:
        broken["late"] = f"{said['stuck']} readers never came back"
    if outcome.growth > MOST_MEGABYTES:
        broken["memory"] = f"{outcome.growth:.0f} MB more"
    if outcome.recovery is None:
        broken["recovered"] = "never"
    elif outcome.recovery > RECOVERY:
        broken["recovered"] = f"after {outcome.recovery:.1f} s"
    if said["closed"] > _LONGEST_CLOSE:
        broken["closed"] = f"close() took {said['closed']:.1f} s"
    if fault.serves and said["served"] <= first:
        broken["served"] = "most users got nothing new while it lasted"
    missed = fault.whom - {whom for whom, count in hits.items() if count}
    if missed:
        broken["met"] = f"never met by: {', '.join(sorted(missed))}"
    return outcome


def run(fault: Fault, authority: Callable[[], Authority]) -> Outcome:
    """Try one fault.

    Args:
        fault: Which.
        authority: Makes certificates; called where TLS is wanted.
    """
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        environment, context = dict(os.environ), None
        if fault.tls is not None:
            trusted, served = Path(folder, "trusted.pem"), Path(folder, "served.pem")
            trusted.write_text(authority().certificate(), encoding="ascii")
            served.write_text(authority().leaf(), encoding="ascii")
            environment["SSL_CERT_FILE"] = str(trusted)
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(served)
        toxic = fault.toxic() if fault.tls is None else fault.tls(authority())
        stage = stack.enter_context(Stage(context))
        url = stage.url
        if fault.names:
            url = url.replace("127.0.0.1", HOST)
        try:
            with _subject(url, fault.names, environment) as subject:
                return _try(fault, toxic, stage, subject)
        except _Silent as error:
            return Outcome(fault.name, fault.about, broken={"late": str(error)})


def _try(fault: Fault, toxic: Toxic, stage: Stage, subject: _Process) -> Outcome:
    subject.hear("warm")
    first = stage.service.version
    subject.say("begin")
    stage.use(toxic)
    threading.Event().wait(fault.seconds)
    stage.use(None)
    subject.say(f"end {stage.change()}")
    said = subject.hear("result")
    hits = dict(toxic.hits)
    if fault.names:
        hits["name"] = said["misses"]
    return judge(fault, said, hits, first)


class _Silent(Exception):
    """The process under test has not said what it should have."""


class _Process:
    """The process under test, by its lines."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self._lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line)
        self._lines.put("")

    def say(self, line: str) -> None:
        """Tell it something."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(line + "\n")
            self._process.stdin.flush()
        except OSError:
            raise _Silent("the process under test has ended") from None

    def hear(self, event: str) -> dict[str, Any]:
        """Wait for it to say that."""
        end = time.monotonic() + _PATIENCE
        try:
            line = self._lines.get(timeout=max(0.0, end - time.monotonic()))
        except queue.Empty:
            raise _Silent("the process under test hangs") from None
        if not line:
            raise _Silent(f"the process under test has ended, {self._process.wait()}")
        said: dict[str, Any] = json.loads(line)
        assert said["event"] == event
        return said


@contextlib.contextmanager
def _subject(url: str, names: str, environment: dict[str, str]) -> Iterator[_Process]:
    environment["NO_PROXY"] = "*"
    with subprocess.Popen(
        [sys.executable, "-m", "tests.chaos.subject", url, names],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment,
        cwd=ROOT,
        text=True,
    ) as process:
        try:
            yield _Process(process)
        finally:
            process.kill()
