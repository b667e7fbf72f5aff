"""All flags of one context: served as they came, however little of them is held."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from shipsilently_core import Reason, Source
from shipsilently_core._snapshot import Likeness, Row, Snapshot, result_of

values = st.one_of(
    st.booleans(),
    st.integers(0, 1),
    st.sampled_from([0.0, -0.0, 1.0, "1", "", None]),
    st.sampled_from([{"n": 1}, {"n": True}, [1], [True]]),
)
flag_values = st.lists(values, min_size=12, max_size=12)


def rows_of(found: list[Any], *, reason: str = "default") -> dict[str, Row]:
    """These values as the rows of flags f0, f1, …"""
    return {f"f{n}": Row(value, reason) for n, value in enumerate(found)}


def ten(**other: Any) -> dict[str, Row]:
    """Ten flags that are on, but for the given ones."""
    rows = rows_of([True] * 10)
    return rows | {key: Row(value, "rule_match", "r1") for key, value in other.items()}


def test_a_snapshot_tells_its_flags() -> None:
    """Rows are found by key, in whatever way they are held."""
    likeness = Likeness()
    likeness.snapshot(ten())
    for snapshot in (Snapshot(ten(f1="x"), complete=True), likeness.snapshot(ten(f1="x"))):
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


def test_snapshots_that_differ_little_hold_little() -> None:
    """Of ten flags of which one differs, one is held; of ten of which most differ, all are."""
    likeness = Likeness()
    assert likeness.snapshot(ten()).own_rows == 10
    assert likeness.snapshot(ten(f1="x")).own_rows == 1
    assert likeness.snapshot(ten()).own_rows == 0
    others = {f"f{n}": "y" for n in range(8)}
    assert likeness.snapshot(ten(**others)).own_rows == 10
    assert likeness.snapshot(ten(**others, f9="z")).own_rows == 1


def test_a_new_flag_makes_a_new_base() -> None:
    """After a flag has come, or their order has changed, users are compared anew."""
    likeness = Likeness()
    likeness.snapshot(ten())
    assert likeness.snapshot(ten(new=1)).own_rows == 11
    assert likeness.snapshot(ten(new=1)).own_rows == 0
    turned = dict(reversed(ten(new=1).items()))
    assert likeness.snapshot(turned).own_rows == 11
    assert list(likeness.snapshot(turned).rows) == list(turned)


def test_what_only_the_first_user_has_is_found_out() -> None:
    """After enough users, a snapshot holds none of the flags that are peculiar to the first."""
    likeness = Likeness()
    likeness.snapshot(ten(f0="mine", f1="mine"))
    held = [likeness.snapshot(ten(f9=number)).own_rows for number in range(40)]
    assert held == [3] * 32 + [1] * 8
    likeness.snapshot(ten())
    assert [likeness.snapshot(ten()).own_rows for _ in range(40)][-1] == 0
    again = [likeness.snapshot(ten(f9=number)).own_rows for number in range(70)]
    assert again == [1] * 70


def test_a_row_that_is_held_does_not_hold_its_key_twice() -> None:
    """The key of a flag is the dictionary's, and words that are the same are one object."""
    likeness = Likeness()
    rows = {key: Row(row.value, row.reason, None, key) for key, row in ten().items()}
    likeness.snapshot(rows)
    other = rows | {"f1": Row("x", "".join(["rule_", "match"]), "".join(["r", "1"]), "f1")}
    held = likeness.snapshot(other).own["f1"]
    assert held == Row("x", "rule_match", "r1")
    assert held.reason is likeness.snapshot(other).own["f1"].reason


def test_few_flags_are_not_worth_it() -> None:
    """An environment with a handful of flags holds them as they are."""
    likeness = Likeness()
    for _ in range(2):
        assert likeness.snapshot(rows_of([True] * 7)).own_rows == 7


@given(st.lists(flag_values, min_size=2, max_size=6))
def test_every_snapshot_holds_what_it_was_made_of(many: list[list[Any]]) -> None:
    """Whatever came before, each value comes back as the very JSON value that it was."""
    likeness = Likeness()
    # The first few are alike, so that something is shared.
    many = [many[0], *([*many[0][:9], *other[9:]] for other in many)]
    kept = [(likeness.snapshot(rows_of(found)), found) for found in many]
    for snapshot, found in kept:
        assert repr(snapshot.rows) == repr(rows_of(found))
        results = snapshot.results(Source.CACHE, fallback=False)
        assert [repr(result.value) for result in results.values()] == list(map(repr, found))


def test_results_say_where_they_come_from() -> None:
    """A result has the row's reason and rule, or says that it stands in for a failure."""
    likeness = Likeness()
    likeness.snapshot(ten())
    snapshot = likeness.snapshot(ten(f1="x"))
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
    likeness = Likeness()
    likeness.snapshot(ten(f0=nested))
    snapshot = likeness.snapshot(ten(f0=nested, f1=nested))
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
