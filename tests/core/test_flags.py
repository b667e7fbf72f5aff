"""The flags of one context, as one request sees them."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from shipsilently_core import AnalyticsConfig, Context, EvaluationError, Failure, Flags, Source
from shipsilently_core.testing import override_flags
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


class Promise:
    """Called like the lazy strings of a framework."""

    def __str__(self) -> str:
        return "translated"


@pytest.mark.parametrize(
    ("key", "value"), [("text", "x"), ("on", "translated"), ("?", "translated")]
)
def test_a_lazy_string_as_default_takes_a_string(key: str, value: str) -> None:
    """Where the flag holds none, its text is served, as it is translated at this moment."""
    s = setup(VALUES)
    default: Any = Promise()
    assert [flags_of(s).get(key, default), flags_of(s).detail(key, default).value] == [value] * 2
    assert s.client.evaluate(key, {"userId": "u1"}, default) == value


def test_a_switch_whose_declared_default_is_null_is_evaluated() -> None:
    """A null says nothing, so the flag is what the service says, and off where it says nothing."""
    s = setup({"on": True}, defaults={"on": None, "missing": None})
    for flags in (flags_of(s), flags_of(s).load()):
        assert flags.is_enabled("on") is True
        assert flags.is_enabled("missing") is False
        assert flags.is_enabled("on", default=None) is True  # type: ignore[arg-type]


@pytest.mark.parametrize("key", ["on", "object", "missing"])
def test_a_default_that_is_no_value_of_json_is_what_comes_back(key: str) -> None:
    """An object to tell that a flag is missing, as with dictionaries: nothing of ours comes."""
    missing: Any = object()
    flags = flags_of(setup(VALUES))
    for _ in range(2):
        assert flags.get(key, missing) is missing
        flags.get(key)


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


async def test_they_can_be_awaited_themselves(lines: list[Any]) -> None:
    """`await flags` evaluates once, as `aload`, and gives the flags."""
    s = setup(VALUES)
    flags = flags_of(s)
    assert await flags is flags
    assert (await flags).get("on", False) is True
    assert len(s.service.requests) == 1
    assert lines == []


def refreshed(flags: Flags, way: str) -> Flags:
    async def awaited() -> Flags:
        return await (flags.arefresh() if way == "arefresh" else flags.refresh())

    return flags.refresh() if way == "plain" else asyncio.run(awaited())


@pytest.mark.parametrize("way", ["plain", "arefresh", "await refresh"])
def test_a_refresh_sees_what_a_new_request_would_see(way: str) -> None:
    """Nothing is asked while the cache is fresh; afterwards the new values are there."""
    s = setup({"a": 1})
    flags = flags_of(s)
    assert flags.get("a", 0) == 1
    s.service.set({"a": 2})
    assert refreshed(flags, way) is flags
    assert flags.get("a", 0) == 1
    assert len(s.service.requests) == 1
    s.clock.advance(31)
    assert flags.get("a", 0) == 1
    assert refreshed(flags, way).get("a", 0) == 2
    assert len(s.service.requests) == 2
    s.service.fail(500)
    s.clock.advance(31)
    assert refreshed(flags, way).get("a", 0) == 2
    assert flags.detail("a", 0).source is Source.CACHE


@pytest.mark.parametrize("way", ["plain", "arefresh", "await refresh"])
def test_what_is_read_after_a_refresh_counts_anew(way: str) -> None:
    """However often it is read, a flag is one check until the next refresh."""
    s = setup({"a": 1})
    s.client.evaluate_all(WHO)
    flags = flags_of(s)
    for expected in (1, 2):
        for _ in range(3):
            flags.get("a", 0)
        assert len(s.client.evaluator.analytics) == expected
        refreshed(flags, way)


@pytest.mark.parametrize("way", ["plain", "arefresh", "await refresh"])
def test_a_refresh_that_raises_leaves_what_was_seen(way: str) -> None:
    """With `disable_cache` a failed refresh raises, and the values stay as they were."""
    s = setup({"a": 1}, disable_cache=True)
    flags = flags_of(s).load()
    assert flags.get("a", 0) == 1
    s.service.fail(500)
    with pytest.raises(EvaluationError):
        refreshed(flags, way)
    assert flags.get("a", 0) == 1
    assert asyncio.run(flags.aget("a", 0)) == 1
    assert len(s.service.requests) == 2


async def test_a_forgotten_await_is_told_of(lines: list[Any]) -> None:
    """Without its `await` a refresh in a coroutine asks nothing: what was seen stays, one line."""
    s = setup({"a": 1})
    flags = await flags_of(s)
    assert flags.get("a", 0) == 1
    s.service.set({"a": 2})
    s.clock.advance(31)
    assert flags.refresh() is flags
    assert lines == []
    assert flags.get("a", 0) == 1
    assert flags.detail("a", 0).error is None
    assert ["await" in line.getMessage() for line in lines] == [True]
    assert len(s.service.requests) == 1
    assert await flags.aget("a", 0) == 2
    assert flags.get("a", 0) == 2


async def test_a_forgotten_await_raises_nothing() -> None:
    """With `disable_cache`, too, what was seen stays until somebody awaits the refresh."""
    s = setup({"a": 1}, disable_cache=True)
    flags = await flags_of(s)
    s.service.set({"a": 2})
    assert flags.refresh().get("a", 0) == 1
    assert len(s.service.requests) == 1
    assert (await flags).get("a", 0) == 2


async def test_a_refresh_before_the_first_read_is_like_none() -> None:
    """Without a cache a read that nobody awaited raises, before and after it."""
    s = setup({"a": 1}, disable_cache=True)
    with pytest.raises(EvaluationError):
        flags_of(s).refresh().get("a", 0)
    flags = flags_of(setup({"a": 1}))
    assert flags.get("a", 0) == 0
    assert flags.refresh().get("a", 0) == 0
    assert flags.get("a", 0) == 0
    assert await flags.aget("a", 0) == 1


async def test_a_refresh_needs_no_await_where_the_cache_is_fresh(lines: list[Any]) -> None:
    """Then the next plain read has the new values, and nothing warns."""
    s = setup({"a": 1})
    flags = await flags_of(s)
    s.service.set({"a": 2})
    s.clock.advance(31)
    await s.client.aevaluate_all(WHO)
    assert flags.get("a", 0) == 1
    assert flags.refresh().get("a", 0) == 2
    assert lines == []


def test_a_refresh_that_was_not_awaited_is_made_up_for_by_a_thread() -> None:
    """A read that may wait does so, and raises what the refresh would have raised, once."""
    s = setup({"a": 1}, disable_cache=True)
    flags = flags_of(s).load()

    async def forget() -> None:
        flags.refresh()

    s.service.set({"a": 2})
    asyncio.run(forget())
    assert flags.get("a", 0) == 2
    s.service.fail(500)
    asyncio.run(forget())
    with pytest.raises(EvaluationError):
        flags.get("a", 0)
    assert flags.get("a", 0) == 2


def test_a_loop_that_may_be_blocked_refreshes_at_once() -> None:
    """With `block_event_loop` a refresh waits, whether it is awaited or not."""
    s = setup({"a": 1})
    flags = s.client.flags(WHO, block_event_loop=True)

    async def refresh() -> None:
        for number in (2, 3):
            s.service.set({"a": number})
            s.clock.advance(31)
            flags.refresh()
            assert flags.get("a", 0) == number
            assert await flags is flags

    assert flags.get("a", 0) == 1
    asyncio.run(refresh())
    assert len(s.service.requests) == 3


class Held:
    """A service whose answers wait, each for its own release."""

    def __init__(self, s: Setup) -> None:
        self.releases: list[asyncio.Event] = []
        self._answer = s.service.asend
        s.service.asend = self.asend  # type: ignore[method-assign]

    async def asend(self, request: Any) -> Any:
        """Answer when released, with what was true when it was asked."""
        answer = await self._answer(request)
        release = asyncio.Event()
        self.releases.append(release)
        await release.wait()
        return answer


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_others_see_what_they_saw_until_a_refresh_is_there(lines: list[Any]) -> None:
    """While one task awaits it, reads of the others, awaited or not, have the former values."""
    s = setup({"a": 1})
    flags = await flags_of(s)
    assert flags.get("a", 0) == 1
    counted = len(s.client.evaluator.analytics)
    s.service.set({"a": 2})
    s.clock.advance(31)
    held = Held(s)
    task = asyncio.ensure_future(flags.refresh())
    await settle()
    assert flags.get("a", 0) == 1
    assert await flags.aget("a", 0) == 1
    assert flags.detail("a", 0).error is None
    assert len(s.client.evaluator.analytics) == counted
    held.releases[0].set()
    assert await task is flags
    assert flags.get("a", 0) == 2
    assert lines == []


async def test_tasks_that_refresh_together_share_one_attempt() -> None:
    """Two refreshes at once ask once, and both have seen the new values when they are there."""
    s = setup({"a": 1})
    flags = await flags_of(s)
    s.service.set({"a": 2})
    s.clock.advance(31)

    async def refresh() -> float:
        await flags.refresh()
        return flags.get("a", 0)

    assert list(await asyncio.gather(refresh(), refresh())) == [2, 2]
    assert len(s.service.requests) == 2
    s.service.set({"a": 3})
    s.clock.advance(31)
    one = flags.refresh()
    # Both wait for the same refresh, since `flags` is the same object.
    await asyncio.gather(flags.aget("a", 0), one, one)
    assert flags.get("a", 0) == 3
    assert len(s.service.requests) == 3


async def test_the_refresh_that_began_last_is_seen() -> None:
    """One that is overtaken by a later one changes nothing any more."""
    s = setup({"a": 1}, max_age=0)
    flags = await flags_of(s)
    held = Held(s)
    early = asyncio.ensure_future(flags.refresh())
    await settle()
    s.service.set({"a": 2})
    s.client.evaluator.cache.invalidate()
    late = asyncio.ensure_future(flags.refresh())
    await settle()
    early_release, late_release = held.releases
    late_release.set()
    await late
    seen = flags.evaluate_all()
    early_release.set()
    await early
    assert flags.evaluate_all() == seen
    assert flags.get("a", 0) == 2


async def test_a_cancelled_refresh_changes_nothing(lines: list[Any]) -> None:
    """Whoever gives up a refresh, and everybody else, sees what was seen before."""
    s = setup({"a": 1})
    flags = await flags_of(s)
    s.service.set({"a": 2})
    s.clock.advance(31)
    held = Held(s)
    task = asyncio.ensure_future(flags.refresh())
    await settle()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert flags.get("a", 0) == 1
    assert await flags.aget("a", 0) == 1
    held.releases[0].set()
    assert (await flags.refresh()).get("a", 0) == 2
    assert lines == []


async def test_what_a_test_has_set_is_awaited_without_asking() -> None:
    """The awaitable verbs, and loading, ask nothing for a flag that a test has set."""
    s = setup({"a": False})
    flags = flags_of(s)
    with override_flags(a=True):
        assert await flags.load() is flags
        assert await flags.aget("a", False) is True
        assert await flags.ais_enabled("a")
        assert (await flags.adetail("a")).source is Source.OVERRIDE
    assert s.service.requests == []


async def test_a_refresh_under_overrides_asks_nothing() -> None:
    """While a test has set flags, it forgets what was seen, and the next read of others asks."""
    s = setup({"a": 1, "b": 1})
    flags = await flags_of(s)
    s.service.set({"a": 2, "b": 2})
    s.clock.advance(31)
    with override_flags(a=5):
        assert await flags.refresh() is flags
        assert flags.get("a", 0) == 5
        assert len(s.service.requests) == 1
        assert flags.get("b", 0) == 2
    assert flags.get("a", 0) == 2
    assert len(s.service.requests) == 2


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


def test_a_thread_that_reads_during_refreshes_sees_nobody_else_s_values() -> None:
    """Rows that users share never show through where this user has another value."""
    version = 0

    def evaluated(context: dict[str, Any]) -> dict[str, str]:
        who = context["userId"]
        own = "a" if version % 2 else who
        return {f"f{number}": own if number == 0 else "a" for number in range(20)}

    s = setup(evaluated)
    flags, seen, over = flags_of(s), set(), threading.Event()

    def read() -> None:
        while not over.is_set():
            seen.add(flags.get("f0", ""))

    reader = threading.Thread(target=read)
    reader.start()
    try:
        for version in range(300):  # the service reads it
            s.client.evaluator.cache.invalidate()
            # The rows of others are the ones that this user's are held against.
            s.client.evaluate_all({"userId": "u2"})
            flags.refresh()
            assert flags.get("f0", "") == ("a" if version % 2 else "u1")
    finally:
        over.set()
        reader.join(10)
    assert seen <= {"a", "u1"}


def test_of_flags_that_are_sampled_each_read_is_looked_at() -> None:
    """With a sampling rate each first read of a request is counted, or not, by itself."""
    numbers = iter([0.9, 0.1, 0.9])
    s = setup(
        {"a": True, "b": True, "c": True},
        rng=lambda: next(numbers),
        analytics=AnalyticsConfig(sampling_rate=0.5),
    )
    s.client.evaluate_all(WHO)
    flags = flags_of(s)
    for _ in range(2):
        assert [flags.get(key, False) for key in "abc"] == [True] * 3
    assert s.client.flush() == 1
    assert [event["flagKey"] for event in s.service.events] == ["b"]
