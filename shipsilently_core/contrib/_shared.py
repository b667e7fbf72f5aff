"""What several exporters need."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from shipsilently_core._events import variation_key
from shipsilently_core.client import ShipSilentlyClient
from shipsilently_core.values import Failure, Status

__all__ = ["CALL_FAILURES", "AnyClient", "aged", "attribute", "status_of"]

AnyClient = ShipSilentlyClient | Callable[[], ShipSilentlyClient]
"""A client, or a function that gives the present one, such as Django's ``get_client``."""

_NO_CALLS = (Failure.NOT_FOUND, Failure.TYPE_MISMATCH, Failure.STORE)
#: How a call can fail; the others are about one flag, or about the store.
CALL_FAILURES = [failure for failure in Failure if failure not in _NO_CALLS]

#: Characters.
_LONGEST = 200

#: Units of time and their seconds.
_UNITS = (("d", 86_400), ("h", 3_600), ("min", 60))


def aged(source: str, age: float | None) -> str:
    """Where a value comes from, for people, and how old it is where it stands in."""
    if age is None:
        return source
    for unit, seconds in _UNITS:
        if age >= 2 * seconds:
            return f"{source}, {age // seconds:.0f} {unit} old"
    return f"{source}, {age:.0f} s old"


def attribute(value: Any) -> bool | int | float | str:
    """A flag's value as tools take it: short, and an object as its JSON."""
    if isinstance(value, str):
        return value if len(value) <= _LONGEST else f"{value[: _LONGEST - 3]}…"
    if isinstance(value, float) or (isinstance(value, int) and value.bit_length() < 64):
        return value
    return variation_key(value)


def status_of(client: AnyClient) -> Callable[[], Status]:
    """A function that tells how the client is now."""
    if isinstance(client, ShipSilentlyClient):
        return client.status
    return lambda: client().status()
