"""A client whose store fails or hangs."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from shipsilently_core import (
    Failure,
    ShipSilentlyClient,
    Source,
    StoreStatus,
    signals,
)
from shipsilently_core._keeper import Question
from shipsilently_core.stores import FileStore, Found
from shipsilently_core.testing import ManualClock, ScriptedService
from tests.core.running import eventually, running
from tests.core.storing import (
    ADA,
    EVE,
    HOUR,
    SYSTEM,
    BrokenStore,
    Fleet,
    SlowStore,
    pass_time,
)
from tests.core.support import KEY, listening

# A store that fails.


@pytest.mark.parametrize("error", [OSError(13, "Permission denied"), ValueError("secret")])
@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_store_that_raises_costs_nobody_anything(
    error: Exception, asynchronous: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """Values are served as without it; one warning, `on_error` and the status tell of it."""
    fleet = Fleet()
    fleet.store = store = BrokenStore(fleet.clock.time, error)
    client = fleet.client()
    with caplog.at_level(logging.INFO, "shipsilently"), listening(client) as heard:
        for number in range(20):
            flags = client.flags({"userId": f"u{number}"})
            value = asyncio.run(flags.aget("a")) if asynchronous else flags.get("a")
            assert value == 1
        assert heard == []
    assert store.calls == ["load"]
    assert [error.failure for error in fleet.errors] == [Failure.STORE]
    (line,) = caplog.records
    assert "the BrokenStore could not be used (to load from it: " in line.message
    assert "secret" not in line.message
    assert ("Permission denied" in line.message) is isinstance(error, OSError)
    status = client.status().store
    assert status == StoreStatus("BrokenStore", True, 0, None, status.error, 0.5)  # type: ignore[union-attr]


def test_a_store_that_works_again_is_used_again(caplog: pytest.LogCaptureFixture) -> None:
    """After its cool-down it is tried; what was learnt meanwhile is put there; the log says so."""
    fleet = Fleet()
    fleet.store = store = BrokenStore(fleet.clock.time, OSError())
    client = fleet.client()
    assert client.flags(ADA).get("a") == 1
    store.error = None
    fleet.clock.advance(0.5)
    caplog.clear()
    with caplog.at_level(logging.INFO, "shipsilently"):
        assert client.flags(EVE).get("a") == 1
    assert [line.message for line in caplog.records] == ["the BrokenStore works again"]
    status = client.status().store
    assert status is not None
    assert (status.error, status.cool_down) == (None, 0.0)
    assert len(store._contexts) == 2
    fleet.service.fail(503)
    assert fleet.client().flags(ADA).get("a") == 1


def test_a_store_that_stays_broken_is_tried_ever_more_rarely() -> None:
    """In an hour of failures a handful of requests has tried it, not each of them."""
    fleet = Fleet(max_age=0.0)
    fleet.store = store = BrokenStore(fleet.clock.time, OSError())
    client = fleet.client()
    for number in range(3_600):
        client.flags({"userId": f"u{number}"}).get("a")
        fleet.clock.advance(1)
    assert 60 < len(store.calls) < 150


def test_answers_that_could_not_be_put_are_put_later() -> None:
    """A failure in the middle of several loses none of them."""

    class Full(BrokenStore):
        room = 2

        def put(self, name: str, data: bytes | None, *, stamp: float) -> None:
            if len(self._contexts) >= self.room:
                raise OSError(28, "No space left")
            super().put(name, data, stamp=stamp)

    fleet = Fleet()
    fleet.store = store = Full(fleet.clock.time)
    client = fleet.client()
    for number in range(5):
        client.evaluate_all({"userId": f"u{number}"})
    client.flags(ADA).get("a")
    assert len(store._contexts) == 2
    store.room = 100
    fleet.clock.advance(60)
    client.flags(EVE).get("a")
    assert len(store._contexts) == 7


def test_a_file_that_cannot_be_written_is_tried_again(tmp_path: Path) -> None:
    """Where a folder is missing its rights, the status tells of it until it works."""
    (tmp_path / "folder").write_bytes(b"a file in its place")
    fleet = Fleet(FileStore(tmp_path / "folder" / "flags"))
    client = fleet.client()
    client.evaluate_all(SYSTEM)
    keeper = client.evaluator.keeper
    assert keeper is not None
    keeper.turn()
    status = client.status().store
    assert status is not None
    assert (status.error, status.saved, status.cool_down) == (
        "NotADirectoryError: Not a directory",
        None,
        0.5,
    )
    assert keeper.due_in() == 0.5
    (tmp_path / "folder").unlink()
    fleet.clock.advance(0.5)
    assert keeper.due_in() == 0.0
    keeper.turn()
    assert (tmp_path / "folder" / "flags").exists()
    assert keeper.due_in() == 300.0
    fleet.clock.advance(1)
    client.evaluate_all(ADA)
    assert keeper.due_in() == 9.0


@pytest.mark.parametrize("shared", [False, True])
def test_a_store_that_can_only_be_read_does_not_seem_to_work(
    shared: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """On a full disk it is tried ever more rarely, and nothing says that it works again."""

    class FullFile(FileStore):
        def save(self, name: str, data: bytes) -> None:
            raise OSError(28, "No space left on device")

    class FullMemory(BrokenStore):
        def save(self, name: str, data: bytes) -> None:
            raise OSError(28, "No space left on device")

        def put(self, name: str, data: bytes | None, *, stamp: float) -> None:
            raise OSError(28, "No space left on device")

    fleet = Fleet()
    fleet.store = FullMemory(fleet.clock.time) if shared else FullFile(tmp_path / "flags")
    client = fleet.client()
    keeper = client.evaluator.keeper
    assert keeper is not None
    keeper.start()
    keeper._load.run()
    client.evaluate_all(SYSTEM)
    with caplog.at_level(logging.INFO, "shipsilently"):
        cool_downs = []
        for _ in range(60):
            keeper.turn()
            assert keeper.status().error == "OSError: No space left on device"
            cool_downs.append(keeper.status().cool_down)
            fleet.clock.advance(60)
    assert not [line.message for line in caplog.records if "works again" in line.message]
    assert (cool_downs[0], cool_downs[-1]) == (0.5, 30.0)


def test_a_store_that_takes_something_again_works() -> None:
    """With what was left over, which a forked child does not have."""

    class Full(BrokenStore):
        full = True

        def put(self, name: str, data: bytes | None, *, stamp: float) -> None:
            if self.full:
                raise OSError(28, "No space left on device")
            super().put(name, data, stamp=stamp)

    for forked in (False, True):
        fleet = Fleet()
        fleet.store = store = Full(fleet.clock.time)
        client = fleet.client()
        client.flags(ADA).get("a")
        keeper = client.evaluator.keeper
        assert keeper is not None
        assert keeper.status().error == "OSError: No space left on device"
        if forked:
            keeper.renew()
            keeper._dirty = False
        else:
            store.full = False
        fleet.clock.advance(60)
        keeper.turn()
        assert keeper.status().error is None
        assert len(store._contexts) == (0 if forked else 1)


def test_what_could_not_be_saved_is_saved_later() -> None:
    """A saving that failed is tried again after its cool-down."""
    fleet = Fleet()
    fleet.store = store = BrokenStore(fleet.clock.time)
    client = fleet.client()
    client.evaluate_all(SYSTEM)
    keeper = client.evaluator.keeper
    assert keeper is not None
    store.error = OSError()
    keeper._save()
    assert keeper.status().saved is None
    store.error = None
    for _ in range(2):
        # First it is seen that the store works again.
        fleet.clock.advance(keeper.due_in() or 0.0)
        keeper.turn()
    assert keeper.status().saved == fleet.clock.time()


def test_two_who_wait_for_a_hanging_store_count_as_one_failure() -> None:
    """The cool-down grows with each try, not with each request that was waiting."""
    fleet = Fleet()
    fleet.store = store = SlowStore(fleet.clock.time)
    keeper = fleet.client().evaluator.keeper
    assert keeper is not None
    keeper.start()
    looks = [keeper.look(b"{}", leased=True) for _ in range(2)]
    assert keeper.due_in() == 0.0
    for errand in looks:
        assert errand is not None
        assert keeper.found(errand) is None or errand.done
    assert [error.message for error in fleet.errors] == [
        "the SlowStore could not be used (to look into it: no answer in time)"
    ]
    # One that the store's thread has in hand just now is no second failure either.
    hanging = Question(lambda: None, here=False, answers=keeper._calls.answers)
    assert keeper.found(hanging) is None
    assert len(fleet.errors) == 1
    assert keeper.look(b"{}", leased=True) is None
    # The store's own thread tries it first when the time has come.
    fleet.clock.advance(0.5)
    assert keeper.look(b"{}", leased=True) is None
    assert keeper.due_in() == 0.0
    keeper.turn()
    assert store.calls == ["clock"]
    assert keeper.look(b"{}", leased=True) is not None


def test_more_looks_than_one_thread_can_make_are_no_failure_of_the_store() -> None:
    """Whoever waits in vain for a store that answers others goes on, without a cool-down."""
    fleet = Fleet()
    keeper = fleet.client().evaluator.keeper
    assert keeper is not None
    keeper.start()
    first, second = (keeper.look(b"{}", leased=True) for _ in range(2))
    assert first is not None
    assert second is not None
    first.run()
    assert keeper.found(second) is None
    assert (keeper.status().error, fleet.errors) == (None, [])
    # It takes no lease for somebody who has gone.
    fleet.store._leases.clear()
    keeper.turn()
    assert fleet.store._leases == {}


def test_what_the_thread_does_for_itself_may_take_longer_than_a_request_waits() -> None:
    """A first connection that is slow is no failure of the store."""

    class Distant(BrokenStore):
        deadline = 0.05

        def load(self, name: str) -> bytes | None:
            fleet.clock.advance(1)
            return super().load(name)

    fleet = Fleet()
    fleet.store = Distant(fleet.clock.time)
    client = fleet.client()
    keeper = client.evaluator.keeper
    assert keeper is not None
    keeper.start()
    keeper._load.run()
    assert keeper.status().error is None
    # Where a request makes the call itself, it does wait.
    other = fleet.client()
    assert other.flags(ADA).get("a") == 1
    status = other.status().store
    assert status is not None
    assert status.error == "no answer in time"


def test_an_answer_that_waits_is_not_lost_to_the_end_of_a_lease() -> None:
    """What is to be put stays so when a later try for the same context fails."""
    fleet = Fleet()
    client = fleet.client()
    client.evaluate_all(ADA)
    keeper = client.evaluator.keeper
    assert keeper is not None
    keeper.release(client.flags(ADA).context.body)
    client.close()
    assert len(fleet.store._contexts) == 1


def test_the_end_of_a_process_does_not_wait_for_a_store_that_is_gone() -> None:
    """A shared store that has failed is not called again at the end."""
    fleet = Fleet()
    fleet.store = store = BrokenStore(fleet.clock.time, OSError())
    client = fleet.client()
    client.flags(ADA).get("a")
    store.calls.clear()
    client.close()
    assert store.calls == []


class Tiring(BrokenStore):
    """A store that takes half a second for each answer."""

    time_passes: Callable[[float], None]

    def put(self, name: str, data: bytes | None, *, stamp: float) -> None:
        """Take one."""
        super().put(name, data, stamp=stamp)
        self.time_passes(0.5)


def waiting_for(count: int) -> tuple[Tiring, ShipSilentlyClient]:
    """Such a store, and a client with so many answers that have not been put yet."""
    fleet = Fleet()
    fleet.store = store = Tiring(fleet.clock.time)
    store.time_passes = fleet.clock.advance
    client = fleet.client()
    for number in range(count):
        client.evaluate_all({"userId": f"u{number}"})
    return store, client


def test_the_end_of_a_process_puts_what_there_is_time_for() -> None:
    """Where very many answers wait for a store that is slow, closing does not take for ever."""
    store, client = waiting_for(100)
    client.evaluator.keeper._load.run()  # type: ignore[union-attr]
    client.close(timeout=2.0)
    assert store.calls.count("put") == 4


def test_no_request_puts_all_that_waits() -> None:
    """Without a background, each of the next requests does a part, for the store's deadline."""
    store, client = waiting_for(100)
    counts = []
    for number in range(3):
        client.flags({"userId": f"new{number}"}).get("a")
        counts.append(store.calls.count("put"))
    assert counts == [2, 4, 6]


def test_the_store_s_thread_leaves_the_rest_to_whoever_closes() -> None:
    """It does not go on beside that one, with a store that has been closed."""
    store, client = waiting_for(10)
    keeper = client.evaluator.keeper
    assert keeper is not None
    store.time_passes = lambda seconds: keeper.stop()
    keeper.start()
    keeper.turn()
    assert store.calls.count("put") == 1


def test_a_store_is_told_of_the_end_and_can_go_on() -> None:
    """A store that holds connections lets go of them with its client, and serves another one."""

    class Connected(BrokenStore):
        def close(self) -> None:
            self._called("close")

    fleet = Fleet()
    fleet.store = store = Connected(fleet.clock.time)
    client = fleet.client()
    client.flags(ADA).get("a")
    client.close()
    client.close()
    assert store.calls.count("close") == 1
    assert store.calls[-1] == "close"
    store.error = OSError()
    fleet.client().close()
    assert "to close it: OSError" in fleet.errors[0].message


def test_a_store_that_was_emptied_and_has_another_clock_serves_again() -> None:
    """After a change of servers, what is put there with an earlier time is fresh for others."""
    fleet = Fleet()
    first, second = fleet.client(), fleet.client()
    for client in (first, second):
        client.evaluator.cache.invalidate()
        client.flags(ADA).get("a")
    late = fleet.clock.time() - HOUR
    fleet.store._contexts.clear()
    fleet.store._clock = lambda: late
    first.flags(EVE).get("a")
    second.flags({"userId": "another"}).get("a")
    late += 1
    first.flags({"userId": "new"}).get("a")
    assert second.flags({"userId": "new"}).detail("a", 0).source == Source.CACHE


def test_a_look_that_comes_before_the_store_s_clock_is_known_uses_nothing() -> None:
    """Right after a change, what the store has may be older than that, and is not fresh."""
    fleet = Fleet()
    first, second = fleet.client(), fleet.client()
    first.flags(ADA).get("a")
    fleet.clock.advance(1)
    second.evaluator.cache.invalidate()
    fleet.service.set({"a": 2})
    assert second.flags(ADA).get("a") == 2
    # From then on it is known.
    fleet.clock.advance(1)
    third = fleet.client()
    third.flags(EVE).get("a")
    assert second.flags(EVE).detail("a", 0).source == Source.CACHE


def test_only_so_many_answers_wait_for_a_broken_store(monkeypatch: pytest.MonkeyPatch) -> None:
    """A store that is gone for long does not fill the memory; the latest answers wait."""
    monkeypatch.setattr("shipsilently_core._keeper._MOST_WAITING", 3)
    fleet = Fleet()
    fleet.store = store = BrokenStore(fleet.clock.time)
    client = fleet.client()
    client.flags(SYSTEM).get("a")
    for number in range(10):
        client.evaluate_all({"userId": f"u{number}"})
    client.close()
    assert store.calls.count("put") == 1 + 3


def test_a_store_that_wants_to_end_the_process_does_not_end_its_thread() -> None:
    """What calls `sys.exit` there would do that without a word."""

    class Quitting(BrokenStore):
        quits = True

        def load(self, name: str) -> bytes | None:
            if self.quits:
                raise SystemExit(1)
            return super().load(name)

    fleet = Fleet()
    fleet.store = store = Quitting(fleet.clock.time)
    with running({"a": 1}, store=store) as run:
        assert run.client.flags(ADA).get("a") == 1
        eventually(lambda: "SystemExit" in str(run.client.status().store))
        store.quits = False

        def works() -> bool:
            pass_time(run, 10)
            return bool(store._snapshots)

        eventually(works)


def test_a_store_without_a_clock_is_not_asked_in_vain() -> None:
    """Where nobody can tell what is newer, a context that is known is not looked up again."""

    class Clockless(BrokenStore):
        def get(self, name: str, **how: Any) -> Found:
            return Found(super().get(name, **how).data)

    fleet = Fleet()
    fleet.store = store = Clockless(fleet.clock.time)
    client = fleet.client()
    for _ in range(5):
        assert client.flags(ADA).get("a") == 1
        fleet.clock.advance(HOUR)
    assert store.calls.count("get") == 1


# A store that hangs, with a background.


def test_a_store_that_hangs_costs_one_request_its_deadline() -> None:
    """The first waits for the deadline, the others not at all; when it goes on it is used again."""
    clock = ManualClock()
    store = SlowStore(clock.time)
    with running({"a": 1}, store=store) as run:
        store.goes_on.clear()
        assert run.client.flags({"userId": "u0"}).get("a") == 1
        before = len(store.calls)
        for number in range(1, 50):
            assert run.client.flags({"userId": f"u{number}"}).get("a") == 1
        assert len(store.calls) == before
        status = run.client.status().store
        assert status is not None
        assert (status.error, status.cool_down > 0) == ("no answer in time", True)
        store.goes_on.set()

        def works() -> bool:
            pass_time(run, 10)
            found = run.client.status().store
            assert found is not None
            return found.error is None

        eventually(works)
        assert run.client.flags({"userId": "new"}).get("a") == 1
        assert "get" in store.calls[before:]


@pytest.mark.parametrize("method", ["save", "close"])
def test_a_store_that_hangs_at_the_end_does_not_hold_it_up(method: str) -> None:
    """Closing waits for as long as it was told, and leaves the store to its own thread."""

    class Hanging(BrokenStore):
        ended = False

        def save(self, name: str, data: bytes) -> None:
            self.hang("save")

        def close(self) -> None:
            self.hang("close")

        def hang(self, where: str) -> None:
            if where == method:
                goes_on.wait(5)
                self.ended = True

    goes_on = threading.Event()
    store = Hanging(ManualClock().time)
    client = ShipSilentlyClient(
        api_key=KEY, store=store, transport=ScriptedService({"a": 1}, streaming=True)
    )
    client.start()
    try:
        client.evaluate_all(SYSTEM)
        client.close(timeout=0.1)
        assert not store.ended
    finally:
        goes_on.set()


def test_a_store_that_hangs_at_the_start_holds_up_one_request() -> None:
    """What it has to say comes later, or never; nobody else waits for it."""
    fleet = Fleet()
    store = SlowStore(fleet.clock.time)
    store.goes_on.clear()
    fleet.store = store
    client = fleet.client()
    client.start()
    try:
        assert client.flags(ADA).get("a") == 1
        assert client.flags(EVE).get("a") == 1
        assert client.get("a", 0, {"userId": "nobody"}) == 0 or client.get("a") == 1
        assert store.calls == ["load"]
    finally:
        store.goes_on.set()
        client.close()


def test_the_signals_of_failed_evaluations_do_not_tell_of_the_store() -> None:
    """A receiver of `evaluation_failed` hears of evaluations only."""
    fleet = Fleet()
    fleet.store = BrokenStore(fleet.clock.time, OSError())
    client: ShipSilentlyClient = fleet.client()
    told: list[object] = []

    def receiver(sender: object, **_: object) -> None:
        told.append(sender)

    with signals.evaluation_failed.connected_to(receiver, sender=client):
        client.flags(ADA).get("a")
    assert told == []
    assert len(fleet.errors) == 1


def test_a_fault_of_our_own_does_not_end_the_store_s_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whatever a turn raises, the store is left alone for a while, and the next turn comes."""
    fleet = Fleet()
    client = fleet.client()
    keeper = client.evaluator.keeper
    assert keeper is not None
    turns = []

    def turn() -> None:
        turns.append(keeper._calls.cool_down)
        if len(turns) == 1:
            raise RuntimeError("ours")
        keeper._bell.close()

    monkeypatch.setattr(keeper, "turn", turn)
    monkeypatch.setattr(keeper, "due_in", lambda: 0.0)
    keeper.run()
    assert len(turns) == 2
    assert turns[1] > 0
    assert [report.failure for report in fleet.errors] == [Failure.STORE]
