"""A client whose store says what nobody can use."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from shipsilently_core._saved import SavedSnapshot, Seal
from shipsilently_core.stores import Found, MemoryStore
from tests.core.running import eventually, running
from tests.core.storing import ADA, SYSTEM, BrokenStore, Fleet
from tests.core.support import KEY


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


class Incomparable:
    """Such as an array: whether it equals anything cannot be said in one word."""

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        raise ValueError

    def __bool__(self) -> bool:
        raise ValueError


class Half:
    """Not all that `Found` is."""

    data = None
    now = 5.0


@pytest.mark.parametrize(
    "found",
    [
        Half(),
        Found(None, float("nan")),
        Found(None, float("inf")),
        Found(None, 10**400),
        Found(None, 5.0, leads=Incomparable()),  # type: ignore[arg-type]
    ],
)
def test_whatever_a_store_gives_raises_on_no_request(found: Any) -> None:
    """Where requests make the calls themselves, too."""

    class Odd(BrokenStore):
        def load(self, name: str) -> Any:
            return Incomparable()

        def get(self, name: str, **_: Any) -> Any:
            return found

    fleet = Fleet()
    fleet.store = Odd(fleet.clock.time)
    client = fleet.client()
    assert client.flags(ADA).get("a") == 1
    assert "it is not bytes" in fleet.errors[0].message
    status = client.status().store
    assert status is not None
    assert status.error in ("TypeError", "AttributeError", "ValueError", "OverflowError")


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
