"""Answers read by what tells them from others, against the same answers read by themselves."""

from __future__ import annotations

import json
from typing import Any
from unittest import mock

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from shipsilently_core import _likeness
from shipsilently_core._likeness import Likeness
from shipsilently_core._wire import parse_batch
from tests.properties.support import almost, corpus, damaged
from tests.properties.test_answers import ROWS, TEXT, VALUES

GOOD = st.fixed_dictionaries(
    {"value": VALUES, "reason": st.sampled_from(["default", "rollout"])},
    optional={"ruleId": TEXT | st.none(), "other": VALUES},
)
#: Texts of rows that look like what stands around them.
TRICKY = st.sampled_from(
    [
        b'{"value":{"f5":1,"f6":{}},"reason":"default"}',
        b'{"value":{"a":1},"f5":{"value":1,"reason":"x"},"reason":"default"}',
        b'{"value":"}},\\"f5\\":{","reason":"default"}',
        b'{"value":1,"reason":"default"},"f9":{"value":1,"reason":"default"}',
        b'{"value":1,"reason":"default"},"f2":{"value":2,"reason":"default"}',
        b'{"value":1,"reason":"default"}}',
        b'{"value":1,"reason":"default"}}}',
        b' {"value":1,"reason":"default"} ',
        b'\xef\xbb\xbf{"value":1,"reason":"default"}',
        b'{"value":"\\ud800","reason":"default"}',
        b'{"value":"\xed\xa0\x80","reason":"default"}',
        b'{"value":' + b"[" * 101 + b"]" * 101 + b',"reason":"default"}',
        b'{"value":' + b"9" * 25 + b',"reason":"default"}',
        b'{"value":-0.0,"reason":"default"}',
        b'{"value":1e999,"reason":"default"}',
        b'{"value":NaN,"reason":"default"}',
        b"5",
        b"{",
        b"",
    ]
)
KEYS = st.sampled_from([f"f{n}" for n in range(10)])


def written(rows: dict[str, bytes], gap: bytes = b",") -> bytes:
    """An answer with these texts of rows."""
    return b'{"flags":{' + gap.join(b'"%s":%s' % (k.encode(), r) for k, r in rows.items()) + b"}}"


@st.composite
def answers(draw: st.DrawFn) -> list[bytes]:
    """An answer, and others that have most of it."""
    rows: dict[str, bytes] = {}
    for n in range(draw(st.integers(8, 20))):
        rows[f"f{n}"] = json.dumps(draw(GOOD), ensure_ascii=draw(st.booleans())).encode()
    bodies = [written(rows)] * 2
    for _ in range(draw(st.integers(1, 8))):
        others = rows.copy()
        for key, raw in draw(st.lists(st.tuples(KEYS, TRICKY | ROWS.map(text_of)), max_size=3)):
            others[key] = raw
        if draw(st.integers(0, 5)) == 0:
            others.pop(draw(KEYS), None)
        if draw(st.integers(0, 5)) == 0:
            rows = others
        body = written(others, draw(st.sampled_from([b",", b",", b", ", b",\n"])))
        bodies.append(draw(st.just(body) | damaged(body)))
    return bodies


def text_of(found: dict[str, Any]) -> bytes:
    """A row as the service might write it."""
    return json.dumps(found).encode()


def facts(rows: dict[str, Any]) -> list[tuple[str, str, str, str | None]]:
    """All that is said of rows by themselves; 1, 1.0, True and -0.0 are told apart."""
    return [(key, repr(row.value), row.reason, row.ruleId) for key, row in rows.items()]


def check(likeness: Likeness, body: bytes) -> None:
    alone, found = parse_batch(body), likeness.read(body)
    assert (alone is None) == (found is None)
    if alone is not None and found is not None:
        snapshot, malformed = found
        assert facts(snapshot.rows) == facts(alone[0])
        assert malformed == alone[1]
        assert snapshot.rows.keys() == {key for key in alone[0] if key in snapshot}
        assert len(snapshot) == len(alone[0])


@given(answers())
def test_an_answer_is_read_as_if_there_had_been_no_other(bodies: list[bytes]) -> None:
    """Rows, their order and what is malformed do not depend on what was read before."""
    likeness = Likeness()
    for body in [*bodies, *bodies]:
        check(likeness, body)


@given(st.lists(almost("batch") | st.sampled_from(list(corpus("batch").values())), max_size=6))
@example([b'{"flags":{"a":5}}', b'{"flags":{"a":5}}', b'{"flags":{"a":55}}'])
@example([b'{"flags":{"a":5}}', b'{"flags":{"a":5}}', b'{"flags":{"a":5}} }'])
def test_the_corpus_is_read_as_if_there_had_been_no_other(bodies: list[bytes]) -> None:
    """The same of what is no answer, and of answers that are hardly any."""
    with mock.patch.object(_likeness, "_WORTH_SHARING", 1):
        likeness = Likeness()
        for body in [body for body in bodies for _ in range(3)]:
            check(likeness, body)


@pytest.mark.parametrize("name", corpus("batch"))
def test_each_of_the_corpus_after_itself(name: str) -> None:
    """An answer means the same the first time, and when it has become what others rest on."""
    body = corpus("batch")[name]
    with mock.patch.object(_likeness, "_WORTH_SHARING", 1):
        likeness = Likeness()
        for _ in range(4):
            check(likeness, body)
