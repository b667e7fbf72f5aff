"""Threads and tasks that share the flags of one request, each at the worst moment of another."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from shipsilently_core import Flags, Source
from shipsilently_core import flags as flags_module
from tests.core.storing import ADA
from tests.core.support import setup
from tests.core.test_interleavings import Held


@pytest.mark.parametrize("step", ["Seen", "_settle"])
def test_of_two_refreshes_the_later_one_is_seen(monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    """Also where it comes and goes while the earlier one is about to show what it has found."""
    s = setup({"x": 1}, background=False)
    flags = s.client.flags(ADA)
    assert flags.get("x", 0) == 1
    owner: Any = Flags if step == "_settle" else flags_module
    real: Callable[..., Any] = getattr(owner, step)

    def refresh(number: int) -> None:
        s.clock.advance(31)
        s.service.set({"x": number})
        flags.refresh()

    def amid(*given: Any, **named: Any) -> Any:
        monkeypatch.undo()
        refresh(3)
        return real(*given, **named)

    monkeypatch.setattr(owner, step, amid)
    refresh(2)
    if getattr(owner, step) is amid:
        # The earlier one takes no such step.
        amid(flags, None)
    assert flags.get("x", 0) == flags.evaluate_all()["x"].value == 3


def test_what_was_awaited_is_there_though_another_thread_refreshes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A coroutine that has found its flags fresh keeps them, and waits for nobody's call."""
    s = setup({"x": 1}, background=False)
    s.client.evaluate_all(ADA)
    flags = s.client.flags(ADA)

    async def request() -> Any:
        return (await flags).detail("x", 0)

    held = Held(monkeypatch, s.client, "afresh", lambda: asyncio.run(request()), after=True)
    s.client.evaluator.cache.invalidate()
    refresh = Held(monkeypatch, s.service, "send", flags.refresh)
    result = held.let_go()
    assert (result.value, result.source, result.age) == (1, Source.CACHE, None)
    refresh.let_go()


async def test_tasks_that_read_what_was_awaited_count_each_flag_once() -> None:
    """Whichever verb comes first, and also where a delivery comes between."""
    s = setup({"x": 1, "on": True, "off": False}, background=False)
    await s.client.aevaluate_all(ADA)
    flags = await s.client.flags(ADA)

    async def read() -> None:
        assert flags.is_enabled("on")
        assert flags.detail("x", 0).value == flags.get("x") == flags.get("x", 0) == 1

    await asyncio.gather(read(), read())
    assert await s.client.aflush() == 2
    assert not flags.is_enabled("off")
    await asyncio.gather(read(), read())
    assert await s.client.aflush() == 1
    assert len(s.service.requests) == 1


def early(flags: Flags, key: str = "x") -> float:
    """Read in a coroutine, with nothing awaited before."""

    async def read() -> float:
        return flags.get(key, 0)

    return asyncio.run(read())


def test_a_read_that_could_not_wait_counts_once_with_what_another_thread_shows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its default is counted, and the value that is read afterwards is the same check."""
    s = setup({"x": 1}, background=False)
    flags = s.client.flags(ADA)
    held = Held(monkeypatch, Flags, "_note", lambda: early(flags))
    s.client.evaluate_all(ADA)
    flags.load()
    assert held.let_go() == 0
    assert flags.get("x", 0) == 1
    assert len(s.client.evaluator.analytics) == 1


def test_a_read_that_could_not_wait_sees_what_another_thread_has_shown_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nothing is kept apart for it, so its check is counted once."""
    s = setup({"x": 1, "y": 2}, background=False)
    flags = s.client.flags(ADA)
    assert early(flags, "y") == 0
    held = Held(monkeypatch, Flags, "_for_now", lambda: early(flags))
    s.client.evaluate_all(ADA)
    flags.load()
    assert held.let_go() == 1
    assert [flags.get("x", 0), flags.get("y", 0)] == [1, 2]
    assert len(s.client.evaluator.analytics) == 2


def test_what_was_read_before_the_await_and_what_comes_after_counts_once_each() -> None:
    """A default that was served early is counted apart; other flags go the shortest way."""
    s = setup({"x": 1, "y": 2}, background=False)
    flags = s.client.flags(ADA)
    assert early(flags) == 0
    s.client.evaluate_all(ADA)
    for _ in range(2):
        assert [flags.get("x", 0), flags.get("x"), flags.get("y", 0)] == [1, 1, 2]
    assert s.client.flush() == 2
    assert [event["flagKey"] for event in s.service.events] == ["x", "y"]
    assert [event["variationKey"] for event in s.service.events] == ["0", "2"]


@pytest.mark.parametrize(("key", "right"), [("unknown", "default"), ("x", 1)])
@pytest.mark.parametrize("delivered", [True, False])
def test_two_first_reads_of_what_is_served_as_a_default_are_one_check(
    monkeypatch: pytest.MonkeyPatch, key: str, right: Any, delivered: bool
) -> None:
    """Of two threads that are at it one counts, whether the other's check has left or not."""
    s = setup({"x": 1}, background=False)
    s.client.evaluate_all(ADA)
    flags = s.client.flags(ADA).load()
    held = Held(monkeypatch, Flags, "_note", lambda: flags.get(key, "default"))
    assert flags.get(key, right) == right
    if delivered:
        assert s.client.flush() == 1
    assert held.let_go() == "default"
    assert s.client.flush() == 1 - delivered
    assert [event["flagKey"] for event in s.service.events] == [key]


def test_what_was_asked_for_before_a_login_says_nothing_of_the_checks_after_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The service has counted the checks of the one who was there before, not of the new one."""
    s = setup({"x": 1, "y": 2}, background=False)
    flags = s.client.flags(ADA)
    held = Held(monkeypatch, s.client, "resolve", flags.evaluate_all, after=True)
    # As an integration does where somebody logs in.
    flags._reloads += 1
    flags._forget()
    assert flags.get("x", 0) == 1
    assert s.client.flush() == 1
    held.let_go()
    assert flags.get("y", 0) == 2
    assert s.client.flush() == 1
