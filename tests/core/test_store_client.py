"""A client with a store: what the next process knows, and what a bad store costs."""

from __future__ import annotations

import asyncio
import logging
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shipsilently_core import (
    ConfigurationError,
    Failure,
    Reason,
    ShipSilentlyClient,
    Source,
    StoreStatus,
    signals,
)
from shipsilently_core._cache import Cache
from shipsilently_core._keeper import Question
from shipsilently_core._process import Worker
from shipsilently_core._saved import SavedSnapshot, Seal
from shipsilently_core._snapshot import Snapshot
from shipsilently_core.stores import FileStore, Found, MemoryStore
from shipsilently_core.testing import ManualClock
from tests.core.running import Running, eventually, running
from tests.core.storing import ADA, EVE, BrokenStore, Fleet, SlowStore
from tests.core.support import KEY, listening

HOUR = 3_600.0
SYSTEM = {"userId": "system"}
NAME = Seal(KEY, "http://flags.invalid").fingerprint


def by_user(context: dict[str, Any]) -> dict[str, Any]:
    """Flags of which each tells whose it is."""
    return {"whose": context["userId"], "object": {"n": [1]}}


def saved_by_one(path: Path, **settings: Any) -> Fleet:
    """A fleet whose first process has ended, after it had been asked for Ada and the baseline."""
    fleet = Fleet(FileStore(path), flags=by_user, **settings)
    client = fleet.client()
    assert client.flags(ADA).get("whose") == "ada-4711"
    client.evaluate_all(SYSTEM)
    client.close()
    return fleet


def pass_time(run: Running, seconds: float) -> None:
    """Let simulated time pass for the store's own thread, too."""
    run.clock.advance(seconds)
    keeper = run.client.evaluator.keeper
    assert keeper is not None
    keeper._bell.ring()


# What a new process knows.


@pytest.mark.parametrize("door", ["flags", "aflags", "get", "evaluate", "get_all"])
def test_a_new_process_serves_what_the_old_one_knew(tmp_path: Path, door: str) -> None:
    """While the service is down, a process that never spoke to it has the last known good value."""
    fleet = saved_by_one(tmp_path / "flags")
    fleet.service.fail(503)
    fleet.clock.advance(HOUR)
    client = fleet.client()
    read = {
        "flags": lambda: client.flags(ADA).detail("whose", ""),
        "aflags": lambda: asyncio.run(client.flags(ADA).adetail("whose", "")),
        "get": lambda: client.get_all(ADA)["whose"],
        "evaluate": lambda: client.evaluate_detail("whose", ADA, ""),
        "get_all": lambda: client.get_all(ADA)["whose"],
    }
    result = read[door]()
    assert (result.value, result.source, result.age) == ("ada-4711", Source.CACHE, HOUR)
    if door not in ("get", "get_all"):
        assert result.reason == Reason.ERROR_FALLBACK
    assert client.get("whose", "", ADA) == "ada-4711"


def test_what_was_saved_is_never_fresh(tmp_path: Path) -> None:
    """While the service is up, a new process asks it, however young the file is."""
    fleet = saved_by_one(tmp_path / "flags")
    client = fleet.client()
    asked = fleet.asked
    assert client.flags(ADA).detail("whose", "").source == Source.SERVER
    assert fleet.asked == asked + 1


def test_nobody_gets_what_was_saved_for_another(tmp_path: Path) -> None:
    """A user of whom nothing was saved gets the baseline, never another user's flags."""
    fleet = saved_by_one(tmp_path / "flags")
    fleet.service.fail(503)
    result = fleet.client().flags(EVE).detail("whose", "")
    assert (result.value, result.source) == ("system", Source.BASELINE)


def test_objects_from_a_file_are_each_caller_s_own(tmp_path: Path) -> None:
    """Changing what was served changes nothing for others, with its age kept."""
    fleet = saved_by_one(tmp_path / "flags")
    fleet.service.fail(503)
    client = fleet.client()
    first = client.flags(ADA).detail("object", {})
    first.value["n"].append(2)
    again = client.flags(ADA).detail("object", {})
    assert (again.value, again.age) == ({"n": [1]}, 0.0)
    results = client.flags(ADA).evaluate_all()
    results["object"].value["n"].append(3)
    assert client.flags(ADA).evaluate_all()["object"].value == {"n": [1]}


@pytest.mark.parametrize("other", [{"api_key": KEY + "x"}, {"api_url": "http://other.invalid"}])
def test_another_key_or_service_never_uses_the_file(tmp_path: Path, other: dict[str, str]) -> None:
    """What belongs to another environment is ignored with one warning, told, and replaced."""
    fleet = saved_by_one(tmp_path / "flags")
    fleet.service.fail(503)
    stranger = fleet.client(**other)
    assert stranger.flags(ADA).get("whose", "mine") == "mine"
    told = [error for error in fleet.errors if error.failure is Failure.STORE]
    assert len(told) == 1
    assert "belongs to another key, service or context" in told[0].message
    fleet.service.recover()
    fleet.clock.advance(60)
    assert stranger.flags(ADA).get("whose") == "ada-4711"
    stranger.close()
    fleet.service.fail(503)
    assert fleet.client(**other).flags(ADA).get("whose") == "ada-4711"


def test_single_flags_at_first_do_not_hide_what_was_saved(tmp_path: Path) -> None:
    """A flag that was evaluated alone stays, and the others come from the file."""
    fleet = saved_by_one(tmp_path / "flags")
    client = fleet.client()
    fleet.service.set({"whose": "newer"})
    assert client.evaluate("whose", ADA, "") == "newer"
    fleet.service.fail(503)
    assert client.flags(ADA).get("whose") == "newer"
    assert client.flags(ADA).get("object") == {"n": [1]}


@given(data=st.data())
def test_no_damage_to_the_file_reaches_anybody(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """Cut, filled up or changed: nothing is raised, and each user has their own values or none."""
    path = tmp_path_factory.getbasetemp() / "fuzzed" / "flags"
    fleet = saved_by_one(path)
    content = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(content)))
        how = data.draw(st.sampled_from(["cut", "insert", "flip"]))
        if how == "cut":
            del content[at:]
        elif how == "insert":
            content[at:at] = data.draw(st.binary(max_size=5))
        elif at < len(content):
            content[at] ^= 1 << data.draw(st.integers(0, 7))
    path.write_bytes(bytes(content))
    fleet.service.fail(503)
    client = fleet.client()
    assert client.flags(ADA).get("whose", None) in ("ada-4711", None)
    assert client.flags(EVE).get("whose", None) in ("system", None)
    client.close()


def test_what_cannot_be_read_is_replaced_by_what_becomes_known(tmp_path: Path) -> None:
    """After a file that was torn, the next process has whole values again."""
    path = tmp_path / "flags"
    fleet = saved_by_one(path)
    path.write_bytes(path.read_bytes()[:50])
    saved_by_one(path)
    fleet.service.fail(503)
    assert fleet.client().flags(ADA).get("whose") == "ada-4711"


def test_neither_file_nor_store_tells_who_the_users_are(tmp_path: Path) -> None:
    """The key, user ids and addresses are in nothing that leaves the process."""
    path = tmp_path / "flags"
    saved_by_one(path)
    memory = Fleet(flags=lambda context: {"a": True})
    client = memory.client()
    client.flags(ADA).get("a")
    client.evaluate_all(SYSTEM)
    client.close()
    kept = [*memory.store._snapshots.values(), *(d for _, d in memory.store._contexts.values())]
    names = "".join([*memory.store._snapshots, *memory.store._contexts, *os.listdir(tmp_path)])
    everything = path.read_bytes() + b"".join(kept) + names.encode()
    # Ada's flag tells her id, as a service may; her address and the key are in no flag.
    for secret in (KEY, "ada@example.org", "example.org"):
        assert secret.encode() not in everything


def test_processes_on_one_machine_save_side_by_side(tmp_path: Path) -> None:
    """What one saves does not take away what another has saved."""
    fleet = Fleet(FileStore(tmp_path / "flags"), flags=by_user)
    first, second = fleet.client(), fleet.client()
    first.flags(ADA).get("whose")
    second.flags(EVE).get("whose")
    first.close()
    second.close()
    fleet.service.fail(503)
    third = fleet.client()
    assert third.flags(ADA).get("whose") == "ada-4711"
    assert third.flags(EVE).get("whose") == "eve"


def test_the_users_seen_last_are_the_ones_that_are_kept(tmp_path: Path) -> None:
    """A file holds so many contexts at most, and the baseline always."""
    store = FileStore(tmp_path / "flags", max_contexts=3)
    fleet = Fleet(store, flags=by_user)
    client = fleet.client()
    client.evaluate_all(SYSTEM)
    for number in range(10):
        client.flags({"userId": f"u{number}"}).get("whose")
    client.close()
    fleet.service.fail(503)
    new = fleet.client()
    known = [new.get("whose", "", {"userId": f"u{n}"}) for n in range(10)]
    assert known == ["system"] * 7 + ["u7", "u8", "u9"]


def test_a_file_never_becomes_larger_than_allowed(tmp_path: Path) -> None:
    """As many users as fit are kept, and the file can be read again."""
    path = tmp_path / "flags"
    fleet = Fleet(
        FileStore(path, max_bytes=4_000),
        flags=lambda context: {"blob": os.urandom(200).hex(), "whose": context["userId"]},
    )
    client = fleet.client()
    client.evaluate_all(SYSTEM)
    for number in range(40):
        client.flags({"userId": f"u{number}"}).get("whose")
    client.close()
    assert path.stat().st_size <= 4_000
    fleet.service.fail(503)
    assert fleet.client().flags({"userId": "u39"}).get("whose") == "u39"


@pytest.mark.parametrize("everybody", [[SYSTEM], [ADA], [ADA, EVE], [SYSTEM, ADA]])
def test_flags_that_are_too_large_are_told_of(
    everybody: list[dict[str, str]], tmp_path: Path
) -> None:
    """Where not even one context fits, nothing is written and the status says so."""
    path = tmp_path / "flags"
    fleet = Fleet(
        FileStore(path, max_bytes=300),
        flags=lambda context: {"blob": os.urandom(250).hex(), "whose": context["userId"]},
    )
    client = fleet.client()
    for who in everybody:
        client.evaluate_all(who)
    client.close()
    assert not path.exists()
    status = client.status().store
    assert status is not None
    assert status.error == "even one context is larger than allowed"


# Freshness, ages, and what is too old.


def test_values_older_than_allowed_are_not_served(tmp_path: Path) -> None:
    """`max_stale` is the oldest that a last known good value may be, from a store too."""
    fleet = saved_by_one(tmp_path / "flags", max_stale=HOUR, defaults={"whose": "default"})
    fleet.service.fail(503)
    fleet.clock.advance(HOUR)
    assert fleet.client().flags(ADA).get("whose") == "ada-4711"
    fleet.clock.advance(1)
    result = fleet.client().flags(ADA).detail("whose")
    assert (result.value, result.source, result.error) == (
        "default",
        Source.DEFAULT,
        Failure.SERVER,
    )
    assert fleet.client().get_all(ADA) == {}


def test_single_flags_may_be_younger_or_older_than_the_others(tmp_path: Path) -> None:
    """`max_stale_per_flag` goes before `max_stale`, in both directions."""
    ages = {"whose": 40.0, "kill": 2 * HOUR}
    fleet = Fleet(
        FileStore(tmp_path / "flags"),
        flags={"whose": 1, "kill": 2, "other": 3},
        max_stale=HOUR,
        max_stale_per_flag=ages,
    )
    client = fleet.client()
    client.flags(ADA).get("whose")
    fleet.service.fail(503)

    def served() -> dict[str, Any]:
        return {key: result.value for key, result in client.get_all(ADA).items()}

    fleet.clock.advance(40)
    assert served() == {"whose": 1, "kill": 2, "other": 3}
    fleet.clock.advance(1)
    assert served() == {"kill": 2, "other": 3}
    fleet.clock.advance(HOUR)
    assert served() == {"kill": 2}
    fleet.clock.advance(HOUR)
    assert served() == {}


def test_a_flag_that_was_asked_for_alone_has_an_age_of_its_own() -> None:
    """One flag's evaluation does not make the others younger, nor theirs that one older."""
    fleet = Fleet(flags={"one": 1, "two": 2}, store=MemoryStore(), max_stale=HOUR)
    client = fleet.client()
    client.flags(ADA).get("one")
    fleet.clock.advance(HOUR / 2)
    client.evaluate("two", ADA, 0)
    fleet.clock.advance(HOUR / 2 + 1)
    assert set(client.get_all(ADA)) == {"two"}


def test_fresh_values_are_never_too_old() -> None:
    """While the stream says that nothing has changed, the age of a value means nothing."""
    with running({"a": 1}, max_stale=10.0) as run:
        assert run.client.flags({"userId": "u1"}).get("a") == 1
        run.clock.advance(HOUR)
        assert run.client.get("a", context={"userId": "u1"}) == 1
        assert run.client.get_all({"userId": "u1"})["a"].age is None
        run.service.fail(503)
        run.service.drop_streams()
        eventually(lambda: run.client.connection_state == "reconnecting")
        run.clock.advance(9)
        # Until the stream was lost, it was known to be current.
        eventually(lambda: run.client.flags({"userId": "u1"}).detail("a", 0).value == 1)
        assert run.client.get("a", 0, {"userId": "u1"}) == 1
        run.clock.advance(31)
        assert run.client.get("a", 0, {"userId": "u1"}) == 0


def test_an_age_counts_from_the_change_that_ended_it() -> None:
    """A value that was current for hours is young in the moment in which a change is announced."""
    with running({"a": 1}) as run:
        assert run.client.flags({"userId": "u1"}).get("a") == 1
        run.clock.advance(HOUR)
        run.service.fail(503)
        run.service.send_event()
        eventually(lambda: run.client.evaluator.cache.generation == 2)
        run.clock.advance(5)
        assert run.client.flags({"userId": "u1"}).detail("a", 0).age == 5.0
        assert run.client.flags({"userId": "new"}).detail("a", 0).age == 5.0


# When things are saved.


def test_saving_is_for_the_background(tmp_path: Path) -> None:
    """The first answer is saved at once, the next ones together, and time alone now and then."""
    path = tmp_path / "flags"
    with running({"a": 1}, store=FileStore(path)) as run:
        client = run.client

        def saved() -> float | None:
            status = client.status().store
            assert status is not None
            return status.saved

        eventually(path.exists)
        eventually(saved)
        first = saved()
        assert client.flags(ADA).get("a") == 1
        assert saved() == first
        pass_time(run, 11)
        eventually(lambda: saved() != first)
        second = saved()
        pass_time(run, 299)
        assert saved() == second
        pass_time(run, 1)
        eventually(lambda: saved() != second)


def test_a_process_that_knew_nothing_takes_nothing_away(tmp_path: Path) -> None:
    """A process that starts and ends in an outage leaves what others saved."""
    fleet = saved_by_one(tmp_path / "flags")
    before = (tmp_path / "flags").read_bytes()
    fleet.service.fail(503)
    short = fleet.client()
    short.flags(EVE).get("whose")
    short.close()
    assert fleet.client().flags(ADA).get("whose") == "ada-4711"
    assert (tmp_path / "flags").read_bytes() == before


def test_a_client_that_did_nothing_touches_no_file(tmp_path: Path) -> None:
    """Making and closing a client, as every management command does, reads and writes nothing."""
    fleet = Fleet(FileStore(tmp_path / "flags"))
    fleet.client().close()
    assert os.listdir(tmp_path) == []


def test_a_process_that_learnt_nothing_writes_nothing(tmp_path: Path) -> None:
    """Where there is nothing to save, there is no file."""
    fleet = Fleet(FileStore(tmp_path / "flags"))
    fleet.service.fail(503)
    client = fleet.client()
    assert client.flags(ADA).get("a", 7) == 7
    keeper = client.evaluator.keeper
    assert keeper is not None
    keeper._save()
    assert os.listdir(tmp_path) == []


def test_limits_that_concern_no_flag_change_nothing() -> None:
    """A limit for a flag that is not there leaves the others as they are."""
    fleet = Fleet(max_stale_per_flag={"gone": 1.0})
    client = fleet.client()
    client.flags(ADA).get("a")
    fleet.clock.advance(HOUR)
    assert client.get("a", 0, ADA) == 1


def test_ages_of_long_ago_are_overrated_not_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """After very many changes a value's age counts from its evaluation, which is older."""
    monkeypatch.setattr("shipsilently_core._cache._GENERATIONS", 3)
    clock = ManualClock()
    cache = Cache(clock, max_contexts=10, max_age=None, fresh_for=30.0, pinned=b"")
    cache.live(True)
    entry = cache.store_batch(b"x", Snapshot({}, complete=True), [], cache.stamp())
    clock.advance(10)
    for changes, age in enumerate((0.0, 0.0, 0.0, 10.0)):
        assert cache.generation == changes + 1
        cache.invalidate()
        assert cache.age(entry) == age
    assert len(cache._ends) == 3


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
    hanging = Question(lambda: None, here=False, answers=keeper._answers)
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


def test_a_store_that_gives_no_bytes_is_ignored() -> None:
    """What a store of somebody's own gives is checked, not trusted."""

    class Odd(BrokenStore):
        found: Any = Found(b"nor this", 5.0)

        def load(self, name: str) -> Any:
            return {"not": "bytes"}

        def get(self, name: str, **_: Any) -> Any:
            return self.found

        def clock(self, name: str) -> Any:
            return "noon"

    fleet = Fleet()
    fleet.store = store = Odd(fleet.clock.time)
    client = fleet.client()
    assert client.flags(ADA).get("a") == 1
    messages = [error.message for error in fleet.errors]
    assert [("it is not bytes" in m, "not written by this library" in m) for m in messages] == [
        (True, False),
        (False, True),
    ]
    for found in (None, Found("text", 5.0), Found(b"", "noon")):  # type: ignore[arg-type]
        store.found = found
        fleet.clock.advance(100)
        assert client.flags({"userId": repr(found)}).get("a") == 1
        status = client.status().store
        assert status is not None
        assert status.error in ("TypeError", "AttributeError")
    with running({"a": 1}, store=store) as run:
        run.change({"a": 2})
        eventually(lambda: run.client.flags(ADA).get("a") == 2)


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


def test_contents_that_only_seem_right_are_ignored() -> None:
    """A context whose flags cannot be decoded is as one of whom nothing was saved."""
    fleet = Fleet(MemoryStore())
    client = fleet.client()
    client.evaluate_all(SYSTEM)
    client.close()
    seal = Seal(KEY, "http://flags.invalid")
    ada = fleet.client().flags(ADA).context.body
    saved = SavedSnapshot(1.0, "x", {seal.name_of(ada): (1.0, 0)}, [msgspec.Raw(b'["?"]')])
    fleet.store.save(seal.fingerprint, seal.close(seal.fingerprint, saved))
    fleet.service.fail(503)
    assert fleet.client().get("a", 7, ADA) == 7
    assert "not as expected" in fleet.errors[0].message


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


def test_closing_saves_and_puts_what_is_left() -> None:
    """The last answers of a process are there for the next."""
    clock = ManualClock()
    store = MemoryStore(clock.time)
    with running({"a": 1}, store=store) as run:
        run.client.flags(ADA).get("a")
    fleet = Fleet(store)
    fleet.service.fail(503)
    new = fleet.client()
    assert new.flags(ADA).get("a") == 1
    assert new.flags({"userId": "nobody"}).detail("a", 0).source == Source.BASELINE


def test_a_closed_client_saves_no_second_time(tmp_path: Path) -> None:
    """What another process saves after the end of this one stays."""
    fleet = saved_by_one(tmp_path / "flags")
    client = fleet.client()
    client.flags(EVE).get("whose")
    client.close()
    (tmp_path / "flags").unlink()
    client.close()
    assert not (tmp_path / "flags").exists()


def test_reading_from_memory_on_an_event_loop_does_not_wait_for_the_store(tmp_path: Path) -> None:
    """`get` in a coroutine serves what is known; it reads no file there."""
    fleet = saved_by_one(tmp_path / "flags")
    client = fleet.client()

    async def read() -> Any:
        return client.get("whose", "nothing", ADA)

    assert asyncio.run(read()) == "nothing"
    assert client.get("whose", "nothing", ADA) == "ada-4711"


def test_verbs_in_a_task_wait_for_what_was_saved(tmp_path: Path) -> None:
    """The first awaited call of a process reads the file, without stopping the loop."""
    fleet = saved_by_one(tmp_path / "flags")
    fleet.service.fail(503)
    client = fleet.client()
    assert asyncio.run(client.aevaluate("whose", ADA, "")) == "ada-4711"


@pytest.mark.parametrize("loaded", [False, True])
def test_a_forked_child_keeps_what_was_loaded(tmp_path: Path, loaded: bool) -> None:
    """A child has locks and calls of its own; what the parent had read is not read again."""
    fleet = saved_by_one(tmp_path / "flags")
    fleet.service.fail(503)
    client = fleet.client()
    if loaded:
        client.get("whose", "", EVE)
        (tmp_path / "flags").unlink()
    client.evaluator.renew()
    assert client.get("whose", "", ADA) == "ada-4711"


def test_without_threads_each_request_sees_to_the_store_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where no thread can be started any more, at the end of the interpreter, nothing is lost."""
    fleet = saved_by_one(tmp_path / "flags")
    monkeypatch.setattr(Worker, "start", lambda self: False)
    client = fleet.client()
    client.start()
    fleet.service.fail(503)
    assert client.flags(ADA).get("whose") == "ada-4711"
    client.close()


def test_a_store_needs_the_cache() -> None:
    """Last known good values in a store make no sense where none are wanted."""
    with pytest.raises(ConfigurationError, match="store: needs the cache"):
        Fleet().client(disable_cache=True)


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
