"""What several exporters need."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from shipsilently_core._events import variation_key
from shipsilently_core.client import ShipSilentlyClient
from shipsilently_core.values import Failure, Status

__all__ = ["CALL_FAILURES", "AnyClient", "attribute", "status_of"]

AnyClient = ShipSilentlyClient | Callable[[], ShipSilentlyClient]
"""A client, or a function that gives the present one, such as Django's ``get_client``."""

#: How a call can fail; the others are about one flag.
CALL_FAILURES = [
    failure for failure in Failure if failure not in (Failure.NOT_FOUND, Failure.TYPE_MISMATCH)
]

#: Characters.
_LONGEST = 200


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
