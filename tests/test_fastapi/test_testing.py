"""Flags that a test decides."""

from collections.abc import Callable

from shipsilently_fastapi import FlagsDep, ShipSilently, flags, requires_flag
from shipsilently_fastapi.testing import fixed_flags, override_flags

import shipsilently_core.testing
from shipsilently_core.testing import ScriptedService
from tests.test_fastapi.apps import FREE, app_with, attempts, from_headers, serving

Make = Callable[..., ShipSilently]


def test_fixed_flags_replace_those_of_the_app(make: Make, service: ScriptedService) -> None:
    """Endpoints and gates get the test's own flags, and the service is not asked."""
    app = app_with(make(context=from_headers))

    @app.get("/", **flags.gate("new-checkout", "!missing"))
    async def home(flags: FlagsDep) -> list[object]:
        return [flags.get("banner", "blue"), flags.get("missing", 3), "new-checkout" in flags]

    with serving(app) as client:
        assert client.get("/", headers=FREE).status_code == 404
        asked = attempts(service)
        app.dependency_overrides[flags] = lambda: fixed_flags(
            {"new-checkout": True}, banner="green"
        )
        assert client.get("/", headers=FREE).json() == ["green", 3, True]
        app.dependency_overrides.clear()
        assert client.get("/", headers=FREE).status_code == 404
    assert attempts(service) == asked


async def test_fixed_flags_need_no_await() -> None:
    """They can be read at once, also in a coroutine, and refreshed."""
    fixed = fixed_flags(new=True)
    assert fixed.is_enabled("new")
    assert requires_flag("new").opens(fixed)
    assert (await fixed.arefresh()).is_enabled("new")
    assert not fixed_flags().is_enabled("new")


def test_overrides_are_the_cores() -> None:
    """`override_flags` is the one of the core, so it works across frameworks."""
    assert override_flags is shipsilently_core.testing.override_flags
