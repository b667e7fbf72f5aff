"""Whether last known good values outlive the process, as the doctor tells it."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import pytest

from shipsilently_cli.checkup import Finding, Level, keeping
from shipsilently_core import Config, ShipSilentlyClient
from shipsilently_core.stores import FileStore, Found, MemoryStore
from shipsilently_core.testing import ScriptedService

SETTINGS: dict[str, Any] = {
    "api_key": "sk_live_0123456789abcdef",
    "api_url": "http://flags.invalid",
}


def checked(**settings: Any) -> list[Finding]:
    """What is found."""
    return list(keeping.check(Config(**SETTINGS, **settings)))


def one(**settings: Any) -> tuple[Level, str]:
    """The one finding's level and text."""
    (found,) = checked(**settings)
    return found.level, found.text


def fill(store: Any) -> None:
    """Let a client learn something and end."""
    service = ScriptedService({"a": 1})
    client = ShipSilentlyClient(transport=service, store=store, stream=False, **SETTINGS)
    client.start()
    assert client.wait_ready(5)
    client.close()


class ForgetfulStore(MemoryStore):
    """As a cache that is switched off."""

    def put(self, name: str, data: bytes | None, *, stamp: float) -> None:
        """Nothing."""


class RaisingStore(MemoryStore):
    """A server that is not there."""

    def load(self, name: str) -> bytes | None:
        """Nothing."""
        raise ConnectionError("redis://user:recognisable@host")


class HangingStore(MemoryStore):
    """A server that does not answer."""

    def __init__(self) -> None:
        super().__init__()
        self.let_go = threading.Event()

    def load(self, name: str) -> bytes | None:
        """Nothing, after a while."""
        self.let_go.wait(30)
        return None


class SlowStore(MemoryStore):
    """A server that is far away."""

    deadline = 0.001

    def get(
        self, name: str, *, newer_than: float | None, younger_than: float, lease: float
    ) -> Found:
        """As ever, after a while."""
        threading.Event().wait(0.01)
        return super().get(name, newer_than=newer_than, younger_than=younger_than, lease=lease)


def test_without_a_store_it_says_what_that_means() -> None:
    """It is a choice, so all is well."""
    assert one() == (
        Level.OK,
        "none: a process that starts during an outage serves defaults",
    )


def test_a_store_that_is_new_can_be_used(tmp_path: Path) -> None:
    """Nothing is in it; the doctor puts no file there, and makes no folder."""
    expected = (Level.OK, "FileStore: it can be used; nothing is kept in it yet")
    assert one(store=FileStore(tmp_path / "new" / "flags.snapshot")) == expected
    assert list(tmp_path.iterdir()) == []
    assert one(store=MemoryStore())[1].startswith("MemoryStore: it can be used")


def test_what_is_kept_is_told_with_its_age(tmp_path: Path) -> None:
    """How many contexts, and since when; it is left as it is."""
    store = FileStore(tmp_path / "flags.snapshot")
    fill(store)
    before = (tmp_path / "flags.snapshot").read_bytes()
    level, text = one(store=store)
    assert level is Level.OK
    assert text.startswith("FileStore: 1 context kept, ")
    assert (tmp_path / "flags.snapshot").read_bytes() == before


def test_what_cannot_be_read_is_a_warning(tmp_path: Path) -> None:
    """Such as the file of another key: it will be replaced."""
    (tmp_path / "flags.snapshot").write_bytes(b"SHSI" + b"x" * 100)
    level, text = one(store=tmp_path / "flags.snapshot")
    assert level is Level.WARNING
    assert "is not used, and will be replaced: another version of this library" in text


def test_a_folder_that_cannot_be_written_is_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing could be kept there."""
    # The superuser, as whom tests often run, may write everywhere: the system's answer is put in.
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != tmp_path)
    level, text = one(store=tmp_path / "flags.snapshot")
    assert (level, "no file can be made in" in text) == (Level.FAILURE, True)


def test_a_file_below_a_file_is_a_failure(tmp_path: Path) -> None:
    """No folder can be made there."""
    (tmp_path / "file").touch()
    level, text = one(store=tmp_path / "file" / "flags.snapshot")
    assert (level, text) == (Level.FAILURE, "FileStore: NotADirectoryError: Not a directory")
    level, text = one(store=FileStore(os.devnull))
    assert (level, text) == (Level.FAILURE, "FileStore: OSError: it is no plain file")


def test_a_store_that_forgets_is_a_warning() -> None:
    """As a dummy cache does: it takes everything and keeps nothing."""
    assert one(store=ForgetfulStore()) == (
        Level.WARNING,
        "ForgetfulStore: it takes what it is given, and does not keep it",
    )


def test_a_store_that_raises_is_a_failure() -> None:
    """By the class of what it raised; its text may hold a password."""
    level, text = one(store=RaisingStore())
    assert (level, text) == (Level.FAILURE, "RaisingStore cannot be used: ConnectionError")


def test_a_store_that_hangs_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    """The doctor does not wait for it for ever."""
    monkeypatch.setattr(keeping, "_PATIENCE", 0.05)
    store = HangingStore()
    try:
        assert one(store=store) == (Level.FAILURE, "HangingStore: no answer within 50 ms")
    finally:
        store.let_go.set()


def test_a_slow_store_is_a_warning() -> None:
    """Requests would not wait for it as long as it takes."""
    level, text = one(store=SlowStore())
    assert level is Level.WARNING
    assert text.endswith("requests wait for it for 1.0 ms at most")


def test_what_is_shipped_is_counted() -> None:
    """And what of it nobody would ever be served, since it is somebody's own."""
    _, found = checked(bootstrap={"a": {"value": 1}})
    assert (found.check, found.level, found.text) == (
        "bootstrap",
        Level.OK,
        "1 flag shipped with the app",
    )
    _, found = checked(bootstrap={"a": {"value": 1}, "b": {"value": 1, "reason": "rollout"}})
    assert found.level is Level.WARNING
    assert found.text == "2 flags shipped with the app, of which 1 are served to nobody: b"
