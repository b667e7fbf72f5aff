"""Stores: where a process leaves what it knows for those that come after it, or run beside it.

A store keeps bytes under names and understands neither: the client seals what it gives away,
so a store holds no key, no user and nothing that it could falsify. What a store raises never
reaches a request.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from time import monotonic, time
from typing import Protocol, runtime_checkable

from msgspec import Struct

from ._process import Event, Lock

__all__ = ["FileStore", "Found", "MemoryStore", "SharedStore", "SnapshotStore"]

#: Bytes; the default of how large a file may become.
_MOST_BYTES = 8 * 1024 * 1024

_UNFINISHED = ".unfinished"
#: Seconds after which nobody writes to such a file any more.
_ABANDONED_AFTER = 60.0

#: Seconds to wait for other processes that save, in all and between two tries.
_PATIENCE = 1.0
_PAUSE = 0.005


@runtime_checkable
class SnapshotStore(Protocol):
    """Keeps what a whole process knew, for the next one.

    Blocking code: the client calls it from a thread of its own (where it has no background,
    from the thread that needs it), never inside an event loop. It may raise anything.

    It may have these attributes: ``deadline``, the seconds that a request waits for it at most
    (1 without); ``load_deadline``, the same for the one request of a process that waits for
    `load` (as `deadline`); ``interval``, the seconds between two savings at least (10);
    ``max_contexts``, how many contexts are kept at most (1,000); ``max_bytes``, how many
    bytes (8 MiB).

    It may have these methods: ``close()``, called when a client is closed, lets go of connections,
    and the store may still be used by another client afterwards; ``locked(name)`` gives a context
    manager, inside of which the client loads what the others have saved and saves it together with
    its own, so that of several processes that save at once none overwrites another's. It should
    give up waiting for the others after a while, and let the block run all the same.
    """

    def load(self, name: str) -> bytes | None:
        """What was last saved under this name; ``None`` for nothing."""
        ...

    def save(self, name: str, data: bytes) -> None:
        """Keep this under that name, in the place of what was there."""
        ...


class Found(Struct, frozen=True):
    """What a shared store knows of one context.

    Attributes:
        data: What was last put there; ``None`` for nothing.
        now: The store's own time in seconds, at which this was read; ``None`` where it has no
            clock. Without one, what it keeps serves as last known good, but is never fresh.
        leads: Whether the caller is to ask the service; otherwise another process does just now.
    """

    data: bytes | None
    now: float | None = None
    leads: bool = True


@runtime_checkable
class SharedStore(SnapshotStore, Protocol):
    """Also keeps single contexts, for all processes that use it at once."""

    def get(
        self, name: str, *, newer_than: float | None, younger_than: float, lease: float
    ) -> Found:
        """What is known of one context, in one round trip.

        Args:
            name: The context.
            newer_than: By the store's clock: what was put with a later stamp is good enough, so
                nobody has to ask the service. ``None``: nothing is.
            younger_than: Seconds; unless that stamp is as old as this, which may be infinite, or
                lies in the future, since the clock was set back.
            lease: Seconds for which the caller is the only one to ask the service, where
                somebody has to and nobody does; 0 for not.
        """
        ...

    def put(self, name: str, data: bytes | None, *, stamp: float) -> None:
        """Keep this context, unless something with a later stamp is there; end the lease.

        Args:
            name: The context.
            data: ``None``: only end the lease.
            stamp: By the store's clock, just before the service was asked.
        """
        ...

    def clock(self, name: str) -> float | None:
        """The time in seconds that stamps contexts; ``None`` where the store has none.

        Args:
            name: That of `load` and `save`; it is the beginning of each context's name, up to
                a slash.
        """
        ...


class MemoryStore:
    """Keeps everything in this process: for tests, and as the shortest example of a store.

    Args:
        clock: Gives its time in seconds.
    """

    def __init__(self, clock: Callable[[], float] = time) -> None:
        self._clock = clock
        self._lock = Lock()
        self._snapshots: dict[str, bytes] = {}
        self._contexts: dict[str, tuple[float, bytes]] = {}
        self._leases: dict[str, float] = {}

    def load(self, name: str) -> bytes | None:
        """See `SnapshotStore`."""
        return self._snapshots.get(name)

    def save(self, name: str, data: bytes) -> None:
        """See `SnapshotStore`."""
        self._snapshots[name] = data

    def get(
        self, name: str, *, newer_than: float | None, younger_than: float, lease: float
    ) -> Found:
        """See `SharedStore`."""
        with self._lock:
            now = self._clock()
            stamp, data = self._contexts.get(name, (float("-inf"), None))
            passed = now - stamp
            if newer_than is not None and stamp > newer_than and 0.0 <= passed < younger_than:
                return Found(data, now, leads=False)
            leads = self._leases.get(name, 0.0) <= now
            if leads and lease > 0:
                self._leases[name] = now + lease
            return Found(data, now, leads=leads)

    def put(self, name: str, data: bytes | None, *, stamp: float) -> None:
        """See `SharedStore`."""
        with self._lock:
            self._leases.pop(name, None)
            if data is not None and self._contexts.get(name, (stamp,))[0] <= stamp:
                self._contexts[name] = (stamp, data)

    def clock(self, name: str) -> float:
        """See `SharedStore`."""
        return self._clock()


class FileStore:
    """Keeps what a process knew in one file, for the next process and for those beside it.

    Args:
        path: The file, or a folder that gets one file for each key and service; ``~`` at its
            beginning is the user's home. Left out: the folder for caches that the platform has
            for this user.
        max_bytes: How large the file may become; the contexts used last are kept.
        max_contexts: How many contexts it may hold.
        interval: Seconds between two savings, at least.
    """

    #: Seconds that the first request waits for it, at most.
    deadline: float = 1.0

    def __init__(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        max_bytes: int = _MOST_BYTES,
        max_contexts: int = 1_000,
        interval: float = 10.0,
    ) -> None:
        self._given = path
        self.max_bytes = max_bytes
        self.max_contexts = max_contexts
        self.interval = interval

    def __repr__(self) -> str:
        return "FileStore()" if self._given is None else f"FileStore({os.fspath(self._given)!r})"

    def path(self, name: str) -> Path:
        """The file that is used for this name.

        Raises:
            RuntimeError: There is no such user, or none that has a home.
        """
        given = self._given
        if given is None:
            import platformdirs

            return Path(platformdirs.user_cache_dir("shipsilently")) / f"{name}.snapshot"
        path = Path(given).expanduser()
        if path.is_dir() or os.fspath(given).endswith((os.sep, "/")):
            return path / f"{name}.snapshot"
        return path

    def load(self, name: str) -> bytes | None:
        """What the file holds.

        Raises:
            OSError: It cannot be read, is no plain file, or is too large.
        """
        # Something else of that name, a pipe for instance, must not hold anybody up.
        flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
        try:
            descriptor = os.open(self.path(name), flags)
        except FileNotFoundError:
            return None
        try:
            found = os.fstat(descriptor)
            if not stat.S_ISREG(found.st_mode):
                raise OSError(errno.EINVAL, "it is no plain file")
            if found.st_size > self.max_bytes:
                raise OSError(errno.EFBIG, "it is larger than allowed")
            with open(descriptor, "rb", closefd=False) as file:
                return file.read(self.max_bytes)
        finally:
            os.close(descriptor)

    def save(self, name: str, data: bytes) -> None:
        """Put a new file in the place of the old one, whole or not at all, for this user only.

        Raises:
            OSError: It cannot be written.
        """
        path = self.path(name)
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Before it is written: they may be what has filled the disk.
        self._clean_up(path)
        # Made by the system with mode 0600 and a name that nobody can know before.
        descriptor, temporary = tempfile.mkstemp(
            prefix=f".{path.name}.", suffix=_UNFINISHED, dir=path.parent
        )
        try:
            with open(descriptor, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(descriptor)
            os.replace(temporary, path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise

    @contextlib.contextmanager
    def locked(self, name: str) -> Iterator[None]:
        """Keep the other processes of this machine from saving within such a block, too.

        Whoever has waited for a second, or cannot lock anything here, goes on without.
        """
        descriptor = None
        with contextlib.suppress(ImportError, OSError, ValueError, RuntimeError):
            descriptor = self._lock(self.path(name))
        try:
            yield
        finally:
            if descriptor is not None:
                _unlock(descriptor)

    def _lock(self, path: Path) -> int | None:
        import fcntl

        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Beside the file, which is another one after each saving.
        lock = path.parent / f".{path.name}.lock"
        try:
            descriptor = os.open(lock, os.O_RDWR | os.O_CREAT, 0o600)
        except PermissionError:
            # Perhaps root's, who has run one of the site's commands. As the file itself, it is
            # replaced.
            lock.unlink()
            descriptor = os.open(lock, os.O_RDWR | os.O_CREAT, 0o600)
        end, pause = monotonic() + _PATIENCE, Event()
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                if error.errno not in (errno.EWOULDBLOCK, errno.EINTR) or monotonic() >= end:
                    os.close(descriptor)
                    return None
                pause.wait(_PAUSE)
            else:
                return descriptor

    def _clean_up(self, path: Path) -> None:
        """Remove what processes left behind that were killed while they wrote."""
        now = time()
        with contextlib.suppress(OSError):
            for left in path.parent.iterdir():
                mine = left.name.startswith(f".{path.name}.") and left.name.endswith(_UNFINISHED)
                if mine and now - left.stat().st_mtime > _ABANDONED_AFTER:
                    left.unlink(missing_ok=True)


def _unlock(descriptor: int) -> None:
    import fcntl

    # A child that was forked meanwhile has the file open, too, and would go on holding the lock.
    with contextlib.suppress(OSError):
        fcntl.flock(descriptor, fcntl.LOCK_UN)
    os.close(descriptor)
