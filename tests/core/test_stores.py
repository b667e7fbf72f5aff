"""The stores themselves: a file that is whole or not there, and the memory of one process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import platformdirs
import pytest

from shipsilently_core import Config
from shipsilently_core.errors import ConfigurationError
from shipsilently_core.stores import FileStore, Found, MemoryStore, SharedStore, SnapshotStore
from tests.servers.harness import run_script

ROOT = Path(__file__).resolve().parent.parent.parent
FOREVER = float("inf")


# The file.


def test_a_file_gives_back_what_was_saved(tmp_path: Path) -> None:
    """Nothing at first, then the latest, also for another object and in a folder that is new."""
    path = tmp_path / "new" / "folder" / "flags.snapshot"
    store = FileStore(path)
    assert store.load("name") is None
    store.save("name", b"one")
    store.save("name", b"two")
    assert store.load("name") == FileStore(str(path)).load("name") == b"two"
    assert os.listdir(path.parent) == ["flags.snapshot"]


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such modes")
def test_a_file_is_for_its_user_alone(tmp_path: Path) -> None:
    """Nobody else can read the file or look into a folder that was made for it."""
    umask = os.umask(0)
    try:
        FileStore(tmp_path / "new" / "flags").save("name", b"one")
    finally:
        os.umask(umask)
    assert (tmp_path / "new" / "flags").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o700


def test_a_folder_gets_one_file_for_each_name(tmp_path: Path) -> None:
    """Two keys, or two services, never share a file in one folder."""
    (tmp_path / "there").mkdir()
    for store in (FileStore(tmp_path / "there"), FileStore(f"{tmp_path}/later/")):
        store.save("one", b"1")
        store.save("two", b"2")
        assert (store.load("one"), store.load("two")) == (b"1", b"2")
        assert store.path("one").name == "one.snapshot"


def test_the_platform_s_folder_is_the_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a path, the file is where the platform keeps caches of this user."""
    monkeypatch.setattr(platformdirs, "user_cache_dir", lambda name: str(tmp_path / name))
    store = FileStore()
    store.save("name", b"one")
    assert (tmp_path / "shipsilently" / "name.snapshot").read_bytes() == b"one"
    assert repr(store) == "FileStore()"
    assert repr(FileStore("flags")) == "FileStore('flags')"


def test_a_path_may_begin_with_the_user_s_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A variable of a container, or a settings file, has no shell that would put it there."""
    for name in ("HOME", "USERPROFILE"):
        monkeypatch.setenv(name, str(tmp_path))
    FileStore("~/kept/").save("name", b"one")
    assert (tmp_path / "kept" / "name.snapshot").read_bytes() == b"one"
    (tmp_path / "flags.json").write_text('{"flags": {"a": {"value": 1, "reason": "default"}}}')
    assert Config(api_key="k", bootstrap="~/flags.json").bootstrap is not None


def test_a_home_that_nobody_has_is_told() -> None:
    """A shipped file is missed at once; a store, which nothing depends on, when it is used."""
    with pytest.raises(ConfigurationError, match="bootstrap: is no path"):
        Config(api_key="k", bootstrap="~nobody-of-this-name/flags.json")
    store = FileStore("~nobody-of-this-name/flags")
    with store.locked("name"), pytest.raises(RuntimeError):
        store.load("name")


@pytest.mark.parametrize("word", ["off", "OFF", "0", "false", " False "])
def test_words_for_no_are_no_files(word: str) -> None:
    """An environment variable can switch the store off, not only name one."""
    assert Config(api_key="k", store=word).store is None


@pytest.mark.parametrize("word", ["on", "1", "true", "True"])
def test_words_for_yes_are_the_platform_s_folder(word: str) -> None:
    """Nor is there ever a file of such a name."""
    assert repr(Config(api_key="k", store=word).store) == "FileStore()"


def test_a_file_that_is_too_large_is_not_read(tmp_path: Path) -> None:
    """Whatever lies there, no more than what is allowed comes into memory."""
    store = FileStore(tmp_path / "flags", max_bytes=10)
    (tmp_path / "flags").write_bytes(b"x" * 10)
    assert store.load("name") == b"x" * 10
    (tmp_path / "flags").write_bytes(b"x" * 11)
    with pytest.raises(OSError, match="larger than allowed"):
        store.load("name")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes with names here")
def test_a_pipe_in_the_place_of_the_file_holds_nobody_up(tmp_path: Path) -> None:
    """Something that is no plain file is refused at once, and replaced by the next saving."""
    os.mkfifo(tmp_path / "flags")
    store = FileStore(tmp_path / "flags")
    with pytest.raises(OSError, match="no plain file"):
        store.load("name")
    store.save("name", b"one")
    assert store.load("name") == b"one"


@pytest.mark.skipif(not hasattr(os, "symlink"), reason="there are no links here")
def test_a_link_in_the_place_of_the_file_is_replaced_itself(tmp_path: Path) -> None:
    """What a link points to is never written to."""
    (tmp_path / "precious").write_bytes(b"mine")
    (tmp_path / "flags").symlink_to(tmp_path / "precious")
    FileStore(tmp_path / "flags").save("name", b"one")
    assert (tmp_path / "precious").read_bytes() == b"mine"
    assert not (tmp_path / "flags").is_symlink()


def test_a_saving_that_fails_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the disk is full, what was there stays, and no half file is left."""
    store = FileStore(tmp_path / "flags")
    store.save("name", b"one")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        store.save("name", b"two")
    assert store.load("name") == b"one"
    assert os.listdir(tmp_path) == ["flags"]


def test_what_killed_processes_left_is_removed_after_a_while(tmp_path: Path) -> None:
    """Unfinished files go when nobody can be writing them any more, and no others."""
    store = FileStore(tmp_path / "flags")
    old, new = tmp_path / ".flags.a.unfinished", tmp_path / ".flags.b.unfinished"
    stranger = tmp_path / ".other.c.unfinished"
    for path in (old, new, stranger):
        path.write_bytes(b"x")
    past = time.time() - 3_600
    for path in (old, stranger):
        os.utime(path, (past, past))
    store.save("name", b"one")
    assert sorted(os.listdir(tmp_path)) == [".flags.b.unfinished", ".other.c.unfinished", "flags"]


def test_what_killed_processes_left_does_not_keep_the_disk_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It goes before something is written, for which there may be no room otherwise."""
    left = tmp_path / ".flags.a.unfinished"
    left.write_bytes(b"x")
    os.utime(left, (0, 0))

    def full(descriptor: int) -> None:
        if left.exists():
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    FileStore(tmp_path / "flags").save("name", b"one")
    assert os.listdir(tmp_path) == ["flags"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="nothing forks here")
def test_a_process_that_is_killed_while_it_writes_leaves_a_whole_file(tmp_path: Path) -> None:
    """After each of 500 SIGKILLs at random moments, the file is one complete snapshot."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.core.killed_writers", str(tmp_path), "500"],
        cwd=ROOT,
        check=False,
        capture_output=True,
        text=True,
        timeout=50,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["versions"] > 1
    assert found["interrupted"] > 0


#: A folder of somebody's with a lock in it that only others may open.
LOCKED_OUT = """
import fcntl, os
from pathlib import Path
from shipsilently_core.stores import FileStore

lock = Path(".flags.lock")
lock.touch()
lock.chmod(0)
if os.geteuid() == 0:
    # Root may open anything, so this is somebody else from now on, who may not even come here.
    os.chown(".", 54321, 54321)
    os.setgroups([])
    os.setgid(54321)
    os.setuid(54321)
try:
    os.open(lock, os.O_RDWR)
except PermissionError:
    print("locked out")
store = FileStore("flags")
for _ in range(2):
    with store.locked("name"):
        found = lock.stat()
        print(found.st_uid == os.geteuid(), oct(found.st_mode & 0o777))
        with lock.open("r+") as other:
            try:
                fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                print("held")
with lock.open("r+") as other:
    fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    print("free")
# In a folder of somebody else's it stays, and everybody goes on without.
os.chmod(".", 0o500)
lock.chmod(0)
with store.locked("name"):
    print(oct(lock.stat().st_mode & 0o777))
os.chmod(".", 0o700)
"""


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="Windows has no such users")
def test_a_lock_that_is_somebody_else_s_is_replaced(tmp_path: Path) -> None:
    """Root who has run one of the site's commands keeps nobody from locking afterwards."""
    ended = run_script(LOCKED_OUT, tmp_path)
    assert (ended.status, ended.errors) == (0, "")
    inside = ["True 0o600", "held"]
    assert ended.lines == ["locked out", *inside, *inside, "free", "0o0"]


def test_a_lock_that_may_not_be_opened_is_replaced_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a new one may not be opened either, it goes on without."""
    lock, open_ = tmp_path / ".flags.lock", os.open
    refused: list[object] = []
    lock.write_bytes(b"another's")
    left = 1

    def refuse(path: str | Path, *rest: int) -> int:
        if path == lock and len(refused) < left:
            refused.append(path)
            raise PermissionError(13, "Permission denied")
        return open_(path, *rest)

    monkeypatch.setattr(os, "open", refuse)
    store = FileStore(tmp_path / "flags")
    with store.locked("name"):
        assert lock.read_bytes() == b""
    assert refused == [lock]
    refused.clear()
    left = 2
    with store.locked("name"):
        store.save("name", b"one")
    assert refused == [lock] * 2
    assert store.load("name") == b"one"


def test_threads_that_save_at_once_leave_one_whole_file(tmp_path: Path) -> None:
    """Whoever comes last wins; no reader ever sees a mixture or nothing."""
    store = FileStore(tmp_path / "flags")
    store.save("name", b"0" * 10_000)
    seen: set[bytes] = set()

    def write(digit: bytes) -> None:
        for _ in range(20):
            store.save("name", digit * 10_000)

    threads = [threading.Thread(target=write, args=(b"%d" % n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        seen.add(store.load("name") or b"")
    for thread in threads:
        thread.join()
    seen.add(store.load("name") or b"")
    assert all(len(data) == 10_000 and len(set(data)) == 1 for data in seen)


# The memory.


class Time:
    """A clock that stands still until it is set."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


def look(
    store: MemoryStore,
    *,
    newer_than: float | None = 0.0,
    younger_than: float = FOREVER,
    lease: float = 1.0,
) -> Found:
    """One look for the context "x"."""
    return store.get("x", newer_than=newer_than, younger_than=younger_than, lease=lease)


def test_one_leads_until_it_has_put_something() -> None:
    """The first who finds nothing is to ask; the others are not, until there is an answer."""
    store = MemoryStore(Time())
    assert look(store) == Found(None, 100.0, leads=True)
    assert look(store) == Found(None, 100.0, leads=False)
    store.put("x", b"1", stamp=100.0)
    assert look(store) == Found(b"1", 100.0, leads=False)
    assert look(store, newer_than=100.0).leads


def test_a_lease_ends() -> None:
    """Another leads when the first has given up, or has not been heard of for too long."""
    store = MemoryStore(clock := Time())
    assert look(store).leads
    store.put("x", None, stamp=0.0)
    assert look(store).leads
    assert not look(store).leads
    clock.now = 101.0
    assert look(store).leads
    assert not look(store).leads
    assert look(MemoryStore(clock), lease=0.0).leads


def test_what_is_too_old_is_to_be_asked_for() -> None:
    """What was asked for before the latest change, or too long ago, is found but not enough."""
    store = MemoryStore(clock := Time())
    store.put("x", b"1", stamp=100.0)
    clock.now = 110.0
    assert not look(store, younger_than=10.5).leads
    assert look(store, younger_than=10.0) == Found(b"1", 110.0, leads=True)
    store.put("x", None, stamp=0.0)
    assert look(store, newer_than=None) == Found(b"1", 110.0, leads=True)


def test_an_older_answer_never_replaces_a_newer_one() -> None:
    """Answers that overtake each other leave the one that was asked for last."""
    store = MemoryStore(Time())
    store.put("x", b"new", stamp=50.0)
    store.put("x", b"old", stamp=49.0)
    assert look(store).data == b"new"
    store.put("x", b"newer", stamp=50.0)
    assert look(store).data == b"newer"


def test_memory_keeps_snapshots_by_name() -> None:
    """A snapshot is what was last saved under its name."""
    store = MemoryStore()
    assert store.load("a") is None
    store.save("a", b"1")
    store.save("b", b"2")
    assert (store.load("a"), store.load("b")) == (b"1", b"2")
    assert abs(store.clock("a") - time.time()) < 60


def test_what_is_a_store_is_known_by_what_it_can_do() -> None:
    """A file keeps snapshots; memory is shared, too."""
    assert isinstance(FileStore(), SnapshotStore)
    assert not isinstance(FileStore(), SharedStore)
    assert isinstance(MemoryStore(), SharedStore)
