"""What a store is given: whole or not at all, and of no use to anybody without the key."""

from __future__ import annotations

import base64
import json
import zlib
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shipsilently_core import _saved
from shipsilently_core._saved import (
    Collection,
    Recalled,
    SavedContext,
    SavedSnapshot,
    Seal,
    Unreadable,
    body_of,
    snapshot_of,
)
from shipsilently_core._snapshot import Row, Snapshot

KEY, URL = "sk_live_0123456789", "https://flags.example"
USER = b'{"email":"ada@example.org","userId":"ada-4711"}'

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
rows = st.dictionaries(
    st.text(max_size=20),
    st.builds(Row, value=json_values, reason=st.text(max_size=10), ruleId=st.none() | st.text()),
    max_size=5,
)


def flags(count: int = 3, **values: Any) -> Snapshot:
    """Some flags."""
    found = {f"flag-{n}": Row(n % 2 == 0, "default") for n in range(count)}
    found |= {key: Row(value, "rule_match", "r1") for key, value in values.items()}
    return Snapshot(found, complete=True)


def context_of(snapshot: Snapshot, *, current: float = 5.0, stamp: float = 4.0) -> SavedContext:
    """One context as it is kept."""
    return SavedContext(current, stamp, body_of(snapshot))


def test_equal_contexts_have_one_name_and_others_another() -> None:
    """A name stands for one context, one key and one service."""
    seal = Seal(KEY, URL)
    assert seal.name_of(USER) == Seal(KEY, URL).name_of(USER)
    others = {
        seal.name_of(b'{"userId":"ada-4712"}'),
        Seal(KEY + "x", URL).name_of(USER),
        Seal(KEY, URL + "x").name_of(USER),
    }
    assert len(others) == 3
    assert seal.name_of(USER) not in others
    assert seal.name_of(USER).startswith(seal.fingerprint + "/")
    assert Seal(KEY, URL + "x").fingerprint != seal.fingerprint != Seal(KEY + "x", URL).fingerprint


def test_names_and_sealed_bytes_tell_neither_user_nor_key() -> None:
    """Neither the name of a context nor what is kept of it holds the key or the user."""
    seal = Seal(KEY, URL)
    name = seal.name_of(USER)
    sealed = seal.close(name, context_of(flags(200)))
    for secret in (KEY.encode(), b"ada-4711", b"ada@example.org"):
        for form in (secret, secret.hex().encode(), base64.b64encode(secret).rstrip(b"=")[:-1]):
            assert form not in name.encode()
            assert form not in sealed
            assert form not in zlib.decompress(sealed[38:])


@given(rows)
def test_flags_come_back_as_they_were(kept: dict[str, Row]) -> None:
    """Every JSON value, reason and rule survives being kept, with its very type."""
    seal = Seal(KEY, URL)
    name = seal.name_of(USER)
    sealed = seal.close(name, context_of(Snapshot(kept, complete=True)))
    saved = seal.open_context(name, sealed)
    found = snapshot_of(saved.body)
    assert (saved.current, saved.stamp, found.complete) == (5.0, 4.0, True)
    assert repr(found.rows) == repr(kept)


@given(st.binary(max_size=400))
def test_bytes_from_elsewhere_are_refused(data: bytes) -> None:
    """Nothing that was not sealed here opens."""
    seal = Seal(KEY, URL)
    with pytest.raises(Unreadable):
        seal.open_context(seal.name_of(USER), data)
    with pytest.raises(Unreadable):
        seal.open_snapshot(seal.fingerprint, data)


@given(st.data())
def test_cut_and_changed_bytes_are_refused(data: st.DataObject) -> None:
    """A sealed context that lost or changed as much as one bit does not open."""
    seal = Seal(KEY, URL)
    name = seal.name_of(USER)
    sealed = bytearray(seal.close(name, context_of(flags(data.draw(st.integers(0, 60))))))
    if data.draw(st.booleans(), label="cut"):
        del sealed[data.draw(st.integers(0, len(sealed) - 1)) :]
    else:
        bit = data.draw(st.integers(0, 8 * len(sealed) - 1))
        sealed[bit // 8] ^= 1 << bit % 8
    with pytest.raises(Unreadable):
        seal.open_context(name, bytes(sealed))


def test_what_was_sealed_for_another_name_key_or_service_is_refused() -> None:
    """Bytes that were moved, by accident or by somebody, serve nobody else."""
    seal = Seal(KEY, URL)
    name, other = seal.name_of(USER), seal.name_of(b'{"userId":"eve"}')
    sealed = seal.close(name, context_of(flags()))
    for stranger, at in (
        (seal, other),
        (Seal(KEY + "x", URL), name),
        (Seal(KEY, URL + "x"), name),
    ):
        with pytest.raises(Unreadable, match="damaged, or belongs to another key"):
            stranger.open_context(at, sealed)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda data: b"", "not written by this library"),
        (lambda data: b"PK\x03\x04" + data, "not written by this library"),
        (lambda data: data[:20], "not written by this library"),
        (lambda data: data[:4] + b"\x02" + data[5:], "another version"),
        (lambda data: data[:-1], "damaged"),
    ],
    ids=["empty", "foreign", "torn", "newer", "cut"],
)
def test_the_log_can_say_why(change: Any, why: str) -> None:
    """Each kind of bytes that cannot be used is told apart from the others."""
    seal = Seal(KEY, URL)
    name = seal.name_of(USER)
    with pytest.raises(Unreadable, match=why):
        seal.open_context(name, change(seal.close(name, context_of(flags()))))


def sealed_content(seal: Seal, name: str, content: bytes) -> bytes:
    """Bytes sealed by somebody who has the key."""
    return b"SHSI\x01" + seal._lock(name, content) + content


@pytest.mark.parametrize(
    "content",
    [
        b"\x00[1,2",
        b"\x00[5.0]",
        b"\x00" + b"[" * 5_000,
        b"\x01not deflated",
        b"\x01" + zlib.compress(b"x" * 5_000)[:-9],
        b"\x00\xff\xfe",
    ],
    ids=["malformed", "short", "deep", "not deflated", "cut", "not UTF-8"],
)
def test_contents_that_are_not_as_expected_are_refused(content: bytes) -> None:
    """Even with a good seal, only what this version writes is taken."""
    seal = Seal(KEY, URL)
    for name in (seal.name_of(USER), seal.fingerprint):
        for read in (seal.open_context, seal.open_snapshot):
            with pytest.raises(Unreadable, match="not as expected"):
                read(name, sealed_content(seal, name, content))


def test_nothing_unfolds_without_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """A small file never becomes a huge one in memory."""
    monkeypatch.setattr(_saved, "_LARGEST", 10_000)
    seal = Seal(KEY, URL)
    name = seal.fingerprint
    bomb = sealed_content(seal, name, b"\x01" + zlib.compress(b" " * 1_000_000 + b"[]"))
    with pytest.raises(Unreadable):
        seal.open_snapshot(name, bomb)


@pytest.mark.parametrize("body", [b"{}", b"[true]", b'[true,{"a":5}]', b"[1,{}]"])
def test_a_body_that_holds_no_flags_is_refused(body: bytes) -> None:
    """What is no context's flags is not taken for one's."""
    with pytest.raises(Unreadable, match="not as expected"):
        snapshot_of(msgspec.Raw(body))


@pytest.mark.parametrize("place", [-1, 1])
def test_a_snapshot_whose_contexts_point_nowhere_is_refused(place: int) -> None:
    """Each context's flags are there, or nothing is taken."""
    seal = Seal(KEY, URL)
    saved = SavedSnapshot(1.0, "b", {"b": (1.0, place)}, [body_of(flags())])
    with pytest.raises(Unreadable, match="not as expected"):
        seal.open_snapshot(seal.fingerprint, seal.close(seal.fingerprint, saved))


def collected(room: int = 1_000_000, **contexts: Snapshot) -> SavedSnapshot:
    """A snapshot of these contexts."""
    collection = Collection(100.0, "system", room)
    for name, snapshot in contexts.items():
        collection.add(name, 50.0, snapshot)
    return collection.saved()


def test_contexts_with_the_same_flags_share_them() -> None:
    """Flags that many users have are saved once, and are one object when they come back."""
    same = flags()
    saved = collected(a=same, b=same, c=flags(1))
    assert len(saved.bodies) == 2
    recalled = Recalled(saved)
    first, second = recalled.find("a"), recalled.find("b")
    assert first is not None
    assert second is not None
    assert first[1] is second[1]
    recalled.forget("a")
    assert recalled.find("a") is None
    assert set(recalled.contexts) == {"b", "c"}


def test_a_context_is_collected_once() -> None:
    """The first of two entries for one name is the one that is saved."""
    collection = Collection(100.0, "system", 1_000)
    collection.add("a", 50.0, flags(1))
    collection.add("a", 10.0, flags(2))
    saved = collection.saved()
    assert saved.contexts["a"] == (50.0, 0)
    assert len(saved.bodies) == 1


def test_there_is_only_so_much_room() -> None:
    """What does not fit is left out, and smaller flags after it are not."""
    small, large = flags(1), flags(100)
    saved = collected(4 * len(body_of(small)), a=small, b=large, c=flags(1, own=1))
    assert set(saved.contexts) == {"a", "c"}
    assert set(collected(10, a=large, b=small).contexts) == {"a"}


def test_contexts_of_other_processes_are_saved_again() -> None:
    """What others saved stays, as it was or as it was read, up to the number that is allowed."""
    others = Recalled(collected(a=flags(1), b=flags(2), c=flags(2, own="x"), d=flags(4)))
    others.find("b")
    read = others.find("c")
    assert read is not None
    # It is still to be saved by this process; the file has it after all others.
    others.contexts = {"a": (50.0, 0), "c": (50.0, 2), "d": others.contexts["d"]}
    collection = Collection(100.0, "system", 1_000_000)
    collection.add("a", 90.0, flags(7))
    collection.add_others(others, most=2)
    saved = collection.saved()
    assert set(saved.contexts) == {"a", "c"}
    assert saved.contexts["a"][0] == 90.0
    again = Recalled(saved).find("c")
    assert again is not None
    assert again[1].rows == read[1].rows


def test_a_whole_process_s_flags_come_back() -> None:
    """A sealed snapshot opens with everything that was in it."""
    seal = Seal(KEY, URL)
    saved = collected(a=flags(1), b=flags(2))
    opened = seal.open_snapshot(seal.fingerprint, seal.close(seal.fingerprint, saved))
    assert opened.contexts == saved.contexts
    assert [json.loads(bytes(body)) for body in opened.bodies] == [
        json.loads(bytes(body)) for body in saved.bodies
    ]
    assert (opened.saved, opened.baseline) == (100.0, "system")


def test_why_it_is_unreadable_is_the_exception_s_text() -> None:
    """What the exception says is what the log says."""
    assert str(Unreadable("cut")) == Unreadable("cut").why == "cut"
