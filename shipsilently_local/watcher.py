"""Notices that the flags file was saved, however an editor or a deployment does it."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable
from pathlib import Path

from watchfiles import watch

__all__ = ["Watcher", "watched_directories"]

#: Milliseconds without a further change after which a change counts as complete.
STEP = 20
#: Milliseconds after which a change is acted on although more come.
DEBOUNCE = 60
#: Milliseconds after which the file is looked at without any notice: for network
#: file systems, which give none, and for what happened while a watch was set up.
LOOK_AGAIN = 250


def watched_directories(path: str | os.PathLike[str]) -> set[Path]:
    """Every existing directory in which a change can change what ``path`` leads to.

    That is its own directory, and that of each symbolic link on the way: editors
    save by renaming, and deployments by swapping a link. Where a directory does not
    exist (any more), the nearest one above it that does.
    """
    directories = set()
    waiting = [Path(os.path.abspath(path))]
    seen = set()
    while waiting:
        current = waiting.pop()
        if current in seen:
            continue
        seen.add(current)
        directories.add(next(above for above in current.parents if above.is_dir()))
        for part in (current, *current.parents):
            if part.is_symlink():
                directories.add(part.parent)
                target = part.parent / os.readlink(part)
                waiting.append(Path(os.path.abspath(target / current.relative_to(part))))
    return directories


class Watcher:
    """Calls ``look`` from a daemon thread whenever the file may have changed."""

    def __init__(self, path: str | os.PathLike[str], look: Callable[[], None]) -> None:
        self._path = path
        self._look = look
        self._stop = threading.Event()
        self._thread = threading.Thread(
            target=self._run, name="shipsilently-local-watcher", daemon=True
        )

    def start(self) -> None:
        """Begin to watch."""
        self._thread.start()

    def stop(self) -> None:
        """End the watch; returns when the thread has ended."""
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                directories = watched_directories(self._path)
                changes = watch(
                    *directories,
                    watch_filter=None,
                    debounce=DEBOUNCE,
                    step=STEP,
                    rust_timeout=LOOK_AGAIN,
                    yield_on_timeout=True,
                    stop_event=self._stop,
                    recursive=False,
                    raise_interrupt=False,
                    ignore_permission_denied=True,
                )
                with contextlib.closing(changes):
                    for _ in changes:
                        self._look()
                        if watched_directories(self._path) != directories:
                            break
            except (OSError, RuntimeError):
                # A directory or a link went away, or the system has no watches left.
                self._stop.wait(LOOK_AGAIN / 1000)
                self._look()
