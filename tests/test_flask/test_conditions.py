"""Conditions: what they ask of flags, and which flag they blame."""

from typing import Any

import pytest
from shipsilently_flask.conditions import Condition, checked_keys, holds

from shipsilently_core import Flags
from shipsilently_core.testing import ScriptedService

from .apps import client_of


def seen(**values: Any) -> Flags:
    """The flags of somebody who has these."""
    return client_of(ScriptedService(values)).flags()


def test_the_first_flag_that_fails_is_blamed() -> None:
    """A condition names the first key that is not as wanted, and nothing when all are."""
    flags = seen(a=True, b=False)
    assert Condition(("a", "!b")).failing(flags) is None
    assert Condition(("a", "b", "c")).failing(flags) == "b"
    assert Condition(("!a",)).failing(flags) == "!a"


def test_an_empty_condition_always_holds() -> None:
    """Nothing that is asked is nothing that can fail, and nothing is evaluated."""
    service = ScriptedService()
    assert Condition(()).failing(client_of(service).flags()) is None
    assert service.requests == []


def test_a_declared_default_counts() -> None:
    """With the service down, a gate goes by the default that the configuration declares."""
    service = ScriptedService()
    service.fail(503)
    flags = client_of(service, defaults={"on": True, "color": "blue"}).flags()
    assert holds(flags, "on")
    assert holds(flags, "color", "blue")
    assert not holds(flags, "other")


@pytest.mark.parametrize(
    ("value", "wanted", "same"),
    [
        ({"a": [1]}, {"a": [1]}, True),
        ({"a": [1]}, {"a": [2]}, False),
        ("1", 1, False),
        (1.5, 1.5, True),
        (False, 0, False),
        (0, False, False),
    ],
)
def test_values_are_compared_as_json(value: Any, wanted: Any, same: bool) -> None:
    """Objects are equal by what they hold, and booleans only to booleans."""
    assert holds(seen(x=value), "x", wanted) is same
    assert holds(seen(x=value), "!x", wanted) is not same


@pytest.mark.parametrize(
    ("keys", "wrong"),
    [
        (["a", "!b"], None),
        ([None], "a flag key is a string, not a NoneType"),
        (["a", ""], "a flag key is empty"),
        (["!"], "a flag key is empty"),
    ],
)
def test_keys_are_checked(keys: list[Any], wrong: str | None) -> None:
    """What cannot be the key of a flag is said in words."""
    assert checked_keys(keys) == wrong
