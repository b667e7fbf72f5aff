"""Reading and writing flags files in the three syntaxes."""

import contextlib
import json
import os
import stat
import string
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from shipsilently_local import FlagsFileError
from shipsilently_local.flagsfile import MAX_BYTES, SUFFIXES, load, parse, read, render, rewrite

from .samples import GOOD

TOML = b"""
[flags.checkout-v2]
enabled = true
default = false

[[flags.checkout-v2.rules]]
name = "paying customers"
when = [{ attribute = "plan", operator = "in", value = ["pro", "team"] }]
serve = true
rollout = 50
"""

YAML = b"""
flags:
  checkout-v2:
    enabled: true
    default: false
    rules:
      - name: paying customers
        when:
          - {attribute: plan, operator: in, value: [pro, team]}
        serve: true
        rollout: 50
"""


def test_the_three_syntaxes_say_the_same() -> None:
    """One file written as TOML, YAML and JSON gives three equal documents."""
    as_json = json.dumps(
        {
            "flags": {
                "checkout-v2": {
                    "default": False,
                    "rules": [
                        {
                            "name": "paying customers",
                            "when": [
                                {"attribute": "plan", "operator": "in", "value": ["pro", "team"]}
                            ],
                            "serve": True,
                            "rollout": 50,
                        }
                    ],
                }
            }
        }
    ).encode()
    document = parse(TOML, "f.toml")
    assert document == parse(YAML, "f.yaml") == parse(YAML, "f.YML") == parse(as_json, "f.json")


def test_a_byte_order_mark_is_no_error() -> None:
    """Editors that begin a file with a BOM do no harm."""
    assert parse(b"\xef\xbb\xbf" + TOML, "f.toml") == parse(TOML, "f.toml")


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("f.txt", TOML, "expected a name that ends in one of .json, .toml, .yaml, .yml"),
        ("f.toml", b"x\n\xff", "line 2: the file is not text in UTF-8"),
        ("f.toml", b"[flags.a]\ndefault = \n", "not valid TOML: .*line 2"),
        ("f.toml", b"[flags.a]\ndefault = 1\ndefault = 2\n", "not valid TOML: .*line 3"),
        ("f.toml", b"[flags.a]\ndefault = nan\n", "JSON knows"),
        ("f.toml", b"[flags.a]\ndefault = 2026-01-31\n", "expected a boolean"),
        ("f.json", b'{"flags":\n}', "f.json, line 2: not valid JSON"),
        ("f.json", b'{"flags": {"a": {}, "a": {}}}', 'the key "a" is given twice'),
        ("f.json", b'{"flags": NaN}', "NaN is not a number that JSON knows"),
        ("f.json", b"[" * 100_000, "nested too deeply"),
        ("f.json", b"1" * 5_000, "not valid JSON"),
        ("f.yaml", b"flags:\n  a: [", "f.yaml, line 2: not valid YAML"),
        ("f.yaml", b"[" * 5_000, "nested too deeply"),
        ("f.toml", b"", "the file is empty"),
        ("f.yaml", b"", "the file is empty"),
        ("f.json", b"", "not valid JSON"),
    ],
)
def test_a_broken_file_is_refused_with_its_line(name: str, content: bytes, problem: str) -> None:
    """Bad syntax is an error that names the file, and the line where the parser gives one."""
    with pytest.raises(FlagsFileError, match=problem):
        parse(content, name)


_words = st.sampled_from(
    ["flags", "default", "rules", "when", "serve", "a", "<<", "*x", "&x", "!t", "true", ".nan"]
)
_signs = st.sampled_from([*"[]{}:,=\"'\n -#|>0123.", "[[", "]]", "\n  ", ": ", "- "])
_texts = st.one_of(
    st.binary(max_size=60),
    st.text(max_size=60).map(lambda text: text.encode("utf-8", "replace")),
    st.lists(st.one_of(_words, _signs), max_size=40).map(lambda parts: "".join(parts).encode()),
)


@given(content=_texts, suffix=st.sampled_from(sorted(SUFFIXES)))
def test_no_bytes_whatever_raise_another_error(content: bytes, suffix: str) -> None:
    """Any bytes are either a document or a file error, never another exception."""
    with contextlib.suppress(FlagsFileError):
        parse(content, "f" + suffix)


_plain = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(alphabet=string.printable, max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(
                ["flags", "default", "rules", "when", "serve", "rollout", "value", "operator", "x"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=20,
)


@given(raw=_plain)
def test_no_data_whatever_raises_another_error(raw: Any) -> None:
    """Any well-formed JSON is either a document or a file error."""
    with contextlib.suppress(FlagsFileError):
        parse(json.dumps(raw).encode(), "f.json")


@pytest.mark.parametrize("suffix", sorted(SUFFIXES))
@pytest.mark.parametrize("raw", GOOD)
def test_what_is_written_reads_back(raw: dict[str, Any], suffix: str) -> None:
    """A rendered file says the same as the data it was made from, in every syntax."""
    if suffix == ".toml" and "None" in repr(raw):
        raw = {"flags": {"f": {"default": {"a": "\x7f\x00\u2028"}}}}  # TOML has no null
    assert parse(render(raw, f"f{suffix}"), f"f{suffix}") == parse(
        json.dumps(raw).encode(), "f.json"
    )


@example(key="0E0", value="0E0")
@example(key="1e5", value="+.5")
@given(key=st.text(), value=st.text() | st.integers(-(2**53) + 1, 2**53 - 1) | st.booleans())
@pytest.mark.parametrize("suffix", sorted(SUFFIXES))
def test_any_key_survives_writing(suffix: str, key: str, value: Any) -> None:
    """Any string can be a flag's key, and any value its default, in every syntax."""
    raw = {"flags": {key: {"default": value}}}
    assert parse(render(raw, f"f{suffix}"), f"f{suffix}").flags[key].default == value


def test_load_reads_the_file(tmp_path: Path) -> None:
    """A file on disk is read and checked in one call."""
    path = tmp_path / "flags.toml"
    path.write_bytes(TOML)
    assert load(path) == parse(TOML, path)


def test_a_missing_file_is_a_file_error(tmp_path: Path) -> None:
    """A file that is not there is an error with the system's reason."""
    with pytest.raises(FlagsFileError, match="cannot read the file: No such file"):
        load(tmp_path / "flags.toml")


def test_a_path_that_no_system_takes_is_a_file_error() -> None:
    """A name with a null character is refused like a missing file."""
    with pytest.raises(FlagsFileError, match="cannot read the file"):
        read("flags\0.toml")


def test_a_huge_file_is_refused(tmp_path: Path) -> None:
    """A file beyond the limit is not read into memory."""
    path = tmp_path / "flags.toml"
    path.write_bytes(b"#" * (MAX_BYTES + 1))
    with pytest.raises(FlagsFileError, match="larger than 4 MiB"):
        read(path)


def test_rewriting_keeps_mode_and_link(tmp_path: Path) -> None:
    """A rewritten file keeps its permissions, and a link to it stays a link."""
    target, link = tmp_path / "real.toml", tmp_path / "flags.toml"
    target.write_bytes(b"old")
    target.chmod(0o640)
    link.symlink_to(target)
    rewrite(link, b"new")
    assert link.is_symlink()
    assert target.read_bytes() == b"new"
    assert stat.S_IMODE(target.stat().st_mode) == 0o640


def test_rewriting_makes_a_file_that_was_not_there(tmp_path: Path) -> None:
    """A file that does not exist yet is made."""
    rewrite(tmp_path / "flags.toml", b"new")
    assert (tmp_path / "flags.toml").read_bytes() == b"new"


def test_a_failed_rewrite_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When the last step fails, the old file and no other is there."""
    path = tmp_path / "flags.toml"
    path.write_bytes(b"old")

    def refuse(*paths: object) -> None:
        raise OSError("no")

    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(OSError, match="no"):
        rewrite(path, b"new")
    assert [(file.name, file.read_bytes()) for file in tmp_path.iterdir()] == [
        ("flags.toml", b"old")
    ]
