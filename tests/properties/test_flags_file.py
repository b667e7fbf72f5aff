"""The flags file against its JSON Schema, in every syntax."""

from __future__ import annotations

import contextlib
import json
import tomllib
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from shipsilently_local import FlagsFileError
from shipsilently_local.document import Document, kind_of
from shipsilently_local.flagsfile import SUFFIXES, parse, render
from shipsilently_local.schema import schema
from tests.properties.json_reader import Unsure, flat, levels, read_json
from tests.properties.support import almost, corpus

FILES = corpus("flags_file")
GOOD = ("usual", "byte-order-mark", "ends-of-line", "anchors", "norway", "octal", "dates.yaml")
SCHEMA = Draft202012Validator(schema())
MAX_WHOLE, DEEPEST = 2**53 - 1, 32

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
NUMBERS = st.integers(-MAX_WHOLE, MAX_WHOLE) | st.floats(allow_nan=False, allow_infinity=False)
INNER = st.recursive(
    st.booleans() | NUMBERS | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=5,
)
KINDS = (st.booleans(), TEXT, NUMBERS, st.dictionaries(TEXT, INNER, max_size=3))
SCALARS = st.booleans() | TEXT | NUMBERS


@st.composite
def conditions(draw: st.DrawFn) -> dict[str, Any]:
    """A condition as the manual describes it."""
    operator, value = draw(
        st.tuples(st.sampled_from(["equals", "not_equals"]), SCALARS)
        | st.tuples(st.sampled_from(["in", "not_in"]), st.lists(SCALARS, max_size=3))
        | st.tuples(st.sampled_from(["contains", "starts_with", "ends_with"]), TEXT)
        | st.tuples(st.sampled_from(["gt", "gte", "lt", "lte"]), NUMBERS)
        | st.tuples(st.just("exists"), st.booleans())
    )
    return {"attribute": draw(TEXT), "operator": operator, "value": value}


@st.composite
def flags(draw: st.DrawFn) -> dict[str, Any]:
    """A flag as the manual describes it."""
    values = draw(st.sampled_from(KINDS))
    flag: dict[str, Any] = {"default": draw(values)}
    if draw(st.booleans()):
        flag["enabled"] = draw(st.booleans())
    if draw(st.booleans()):
        names = draw(st.lists(TEXT.filter(bool), max_size=2, unique=True))
        flag["rules"] = [
            {
                "serve": draw(values),
                "name": name,
                "when": draw(st.lists(conditions(), max_size=2)),
                "rollout": draw(st.integers(0, 100) | st.floats(0, 100)),
            }
            for name in names
        ]
    return flag


DOCUMENTS = st.dictionaries(TEXT, flags(), max_size=2).map(lambda found: {"flags": found})


def told(document: Document) -> Any:
    """What a document says, with every kind of value told apart."""
    return flat(msgspec.to_builtins(document))


def try_parse(content: bytes, name: str) -> Document | None:
    """The document, or ``None`` where it is refused as it should be."""
    try:
        return parse(content, name)
    except FlagsFileError as error:
        problem = str(error)
    assert name in problem
    assert problem.isprintable()
    return None


def carried(value: Any) -> bool:
    """Whether every client can read this value: what the schema has no words for."""
    if isinstance(value, dict):
        return all(map(carried, value.values()))
    if isinstance(value, list):
        return all(map(carried, value))
    return not isinstance(value, int) or abs(value) <= MAX_WHOLE


def named_once(document: Any) -> bool:
    """Whether no flag has two rules of one name: what the schema has no words for either."""
    for flag in document["flags"].values():
        names = [rule["name"] for rule in flag.get("rules", ()) if "name" in rule]
        if len(set(names)) < len(names):
            return False
    return True


def expected(content: bytes) -> bool | None:
    """Whether JSON like this is a flags file; ``None`` where readers may differ."""
    try:
        document = read_json(content)
        depth = levels(document)
    except ValueError:
        return False
    except (Unsure, RecursionError):
        return None
    if depth > DEEPEST:
        return None
    sound = flat(document) is not None and carried(document)
    return sound and bool(SCHEMA.is_valid(document)) and named_once(document)


def check_json(content: bytes) -> None:
    found, wanted = try_parse(content, "flags.json"), expected(content)
    assert wanted is None or (found is not None) is wanted
    if found is not None:
        check_round_trip(found, read_json(content))


def check_round_trip(document: Document, raw: Any) -> None:
    """Written in any syntax and read again, it says the same."""
    for suffix in SUFFIXES:
        if suffix == ".toml" and "null" in json.dumps(raw):
            continue  # which TOML does not have
        assert told(parse(render(raw, f"f{suffix}"), f"f{suffix}")) == told(document)


@pytest.mark.parametrize("name", FILES)
def test_the_corpus_is_taken_or_refused(name: str) -> None:
    """Each file is a document or an error that names the file, and the good ones are good."""
    found = try_parse(FILES[name], name)
    assert (found is not None) is name.startswith(GOOD)
    if name.endswith(".json"):
        check_json(FILES[name])


def test_one_file_says_the_same_in_every_syntax() -> None:
    """The usual file is one document in JSON and YAML, and but for a null in TOML."""
    usual = {s: parse(FILES[f"usual{s}"], f"usual{s}") for s in (".json", ".yaml", ".toml")}
    assert told(usual[".json"]) == told(usual[".yaml"])
    assert usual[".json"].flags["checkout-v2"] == usual[".toml"].flags["checkout-v2"]


def test_words_of_other_versions_of_yaml_are_words() -> None:
    """What some readers take for false, a date or a number in another base is the text it is."""
    values = {}
    for name in ("norway.yaml", "dates.yaml", "octal-and-hexadecimal.yaml"):
        for key, flag in parse(FILES[name], name).flags.items():
            values[name, key] = flag.default
    assert list(values.values()) == [
        *("no", "off", "Yes"),
        *("2026-01-31", "12:30"),
        *("0o17", "0x1f", 17),
    ]


@given(almost("flags_file"))
def test_what_is_almost_a_flags_file_is_taken_where_its_schema_takes_it(content: bytes) -> None:
    """A damaged file is refused with an error that names it, or taken as an editor takes it."""
    check_json(content)
    for suffix in (".toml", ".yaml"):
        found = try_parse(content, f"flags{suffix}")
        assert found is None or told(found) is not None


@given(almost("flags_file"))
def test_toml_is_read_as_the_standard_library_reads_it(content: bytes) -> None:
    """A TOML file is refused, or says what the standard library reads in it."""
    found = try_parse(content, "flags.toml")
    if found is not None:
        raw = tomllib.loads(content.decode("utf-8-sig"))
        assert told(found) == told(parse(json.dumps(raw).encode(), "flags.json"))


@given(DOCUMENTS)
@example({"flags": {"0E0": {"default": "0E0"}, "\x85": {"default": "\u2028"}}})
def test_any_document_says_the_same_in_every_syntax(raw: dict[str, Any]) -> None:
    """What the manual allows is taken, by the schema too, and survives writing in each syntax."""
    content = json.dumps(raw).encode()
    document = parse(content, "flags.json")
    assert SCHEMA.is_valid(raw)
    assert named_once(raw)
    for key, flag in raw["flags"].items():
        assert flat(document.flags[key].default) == flat(flag["default"])
        assert kind_of(document.flags[key].default) == kind_of(flag["default"])
    check_round_trip(document, raw)


@given(
    st.binary(max_size=60) | st.text(max_size=40).map(lambda text: text.encode("utf-8", "replace"))
)
def test_any_bytes_are_refused_with_the_file_named(content: bytes) -> None:
    """No bytes make a reader raise anything but the error for people."""
    for suffix in SUFFIXES:
        with contextlib.suppress(FlagsFileError):
            parse(content, f"flags{suffix}")
        try_parse(content, f"flags{suffix}")
