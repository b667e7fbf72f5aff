"""All flags of one context: served as they came, however little of them is held."""

from __future__ import annotations

from typing import Any

from shipsilently_core import Reason, Source
from shipsilently_core._snapshot import Row, Snapshot, result_of


def rows_of(found: list[Any], *, reason: str = "default") -> dict[str, Row]:
    """These values as the rows of flags f0, f1, …"""
    return {f"f{n}": Row(value, reason) for n, value in enumerate(found)}


def ten(**other: Any) -> dict[str, Row]:
    """Ten flags that are on, but for the given ones."""
    rows = rows_of([True] * 10)
    return rows | {key: Row(value, "rule_match", "r1") for key, value in other.items()}


def resting(base: dict[str, Row], **other: Any) -> Snapshot:
    """A snapshot that holds the given flags alone, and has the rest from another."""
    own = {key: Row(value, "rule_match", "r1") for key, value in other.items()}
    return Snapshot(own, complete=True, base=Snapshot(base, complete=True))


def test_a_snapshot_tells_its_flags() -> None:
    """Rows are found by key, in whatever way they are held."""
    for snapshot in (Snapshot(ten(f1="x"), complete=True), resting(ten(), f1="x")):
        assert len(snapshot) == 10
        assert "f1" in snapshot
        assert "f9" in snapshot
        assert "g" not in snapshot
        assert snapshot.get("f1") == Row("x", "rule_match", "r1")
        assert snapshot.get("f9") == Row(True, "default")
        assert snapshot.get("g") is None
        assert snapshot.rows == ten(f1="x")
        assert list(snapshot.rows) == list(ten())
        assert snapshot.complete
    assert (Snapshot(ten(), complete=True).own_rows, resting(ten(), f1="x").own_rows) == (10, 1)


def test_results_say_where_they_come_from() -> None:
    """A result has the row's reason and rule, or says that it stands in for a failure."""
    snapshot = resting(ten(), f1="x")
    for _ in range(2):
        fresh = snapshot.results(Source.SERVER, fallback=False)
        assert (fresh["f1"].reason, fresh["f1"].rule_id) == (Reason.RULE_MATCH, "r1")
        assert (fresh["f1"].source, fresh["f0"].source) == (Source.SERVER, Source.SERVER)
        assert fresh["f0"].age is None
        fallback = snapshot.results(Source.CACHE, fallback=True)
        assert {result.reason for result in fallback.values()} == {Reason.ERROR_FALLBACK}
        aged = snapshot.results(Source.CACHE, fallback=True, age=5.0)
        assert {result.age for result in aged.values()} == {5.0}
        assert list(fresh) == list(fallback) == list(aged) == list(ten())


def test_results_are_each_caller_s_own() -> None:
    """Neither the dictionary nor an object in it is shared with another caller."""
    nested = {"n": [1]}
    snapshot = resting(ten(f0=nested), f1=nested)
    for age in (None, 5.0):
        first = snapshot.results(Source.CACHE, fallback=False, age=age)
        first["f0"].value["n"].append(2)
        first["f1"].value["n"].append(2)
        del first["f2"]
        second = snapshot.results(Source.CACHE, fallback=False, age=age)
        assert (second["f0"].value, second["f1"].value) == ({"n": [1]}, {"n": [1]})
        assert len(second) == 10
    single = result_of("f", Row(nested, "default"), Source.CACHE, fallback=False)
    single.value["n"].append(2)
    assert nested == {"n": [1]}
