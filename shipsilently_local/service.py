"""`LocalService`: the whole service as an object, for tests, demos and the command line."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Self, TypeVar

from .errors import LocalServiceError
from .faults import read_fault
from .runner import HOST, Runner, listen
from .source import FileSource, FlagsSource, MappingSource, plain_flags
from .state import RecordedRequest, ServiceState
from .watcher import Watcher

__all__ = ["LocalService"]

_T = TypeVar("_T")
_logger = logging.getLogger("shipsilently.local")


class LocalService:
    """ShipSilently on 127.0.0.1, in a daemon thread of this process.

    ``flags`` is the path of a flags file, which is watched, or a mapping from flag
    keys to flags as the file would describe them; in a mapping a bare value such as
    ``{"new-checkout": True}`` stands for a flag with that default. ``port`` 0 picks
    a free one. ``heartbeat`` and ``ticket_ttl`` are in seconds; ``max_recorded`` is
    how many of the last requests are kept in ``requests``; ``report`` gets a line
    for each reload and each time the file turns wrong (by default they are logged on
    ``shipsilently.local``, as information and as a warning).

    Use it as a context manager, or with `start` and `stop`. All methods may be
    called from any thread; those that change something return when it is in force.
    Raises `FlagsFileError` when the flags are not right; at start `PortInUseError`, and
    `LocalServiceError` where the port may not be used.
    """

    def __init__(
        self,
        flags: str | os.PathLike[str] | Mapping[str, Any],
        key: str = "sk_local",
        port: int = 0,
        *,
        heartbeat: float = 30.0,
        ticket_ttl: float = 60.0,
        max_recorded: int = 10_000,
        report: Callable[[str], None] | None = None,
    ) -> None:
        if not key or not key.isascii() or not key.isprintable() or " " in key:
            raise LocalServiceError("the key must be printable ASCII without spaces")
        if not heartbeat > 0:
            raise LocalServiceError("the heartbeat must be more than 0 seconds")
        self.key = key
        self._port = port
        self._source: FlagsSource
        if isinstance(flags, Mapping):
            self._source = MappingSource(flags)
        else:
            self._source = FileSource(flags, report or _logger.info, report or _logger.warning)
        self._state = ServiceState(
            self._source.flags,
            key,
            heartbeat=heartbeat,
            ticket_ttl=ticket_ttl,
            max_recorded=max_recorded,
        )
        self._editing = threading.Lock()
        self._runner: Runner | None = None
        self._watcher: Watcher | None = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    @property
    def port(self) -> int:
        """The port; 0 before the first start when any free one was asked for."""
        return self._port

    @property
    def url(self) -> str:
        """The base URL to give to a client."""
        return f"http://{HOST}:{self._port}"

    @property
    def running(self) -> bool:
        """Whether requests are answered."""
        return self._runner is not None

    @property
    def requests(self) -> list[RecordedRequest]:
        """The requests so far, oldest first, over restarts; without the ``/local/`` ones."""
        return self._on_loop(lambda: list(self._state.requests))

    @property
    def open_streams(self) -> int:
        """How many streams are open."""
        return self._on_loop(lambda: len(self._state.streams))

    def state(self) -> dict[str, Any]:
        """What ``GET /local/state`` says."""
        return self._on_loop(self._state.summary)

    def start(self) -> Self:
        """Listen and answer; does nothing when it already does."""
        if self._runner is None:
            sock = listen(self._port)
            self._port = sock.getsockname()[1]
            runner = Runner(self._state, sock)
            runner.start()
            self._runner = runner
            if isinstance(self._source, FileSource):
                self._look(self._source)
                source = self._source
                self._watcher = Watcher(source.path, lambda: self._look(source))
                self._watcher.start()
        return self

    def stop(self) -> None:
        """Stop listening and cut every connection, within a second; may be called twice."""
        watcher, self._watcher = self._watcher, None
        if watcher is not None:
            watcher.stop()
        runner, self._runner = self._runner, None
        if runner is not None:
            runner.stop()

    def restart(self) -> None:
        """Stop and start on the same port: an outage of a moment. Faults and counts stay."""
        self.stop()
        self.start()

    def fault(self, endpoint: str = "*", **fields: Any) -> str:
        """Let something go wrong at ``endpoint`` (evaluate, batch, ticket, stream,
        analytics, or * for all); returns an id for `clear_faults`.

        ``fields``: status, headers, body, delay, drop, garbage, silence, drip,
        drip_headers, times, live; see `Fault`. Raises `FaultError`.
        """
        fault = read_fault({"endpoint": endpoint, **fields})
        return self._on_loop(lambda: self._state.add_fault(fault))

    def clear_faults(self, fault_id: str | None = None) -> int:
        """Clear one fault, or all; returns how many were in force."""
        return self._on_loop(lambda: self._state.clear_faults(fault_id))

    def drop_streams(self) -> None:
        """Break the connection of every open stream, once."""
        self._on_loop(lambda: self._state.streams.drop())

    def set_flag(self, key: str, **fields: Any) -> None:
        """Set fields of one flag (``enabled``, ``default``, ``rules``), which is made if
        need be; the others stay, and None removes one. A file is rewritten.

        Raises `FlagsFileError`, and then nothing has changed.
        """

        def change(flags: dict[str, Any]) -> None:
            merged = {**flags.get(key, {}), **fields}
            flags[key] = {name: value for name, value in merged.items() if value is not None}

        self._edit(change)

    def set_flags(self, flags: Mapping[str, Any]) -> None:
        """Replace all the flags. A file is rewritten. Raises `FlagsFileError`."""

        def change(current: dict[str, Any]) -> None:
            current.clear()
            current.update(plain_flags(flags))

        self._edit(change)

    def remove_flag(self, key: str) -> None:
        """Remove one flag, if it is there. A file is rewritten."""
        self._edit(lambda flags: flags.pop(key, None))

    def wait_for_streams(self, count: int = 1, timeout: float = 5.0) -> bool:
        """Wait until exactly ``count`` streams are open; False when ``timeout`` has passed."""
        deadline = time.monotonic() + timeout
        pause = threading.Event()
        while self.open_streams != count:
            if time.monotonic() >= deadline:
                return False
            pause.wait(0.005)
        return True

    def _edit(self, change: Callable[[dict[str, Any]], object]) -> None:
        with self._editing:
            self._source.edit(change)
            self._publish()

    def _look(self, source: FileSource) -> None:
        with self._editing:
            if source.refresh():
                self._publish()

    def _publish(self) -> None:
        flags = self._source.flags
        self._on_loop(lambda: self._state.put_flags(flags))

    def _on_loop(self, function: Callable[[], _T]) -> _T:
        runner = self._runner
        return function() if runner is None else runner.call(function)
