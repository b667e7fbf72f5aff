"""Contexts that are followed: `client.stream`."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from shipsilently_core import (
    ClientClosedError,
    ConfigurationError,
    ConnectionState,
    EvaluationResult,
)
from shipsilently_core._clock import SystemClock
from tests.core.running import Running, eventually, running

Values = list[dict[str, Any]]


class Follower:
    """Takes what a subscription tells."""

    def __init__(self) -> None:
        self.heard: Values = []

    def __call__(self, flags: dict[str, EvaluationResult]) -> None:
        self.heard.append({key: result.value for key, result in flags.items()})


def personal(context: dict[str, Any]) -> dict[str, Any]:
    return {"a": 1, "who": context["userId"]}


def test_subscriptions_share_the_one_connection() -> None:
    """Five subscriptions, each with its own context, cost one stream and hear their own values."""
    with running(personal) as run:
        followers = {f"u{number}": Follower() for number in range(5)}
        for user, follower in followers.items():
            run.client.stream({"userId": user}, follower)
        for user, follower in followers.items():
            eventually(lambda f=follower: f.heard)  # type: ignore[misc]
            assert follower.heard == [{"a": 1, "who": user}]
        run.change(lambda context: {**personal(context), "a": 2})
        for user, follower in followers.items():
            eventually(lambda f=follower: len(f.heard) == 2)  # type: ignore[misc]
            assert follower.heard[1] == {"a": 2, "who": user}
        assert run.service.tickets == 1


def test_a_subscription_starts_the_client() -> None:
    """The first subscription starts the background; flags are told when they are known."""
    run = Running(None)
    follower = Follower()
    with run.client.stream({"userId": "u1"}, follower):
        eventually(lambda: follower.heard)
        run.is_in(ConnectionState.STREAMING)
        assert follower.heard[0] == {"a": 1}
    run.client.close()


def test_only_changes_are_told() -> None:
    """A word of a change that changes nothing for this context is not passed on."""
    with running(personal) as run:
        follower = Follower()
        run.client.stream({"userId": "u1"}, follower)
        eventually(lambda: follower.heard)
        asked = run.asked()
        run.service.send_event()
        eventually(lambda: run.asked() > asked)
        run.change({"a": 1, "who": "u1", "new": 1})
        eventually(lambda: len(follower.heard) == 2)
        assert follower.heard[1] == {"a": 1, "who": "u1", "new": 1}


def test_flags_that_are_told_are_the_receivers_own() -> None:
    """What a receiver does to the dictionary reaches neither the cache nor other receivers."""
    with running() as run:
        other = Follower()
        run.client.stream({"userId": "u1"}, lambda flags: flags.clear())
        run.client.stream({"userId": "u1"}, other)
        eventually(lambda: other.heard)
        assert other.heard == [{"a": 1}]
        assert run.client.get("a", context={"userId": "u1"}) == 1


def test_nothing_is_told_before_anything_is_known() -> None:
    """While the service is down there is no call; the first comes with the first success."""
    run = Running(None, clock=SystemClock(), polling_interval=0.05)
    run.service.fail(500)
    follower = Follower()
    run.client.stream({"userId": "u1"}, follower)
    eventually(lambda: run.service.tickets > 3)
    assert follower.heard == []
    run.service.recover()
    eventually(lambda: follower.heard == [{"a": 1}])
    run.client.close()


def test_each_subscription_may_have_its_own_interval() -> None:
    """Where nothing streams, a subscription is polled for at its own interval."""
    with running(streaming=False, clock=SystemClock()) as run:
        run.client.stream({"userId": "quick"}, Follower(), polling_interval=0.01)
        run.client.stream({"userId": "slow"}, Follower())
        eventually(lambda: run.asked("quick") > 5)
        assert run.asked("slow") == 1


def test_a_closed_subscription_hears_nothing_more() -> None:
    """After `close` there is no other call, no other evaluation, and closing again is harmless."""
    with running() as run:
        gone, stays = Follower(), Follower()
        states: list[ConnectionState] = []
        subscription = run.client.stream({"userId": "gone"}, gone, on_state_change=states.append)
        run.client.stream({"userId": "stays"}, stays)
        eventually(lambda: gone.heard and stays.heard)
        subscription.close()
        subscription.close()
        run.change({"a": 2})
        eventually(lambda: len(stays.heard) == 2)
        run.service.drop_streams()
        eventually(lambda: run.service.tickets == 2)
        run.is_in(ConnectionState.STREAMING)
        assert len(gone.heard) == 1
        assert run.asked("gone") == 1
        assert states == []


def test_states_are_told_to_each_subscription_until_it_is_closed() -> None:
    """Two subscriptions with one function: the end of the one leaves the other's in place."""
    with running() as run:
        told: list[ConnectionState] = []

        def hook(state: ConnectionState) -> None:
            told.append(state)

        first = run.client.stream({"userId": "u1"}, Follower(), on_state_change=hook)
        second = run.client.stream({"userId": "u2"}, Follower(), on_state_change=hook)
        run.service.drop_streams()
        eventually(lambda: len(told) == 4)
        first.close()
        first.close()
        run.service.drop_streams()
        eventually(lambda: len(told) == 6)
        second.close()
        run.service.drop_streams()
        eventually(lambda: run.service.tickets == 4)
        run.is_in(ConnectionState.STREAMING)
        lost, back = ConnectionState.RECONNECTING, ConnectionState.STREAMING
        assert told == [lost, lost, back, back, lost, back]


def test_the_end_of_a_subscription_leaves_the_clients_own_hook() -> None:
    """A function that is also the configured `on_state_change` stays that."""
    told: list[ConnectionState] = []

    def hook(state: ConnectionState) -> None:
        told.append(state)

    with running(on_state_change=hook) as run:
        told.clear()
        run.client.stream(None, Follower(), on_state_change=hook).close()
        run.service.drop_streams()
        eventually(lambda: len(told) == 2)


def test_a_receiver_that_raises_is_called_again(lines: list[logging.LogRecord]) -> None:
    """A failing `on_change` is logged and neither ends its subscription nor another's."""
    with running() as run:
        calls: list[int] = []

        def bad(flags: dict[str, EvaluationResult]) -> None:
            calls.append(1)
            raise RuntimeError("broken receiver")

        good = Follower()
        run.client.stream({"userId": "u1"}, bad)
        run.client.stream({"userId": "u2"}, good)
        eventually(lambda: good.heard)
        run.change({"a": 2})
        eventually(lambda: len(good.heard) == 2)
        assert len(calls) == 2
    assert [r.getMessage() for r in lines if r.levelno == logging.ERROR] == [
        "a subscription's on_change raised"
    ] * 2


async def test_coroutine_functions_are_run_on_the_loop() -> None:
    """`on_change` and `on_state_change` may be coroutine functions."""
    run = Running(None)
    heard: list[object] = []
    done = asyncio.Event()
    loops: set[object] = set()

    async def on_change(flags: dict[str, EvaluationResult]) -> None:
        loops.add(asyncio.get_running_loop())
        heard.append(flags["a"].value)
        if len(heard) == 2:
            done.set()

    async def on_state(state: ConnectionState) -> None:
        loops.add(asyncio.get_running_loop())
        heard.append(state)
        if len(heard) == 2:
            done.set()

    run.client.stream({"userId": "u1"}, on_change, on_state_change=on_state)
    await asyncio.wait_for(done.wait(), 5)
    await run.client.aclose()
    assert {1, ConnectionState.STREAMING} <= set(heard)
    assert loops == {asyncio.get_running_loop()}


@pytest.mark.parametrize("interval", [0, -1, float("nan"), "30", True])
def test_a_wrong_interval_is_refused(interval: Any) -> None:
    """The interval must be a positive number of seconds."""
    run = Running(None)
    with pytest.raises(ConfigurationError, match="polling_interval"):
        run.client.stream(None, Follower(), polling_interval=interval)
    assert run.client.connection_state is ConnectionState.IDLE


def test_a_closed_client_cannot_be_used_again() -> None:
    """Starting or following with a closed client raises; closing its subscriptions does not."""
    with running() as run:
        subscription = run.client.stream(None, Follower())
        run.client.close()
        subscription.close()
        with pytest.raises(ClientClosedError, match="make a new one"):
            run.client.stream(None, Follower())
        with pytest.raises(ClientClosedError):
            run.client.start()
        with pytest.raises(ClientClosedError):
            run.client.wait_ready(1)


def test_a_client_that_is_closed_by_its_own_beginning_follows_nothing() -> None:
    """A hook may close the client while a subscription starts it; that raises nothing."""
    closed: list[ConnectionState] = []

    def close(state: ConnectionState) -> None:
        closed.append(state)
        run.client.close()

    run = Running(None, stream=False, on_state_change=close)
    follower = Follower()
    subscription = run.client.stream(None, follower)
    subscription.close()
    assert closed == [ConnectionState.POLLING, ConnectionState.IDLE]
    assert run.client.connection_state is ConnectionState.IDLE
