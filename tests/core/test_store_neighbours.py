"""Processes that use one store at once: none forgets for another, or makes its values older."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from shipsilently_core import ShipSilentlyClient
from shipsilently_core.stores import FileStore
from shipsilently_core.testing import ManualClock
from tests.core.storing import ADA, EVE, HOUR, SYSTEM, Fleet, by_user

ROOT = Path(__file__).resolve().parent.parent.parent


def served(fleet: Fleet, context: dict[str, str], flag: str = "a") -> object:
    """What a new process serves in an outage."""
    fleet.service.fail(503)
    new = fleet.client()
    value = new.flags(context).get(flag)
    new.evaluator.closed = True
    fleet.service.recover()
    return value


class Together(FileStore):
    """A file that two read before one of them writes, where nothing keeps them from it."""

    closing = False

    def load(self, name: str) -> bytes | None:
        """Wait for the other."""
        found = super().load(name)
        if self.closing:
            with contextlib.suppress(threading.BrokenBarrierError):
                self._both.wait(0.2)
        return found

    _both = threading.Barrier(2)


def test_processes_that_end_at_once_keep_what_each_of_them_knew(tmp_path: Path) -> None:
    """A deploy ends all of them in the same moment: everybody's values are in the file."""
    store = Together(tmp_path / "flags")
    fleet = Fleet(store, flags=by_user)
    clients = [fleet.client(), fleet.client()]
    for client, who in zip(clients, (ADA, EVE), strict=True):
        client.flags(who).get("whose")
    store.closing = True
    threads = [threading.Thread(target=client.close) for client in clients]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    store.closing = False
    assert [served(fleet, who, "whose") for who in (ADA, EVE)] == ["ada-4711", "eve"]


def test_an_older_value_does_not_replace_what_another_process_has_saved(tmp_path: Path) -> None:
    """The one that saves last may have seen a user long before the others did."""
    fleet = Fleet(FileStore(tmp_path / "flags"))
    old, new = fleet.client(), fleet.client()
    assert old.flags(ADA).get("a") == 1
    fleet.clock.advance(HOUR)
    fleet.service.set({"a": 2})
    assert new.flags(ADA).get("a") == 2
    new.close()
    fleet.clock.advance(HOUR)
    assert old.flags(EVE).get("a") == 2
    old.close()
    assert served(fleet, ADA) == 2
    assert served(fleet, EVE) == 2


class Stepped(ManualClock):
    """A clock whose time of day can be wrong."""

    ahead = 0.0

    def time(self) -> float:
        """Unix time, or more."""
        return super().time() + self.ahead


def test_a_time_to_come_is_not_younger_than_now(tmp_path: Path) -> None:
    """Where the clock was set back, what was saved before grows too old as anything does."""
    fleet = Fleet(FileStore(tmp_path / "flags"), max_stale=HOUR)
    fleet.clock = clock = Stepped()
    clock.ahead = 30 * 24 * HOUR
    ahead = fleet.client()
    ahead.flags(ADA).get("a")
    ahead.close()
    clock.ahead = 0.0
    fleet.service.fail(503)
    client = fleet.client()
    assert client.flags(ADA).get("a") == 1
    clock.advance(2 * HOUR)
    assert client.flags(ADA).get("a", 7) == 7


def test_what_was_saved_by_a_clock_that_was_ahead_is_replaced(tmp_path: Path) -> None:
    """A value with a time to come does not stay for as long as that."""
    fleet = Fleet(FileStore(tmp_path / "flags"))
    fleet.clock = clock = Stepped()
    client, ahead = fleet.client(), fleet.client()
    client.flags(EVE).get("a")
    clock.ahead = 30 * 24 * HOUR
    ahead.flags(ADA).get("a")
    ahead.close()
    clock.ahead = 0.0
    fleet.service.set({"a": 2})
    client.flags(ADA).get("a")
    client.close()
    assert served(fleet, ADA) == 2


def test_a_flag_that_was_asked_for_alone_hides_no_flags_of_another_process(
    tmp_path: Path,
) -> None:
    """It is put on top of what the other has saved meanwhile."""
    fleet = Fleet(FileStore(tmp_path / "flags"), flags={"a": 1, "b": 1})
    alone, whole = fleet.client(), fleet.client()
    alone.flags(EVE).get("a")
    whole.flags(ADA).get("a")
    fleet.service.set({"a": 2, "b": 2})
    assert alone.evaluate("a", ADA, 0) == 2
    whole.close()
    alone.close()
    assert (served(fleet, ADA, "a"), served(fleet, ADA, "b")) == (2, 1)


def turned(client: ShipSilentlyClient) -> None:
    """Let the store's thread do what is due."""
    keeper = client.evaluator.keeper
    assert keeper is not None
    keeper.turn()


def test_a_process_that_is_cut_off_does_not_put_its_old_baseline_over_a_newer_one() -> None:
    """What is saved again after a while is compared with what others have saved meanwhile."""
    fleet = Fleet()
    cut_off, well = fleet.client(), fleet.client()
    cut_off.evaluate_all(SYSTEM)
    turned(cut_off)
    fleet.clock.advance(HOUR)
    fleet.service.set({"a": 2})
    well.evaluate_all(SYSTEM)
    turned(well)
    turned(cut_off)
    fleet.store._contexts.clear()
    assert served(fleet, SYSTEM) == 2


# The lock of a file.


def test_a_lock_is_for_one_at_a_time(tmp_path: Path) -> None:
    """Another one comes in when the first has gone out."""
    store = FileStore(tmp_path / "flags")
    order: list[str] = []
    inside = threading.Event()

    def second() -> None:
        with FileStore(tmp_path / "flags").locked("name"):
            order.append("second")

    thread = threading.Thread(target=second)
    with store.locked("name"):
        thread.start()
        inside.wait(0.05)
        order.append("first")
    thread.join()
    assert order == ["first", "second"]
    assert (tmp_path / ".flags.lock").stat().st_mode & 0o777 == 0o600


def test_nobody_waits_for_ever_for_a_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that was stopped while it held one keeps the others from nothing."""
    monkeypatch.setattr("shipsilently_core.stores._PATIENCE", 0.05)
    with FileStore(tmp_path / "flags").locked("name"):
        other = FileStore(tmp_path / "flags")
        with other.locked("name"):
            other.save("name", b"one")
    assert other.load("name") == b"one"


FORKING = """
import fcntl, os, sys
from shipsilently_core.stores import FileStore
from shipsilently_core.testing import ManualClock

read, write = os.pipe()
with FileStore(sys.argv[1]).locked("name"):
    if os.fork() == 0:
        os.close(write)
        os.read(read, 1)
        os._exit(0)
os.close(read)
descriptor = os.open(os.path.join(os.path.dirname(sys.argv[1]), ".flags.lock"), os.O_RDWR)
fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
print("free")
os.close(write)
os.wait()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="nothing forks here")
def test_a_child_that_was_forked_meanwhile_holds_no_lock(tmp_path: Path) -> None:
    """Once its parent has let go of it, it is free."""
    done = subprocess.run(
        [sys.executable, "-c", FORKING, str(tmp_path / "flags")],
        check=False,
        capture_output=True,
        text=True,
        timeout=50,
        cwd=ROOT,
    )
    assert (done.stdout, done.stderr) == ("free\n", "")


def test_where_nothing_can_be_locked_it_goes_on_without(tmp_path: Path) -> None:
    """A folder that cannot be made is told of by what is saved there, not by its lock."""
    (tmp_path / "file").write_bytes(b"")
    with FileStore(tmp_path / "file" / "flags").locked("name"):
        pass
    with FileStore("nul\0l").locked("name"):
        pass


# A lock of a store of one's own.


class Plain:
    """The least that a store can be."""

    def __init__(self) -> None:
        self.held: dict[str, bytes] = {}
        self.done: list[str] = []

    def load(self, name: str) -> bytes | None:
        """See `SnapshotStore`."""
        self.done.append("load")
        return self.held.get(name)

    def save(self, name: str, data: bytes) -> None:
        """The same."""
        self.done.append("save")
        self.held[name] = data


class Locking(Plain):
    """A store whose lock notes what is done inside of it, and may not work."""

    def __init__(self, *, refuses: str = "") -> None:
        super().__init__()
        self._refuses = refuses

    @contextlib.contextmanager
    def locked(self, name: str) -> Iterator[None]:
        """Note when it begins and ends."""
        self._note("lock")
        yield
        self._note("unlock")

    def _note(self, what: str) -> None:
        if what == self._refuses:
            raise OSError(what)
        self.done.append(what)


def known_by(store: Plain) -> Fleet:
    """One whose only process knew one user's values, and has ended."""
    fleet = Fleet(store, flags=by_user)
    client = fleet.client()
    client.flags(ADA).get("whose", "")
    store.done.clear()
    client.close()
    return fleet


def test_a_store_of_ones_own_is_locked_while_it_is_read_and_written() -> None:
    """What another has saved is taken in, and saved again with the rest, inside of one lock."""
    store = Locking()
    known_by(store)
    assert store.done == ["lock", "load", "save", "unlock"]


@pytest.mark.parametrize("refuses", ["lock", "unlock"])
def test_a_lock_that_does_not_work_costs_no_value(
    refuses: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Whatever it raises: what is known is saved all the same, with a warning."""
    fleet = known_by(Locking(refuses=refuses))
    assert served(fleet, ADA, "whose") == "ada-4711"
    assert "the lock of the Locking does not work (OSError)" in caplog.text


def test_a_lock_that_is_none_costs_no_value(caplog: pytest.LogCaptureFixture) -> None:
    """An attribute of that name may mean something else."""
    store: Any = Plain()
    store.locked = True
    fleet = known_by(store)
    assert served(fleet, ADA, "whose") == "ada-4711"
    assert "the lock of the Plain does not work (TypeError)" in caplog.text
