"""How old a value may be, and what its age counts from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from shipsilently_core import (
    Failure,
    Source,
)
from shipsilently_core._cache import Cache
from shipsilently_core._snapshot import Snapshot
from shipsilently_core.stores import FileStore, MemoryStore
from shipsilently_core.testing import ManualClock
from tests.core.running import eventually, running
from tests.core.storing import (
    ADA,
    HOUR,
    Fleet,
    saved_by_one,
)


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
