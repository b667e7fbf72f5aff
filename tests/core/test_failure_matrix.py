"""The failure matrix: every way a call can end, in every way to read a flag.

One table of endings, one of doors, one of what is known before: whatever the
combination, what is served, why, from where, and who is told.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import Any

import pytest

from shipsilently_core import EvaluationError, Failure, Reason, Source
from tests.core.support import (
    ALL_FLAGS,
    DOORS,
    ONE_FLAG,
    TYPED,
    Door,
    Heard,
    Setup,
    listening,
    setup,
)

WHO = {"userId": "u1"}
HTML = {"content-type": "text/html"}


@dataclass(frozen=True)
class Ending:
    """One way a call can end, and the class of failure it is."""

    name: str
    failure: Failure
    status: int | None = None
    how: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.name

    def begin(self, s: Setup) -> None:
        """Let the service end every call like this from now on."""
        s.service.fail(self.status, **self.how)


def status(code: int, failure: Failure, name: str = "", **how: Any) -> Ending:
    return Ending(name or str(code), failure, code, how)


def answer(name: str, body: bytes, code: int = 200) -> Ending:
    return status(code, Failure.PROTOCOL, name, body=body, headers=HTML)


ENDINGS = [
    Ending("refused", Failure.NETWORK, how={"failure": Failure.NETWORK, "connected": False}),
    Ending("broke off", Failure.NETWORK, how={"failure": Failure.NETWORK}),
    Ending("timeout", Failure.TIMEOUT, how={"failure": Failure.TIMEOUT}),
    Ending("too large", Failure.PROTOCOL, how={"failure": Failure.PROTOCOL}),
    status(500, Failure.SERVER),
    status(502, Failure.SERVER, "502 with a page", body=b"<html>", headers=HTML),
    status(503, Failure.SERVER),
    status(503, Failure.SERVER, "503 with Retry-After", headers={"retry-after": "60"}),
    status(599, Failure.SERVER),
    status(401, Failure.AUTH),
    status(403, Failure.AUTH),
    status(429, Failure.THROTTLED, headers={"retry-after": "60"}),
    status(429, Failure.THROTTLED, "429 without Retry-After"),
    status(302, Failure.PROTOCOL, headers={"location": "http://elsewhere.invalid"}),
    status(400, Failure.PROTOCOL),
    status(402, Failure.PROTOCOL),
    status(204, Failure.PROTOCOL),
    answer("200 with a page", b"<html>"),
    answer("200 without a body", b""),
    answer("200 with an array", b"[]"),
    answer("200 with a string", b'"x"'),
    answer("200 with null", b"null"),
    answer("200 with an empty object", b"{}"),
    answer("200 cut off", b'{"flags":{"a":{"value":1,"reas'),
]

#: What is known before the call: the value served after it, and its source.
KNOWN = {
    "own": ("own", Source.CACHE),
    "baseline": ("base", Source.BASELINE),
    "nothing": ("default", Source.DEFAULT),
}


def prepared(known: str) -> Setup:
    s = setup(lambda context: {"a": "base" if context["userId"] == "system" else "own"})
    if known != "nothing":
        s.client.evaluate_all(s.client.config.baseline_context)
    if known == "own":
        s.client.evaluate_all(WHO)
    s.clock.advance(31)
    s.service.requests.clear()
    return s


@pytest.mark.parametrize("door", DOORS, ids=str)
@pytest.mark.parametrize("known", KNOWN)
@pytest.mark.parametrize("ending", ENDINGS, ids=str)
def test_a_failed_call_never_downgrades_a_value(
    ending: Ending, known: str, door: Door, lines: list[logging.LogRecord]
) -> None:
    """One attempt; then the best that is known, the cache as it was, one signal and one line."""
    s = prepared(known)
    before = s.client.get_all(WHO)
    value, source = KNOWN[known]
    ending.begin(s)
    with listening(s.client) as heard:
        result = door.read(s.client, WHO, "a", "default")
    if result is None:
        assert (known, door in ALL_FLAGS) == ("nothing", True)
    else:
        assert (result.value, result.source) == (value, source)
        assert result.reason == Reason.ERROR_FALLBACK
        assert result.error == (ending.failure if source is Source.DEFAULT else None)
    assert len(s.service.requests) == 1
    assert heard == [Heard(ending.failure, ending.status, None if door.batch else "a")]
    assert s.client.get_all(WHO) == before
    (line,) = lines
    assert line.levelname == "WARNING"
    assert line.exc_info is None


@pytest.mark.parametrize("door", DOORS, ids=str)
@pytest.mark.parametrize("ending", ENDINGS, ids=str)
def test_one_line_a_minute_for_one_kind_of_failure(
    ending: Ending, door: Door, lines: list[logging.LogRecord]
) -> None:
    """However often it fails within a minute, one warning says so."""
    s = prepared("own")
    ending.begin(s)
    for _ in range(28):
        door.read(s.client, WHO, "a", "default")
        s.clock.advance(2)
    assert len(lines) == 1
    for _ in range(30):
        s.clock.advance(2)
        door.read(s.client, WHO, "a", "default")
    assert len(lines) == 2


@pytest.mark.parametrize("door", DOORS, ids=str)
@pytest.mark.parametrize("ending", ENDINGS, ids=str)
def test_the_first_success_ends_it(ending: Ending, door: Door) -> None:
    """Once the service answers again, its value is served, with its reason."""
    s = prepared("own")
    ending.begin(s)
    door.read(s.client, WHO, "a", "default")
    s.service.recover()
    s.service.set({"a": "new"})
    s.clock.advance(61)
    result = door.read(s.client, WHO, "a", "default")
    assert result is not None
    assert (result.value, result.reason, result.source) == (
        "new",
        Reason.DEFAULT,
        Source.SERVER,
    )


@pytest.mark.parametrize("door", DOORS, ids=str)
@pytest.mark.parametrize("ending", ENDINGS, ids=str)
def test_without_a_cache_every_failure_raises(ending: Ending, door: Door) -> None:
    """With `disable_cache` the caller gets the class and the status as an exception."""
    s = setup({"a": "own"}, disable_cache=True)
    ending.begin(s)
    with pytest.raises(EvaluationError) as caught:
        door.read(s.client, WHO, "a", "default")
    assert (caught.value.failure, caught.value.status) == (ending.failure, ending.status)


@pytest.mark.parametrize("door", ONE_FLAG, ids=str)
@pytest.mark.parametrize("known", KNOWN)
@pytest.mark.parametrize("strict", [False, True])
def test_an_unknown_flag_gives_the_default_at_once(
    door: Door, known: str, strict: bool, lines: list[logging.LogRecord]
) -> None:
    """A 404 is no failure of the service: the default, no look into the cache, never an error."""
    s = setup({"a": "own"}, disable_cache=strict) if strict else prepared(known)
    s.service.fail(404)
    for _ in range(3):
        with listening(s.client) as heard:
            result = door.read(s.client, WHO, "a", "default")
        assert result is not None
        assert (result.value, result.reason) == ("default", Reason.FLAG_NOT_FOUND)
        assert (result.source, result.error) == (Source.DEFAULT, Failure.NOT_FOUND)
        assert heard == [Heard(Failure.NOT_FOUND, 404, "a")]
    assert len(s.service.requests) == 3
    assert len(lines) == 1


@pytest.mark.parametrize("door", [d for d in DOORS if d.batch], ids=str)
def test_a_batch_has_no_unknown_flag(door: Door) -> None:
    """A 404 for every flag at once is an answer that the protocol does not know."""
    s = prepared("own")
    s.service.fail(404)
    with listening(s.client) as heard:
        result = door.read(s.client, WHO, "a", "default")
    assert result is not None
    assert (result.value, result.source) == ("own", Source.CACHE)
    assert heard == [Heard(Failure.PROTOCOL, 404, None)]


@pytest.mark.parametrize("door", TYPED, ids=str)
def test_a_flag_that_a_batch_lacks_is_unknown(door: Door) -> None:
    """Whichever way it was asked for, a missing flag is reported as missing."""
    s = setup({})
    result = door.read(s.client, WHO, "a", "default")
    assert result is not None
    assert (result.value, result.reason, result.source, result.error) == (
        "default",
        Reason.FLAG_NOT_FOUND,
        Source.DEFAULT,
        Failure.NOT_FOUND,
    )


@pytest.mark.parametrize("door", DOORS, ids=str)
@pytest.mark.parametrize("code", [429, 503])
def test_nobody_asks_before_retry_after_has_passed(door: Door, code: int) -> None:
    """Whoever asks meanwhile gets what is known without a request, and a quiet reason why."""
    s = prepared("own")
    s.service.fail(code, headers={"retry-after": "10"})
    door.read(s.client, {"userId": "another"}, "a", "default")
    s.service.recover()
    s.clock.advance(9.9)
    with listening(s.client) as heard:
        result = door.read(s.client, WHO, "a", "default")
    assert result is not None
    assert (result.value, result.reason, result.source) == (
        "own",
        Reason.ERROR_FALLBACK,
        Source.CACHE,
    )
    unknown = door.read(s.client, {"userId": "third"}, "z", "default")
    if unknown is not None:
        assert unknown.error is Failure.THROTTLED
    assert len(s.service.requests) == 1
    assert heard == []
    s.clock.advance(0.1)
    result = door.read(s.client, WHO, "a", "default")
    assert result is not None
    assert result.source is Source.SERVER


@pytest.mark.parametrize("door", DOORS, ids=str)
def test_a_malformed_result_keeps_its_last_known_good_value(
    door: Door, lines: list[logging.LogRecord]
) -> None:
    """Of one answer the good results count; a malformed one is not taken for a value."""
    s = prepared("own")
    malformed = b'{"flags":{"a":{"reason":"default"},"b":{"value":"new","reason":"default"}}}'
    s.service.fail(200, body=malformed if door.batch else b'{"reason":"default"}')
    result = door.read(s.client, WHO, "a", "default")
    assert result is not None
    assert result.value == "own"
    assert result.reason == (Reason.DEFAULT if door.batch else Reason.ERROR_FALLBACK)
    if door.batch:
        assert s.client.get("b", "", WHO) == "new"
    assert len(lines) == 1
