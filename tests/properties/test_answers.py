"""The service's answers (batches, single flags, tickets) against a second reader of JSON."""

from __future__ import annotations

import json
import re
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from shipsilently_core import Config
from shipsilently_core._http import HttpTransport
from shipsilently_core._snapshot import Row
from shipsilently_core._stream import _ticket_of
from shipsilently_core._wire import Reply, parse_batch, parse_row
from tests.properties.json_reader import Unsure, flat, is_text, levels, read_json
from tests.properties.support import almost, corpus

BATCHES, RESULTS, TICKETS = corpus("batch"), corpus("evaluate"), corpus("ticket")
#: Levels that a value may have.
DEEPEST = 100

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
KEYS = st.sampled_from(["a", "b", "c", "", "ü"])
#: Rows of which some lack something or have something wrong.
ROWS = st.fixed_dictionaries(
    {},
    optional={
        "flagKey": KEYS | st.none() | st.integers(),
        "value": VALUES,
        "reason": st.sampled_from(["default", "rollout", "x"]) | st.none() | st.booleans(),
        "ruleId": TEXT | st.none() | st.integers(),
        "other": VALUES,
    },
)


def sound(row: Any, key: str) -> bool:
    """Whether this is what the protocol promises for the flag `key`."""
    return (
        isinstance(row, dict)
        and "value" in row
        and levels(row["value"]) <= DEEPEST
        and flat(row["value"]) is not None
        and is_text(row.get("reason"))
        and (row.get("ruleId") is None or is_text(row["ruleId"]))
        and (row.get("flagKey") is None or row["flagKey"] == key)
    )


def expected_batch(body: bytes) -> tuple[dict[str, Any], set[str]] | None:
    """The rows of each good flag and the keys of the others, read a second time."""
    try:
        document = read_json(body)
    except ValueError:
        return None
    flags = document.get("flags") if isinstance(document, dict) else None
    if not isinstance(flags, dict):
        return None
    flags = {key: row for key, row in flags.items() if is_text(key)}
    good = {key: row for key, row in flags.items() if sound(row, key)}
    return good, flags.keys() - good.keys()


def same(row: Row, read: dict[str, Any]) -> bool:
    """Whether both readers found the same."""
    return (
        flat(row.value) == flat(read["value"])
        and row.reason == read["reason"]
        and row.ruleId == read.get("ruleId")
    )


def is_doubtful(body: bytes) -> bool:
    """Whether it has bytes that are not UTF-8, or half of a surrogate pair as an escape.

    Neither is JSON. What is whole beside it may be read, and any of it may be refused.
    """
    try:
        return re.search(r"\\u[dD][89a-fA-F]", body.decode()) is not None
    except UnicodeDecodeError:
        return True


def check_batch(body: bytes, *, refusable: bool = False) -> None:
    found = parse_batch(body)
    try:
        expected = expected_batch(body)
    except Unsure:
        for row in (found or ({}, []))[0].values():
            assert flat(row.value) is not None
            assert levels(row.value) <= DEEPEST
        return
    if found is None or expected is None:
        assert found is None
        assert expected is None or refusable
        return
    rows, malformed = found
    if refusable:
        assert rows.keys() <= expected[0].keys()
        assert expected[1] <= set(malformed)
    else:
        assert rows.keys() == expected[0].keys()
        assert set(malformed) == expected[1]
    assert all(same(row, expected[0][key]) for key, row in rows.items())


@pytest.mark.parametrize("name", BATCHES)
def test_batches_of_the_corpus_are_read_as_a_second_reader_reads_them(name: str) -> None:
    """Good rows, malformed rows and answers that are none are told apart in each file."""
    check_batch(BATCHES[name])


@given(almost("batch"))
@example(b'{"flags":{"a":{"\x80value":"\\ud800","reason":"x"},"b":{"value":1,"reason":"x"}}}')
@example(b'{"flags":{"a":{"\\ud800flagKey":"a","value":1,"reason":"default"}}}')
@example(b'{"flags":{"\xffa":{"value":1,"reason":"x"},"b":{"value":1,"reason":"x"}}}')
@example(b'{"flags":{"\\ud800a":{"value":"\xff","reason":"x"},"b":{"value":1,"reason":"x"}}}')
def test_what_is_almost_a_batch_is_read_as_a_second_reader_reads_it(body: bytes) -> None:
    """Damage costs the rows that it hits, or the whole answer, and changes no other value."""
    check_batch(body, refusable=is_doubtful(body))


@given(st.dictionaries(KEYS, ROWS | VALUES, max_size=4), st.booleans())
def test_any_rows_are_kept_or_named(flags: dict[str, Any], ascii_only: bool) -> None:
    """Each flag of an answer is either served just as it was sent, or named as malformed."""
    body = json.dumps({"flags": flags}, ensure_ascii=ascii_only).encode()
    found = parse_batch(body)
    if "Infinity" in body.decode():
        # The standard library writes what is no JSON.
        check_batch(body)
        return
    assert found is not None
    rows, malformed = found
    assert {key for key, row in flags.items() if sound(row, key)} == rows.keys()
    assert flags.keys() - rows.keys() == set(malformed)
    assert all(same(row, flags[key]) for key, row in rows.items())


def check_result(body: bytes, key: str, *, refusable: bool = False) -> None:
    found = parse_row(body, key)
    try:
        expected = read_json(body)
    except ValueError:
        assert found is None
        return
    except Unsure:
        assert found is None or (flat(found.value) is not None and levels(found.value) <= DEEPEST)
        return
    if found is None:
        assert not sound(expected, key) or refusable
    else:
        assert sound(expected, key)
        assert same(found, expected)


@pytest.mark.parametrize("name", RESULTS)
def test_single_answers_of_the_corpus_are_read_as_a_second_reader_reads_them(name: str) -> None:
    """Each file is the flag that was asked for, or nothing, and never the value of another."""
    for key in ("a", "b", "", "A"):
        check_result(RESULTS[name], key)


@given(almost("evaluate"), KEYS)
@example(b'{"value":1,"reason":"x","flagKey":"b","flagKey":"a"}', "b")
@example(b'{"\\ud800flagKey":"a","value":true,"reason":"x"}', "a")
def test_what_is_almost_a_single_answer_is_read_as_a_second_reader_reads_it(
    body: bytes, key: str
) -> None:
    """Damage costs the answer and never changes its value."""
    check_result(body, key, refusable=is_doubtful(body))


@given(KEYS, ROWS)
def test_any_row_is_the_one_asked_for_or_none(key: str, row: dict[str, Any]) -> None:
    """A row with another flag's key is never served, whatever else it holds."""
    check_result(json.dumps(row).encode(), key)


def expected_ticket(body: bytes) -> str | None:
    try:
        document = read_json(body)
    except ValueError:
        return None
    ticket = document.get("ticket") if isinstance(document, dict) else None
    return ticket if is_text(ticket) and ticket else None


def check_ticket(body: bytes, *, refusable: bool = False) -> None:
    found = _ticket_of(Reply(200, body))
    try:
        assert found == expected_ticket(body) or (found is None and refusable)
    except Unsure:
        assert found is None or is_text(found)
    if found is not None:
        check_address(found)
    assert _ticket_of(Reply(500, body)) is None


def check_address(ticket: str) -> None:
    """The stream is asked for at one address, whose only parameter is the whole ticket."""
    asked: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request)
        return httpx.Response(503)

    with httpx.Client(transport=httpx.MockTransport(answer)) as client:
        config = Config(
            api_key="sk_live_0123456789", api_url="http://flags.invalid", http_client=client
        )
        reply = HttpTransport(config).open_stream(ticket)
    assert isinstance(reply, Reply)
    address = str(asked[0].url)
    assert address.isascii()
    assert address.isprintable()
    parts = urlsplit(address)
    assert (parts.netloc, parts.path, parts.fragment) == ("flags.invalid", "/v1/stream", "")
    assert parse_qs(parts.query, keep_blank_values=True) == {"ticket": [ticket]}
    assert "x-api-key" not in asked[0].headers


@pytest.mark.parametrize("name", TICKETS)
def test_tickets_of_the_corpus_are_read_as_a_second_reader_reads_them(name: str) -> None:
    """Each file is a ticket or none, and a ticket reaches the service whole, whatever is in it."""
    check_ticket(TICKETS[name])


@given(almost("ticket"))
@example(b'{"ticket":"tkt_1","\\ud800expiresIn":60}')
def test_what_is_almost_a_ticket_is_read_as_a_second_reader_reads_it(body: bytes) -> None:
    """Damaged bytes are a ticket that can be sent, or none."""
    check_ticket(body, refusable=is_doubtful(body))


@given(TEXT.filter(bool), st.booleans())
def test_any_ticket_reaches_the_service_whole(ticket: str, ascii_only: bool) -> None:
    """Every string that is not empty comes back from the address of the stream."""
    body = json.dumps({"ticket": ticket, "expiresIn": 60}, ensure_ascii=ascii_only).encode()
    assert _ticket_of(Reply(200, body)) == ticket
    check_address(ticket)
