"""Flags that a test decides."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.requests import HTTPConnection

from shipsilently_core import ShipSilentlyClient
from shipsilently_core.testing import ScriptedService, override_flags

from .connection import RequestFlags
from .extension import ShipSilently

__all__ = ["fixed_flags", "override_flags"]

#: Seconds for which fixed flags stay as they are: longer than any test.
_FOR_EVER = 1e9


def fixed_flags(flags: Mapping[str, Any] | None = None, /, **named: Any) -> RequestFlags:
    """Flags with these values and no others, for ``app.dependency_overrides``.

    ::

        app.dependency_overrides[flags] = lambda: fixed_flags({"new-checkout": True})

    They need no service, no lifespan and no ``await``.

    Args:
        flags: Values by flag key.
        named: The same for keys that are Python names.
    """
    client = ShipSilentlyClient(
        api_key="test",
        transport=ScriptedService({**(flags or {}), **named}),
        background=False,
        max_age=_FOR_EVER,
    )
    client.evaluate_all()
    nobody = HTTPConnection({"type": "http", "headers": []})
    return ShipSilently(client=client).flags(nobody, client=client)
