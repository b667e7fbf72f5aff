"""`client.flushed()`: checks are delivered before a block or a function is left."""

from __future__ import annotations

import asyncio
import inspect
from typing import Any

import pytest

from shipsilently_core import Failure
from shipsilently_core.handles import Flushed
from tests.core.support import Setup, setup

U1 = {"userId": "u1"}


def delivered(made: Setup) -> list[str]:
    """The keys of the events that the service has."""
    return [event["flagKey"] for event in made.service.events]


def test_a_block_delivers_what_was_counted() -> None:
    """When it ends, not before; it gives the client."""
    made = setup()
    with made.client.flushed() as client:
        assert client is made.client
        client.get("a", 1, U1)
        assert delivered(made) == []
    assert delivered(made) == ["a"]


def test_a_block_delivers_when_it_raises() -> None:
    """And lets the exception through."""
    made = setup()

    def work() -> None:
        with made.client.flushed() as client:
            client.get("a", 1, U1)
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        work()
    assert delivered(made) == ["a"]


async def test_an_asynchronous_block_delivers_in_both_cases() -> None:
    """`async with`, ended well and by an exception."""
    made = setup()
    async with made.client.flushed() as client:
        client.get("a", 1, U1)
    assert delivered(made) == ["a"]

    async def work() -> None:
        async with made.client.flushed():
            made.client.get("b", 1, U1)
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        await work()
    assert delivered(made) == ["a", "b"]


def test_a_decorated_function_delivers_after_each_call() -> None:
    """With its arguments, result, exceptions, name and signature."""
    made = setup()

    @made.client.flushed()
    def handler(event: dict[str, Any], *, fails: bool = False) -> str:
        """Handle it."""
        made.client.get("a", 1, U1)
        if fails:
            raise KeyError("mine")
        return str(event["name"])

    for number in (1, 2):
        assert handler({"name": "x"}) == "x"
        assert len(delivered(made)) == number
    with pytest.raises(KeyError, match="mine"):
        handler({}, fails=True)
    assert len(delivered(made)) == 3
    assert (handler.__name__, handler.__doc__) == ("handler", "Handle it.")
    assert not inspect.iscoroutinefunction(handler)


async def test_a_decorated_coroutine_function_delivers_after_each_call() -> None:
    """It stays a coroutine function."""
    made = setup()

    @made.client.flushed()
    async def handler(event: dict[str, Any], *, fails: bool = False) -> str:
        made.client.get("a", 1, U1)
        await asyncio.sleep(0)
        if fails:
            raise KeyError("mine")
        return str(event["name"])

    assert inspect.iscoroutinefunction(handler)
    assert await asyncio.gather(*(handler({"name": name}) for name in "xyz")) == ["x", "y", "z"]
    assert len(delivered(made)) == 3
    with pytest.raises(KeyError, match="mine"):
        await handler({}, fails=True)
    assert len(delivered(made)) == 4


def test_a_service_that_is_down_stops_no_handler() -> None:
    """The result comes, and the checks go out with the next call."""
    made = setup()

    @made.client.flushed()
    def handler() -> str:
        made.client.get("a", 1, U1)
        return "done"

    made.service.fail(failure=Failure.TIMEOUT)
    assert handler() == "done"
    made.service.recover()
    assert handler() == "done"
    assert len(delivered(made)) == 2


def test_the_time_is_passed_on() -> None:
    """What a handler gives is all that its flush may take."""
    seen: list[float] = []

    class Client:
        def flush(self, timeout: float = 2.0) -> int:
            seen.append(timeout)
            return 0

        async def aflush(self, timeout: float = 2.0) -> int:
            seen.append(-timeout)
            return 0

    async def task() -> None:
        async with Flushed(Client(), 0.5):
            pass

    with Flushed(Client(), 0.25):
        pass
    asyncio.run(task())
    assert seen == [0.25, -0.5]


def test_nothing_to_deliver_asks_nothing() -> None:
    """A handler that read no flag makes no call."""
    made = setup()
    with made.client.flushed():
        pass
    asyncio.run(made.client.aflush())
    assert made.client.evaluator.analytics.idle
