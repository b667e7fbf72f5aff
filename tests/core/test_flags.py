"""The flags of one context, as one request sees them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from shipsilently_core import Context, EvaluationError, Failure, Flags, Source
from tests.core.support import Heard, Setup, listening, setup

VALUES: dict[str, Any] = {
    "on": True,
    "off": False,
    "one": 1,
    "half": 0.5,
    "text": "x",
    "object": {"n": [1]},
    "array": [1],
    "null": None,
}
WHO = {"userId": "u1"}


def flags_of(s: Setup) -> Flags:
    return s.client.flags(WHO)


def test_nothing_happens_before_the_first_read() -> None:
    """Making them asks nothing, the first read asks once, the others read memory."""
    s = setup(VALUES)
    flags = flags_of(s)
    assert repr(flags) == "<Flags: not evaluated yet>"
    assert s.service.requests == []
    assert flags.get("on", False) is True
    s.clock.advance(1_000)
    s.service.set({})
    assert flags.get("text", "") == "x"
    assert len(s.service.requests) == 1
    assert repr(flags) == "<Flags: 8 flags>"


async def test_awaited_first_they_answer_from_memory() -> None:
    """After one of the awaitable verbs the plain ones work in a coroutine."""
    s = setup(VALUES)
    flags = flags_of(s)
    results = await flags.aevaluate_all()
    assert {key: result.value for key, result in results.items()} == VALUES
    assert flags.get("on", False) is True
    assert await flags.aget("one", 0) == 1
    assert (await flags.adetail("half", 0.0)).value == 0.5
    assert await flags.ais_enabled("on")
    assert len(s.service.requests) == 1


async def test_a_plain_read_in_a_coroutine_never_waits(lines: list[Any]) -> None:
    """What is known is served at once, with one warning, and awaiting afterwards still asks."""
    s = setup(VALUES)
    flags = flags_of(s)
    assert flags.get("on", False) is False
    assert flags.detail("on", False).error is Failure.TIMEOUT
    assert s.service.requests == []
    assert await flags.aget("on", False) is True
    assert flags.get("on", False) is True
    assert ["await flags.aevaluate_all()" in line.getMessage() for line in lines] == [True]


async def test_a_plain_read_in_a_coroutine_is_fine_where_it_is_fresh(lines: list[Any]) -> None:
    """A fresh entry needs no waiting, and so no warning."""
    s = setup(VALUES)
    await s.client.aevaluate_all(WHO)
    assert flags_of(s).get("on", False) is True
    assert lines == []


async def test_a_loop_that_serves_one_request_may_be_blocked() -> None:
    """With `block_event_loop` a plain read in a coroutine waits for the service."""
    s = setup(VALUES)
    assert s.client.flags(WHO, block_event_loop=True).get("on", False) is True
    assert len(s.service.requests) == 1


@pytest.mark.parametrize(
    ("key", "default", "value"),
    [
        ("on", False, True),
        ("one", 0, 1),
        ("one", 0.5, 1),
        ("half", 0, 0.5),
        ("text", "", "x"),
        ("object", {}, {"n": [1]}),
        ("array", [], [1]),
        ("null", None, None),
        ("null", "x", "x"),
        ("on", 0, 0),
        ("one", False, False),
        ("text", False, False),
        ("missing", "x", "x"),
    ],
)
def test_a_value_is_served_where_it_has_the_default_s_type(
    key: str, default: Any, value: Any
) -> None:
    """Otherwise it is the default."""
    got = flags_of(setup(VALUES)).get(key, default)
    assert got == value
    assert type(got) is type(value)


def test_the_default_may_be_left_out() -> None:
    """Then it is the declared one, else None, which takes any type; for a switch it is off."""
    s = setup({"a": 1}, defaults={"a": "declared", "b": True, "c": "text"})
    flags = flags_of(s)
    assert flags.get("a") == "declared"
    assert flags.get("missing") is None
    assert flags.is_enabled("missing") is False
    assert flags.is_enabled("b") is True
    assert flags.is_enabled("c") is False
    assert flags.is_enabled("b", default=False) is False


@pytest.mark.parametrize(("key", "on"), [("on", True), ("off", False), ("one", False)])
def test_on_is_true_and_not_merely_truthy(key: str, on: bool) -> None:
    """1 does not switch anything on."""
    flags = flags_of(setup(VALUES))
    assert flags.is_enabled(key) is on
    assert asyncio.run(flags.ais_enabled(key)) is on


def test_membership_is_of_flags_that_are_known() -> None:
    """A flag is in them where a value is known; anything else is not."""
    flags = flags_of(setup(VALUES))
    assert "off" in flags
    assert "missing" not in flags
    assert 5 not in flags


def test_the_baseline_counts_as_known() -> None:
    """In an outage a flag is in them where the baseline can stand in."""
    s = setup(lambda context: {"a": 1} if context["userId"] == "system" else {})
    s.client.evaluate_all(s.client.config.baseline_context)
    s.service.fail(500)
    assert "a" in flags_of(s)
    assert "b" not in flags_of(s)


def test_what_is_handed_out_can_be_changed() -> None:
    """A caller that changes an object or array changes it for nobody else."""
    s = setup(VALUES)
    flags = flags_of(s)
    flags.evaluate_all()
    flags.get("object", {})["n"].append(2)
    flags.get("array", []).append(2)  # type: ignore[call-overload]
    flags.evaluate_all()["object"].value["n"].append(2)
    for other in (flags, flags_of(s)):
        assert other.get("object", {}) == {"n": [1]}
        assert other.get("array", []) == [1]  # type: ignore[call-overload]


def test_an_outage_is_seen_once_by_one_request() -> None:
    """After a failure the request keeps its view, also when the service comes back."""
    s = setup({"a": 1})
    s.client.evaluate_all(WHO)
    s.clock.advance(31)
    s.service.fail(500)
    flags = flags_of(s)
    assert flags.detail("a", 0).source is Source.CACHE
    s.service.recover()
    s.service.set({"a": 2})
    assert flags.get("a", 0) == 1
    assert s.client.flags(WHO).get("a", 0) == 1
    s.clock.advance(1)
    assert s.client.flags(WHO).get("a", 0) == 2


def test_without_a_cache_a_failure_raises() -> None:
    """With `disable_cache` the read raises, plain and awaited."""
    s = setup({"a": 1}, disable_cache=True)
    assert flags_of(s).get("a", 0) == 1
    s.service.fail(500)
    with pytest.raises(EvaluationError):
        flags_of(s).get("a", 0)
    s.clock.advance(100)
    with pytest.raises(EvaluationError):
        asyncio.run(flags_of(s).aget("a", 0))


def test_the_context_can_be_seen() -> None:
    """Whom the flags are for, in its wire form."""
    assert setup().client.flags({"userId": "u1"}, plan="pro").context == Context(
        user_id="u1", plan="pro"
    )


async def test_two_tasks_of_one_request_see_one_set() -> None:
    """Whichever task of a request comes first, the view is everybody's."""
    s = setup({"a": 1}, max_age=0)
    flags = flags_of(s)
    release = asyncio.Event()
    answer = s.service.asend

    async def held(request: Any) -> Any:
        await release.wait()
        return await answer(request)

    s.service.asend = held  # type: ignore[method-assign]
    one = asyncio.create_task(flags.aget("a", 0))
    await asyncio.sleep(0)
    # A change in between makes the second task start an attempt of its own.
    s.client.evaluator.cache.invalidate()
    two = asyncio.create_task(flags.aget("a", 0))
    await asyncio.sleep(0)
    release.set()
    assert list(await asyncio.gather(one, two)) == [1, 1]
    assert await flags.aget("a", 0) == 1


def test_they_can_be_loaded_before_they_are_read() -> None:
    """`load` evaluates once and gives the flags; what follows is from memory."""
    s = setup(VALUES)
    flags = flags_of(s)
    assert flags.load() is flags
    assert flags.load().get("on", False) is True
    assert len(s.service.requests) == 1


async def test_they_can_be_loaded_in_a_task(lines: list[Any]) -> None:
    """After `aload` the plain verbs need no `await`, and nothing warns."""
    s = setup(VALUES)
    flags = flags_of(s)
    assert await flags.aload() is flags
    assert flags.get("on", False) is True
    assert len(s.service.requests) == 1
    assert lines == []


def refreshed(flags: Flags, *, awaited: bool) -> Flags:
    return asyncio.run(flags.arefresh()) if awaited else flags.refresh()


@pytest.mark.parametrize("awaited", [False, True])
def test_a_refresh_sees_what_a_new_request_would_see(awaited: bool) -> None:
    """Nothing is asked while the cache is fresh; afterwards the new values are there."""
    s = setup({"a": 1})
    flags = flags_of(s)
    assert flags.get("a", 0) == 1
    s.service.set({"a": 2})
    assert refreshed(flags, awaited=awaited) is flags
    assert flags.get("a", 0) == 1
    assert len(s.service.requests) == 1
    s.clock.advance(31)
    assert flags.get("a", 0) == 1
    assert refreshed(flags, awaited=awaited).get("a", 0) == 2
    assert len(s.service.requests) == 2
    s.service.fail(500)
    s.clock.advance(31)
    assert refreshed(flags, awaited=awaited).get("a", 0) == 2
    assert flags.detail("a", 0).source is Source.CACHE


def test_what_is_read_after_a_refresh_counts_anew() -> None:
    """However often it is read, a flag is one check until the next refresh."""
    s = setup({"a": 1})
    s.client.evaluate_all(WHO)
    flags = flags_of(s)
    for expected in (1, 2):
        for _ in range(3):
            flags.get("a", 0)
        assert len(s.client.evaluator.analytics) == expected
        flags.refresh()


def test_a_refresh_that_raises_leaves_what_was_seen() -> None:
    """With `disable_cache` a failed refresh raises, and the values stay as they were."""
    s = setup({"a": 1}, disable_cache=True)
    flags = flags_of(s).load()
    s.service.fail(500)
    with pytest.raises(EvaluationError):
        flags.refresh()
    assert flags.get("a", 0) == 1


async def test_a_plain_refresh_in_a_coroutine_never_waits() -> None:
    """It serves what is known, and an awaited read afterwards asks."""
    s = setup({"a": 1})
    flags = await flags_of(s).aload()
    s.service.set({"a": 2})
    s.clock.advance(31)
    assert flags.refresh().get("a", 0) == 1
    assert len(s.service.requests) == 1
    assert await flags.aget("a", 0) == 2


def test_code_that_checks_values_itself_can_tell_of_them(lines: list[Any]) -> None:
    """A reported mismatch is one warning and the signal, with the type and never the value."""
    s = setup({"a": "secret"})
    flags = flags_of(s)
    with listening(s.client) as heard:
        for _ in range(2):
            flags.report_mismatch("a", "secret", "the checkout")
    assert heard == [Heard(Failure.TYPE_MISMATCH, None, "a")] * 2
    assert [line.getMessage() for line in lines] == [
        "flag 'a' holds a str that the checkout does not take; the default is served"
    ]
