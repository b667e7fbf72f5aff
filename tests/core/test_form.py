"""What is different in an answer is found without decoding it, or not at all."""

from __future__ import annotations

import json

import pytest

from shipsilently_core._form import Form, form_of
from shipsilently_core._wire import raw_rows

FLAGS = {f"f{n}": {"value": n, "reason": "default"} for n in range(40)}
TEXT = json.dumps({"flags": FLAGS}).encode()


def row(value: object) -> bytes:
    """A row's bytes."""
    return json.dumps({"value": value, "reason": "default"}).encode()


def form(text: bytes) -> Form | None:
    """The form of an answer."""
    raws = raw_rows(text)
    assert raws is not None
    return form_of(text, raws)


@pytest.fixture
def known() -> Form:
    """The form of forty flags."""
    found = form(TEXT)
    assert found is not None
    return found


@pytest.mark.parametrize("numbers", [[], [0], [39], [7, 8], [0, 1, 20, 38, 39], list(range(24))])
def test_rows_that_differ_are_found(known: Form, numbers: list[int]) -> None:
    """The first, the last, neighbours and a lot in one place are found, with their bytes."""
    text = TEXT
    for n in numbers:
        text = text.replace(b'"f%d": ' % n + row(n), b'"f%d": ' % n + row({"x": [n, "longer"]}))
    expected = {f"f{n}": row({"x": [n, "longer"]}) for n in numbers}
    assert known.different(text) == expected


def test_other_rows_in_the_same_form(known: Form) -> None:
    """A form can be filled with other rows, which then are those that do not differ."""
    raws = {key: row("new") for key in FLAGS}
    filled = known.filled(raws)
    assert filled.different(TEXT.replace(row(3), row("new"))) is None
    text = json.dumps({"flags": {key: {**sent, "value": "new"} for key, sent in FLAGS.items()}})
    assert filled.different(text.encode()) == {}
    assert filled.different(text.encode().replace(row("new"), row(3), 1)) == {"f0": row(3)}


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b'{"flags":{}}',
        TEXT[:-1],
        TEXT + b" ",
        TEXT[:-1] + b"]",
        TEXT[:-2] + b",}",
        TEXT[1:],
        TEXT.replace(b'"f5"', b'"F5"'),
        TEXT.replace(b'"f39"', b'"F39"'),
        TEXT.replace(b'"f5": ' + row(5) + b", ", b""),
        TEXT.replace(b', "f39": ' + row(39), b""),
        TEXT.replace(b'"f5"', b'"f5" '),
        json.dumps({"flags": dict(reversed(FLAGS.items()))}).encode(),
        json.dumps({"flags": FLAGS | {"f40": FLAGS["f1"]}}).encode(),
        json.dumps({"flags": FLAGS, "at": 5}).encode(),
        TEXT.replace(b'"value": ', b'"value": 1'),
    ],
    ids=lambda text: repr(text[:20]),
)
def test_an_answer_of_another_form_is_told(known: Form, text: bytes) -> None:
    """Other flags, another way of writing, or much that differs: another has to look at it."""
    found = known.different(text)
    # What stands behind the last row is taken to be its own; it is no JSON value then.
    assert found is None or raw_rows(b'{"flags":{"x":' + found["f39"] + b"}}") is None


@pytest.mark.parametrize(
    "text",
    [
        b'{"flags":{"a":{"value":1},"b":{"value":2},"a":{"value":3}}}',
        b'{"flags":{"a":{"value":1},"b":{"value":2},"a":{"value":1}}}',
        b'{"flags":{"a":{"value":1},"a":{"value":1}}}',
        b'{"flags":{"a":{"value":1},"b":{"value":2},"b":{"value":3},"c":{"value":4}}}',
        b'{"flags":{"a":{"value":1},"b":{"value":2},"b":{"value":2},"c":{"value":4}}}',
        b'{"flags":{"a":{"value":1}},"flags":{"a":{"value":1}}}',
        b'{"flags":{"a":{"value":2}},"flags":{"a":{"value":1}}}',
        b'{"x":{"a":{"value":1}},"flags":{"a":{"value":1}}}',
        b'{"x":1,"flags":{"a":{"value":1}}}',
        b'{"flags":{"a":{"value":1}},"x":1}',
        b'{"flags":{"\\ud800":1,"a":{"value":1}}}',
        b'{"flags":{"a": {"value":"\\ud800"}}}',
    ],
)
def test_what_is_there_twice_or_beside_has_no_form(text: bytes) -> None:
    """Where a row may be found in another's place, others are not compared with the text."""
    assert form(text) is None


def test_a_form_has_room_between_its_parts() -> None:
    """White space anywhere, and keys with quotation marks, are part of a form."""
    text = b' {\n"flags" : { "a\\"}{" :\t{"value":1} , "b" : 5 } }\r\n'
    found = form(text)
    assert found is not None
    assert found.different(text) == {}
    assert found.different(text.replace(b"5", b"55")) is None
    assert found.different(text.replace(b"5", b"6")) == {"b": b"6"}
