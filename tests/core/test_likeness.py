"""Answers to a batch: read as they are, however little of them is decoded and held."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from itertools import cycle, islice
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shipsilently_core import Source, _likeness, _wire
from shipsilently_core._likeness import Likeness
from shipsilently_core._snapshot import Row, Snapshot
from shipsilently_core._wire import parse_batch

values = st.one_of(
    st.booleans(),
    st.integers(0, 1),
    st.sampled_from([0.0, -0.0, 1.0, "1", "", None]),
    st.sampled_from([{"n": 1}, {"n": True}, [1], [True]]),
)
flag_values = st.lists(values, min_size=12, max_size=12)


def row(value: Any, **rest: Any) -> dict[str, Any]:
    """A row as the service sends it."""
    return {"value": value, "reason": "default", **rest}


def body_of(flags: dict[str, Any]) -> bytes:
    """The answer with these rows."""
    return json.dumps({"flags": flags}).encode()


def ten(**other: Any) -> dict[str, Any]:
    """Ten flags that are on, but for the given ones."""
    return {f"f{n}": row(other.pop(f"f{n}", True), flagKey=f"f{n}") for n in range(10)} | {
        key: row(value) for key, value in other.items()
    }


def read(likeness: Likeness, flags: dict[str, Any]) -> Snapshot:
    """The snapshot of an answer in which nothing is malformed."""
    found = likeness.read(body_of(flags))
    assert found is not None
    assert found[1] == []
    assert values_of(found[0]) == {key: sent["value"] for key, sent in flags.items()}
    return found[0]


def values_of(snapshot: Snapshot) -> dict[str, Any]:
    """The value of each flag."""
    return {key: held.value for key, held in snapshot.rows.items()}


def like_nothing(number: int) -> dict[str, Any]:
    """The flags of somebody who has nothing in common with anybody."""
    return ten(**{f"f{n}": f"{number}-{n}" for n in range(10)})


def test_snapshots_that_differ_little_hold_little() -> None:
    """Of ten flags of which one differs, one is held; of ten of which most differ, all are."""
    likeness = Likeness()
    assert read(likeness, ten()).own_rows == 10
    assert read(likeness, ten(f1="x")).own_rows == 1
    assert read(likeness, ten()).own_rows == 0
    others = {f"f{n}": "y" for n in range(8)}
    assert read(likeness, ten(**others)).own_rows == 10
    assert read(likeness, ten(**others, f9="z")).own_rows == 1


def test_new_flags_are_compared_with_new_ones() -> None:
    """After a flag has come or gone, or their order has changed, users are compared anew."""
    likeness = Likeness()
    read(likeness, ten())
    assert read(likeness, ten(new=1)).own_rows == 11
    assert read(likeness, ten(new=1)).own_rows == 0
    turned = dict(reversed(ten(new=1).items()))
    assert read(likeness, turned).own_rows == 11
    assert list(read(likeness, turned).rows) == list(turned)
    fewer = {key: sent for key, sent in ten().items() if key != "f5"}
    assert read(likeness, fewer).own_rows == 9
    assert read(likeness, fewer).own_rows == 0


def test_what_only_the_first_user_has_is_found_out() -> None:
    """After enough users, a snapshot holds none of the flags that are peculiar to the first."""
    likeness = Likeness()
    read(likeness, ten(f0="mine", f1="mine"))
    held = [read(likeness, ten(f9=number)).own_rows for number in range(40)]
    assert held == [3] * 32 + [1] * 8


def test_what_everybody_has_differently_makes_no_new_base() -> None:
    """A flag with a value for each user, or with two for halves of them, stays as it is."""
    likeness = Likeness()
    first = read(likeness, ten())
    for number in range(100):
        snapshot = read(likeness, ten(f9=number, f8=number % 2 == 0))
        assert snapshot.base is first
        assert snapshot.own_rows == 1 + number % 2


def test_two_kinds_of_users_are_told_apart() -> None:
    """Where users of two kinds alternate that have little in common, each holds its own alone."""
    likeness = Likeness()
    kinds = [ten(), ten(**{f"f{n}": "other" for n in range(10)})]
    held = []
    for number, kind in enumerate(islice(cycle(kinds), 40)):
        flags = kind | {"f9": row(number)}
        # A kind is known once two of it have come in a row.
        held += [read(likeness, flags).own_rows for _ in range(2 if number < 2 else 1)]
    assert held == [10, 0, 10, 0] + [1] * 38


def test_so_many_kinds_are_remembered_and_the_oldest_goes() -> None:
    """Memory for kinds of users is bounded; those that came last are known."""
    likeness = Likeness()
    kinds = [ten(**{f"f{n}": kind for n in range(10)}) for kind in range(4)]
    for kind in kinds:
        assert [read(likeness, kind).own_rows for _ in range(2)] == [10, 0]
    assert [read(likeness, kind).own_rows for kind in reversed(kinds)] == [0, 0, 0, 10]


def test_users_like_nobody_are_not_compared_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where answers have nothing in common, only a few are looked at; a known kind is found."""
    asked = []

    def raw_rows(text: bytes) -> dict[str, bytes] | None:
        asked.append(text)
        return _wire.raw_rows(text)

    monkeypatch.setattr(_likeness, "raw_rows", raw_rows)
    likeness = Likeness()
    for number in range(100):
        assert read(likeness, like_nothing(number)).own_rows == 10
    assert 10 <= len(asked) <= 22
    held = [read(likeness, ten()).own_rows for _ in range(30)]
    assert held[-13:] == [0] * 13
    assert read(likeness, like_nothing(100)).own_rows == 10
    assert read(likeness, ten()).own_rows == 0


def test_a_row_that_is_held_does_not_hold_its_key_twice() -> None:
    """The key of a flag is the dictionary's, and words that are the same are one object."""
    likeness = Likeness()
    read(likeness, ten())
    held = []
    for _ in range(2):
        other = ten() | {"f1": row("x", ruleId="rule one", flagKey="f1")}
        held.append(read(likeness, other).own["f1"])
    assert held[0] == Row("x", "default", "rule one")
    assert held[0].reason is held[1].reason
    assert held[0].ruleId is held[1].ruleId


def test_few_flags_are_not_worth_it() -> None:
    """An environment with a handful of flags holds them as they are."""
    likeness = Likeness()
    for _ in range(3):
        assert read(likeness, {f"f{n}": row(True) for n in range(7)}).own_rows == 7
    assert read(likeness, {}).own_rows == 0


def test_the_way_of_writing_does_not_matter() -> None:
    """Answers share rows however they are spaced, with a byte order mark or anything beside."""
    flags = ten(f1="x")
    for beside in ({}, {"at": 5}):
        for indent in (None, 2):
            for mark in (b"", b"\xef\xbb\xbf"):
                likeness = Likeness()
                for n in range(3):
                    other = flags | {"f2": row(n)}
                    text = json.dumps({"flags": other, **beside}, indent=indent).encode()
                    found = likeness.read(mark + text)
                    assert found is not None
                    assert found[0].own_rows == (1 if n else 10)
                    assert list(values_of(found[0]).values())[:3] == [True, "x", n]


MALFORMED = [
    b"5",
    b'{"value":1}',
    b'{"value":1,"reason":"default","flagKey":"another"}',
    b'{"value":"\xff","reason":"default"}',
    b'{"value":"\\ud800","reason":"default"}',
    b'{"value":1e999,"reason":"default"}',
    b'{"value":' + b"[" * 101 + b"]" * 101 + b',"reason":"default"}',
]


@pytest.mark.parametrize("bad", MALFORMED, ids=lambda bad: repr(bad[:40]))
def test_a_malformed_row_costs_only_itself(bad: bytes) -> None:
    """A row that cannot be read is named, whether those before could or not, and not served."""
    likeness = Likeness()
    good = b'{"value":1,"reason":"default"}'
    other_bad = bad.replace(b"1", b"2")
    for raw in (good, good, bad, bad, good, other_bad, bad, other_bad, good):
        text = body_of(ten(f5="here")).replace(
            b'{"value": "here", "reason": "default", "flagKey": "f5"}', raw
        )
        found = likeness.read(text)
        assert found is not None
        assert found[1] == ([] if raw == good else ["f5"])
        expected = dict.fromkeys(ten(), True) | {"f5": 1}
        if raw != good:
            del expected["f5"]
        assert values_of(found[0]) == expected
    assert read(likeness, ten(f5="there")).own_rows == 1


def test_an_answer_with_a_malformed_row_does_not_rest_on_one_without() -> None:
    """What one user has and another has not cannot be left out, so both are held."""
    likeness = Likeness()
    bad = ten() | {"f5": 5}
    for flags, malformed in ((ten(), []), (bad, ["f5"]), (ten(), []), (bad, ["f5"])):
        found = likeness.read(body_of(flags))
        assert found is not None
        assert (found[0].own_rows, found[1]) == (10 - len(malformed), malformed)
        assert ("f5" in found[0]) is (not malformed)


def test_users_share_though_each_has_the_same_flag_malformed() -> None:
    """What cannot be read of everybody, in whatever way, does not keep them from sharing."""
    likeness = Likeness()
    held = []
    for number in range(5):
        found = likeness.read(body_of(ten() | {"f5": {"value": number}}))
        assert found is not None
        assert found[1] == ["f5"]
        assert values_of(found[0]) == {key: True for key in ten() if key != "f5"}
        held.append(found[0].own_rows)
    assert held == [9, 0, 0, 0, 0]


def test_what_is_broken_in_a_row_that_was_malformed_before_breaks_the_answer() -> None:
    """Where nothing was known of a row, what stands in its place may still be no JSON at all."""
    likeness = Likeness()
    text = body_of(ten() | {"f5": "here"})
    for _ in range(3):
        assert likeness.read(text) is not None
    assert likeness.read(text.replace(b'"here"', b"{")) is None
    assert likeness.read(text.replace(b'"here"', b'1,"f6":')) is None


@pytest.mark.parametrize(
    "damage",
    [
        (b'"f6"', b'"f6'),
        (b'"x"', b'"x'),
        (b'"x"', b'"\n"'),
        (b'"x"', b'"x" "y"'),
        (b"}}", b"}"),
        (b"}}", b"}}}"),
        (b'{"flags"', b'{"flag"'),
        (b'"x", "reason"', b'"x"}, "reason"'),
    ],
    ids=repr,
)
def test_what_is_no_answer_is_none_though_one_like_it_was(damage: tuple[bytes, bytes]) -> None:
    """Damage between rows and in them is found, however much of the answer is known."""
    likeness = Likeness()
    text = body_of(ten(f1="x"))
    for _ in range(3):
        assert likeness.read(text) is not None
    damaged = text.replace(*damage)
    assert parse_batch(damaged) is None
    assert likeness.read(damaged) is None


def test_half_a_pair_of_surrogates_costs_only_its_row() -> None:
    """Such an answer is read by other means, and shares its rows all the same."""
    likeness = Likeness()
    text = body_of(ten(f1="\ud83d", f2="x"))
    held = []
    for number in range(4):
        found = likeness.read(text.replace(b'"x"', b'"%d"' % number))
        assert found is not None
        assert found[1] == ["f1"]
        assert found[0].get("f2") is not None
        held.append(found[0].own_rows)
    assert held == [9, 1, 1, 1]


def test_threads_may_read_at_once() -> None:
    """Every thread gets what its own answer says, whatever others are reading."""
    likeness = Likeness()

    def work(thread: int) -> None:
        for number in range(200):
            kind = (thread + number) % 3
            flags = ten(**{f"f{n}": kind for n in range(8)}, f9=f"{thread} {number}")
            read(likeness, flags)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))


@given(st.lists(flag_values, min_size=2, max_size=6))
def test_every_snapshot_holds_what_it_was_made_of(many: list[list[Any]]) -> None:
    """Whatever came before, each value comes back as the very JSON value that it was."""
    likeness = Likeness()
    # The first few are alike, so that something is shared.
    many = [many[0], *([*many[0][:9], *other[9:]] for other in many)]
    kept = []
    for found in many:
        flags = {f"f{n}": row(value) for n, value in enumerate(found)}
        kept.append((read(likeness, flags), found))
    for snapshot, found in kept:
        assert repr([held.value for held in snapshot.rows.values()]) == repr(found)
        results = snapshot.results(Source.CACHE, fallback=False)
        assert [repr(result.value) for result in results.values()] == list(map(repr, found))
