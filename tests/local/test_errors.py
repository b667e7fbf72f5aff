"""Errors: the place of a fault in a file, and names that were nearly right."""

import pytest

from shipsilently_local.errors import (
    FlagsFileError,
    LocalServiceError,
    Place,
    PortInUseError,
    did_you_mean,
    quoted,
)


def test_a_full_place_is_named_from_the_outside_in() -> None:
    """A place reads as file and line, flag, rule, condition, field."""
    place = Place("f.toml", flag="a", rule=1, condition=2, field="value", line=3)
    assert str(place) == 'f.toml, line 3: flag "a", rule 1, condition 2, field "value"'


def test_a_bare_place_is_the_file() -> None:
    """A place of which only the file is known is that file's name."""
    assert str(Place("f.toml")) == "f.toml"


def test_a_file_error_keeps_its_parts() -> None:
    """A file error's text is place and problem, which are also its fields."""
    error = FlagsFileError(Place("f.toml"), "wrong")
    assert str(error) == "f.toml: wrong"
    assert (error.place, error.problem) == (Place("f.toml"), "wrong")


def test_all_errors_have_one_root() -> None:
    """Whoever catches the root catches the port error too, which knows its port."""
    error = PortInUseError(4400)
    assert isinstance(error, LocalServiceError)
    assert error.port == 4400


@pytest.mark.parametrize(
    ("word", "hint"),
    [("equal", '; did you mean "equals"?'), ("GT", '; did you mean "gt"?'), ("zzz", "")],
)
def test_a_near_name_is_suggested(word: str, hint: str) -> None:
    """A name near to a known one is suggested, whatever its case; a far one is not."""
    assert did_you_mean(word, ["equals", "gt"]) == hint


def test_quoting_keeps_one_line() -> None:
    """A name with line breaks or control characters is quoted on one line; others stay readable."""
    assert quoted("a\nb\x00") == '"a\\nb\\u0000"'
    assert quoted("größe") == '"größe"'
