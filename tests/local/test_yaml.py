"""YAML as far as JSON goes."""

from typing import Any

import pytest

from shipsilently_local import FlagsFileError, Place
from shipsilently_local._yaml import read_yaml, write_yaml


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("NO", "NO"),
        ("yes", "yes"),
        ("on", "on"),
        ("12:30", "12:30"),
        ("2026-01-31", "2026-01-31"),
        ("1_000", "1_000"),
        ("0x1f", "0x1f"),
        ("=", "="),
        ("true", True),
        ("False", False),
        ("~", None),
        ("", None),
        ("017", 17),
        ("+5", 5),
        ("1.5", 1.5),
        ("1e3", 1000.0),
        ("-.5", -0.5),
        ("1.", 1.0),
        ("-.inf", float("-inf")),
        ("'5'", "5"),
    ],
)
def test_words_mean_what_they_look_like(text: str, value: Any) -> None:
    """Only true, false, null and plain decimal numbers are more than strings."""
    read = read_yaml(text, Place("f"))
    assert read == value
    assert type(read) is type(value)


def test_anchors_and_merge_keys_work() -> None:
    """A merged mapping gives its keys, which may be given again."""
    text = "base: &b {a: 1, b: 2}\nuse: {<<: *b, b: 3}\nsame: *b\n"
    assert read_yaml(text, Place("f")) == {
        "base": {"a": 1, "b": 2},
        "use": {"a": 1, "b": 3},
        "same": {"a": 1, "b": 2},
    }


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a: 1\na: 2\n", 'f, line 2: not valid YAML: the key "a" is given twice'),
        ("x: 1\ny: !!python/object:os.system {}\n", r"f, line 2: .*a tag \(!…\) is not allowed"),
        ("!!str 5", "a tag"),
        ("a: [1\n", "f, line 2: not valid YAML"),
        ("a: *unknown\n", "f, line 1: .*undefined alias"),
        ("{[1]: 2}", "not valid YAML"),
        ("a\n---\nb\n", "f, line 2: .*another document"),
        ("\x00", "not valid YAML: unacceptable character"),
        ("1" * 5_000, "not valid YAML: Exceeds the limit"),
    ],
)
def test_what_is_not_plain_is_refused(text: str, problem: str) -> None:
    """Duplicate keys, tags and bad syntax are errors with their line."""
    with pytest.raises(FlagsFileError, match=problem):
        read_yaml(text, Place("f"))


def test_writing_unfolds_shared_values() -> None:
    """A value that appears twice is written twice, without anchors."""
    shared = {"a": 1}
    assert write_yaml({"x": shared, "y": shared}) == "x:\n  a: 1\ny:\n  a: 1\n"
