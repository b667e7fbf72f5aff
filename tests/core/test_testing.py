"""The fakes that are shipped for other people's tests."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import unittest
from collections.abc import AsyncGenerator, AsyncIterator, Generator, Iterator
from contextlib import suppress
from typing import Any, ClassVar

import pytest

from shipsilently_core import Context, Failure, Reason, Source
from shipsilently_core._overrides import overrides
from shipsilently_core._wire import Reply, batch_request, evaluate_request, ticket_request
from shipsilently_core.testing import ManualClock, ScriptedService, override_flags
from tests.core.support import TYPED, Door, setup


@pytest.fixture(autouse=True)
def _nothing_left() -> Iterator[None]:
    """No test leaves an override behind."""
    yield
    assert not overrides.values


@pytest.mark.parametrize("door", TYPED, ids=str)
def test_an_override_wins_in_every_door(door: Door) -> None:
    """While it lasts the value is the test's, without a request; afterwards it is the service's."""
    s = setup({"a": 1})
    s.client.evaluate_all({"userId": "u1"})
    requests = len(s.service.requests)
    with override_flags({"a": 2}):
        result = door.read(s.client, {"userId": "u1"}, "a", 0)
        assert result is not None
        assert (result.value, result.source, result.reason) == (2, Source.OVERRIDE, Reason.DEFAULT)
        assert len(s.service.requests) == requests
    after = door.read(s.client, {"userId": "u1"}, "a", 0)
    assert after is not None
    assert after.value == 1


def test_an_override_wins_in_whole_sets_too() -> None:
    """`evaluate_all`, `get_all` and `Flags` show the test's value among the others."""
    s = setup({"a": 1, "b": 1})
    flags = s.client.flags({"userId": "u1"})
    with override_flags(a=2, new="x"):
        for results in (
            s.client.evaluate_all({"userId": "u1"}),
            asyncio.run(s.client.aevaluate_all({"userId": "u1"})),
            s.client.get_all({"userId": "u1"}),
            flags.evaluate_all(),
            asyncio.run(flags.aevaluate_all()),
        ):
            assert {k: r.value for k, r in results.items()} == {"a": 2, "b": 1, "new": "x"}
        assert "new" in flags
        assert flags.get("a", 0) == 2
        assert s.client.get("new", "", {"userId": "u1"}) == "x"
        assert asyncio.run(flags.ais_enabled("new")) is False
    assert "new" not in flags
    assert flags.get("a", 0) == 1


def test_an_override_is_held_to_the_default_s_type() -> None:
    """A test that sets a text where a boolean is read gets the default, as in production."""
    s = setup()
    with override_flags(a="yes"):
        result = s.client.flags(None).detail("a", False)
    assert (result.value, result.error) == (False, Failure.TYPE_MISMATCH)


def test_overrides_nest_and_end_with_their_block() -> None:
    """The innermost wins, and an exception ends it like anything else."""
    flags = setup({"a": 0}).client.flags(None)
    with override_flags(a=1):
        with suppress(RuntimeError), override_flags(a=2):
            assert flags.get("a") == 2
            raise RuntimeError
        assert flags.get("a") == 1
    assert flags.get("a") == 0


def test_one_override_can_be_entered_twice() -> None:
    """An object that is kept and used again, or inside itself, stays right."""
    override = override_flags(a=1)
    with override, override:
        assert overrides.values == {"a": 1}
    with override:
        assert overrides.values == {"a": 1}


def test_changing_the_entered_values_changes_no_other_use() -> None:
    """Each use has values of its own, which the block may change."""
    override = override_flags(a={"b": 1})
    with override as values:
        assert values == {"a": {"b": 1}}
        flag = setup().client.flags(None).get("a", {})
        flag["b"] = 2
        assert values == {"a": {"b": 1}}


def test_overrides_reach_other_threads() -> None:
    """A live server in another thread serves the test's values."""
    s = setup({"a": 1})
    seen: list[object] = []
    with override_flags(a=2):
        thread = threading.Thread(target=lambda: seen.append(s.client.flags(None).get("a", 0)))
        thread.start()
        thread.join()
    assert seen == [2]


async def test_overrides_work_in_coroutines() -> None:
    """The same object is an asynchronous context manager."""
    async with override_flags(a=2):
        assert await setup().client.flags(None).aget("a", 0) == 2


@override_flags(a=1)
def test_a_function_is_decorated() -> None:
    """A decorated test runs with its values."""
    assert overrides.values == {"a": 1}


@override_flags(a=1)
async def test_a_coroutine_function_is_decorated() -> None:
    """A decorated coroutine function keeps its values while it waits."""
    await asyncio.sleep(0)
    assert overrides.values == {"a": 1}


@override_flags(a=1)
class TestDecorated:
    """A class of pytest."""

    test_data = "not a function"

    @pytest.fixture(autouse=True)
    def _fixtures_are_left_alone(self) -> None:
        """Only tests are decorated."""
        assert not overrides.values

    def test_method(self) -> None:
        """Each test of a decorated class has the values."""
        assert overrides.values == {"a": 1}

    async def test_coroutine_method(self) -> None:
        """So has each coroutine test."""
        assert overrides.values == {"a": 1}

    @staticmethod
    def test_static_method() -> None:
        """So has one that is a plain function of the class."""
        assert overrides.values == {"a": 1}

    @classmethod
    def test_class_method(cls) -> None:
        """And one that is the class's own."""
        assert overrides.values == {"a": 1}


class Checks:
    """Tests that are there to be inherited; each class says with which flags."""

    expected: ClassVar[dict[str, int]] = {}

    def test_inherited(self) -> None:
        """An inherited test has the values of the class that it runs in."""
        assert overrides.values == self.expected


@override_flags(a=1, b=1)
class TestInherited(Checks):
    """A class whose tests are those of its base."""

    expected: ClassVar = {"a": 1, "b": 1}


@override_flags(a=2)
class TestInheritedAgain(TestInherited):
    """A class that sets anew what its base has set."""

    expected: ClassVar = {"a": 2, "b": 1}


@override_flags(a=4, b=4)
@override_flags(a=3)
class TestDecoratedTwice(Checks):
    """A class with two decorators, of which the nearer wins."""

    expected: ClassVar = {"a": 3, "b": 4}


class TestNotDecorated(Checks):
    """A class beside the decorated ones has nothing of theirs."""


@override_flags(a=1)
class TestDecoratedCase(unittest.TestCase):
    """A class of unittest."""

    expected: ClassVar[dict[str, int]] = {"a": 1}

    def setUp(self) -> None:
        assert overrides.values == self.expected

    def test_method(self) -> None:
        """Set-up and test of a decorated case have the values."""
        assert overrides.values == self.expected


@override_flags(a=2)
class TestDecoratedCaseAgain(TestDecoratedCase):
    """A case that sets anew what its base has set."""

    expected: ClassVar = {"a": 2}


@override_flags(b=2)
class TestDecoratedCaseThatAdds(TestDecoratedCase):
    """A case that adds to what its base has set, in whose set-up it begins."""

    expected: ClassVar = {"a": 1, "b": 2}


def test_a_class_is_decorated_without_unittest() -> None:
    """Where nobody has imported unittest, decorating a class does not either."""
    code = (
        "import sys\n"
        "from shipsilently_core._overrides import overrides\n"
        "from shipsilently_core.testing import override_flags\n"
        "@override_flags(a=1)\n"
        "class TestPlain:\n"
        "    def test_it(self):\n"
        "        return dict(overrides.values)\n"
        "assert TestPlain().test_it() == {'a': 1}\n"
        "assert 'unittest' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True, timeout=30)


@pytest.fixture
@override_flags(a=1)
def decorated() -> Iterator[str]:
    """A fixture that reads flags before the test and after it."""
    assert overrides.values == {"a": 1}
    yield "made"
    assert overrides.values == {"a": 1}


@pytest.fixture
@override_flags(a=1)
async def decorated_async() -> AsyncIterator[str]:
    """The same as a coroutine."""
    assert overrides.values == {"a": 1}
    yield "made"
    assert overrides.values == {"a": 1}


def test_a_fixture_is_decorated(decorated: str) -> None:
    """Where a fixture yields, its values are there until it ends, for the test as well."""
    assert (decorated, overrides.values) == ("made", {"a": 1})


async def test_an_async_fixture_is_decorated(decorated_async: str) -> None:
    """The same with an async fixture."""
    assert (decorated_async, overrides.values) == ("made", {"a": 1})


def test_a_decorated_generator_is_one() -> None:
    """What is sent and thrown into it arrives, what it returns comes out, and flags go with it."""

    @override_flags(a=1)
    def generator(first: int) -> Generator[int, int, str]:
        with suppress(KeyError):
            yield first + (yield first)
        return "done"

    made = generator(1)
    assert not overrides.values
    assert (next(made), made.send(2), overrides.values) == (1, 3, {"a": 1})
    with pytest.raises(StopIteration, match="done"):
        made.throw(KeyError)
    assert not overrides.values


async def test_a_decorated_async_generator_is_closed_with_its_values() -> None:
    """One that is left early cleans up while its flags are still set."""
    seen: list[object] = []

    @override_flags(a=1)
    async def generator() -> AsyncGenerator[int]:
        try:
            yield 1
        finally:
            seen.append(overrides.values)

    made = generator()
    assert await anext(made) == 1
    await made.aclose()
    assert seen == [{"a": 1}]
    assert not overrides.values


def test_a_decorated_function_keeps_its_result() -> None:
    """Decorating changes neither arguments nor result."""

    @override_flags(a=1)
    def function(x: int, *, y: int) -> int:
        return x + y

    assert function(1, y=2) == 3


def test_the_manual_clock_stands_still() -> None:
    """Both times move together, and only when told."""
    clock = ManualClock(now=100.0)
    start = clock.monotonic()
    clock.advance(2.5)
    assert clock.time() == 102.5
    assert clock.monotonic() - start == 2.5


class TestScriptedService:
    """A service without a network."""

    def test_it_answers_as_the_service_does(self) -> None:
        """Single flags, unknown flags and batches have the protocol's answers."""
        service = ScriptedService({"a": 1})
        request = evaluate_request("a", Context())
        unknown = evaluate_request("b", Context())
        assert request is not None
        assert unknown is not None
        assert service.send(request).status == 200
        assert service.send(unknown).status == 404
        assert b'"a"' in service.send(batch_request(Context())).body
        assert service.requests == [request, unknown, batch_request(Context())]

    def test_it_can_evaluate(self) -> None:
        """A function from the context's attributes makes the flags."""
        service = ScriptedService()
        service.set(lambda context: {"who": context["userId"]})
        assert b'"u1"' in service.send(batch_request(Context(user_id="u1"))).body

    def test_it_fails_as_told(self) -> None:
        """For some requests or until it recovers, with a status, a failure or neither."""
        service = ScriptedService({"a": 1})
        request = batch_request(Context())
        service.fail(503, times=2, headers={"retry-after": "1"})
        assert [service.send(request).status for _ in range(3)] == [503, 503, 200]
        service.fail(failure=Failure.TIMEOUT)
        assert service.send(request).failure is Failure.TIMEOUT
        service.fail()
        assert service.send(request).failure is Failure.NETWORK
        service.recover()
        assert service.send(request).status == 200

    def test_its_stream_fails_with_everything_else(self) -> None:
        """While it fails there is neither a ticket nor a stream."""
        service = ScriptedService(streaming=True)
        service.fail(503)
        assert service.send(ticket_request()).status == 503
        reply = service.open_stream("ticket")
        assert isinstance(reply, Reply)
        assert reply.status == 503
        assert (service.tickets, service.requests) == (1, [])

    def test_nothing_is_open(self) -> None:
        """Closing and forgetting are possible at any time."""
        service: Any = ScriptedService()
        service.close()
        asyncio.run(service.aclose())
        service.forget()


@pytest.mark.parametrize("verb", ["load", "aload", "refresh", "arefresh"])
async def test_nothing_is_evaluated_ahead_while_a_test_has_set_flags(verb: str) -> None:
    """Loading asks nothing; a read of another flag does, then, also in a coroutine."""
    s = setup({"a": 1, "b": 1})
    flags = s.client.flags({"userId": "u1"})
    with override_flags(a=2):
        loaded = getattr(flags, verb)()
        assert (await loaded if verb.startswith("a") else loaded) is flags
        assert flags.get("a", 0) == 2
        assert s.service.requests == []
        assert flags.get("b", 0) == 1
        assert len(s.service.requests) == 1
    assert flags.get("a", 0) == 1
    assert len(s.service.requests) == 1
