"""A client with a store: what the next process knows, and when it is saved."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shipsilently_core import (
    ConfigurationError,
    Failure,
    Reason,
    Source,
)
from shipsilently_core._process import Worker
from shipsilently_core.stores import FileStore, MemoryStore
from shipsilently_core.testing import ManualClock
from tests.core.running import eventually, running
from tests.core.storing import (
    ADA,
    EVE,
    HOUR,
    SYSTEM,
    Fleet,
    by_user,
    pass_time,
    saved_by_one,
)
from tests.core.support import KEY

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


# The beginning and the end of a process.


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
