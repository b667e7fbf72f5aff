"""What is no flag's key, as a site may take it from what people send: read as an unknown flag."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from shipsilently_core import Failure, Flags, Reason, ShipSilentlyClient, Source
from shipsilently_core.testing import override_flags
from tests.core.support import Heard, Setup, listening, setup

WHO = {"userId": "u1"}


UNHASHABLE: tuple[Any, ...] = (["secret"], {"secret": 1}, {"secret"}, bytearray(b"x"), ("a", ["b"]))
ODD: tuple[Any, ...] = (*UNHASHABLE, None, 7, b"secret", object())

READS: dict[str, Callable[[ShipSilentlyClient, Any], Any]] = {
    "get": lambda c, key: c.flags(WHO).get(key, "mine"),
    "aget": lambda c, key: asyncio.run(c.flags(WHO).aget(key, "mine")),
    "detail": lambda c, key: c.flags(WHO).detail(key, "mine").value,
    "adetail": lambda c, key: asyncio.run(c.flags(WHO).adetail(key, "mine")).value,
    "evaluate": lambda c, key: c.evaluate(key, WHO, "mine"),
    "aevaluate": lambda c, key: asyncio.run(c.aevaluate(key, WHO, "mine")),
    "client.get": lambda c, key: c.get(key, "mine", WHO),
}
BARE: dict[str, Callable[[ShipSilentlyClient, Any], Any]] = {
    "get": lambda c, key: c.flags(WHO).get(key) is None,
    "aget": lambda c, key: asyncio.run(c.flags(WHO).aget(key)) is None,
    "is_enabled": lambda c, key: c.flags(WHO).is_enabled(key) is False,
    "ais_enabled": lambda c, key: asyncio.run(c.flags(WHO).ais_enabled(key)) is False,
    "in": lambda c, key: key not in c.flags(WHO),
}


def ids(key: Any) -> str:
    return type(key).__name__


@pytest.mark.parametrize("key", ODD, ids=ids)
@pytest.mark.parametrize("door", READS)
def test_the_default_is_served_for_what_is_no_key(door: str, key: Any) -> None:
    """Whatever an app takes for a key, a read of it raises nothing."""
    s = setup({"on": True})
    assert READS[door](s.client, key) == "mine"


@pytest.mark.parametrize("declared", [{}, {"on": True}], ids=["none declared", "declared"])
@pytest.mark.parametrize("key", ODD, ids=ids)
@pytest.mark.parametrize("door", BARE)
def test_so_it_is_without_a_default(door: str, key: Any, declared: dict[str, Any]) -> None:
    """With declared defaults, of which it is none, and without any."""
    s = setup({"on": True}, defaults=declared)
    assert BARE[door](s.client, key)


@pytest.mark.parametrize("key", UNHASHABLE, ids=ids)
@pytest.mark.parametrize("door", READS)
def test_so_it_is_in_a_test_that_sets_flags(door: str, key: Any) -> None:
    """What a test has set is looked up before anything else."""
    s = setup({"on": True})
    with override_flags({"other": True}):
        assert READS[door](s.client, key) == "mine"


@pytest.mark.parametrize("key", UNHASHABLE, ids=ids)
def test_a_flag_is_read_on_after_it(key: Any) -> None:
    """It leaves these flags as they were."""
    s = setup({"on": True})
    flags = s.client.flags(WHO)
    for _ in range(2):
        assert flags.get(key, False) is False
        assert flags.get("on", False) is True
        assert flags.is_enabled("on")
    assert len(s.service.requests) == 1


@pytest.mark.parametrize("key", ODD, ids=ids)
def test_what_is_told_of_it_is_its_type(key: Any, lines: list[Any]) -> None:
    """The log and the signals name the type, never what the key holds, and the log once."""
    s = setup({"on": True})
    with listening(s.client) as heard:
        for _ in range(2):
            assert s.client.flags(WHO).get(key, False) is False
    kind = f"<{type(key).__name__}>"
    assert heard == [Heard(Failure.NOT_FOUND, None, kind)] * 2
    texts = [line.getMessage() for line in lines]
    assert texts == [f"the service knows no flag {kind!r}; the default is served"]


@pytest.mark.parametrize("key", UNHASHABLE, ids=ids)
def test_its_result_can_be_passed_on(key: Any) -> None:
    """A result's key is text, as its readers expect."""
    s = setup({"on": True})
    result = s.client.flags(WHO).detail(key, False)
    assert (result.flag_key, result.value) == (f"<{type(key).__name__}>", False)
    assert (result.reason, result.source) == (Reason.FLAG_NOT_FOUND, Source.DEFAULT)
    assert result.error is Failure.NOT_FOUND


def told_of(s: Setup) -> list[str]:
    s.client.flush()
    return [event["flagKey"] for event in s.service.events]


def test_its_event_spoils_no_other() -> None:
    """The service is told of the type, and of the other flags as ever."""
    s = setup({"on": True})
    flags = s.client.flags(WHO)
    s.client.evaluate_all(WHO)
    assert flags.get(["secret"], False) is False  # type: ignore[call-overload]  # as it is
    assert flags.get("on", False) is True
    assert sorted(told_of(s)) == ["<list>", "on"]


def test_a_key_of_any_length_takes_little(lines: list[Any]) -> None:
    """Of a key as long as a page, the log shows 200 characters, and the service is sent 1,000."""
    s = setup({"on": True})
    s.client.evaluate_all(WHO)
    assert s.client.flags(WHO).get("x" * 1_000_000, False) is False
    assert [len(line.getMessage()) < 300 for line in lines] == [True]
    assert told_of(s) == ["x" * 1_000]


def test_an_error_that_the_key_is_not_the_reason_of_is_raised() -> None:
    """A fault of ours is not taken for one of the key's."""
    s = setup({"on": True})

    class Broken(Flags, eq=False):
        def _seen(self) -> Any:
            raise TypeError("a fault")

    made = s.client.flags(WHO)
    broken = Broken(made._client, made._context, made._short)
    with pytest.raises(TypeError, match="a fault"):
        broken.get("on", False)
    with pytest.raises(TypeError, match="a fault"):
        broken.is_enabled("on")
