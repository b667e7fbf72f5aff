"""The process under test: a client, its load, and what it finds of itself; driven by lines.

It says ``warm`` once every user is served and the client streams, takes ``begin`` and
``end VERSION``, and says as JSON what it has found once it has recovered, or has not.
"""

from __future__ import annotations

import json
import logging
import os
import socket
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

from shipsilently_core import (
    AnalyticsConfig,
    ConnectionState,
    FailureReport,
    RetryConfig,
    ShipSilentlyClient,
)

from .ledger import Ledger
from .load import Load

__all__ = [
    "GRACE",
    "HEARTBEAT_TIMEOUT",
    "HOST",
    "LONGEST",
    "RECOVERY",
    "STEP",
    "TIMEOUT",
    "Memory",
    "Names",
]

#: Seconds: a call's deadline, the longest step of the backoff, and the silence that is a dead
#: stream.
TIMEOUT, STEP, HEARTBEAT_TIMEOUT = 1.0, 1.0, 2.0
#: Seconds by which a busy machine may be late.
GRACE = 1.5
#: Seconds that a read may take.
LONGEST = TIMEOUT + GRACE
#: Seconds after the end of a fault: what is under way then must end, and one step may pass.
RECOVERY = STEP + max(2 * TIMEOUT, HEARTBEAT_TIMEOUT) + GRACE
#: Seconds after which nobody waits any more.
_HOPELESS = RECOVERY + 5.0
#: Seconds in which everything must have begun to work.
_WARM = 20.0
#: Seconds that the end of the client may take, and that of each reader.
_CLOSE = 5.0

#: A name that only this process resolves, and only while it can.
HOST = "flags.chaos.invalid"


class Memory:
    """How much memory this process uses; 0 where the system does not tell."""

    def __init__(self) -> None:
        self._before = 0.0

    def begin(self) -> None:
        """Measure from now on."""
        clear = Path("/proc/self/clear_refs")
        if clear.exists():
            # Resets the high-water mark.
            clear.write_text("5", encoding="ascii")
        self._before = _megabytes("VmRSS")

    def growth(self) -> float:
        """Megabytes by which it has been larger than it was, at most."""
        return max(0.0, _megabytes("VmHWM") - self._before)


def _megabytes(name: str) -> float:
    status = Path("/proc/self/status")
    if status.is_file():
        for line in status.read_text(encoding="ascii", errors="replace").splitlines():
            if line.startswith(f"{name}:"):
                return int(line.split()[1]) / 1024
    return 0.0


class Names:
    """Name resolution in this process that can stop to work, or hang.

    Args:
        hangs: Whether look-ups hang rather than fail.
    """

    def __init__(self, *, hangs: bool) -> None:
        self._hangs = hangs
        self._there = threading.Event()
        self._there.set()
        self._look_up = socket.getaddrinfo
        #: How many look-ups were in vain.
        self.hits = 0

    def install(self) -> None:
        """Put it in the place of the system's."""
        socket.getaddrinfo = self._resolve

    def uninstall(self) -> None:
        """Put the system's back."""
        socket.getaddrinfo = self._look_up

    def stop(self) -> None:
        """No name is known any more."""
        self._there.clear()

    def go_on(self) -> None:
        """Names are known again."""
        self._there.set()

    def _resolve(self, host: Any, port: Any, *args: Any, **settings: Any) -> Any:
        if host not in (HOST, HOST.encode()):
            return self._look_up(host, port, *args, **settings)
        if not self._there.is_set():
            self.hits += 1
            # As resolvers do by default.
            if not self._hangs or not self._there.wait(5):
                raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")
        return self._look_up("127.0.0.1", port, *args, **settings)


class _Subject:
    def __init__(self, url: str, names: Names | None) -> None:
        self._names = names
        self._lock = threading.Lock()
        self._failures: Counter[str] = Counter()
        self._client = ShipSilentlyClient(
            api_url=url,
            api_key="sk_local",
            timeout=TIMEOUT,
            polling_interval=STEP,
            retry=RetryConfig(base_delay=0.2, max_delay=STEP, heartbeat_timeout=HEARTBEAT_TIMEOUT),
            analytics=AnalyticsConfig(flush_interval=1.0),
            on_error=self._on_error,
        )
        self._ledger = Ledger(LONGEST)
        self._load = Load(self._client, self._ledger)
        self._memory = Memory()

    def _on_error(self, report: FailureReport) -> None:
        with self._lock:
            self._failures[str(report.failure)] += 1

    def _recovered(self, version: int) -> bool:
        streaming = self._client.connection_state is ConnectionState.STREAMING
        return streaming and self._load.oldest() >= version

    def _await_recovery(self, version: int, limit: float) -> float | None:
        begin = time.monotonic()
        while (passed := time.monotonic() - begin) < limit:
            if self._recovered(version):
                return passed
            threading.Event().wait(0.02)
        return None

    def run(self) -> None:
        """Do as the lines on standard input say."""
        self._client.start()
        self._load.start()
        if self._await_recovery(1, _WARM) is None:
            raise SystemExit("nothing works even before the fault")
        self._memory.begin()
        before, reads = Counter(self._failures), self._ledger.reads
        _say({"event": "warm"})
        _expect("begin")
        if self._names is not None:
            self._names.stop()
        version = int(_expect("end"))
        served = self._load.typical()
        if self._names is not None:
            self._names.go_on()
        recovery = self._await_recovery(version, _HOPELESS)
        growth = self._memory.growth()
        stuck = self._load.stop(_CLOSE)
        begin = time.monotonic()
        self._client.close()
        closed = time.monotonic() - begin
        _say(
            {
                "event": "result",
                "reads": self._ledger.reads - reads,
                "failures": self._failures - before,
                "broken": self._ledger.broken,
                "examples": self._ledger.examples,
                "slowest": self._ledger.slowest,
                "served": served,
                "recovery": recovery,
                "growth": growth,
                "stuck": stuck,
                "closed": closed,
                "state": str(self._client.connection_state),
                "misses": 0 if self._names is None else self._names.hits,
            }
        )


def _say(what: dict[str, Any]) -> None:
    print(json.dumps(what), flush=True)


def _expect(word: str) -> str:
    line = sys.stdin.readline()
    said, _, rest = line.strip().partition(" ")
    if said != word:
        raise SystemExit(f"expected {word!r}, got {line!r}")
    return rest


def main() -> None:
    """Run: the service's address, and what happens to names."""
    url, what = sys.argv[1:3]
    # It would tell of each kind of fault once a minute.
    logging.getLogger("shipsilently").addHandler(logging.NullHandler())
    logging.getLogger("shipsilently").propagate = False
    names = None
    if what:
        names = Names(hangs=what == "hang")
        names.install()
    _Subject(url, names).run()
    sys.stdout.flush()
    # A reader that hangs has been told of, and would be waited for.
    os._exit(0)


if __name__ == "__main__":
    main()
