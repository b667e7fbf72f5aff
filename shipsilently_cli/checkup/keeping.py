"""Whether last known good values outlive this process, and what was shipped with the app."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from shipsilently_core import Config
from shipsilently_core._saved import Seal, Unreadable
from shipsilently_core._view import IMPERSONAL
from shipsilently_core.stores import FileStore, SharedStore, SnapshotStore

from .findings import Finding, failure, ok, warning
from .session import seconds

__all__ = ["check"]

#: Seconds after which a store counts as hanging.
_PATIENCE = 5.0
_TRIAL = b"shipsilently doctor"
_MEANWHILE = "Flags are served without it, but what is known ends with each process."


def check(config: Config) -> Iterator[Finding]:
    """The store and the bootstrap, as far as there are any."""
    if config.store is None:
        yield ok("store", "none: a process that starts during an outage serves defaults")
    else:
        yield _store(config, config.store)
    if config.bootstrap is not None:
        yield _bootstrap(config)


class _WrongError(Exception):
    """A store does not do what it should; says what."""


def _store(config: Config, store: SnapshotStore) -> Finding:
    kind = type(store).__name__
    begin = time.perf_counter()
    done: list[Any] = []

    def work() -> None:
        try:
            done.append(_tried(config, store))
        except Exception as error:
            done.append(error)

    thread = threading.Thread(target=work, name="shipsilently-doctor", daemon=True)
    thread.start()
    thread.join(_PATIENCE)
    took = time.perf_counter() - begin
    if not done:
        return failure("store", f"{kind}: no answer within {seconds(_PATIENCE)}", _MEANWHILE)
    (found,) = done
    if isinstance(found, _WrongError):
        return warning("store", f"{kind}: {found}", _MEANWHILE)
    if isinstance(found, OSError) and found.strerror:
        return failure("store", f"{kind}: {type(found).__name__}: {found.strerror}", _MEANWHILE)
    if isinstance(found, Exception):
        # Its text may hold an address with a password.
        return failure("store", f"{kind} cannot be used: {type(found).__name__}", _MEANWHILE)
    deadline = float(getattr(store, "deadline", 1.0))
    if took > deadline:
        return warning(
            "store",
            f"{kind}: {found}, but it took {seconds(took)}; requests wait for it for "
            f"{seconds(deadline)} at most",
            "Take one that is nearer, or give it a longer deadline.",
        )
    return ok("store", f"{kind}: {found}")


def _tried(config: Config, store: SnapshotStore) -> str:
    seal = Seal(config.api_key, config.api_url)
    name = seal.fingerprint
    data = store.load(name)
    if isinstance(store, FileStore):
        _see_folder(store.path(name))
    if isinstance(store, SharedStore):
        trial = f"{name}/doctor"
        store.put(trial, _TRIAL, stamp=store.clock(name) or 0.0)
        found = store.get(trial, newer_than=None, younger_than=0.0, lease=0.0)
        if found.data != _TRIAL:
            raise _WrongError("it takes what it is given, and does not keep it")
    if data is None:
        return "it can be used; nothing is kept in it yet"
    try:
        saved = seal.open_snapshot(name, data)
    except Unreadable as error:
        raise _WrongError(f"what it holds is not used, and will be replaced: {error.why}") from None
    age = max(0.0, time.time() - saved.saved)
    count = len(saved.contexts)
    return f"{count} context{'' if count == 1 else 's'} kept, {seconds(age)} ago"


def _see_folder(path: Path) -> None:
    """Whether a file could be made there; the client makes the folders that are missing."""
    folder = path.parent
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    if not folder.is_dir() or not os.access(folder, os.W_OK | os.X_OK):
        raise PermissionError(13, f"no file can be made in {folder}")


def _bootstrap(config: Config) -> Finding:
    rows = config.bootstrap.rows
    personal = sorted(key for key, row in rows.items() if row.reason not in IMPERSONAL)
    text = f"{len(rows)} flag{'' if len(rows) == 1 else 's'} shipped with the app"
    if personal:
        return warning(
            "bootstrap",
            f"{text}, of which {len(personal)} are served to nobody: {', '.join(personal[:5])}",
            "A rule has made them for somebody: evaluate them for the background context.",
        )
    return ok("bootstrap", text)
