"""The JSON type of a value."""

from __future__ import annotations

from typing import Any

import pytest

from shipsilently_core._kinds import fits, plain, translated, unshared

VALUES: dict[str, list[Any]] = {
    "bool": [True, False],
    "number": [0, 1, 1.0, 1.5, -3],
    "string": ["", "1", "true"],
    "object": [{}, {"a": 1}],
    "array": [[], [1]],
    "null": [None],
}
PAIRS = [
    (value, default, kind == other)
    for kind, values in VALUES.items()
    for value in values
    for other, defaults in VALUES.items()
    for default in defaults
    if other != "null"
]


class Text(str):
    pass


class Number(int):
    pass


@pytest.mark.parametrize(("value", "default", "same"), PAIRS)
def test_only_a_value_of_the_defaults_type_fits(value: Any, default: Any, same: bool) -> None:
    """True is no number, 1 no boolean, and null none of them."""
    assert fits(value, default) is same


@pytest.mark.parametrize("value", [v for values in VALUES.values() for v in values], ids=repr)
def test_a_default_of_none_takes_everything(value: Any) -> None:
    """Without an expectation every value fits."""
    assert fits(value, None)


def test_subclasses_count_as_their_json_type() -> None:
    """A caller's own kind of string or number is a string or number."""
    assert fits("x", Text("y"))
    assert fits(1.5, Number(1))
    assert not fits(True, Number(1))
    assert not fits(1, Text("1"))
    assert not fits("x", object())


def test_a_copy_shares_no_container() -> None:
    """Objects and arrays are copied to the bottom, everything else stays what it is."""
    value: dict[str, Any] = {"a": [{"b": 1}], "c": "x"}
    copy = unshared(value)
    assert copy == value
    copy["a"][0]["b"] = 2
    assert value == {"a": [{"b": 1}], "c": "x"}
    assert unshared("x") == "x"


class Safe(str):
    """A string that a template engine has marked."""


class Count(int):
    """A number with a meaning."""


class Share(float):
    """Another."""


@pytest.mark.parametrize(
    ("value", "expected"), [(Safe("x"), "x"), (Count(3), 3), (Share(0.5), 0.5)]
)
def test_subclasses_of_json_types_have_a_plain_form(value: object, expected: object) -> None:
    """What a template marks, or an application counts with, is sent as the JSON type it is."""
    made = plain(value)
    assert made == expected
    assert type(made) is type(expected)


def test_other_objects_have_none() -> None:
    """An object of no JSON type is refused by its type's name alone."""
    with pytest.raises(TypeError, match="a object has no form in JSON"):
        plain(object())


class Promise:
    """Called like the lazy strings of a framework."""

    def __init__(self, text: str | None) -> None:
        self._text = text

    def __str__(self) -> str:
        if self._text is None:
            raise RuntimeError("no language is active")
        return Text(self._text)


def test_a_lazy_string_is_the_text_that_it_gives() -> None:
    """The text is a plain string, and whatever is no lazy string stays the object that it is."""
    found = translated(Promise("Hello"))
    assert (found, type(found)) == ("Hello", str)
    for value in (*(v for values in VALUES.values() for v in values), Text("x"), object()):
        assert translated(value) is value


def test_a_lazy_string_that_cannot_be_translated_stays_as_it_is() -> None:
    """It raises when it is shown, as without flags, and not when a flag is read."""
    broken = Promise(None)
    assert translated(broken) is broken
