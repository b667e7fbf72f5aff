"""What is said to the service and what it answers."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from shipsilently_core import Context, Failure
from shipsilently_core._snapshot import Row
from shipsilently_core._wire import (
    BATCH,
    EVALUATE,
    Reply,
    batch_request,
    evaluate_request,
    failure_of,
    parse_batch,
    parse_row,
    retry_after,
)

NOW = 1_800_000_000.0


@pytest.mark.parametrize(
    "key", ["checkout-v2", "a.b/c d", "../x?y", "флаг 🚀", "", '"\\', "\x00\n", "true"]
)
def test_any_string_is_a_flag_key(key: str) -> None:
    """A flag key reaches the service intact, as JSON in the body and never in the path."""
    request = evaluate_request(key, Context(user_id="u1"))
    assert request is not None
    assert request.path == EVALUATE
    assert json.loads(request.body) == {"flagKey": key, "context": {"userId": "u1"}}


@pytest.mark.parametrize("key", [None, 1, b"x", "\ud800"])
def test_what_is_no_string_is_no_flag_key(key: object) -> None:
    """A key of another type, or one that UTF-8 has no form for, makes no request."""
    assert evaluate_request(key, Context()) is None


def test_a_batch_asks_for_the_context() -> None:
    """The batch's body is the context alone."""
    request = batch_request(Context({"userId": "u1", "age": 3}))
    assert request.path == BATCH
    assert json.loads(request.body) == {"context": {"userId": "u1", "age": 3}}


@pytest.mark.parametrize(
    ("reply", "failure"),
    [
        (Reply(200), None),
        (Reply(401), Failure.AUTH),
        (Reply(403), Failure.AUTH),
        (Reply(429), Failure.THROTTLED),
        (Reply(500), Failure.SERVER),
        (Reply(503), Failure.SERVER),
        (Reply(204), Failure.PROTOCOL),
        (Reply(302), Failure.PROTOCOL),
        (Reply(400), Failure.PROTOCOL),
        (Reply(404), Failure.PROTOCOL),
        (Reply(failure=Failure.TIMEOUT), Failure.TIMEOUT),
        (Reply(), Failure.NETWORK),
        (Reply(200, failure=Failure.PROTOCOL), Failure.PROTOCOL),
    ],
)
def test_a_status_is_a_class_of_failure(reply: Reply, failure: Failure | None) -> None:
    """Each status, and each way to have none, belongs to one class."""
    assert failure_of(reply) is failure


@pytest.mark.parametrize("value", [True, False, 0, 1.5, "", "x", {}, {"a": [1]}, [], None])
def test_every_json_value_is_a_value(value: Any) -> None:
    """False, 0, empty ones and null are values like any other."""
    body = json.dumps({"flagKey": "a", "value": value, "reason": "default", "new": 1}).encode()
    row = parse_row(body, "a")
    assert row == Row(value, "default", None, "a")
    assert type(row.value) is type(value)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"null",
        b"[]",
        b'"x"',
        b"{}",
        b"{",
        b"<html>",
        b'{"value":1}',
        b'{"reason":"default"}',
        b'{"value":1,"reason":2}',
        b'{"value":1,"reason":"default","ruleId":5}',
        b'{"value":1,"reason":"default","flagKey":"other"}',
        b'{"value":1,"reason":"default"} x',
        b'{"value":NaN,"reason":"default"}',
        b'{"value":1e999,"reason":"default"}',
        b'{"value":' + b"1" * 5000 + b',"reason":"default"}',
        b'{"value":"\xff","reason":"default"}',
        b'{"value":"\\ud800","reason":"default"}',
        b'{"value":' + b"[" * 200_000 + b"]" * 200_000 + b',"reason":"default"}',
    ],
    ids=lambda body: repr(body[:40]),
)
def test_what_is_not_a_result_is_no_row(body: bytes) -> None:
    """Anything but the promised JSON for this very flag is malformed, and nothing raises."""
    assert parse_row(body, "a") is None


def test_a_rule_and_a_reason_of_tomorrow_are_kept() -> None:
    """The rule's name is kept, and a reason that is not known yet is passed on."""
    body = b'{"value":1,"reason":"scheduled","ruleId":"r1"}'
    assert parse_row(body, "a") == Row(1, "scheduled", "r1", None)


def test_a_byte_order_mark_does_no_harm() -> None:
    """Right JSON after a BOM is read."""
    bom = b"\xef\xbb\xbf"
    assert parse_row(bom + b'{"value":1,"reason":"default"}', "a") == Row(1, "default")
    assert parse_batch(bom + b'{"flags":{}}') == ({}, [])


def test_the_good_rows_of_a_batch_count() -> None:
    """A malformed or foreign row is named, and the others are kept."""
    flags = {
        "good": {"value": 1, "reason": "default"},
        "no value": {"reason": "default"},
        "no object": 5,
        "other": {"value": 1, "reason": "default", "flagKey": "another"},
    }
    parsed = parse_batch(json.dumps({"flags": flags}).encode())
    assert parsed == ({"good": Row(1, "default")}, ["no value", "no object", "other"])
    del flags["no value"], flags["no object"]
    assert parse_batch(json.dumps({"flags": flags}).encode()) == (
        {"good": Row(1, "default")},
        ["other"],
    )


@pytest.mark.parametrize(
    "body", [b"", b"null", b"[]", b"{}", b'{"flags":[]}', b'{"flags":null}', b'{"flags":{"a":1}']
)
def test_what_is_not_a_batch_is_none(body: bytes) -> None:
    """Without an object of flags there is no batch at all."""
    assert parse_batch(body) is None


@pytest.mark.parametrize("depth", [50, 90])
def test_nested_values_are_values(depth: int) -> None:
    """A value may be nested far deeper than any configuration."""
    nested: Any = 1
    for level in range(depth):
        nested = [nested] if level % 2 else {"a": nested}
    row = parse_row(json.dumps({"value": nested, "reason": "default"}).encode(), "a")
    assert row == Row(nested, "default")


@pytest.mark.parametrize("depth", [101, 300, 600, 900, 3000, 100_000])
@pytest.mark.parametrize(("opening", "closing"), [(b"[", b"]"), (b'{"a":', b"}")])
def test_values_nested_beyond_sense_are_malformed(
    depth: int, opening: bytes, closing: bytes
) -> None:
    """A value so deep that copying it could exhaust the stack is not taken in at all."""
    bad = b'{"reason":"default","value":' + opening * depth + b"1" + closing * depth + b"}"
    assert parse_row(bad, "a") is None
    rest = b'"good":{"value":1,"reason":"default"}'
    parsed = parse_batch(b'{"flags":{"bad":' + bad + b"," + rest + b"}}")
    # So deep that the decoder itself gives up, the whole batch is unreadable.
    assert parsed in (({"good": Row(1, "default")}, ["bad"]), None)
    assert depth > 900 or parsed is not None


@given(st.binary(max_size=300))
@example(b"[" * 200_000)
@example(b'{"flags":{"a":' * 100_000)
@example(b'{"flags":{"a":{"value":' + b"9" * 10_000 + b',"reason":"x"}}}')
@example(b'{"flags":{"\xff":{"value":1,"reason":"x"}}}')
@example(b'{"flags":{"\\ud800":{"value":1,"reason":"x"}}}')
def test_no_bytes_make_the_parsers_raise(body: bytes) -> None:
    """Whatever arrives is either read or not, and never an exception."""
    parse_batch(body)
    parse_row(body, "a")
    parse_batch(b'{"flags":{"a":{"value":' + body + b',"reason":"default"}}}')


JSON = st.recursive(
    st.none() | st.booleans() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text(), JSON, max_size=4))
def test_any_json_values_come_through_a_batch(values: dict[str, Any]) -> None:
    """What the service says is what is known, value by value."""
    flags = {key: {"flagKey": key, "value": v, "reason": "rollout"} for key, v in values.items()}
    parsed = parse_batch(json.dumps({"flags": flags}).encode())
    assert parsed is not None
    rows, malformed = parsed
    assert not malformed
    assert {key: row.value for key, row in rows.items()} == values


def throttled(text: str | None, status: int = 429, date: str | None = None) -> Reply:
    headers = {} if text is None else {"retry-after": text}
    if date is not None:
        headers["date"] = date
    return Reply(status, headers=headers)


def http_date(seconds: float) -> str:
    return format_datetime(datetime.fromtimestamp(NOW, UTC) + timedelta(seconds=seconds), True)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("2", 2.0),
        ("0", 0.0),
        ("1.5", 1.5),
        (" 7 ", 7.0),
        ("999999", 3600.0),
        ("9" * 5000, 3600.0),
        (http_date(3), 3.0),
        (http_date(3).replace("GMT", ""), 3.0),
        (http_date(1e6), 3600.0),
        (http_date(-60), 0.25),
        (http_date(0), 0.25),
        ("-5", 0.25),
        ("soon", 0.25),
        ("", 0.25),
        ("nan", 0.25),
        ("inf", 0.25),
        ("1e3", 0.25),
        ("2, 5", 0.25),
        ("٣", 0.25),
        ("Mon, 99 Foo 2026 99:99:99 GMT", 0.25),
        ("Mon, 01 Jan 99999 00:00:00 GMT", 0.25),
        ("Mon, 01 Jan 0001 00:00:00 +2359", 0.25),
        (None, 0.25),
    ],
)
def test_retry_after_in_all_its_forms(text: str | None, seconds: float) -> None:
    """Seconds, fractions and dates count, up to an hour; everything else is the backoff's base."""
    assert retry_after(throttled(text), now=NOW, base=0.25) == pytest.approx(seconds)
    if text is not None:
        assert retry_after(throttled(text, 503), now=NOW, base=0.25) == pytest.approx(seconds)


@pytest.mark.parametrize("status", [200, 302, 401, 404, 500, 502, None])
def test_other_answers_ask_for_no_pause(status: int | None) -> None:
    """Only a 429 and a 503 can ask for one."""
    reply = Reply(status, headers={"retry-after": "60"})
    assert retry_after(reply, now=NOW, base=1.0) is None


def test_a_503_without_the_header_asks_for_no_pause() -> None:
    """A 503 alone is an ordinary failure."""
    assert retry_after(throttled(None, 503), now=NOW, base=1.0) is None


def test_a_date_is_reckoned_from_the_answers_own_date() -> None:
    """A clock that is a day wrong does not make the pause a day longer."""
    reply = throttled(http_date(86_400 + 5), date=http_date(86_400))
    assert retry_after(reply, now=NOW, base=1.0) == 5.0
    reply = throttled(http_date(5), date="not a date")
    assert retry_after(reply, now=NOW, base=1.0) == 5.0


@given(st.text() | st.from_regex(r"\A[-+]?\d{1,30}(\.\d*)?(e\d+)?\Z"), st.text())
@example("Mon, 01 Jan 0001 00:00:00 +9999", "Mon, 31 Dec 9999 23:59:59 -9999")
def test_no_retry_after_leaves_the_bounds(text: str, date: str) -> None:
    """Whatever a server writes, the pause is between nothing and an hour."""
    for status in (429, 503):
        pause = retry_after(throttled(text, status, date), now=NOW, base=1.0)
        assert pause is not None
        assert 0 <= pause <= 3600


HALF = rb'{"value":"cut \ud83d","reason":"default"}'
GOOD = rb'{"value":"whole \ud83d\ude00","reason":"default"}'


def test_half_a_surrogate_pair_costs_its_own_flag_only() -> None:
    """A text that the service has cut inside an emoji leaves the other flags as they are."""
    parsed = parse_batch(rb'{"flags":{"bad":' + HALF + rb',"good":' + GOOD + b"}}")
    assert parsed is not None
    rows, malformed = parsed
    assert {key: row.value for key, row in rows.items()} == {"good": "whole \U0001f600"}
    assert malformed == ["bad"]
    keyed = parse_batch(rb'{"flags":{"\ud83d":' + GOOD + rb',"good":' + GOOD + b"}}")
    assert keyed is not None
    assert list(keyed[0]) == ["good"]


@pytest.mark.parametrize(
    "document",
    [b"[%s]", b'{"flags":[%s]}', b'{"other":%s}', b'{"flags":{"a":%s},"b":NaN}', b'{"flags":%s'],
)
def test_half_a_surrogate_pair_does_not_make_an_answer_of_anything(document: bytes) -> None:
    """What is not the promised JSON otherwise is refused as ever."""
    assert parse_batch(document % HALF) is None
