"""What these tests share: a scripted service and a client that talks to it."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from shipsilently_fastapi import ShipSilently

from shipsilently_core import ShipSilentlyClient
from shipsilently_core.testing import ManualClock, ScriptedService
from tests.test_fastapi.apps import Plans


@pytest.fixture
def clock() -> ManualClock:
    """A clock that stands still."""
    return ManualClock()


@pytest.fixture
def service() -> ScriptedService:
    """A service whose flag `new` is on for the plan pro and whose `color` is red."""
    return ScriptedService(Plans())


@pytest.fixture
def client(service: ScriptedService, clock: ManualClock) -> Iterator[ShipSilentlyClient]:
    """A client of that service which does nothing by itself."""
    client = ShipSilentlyClient(
        api_key="sk_test", transport=service, clock=clock, rng=lambda: 1.0, background=False
    )
    yield client
    client.close()


@pytest.fixture
def make(client: ShipSilentlyClient) -> Callable[..., ShipSilently]:
    """Makes a `ShipSilently` with that client."""

    def make(**settings: Any) -> ShipSilently:
        return ShipSilently(client=client, **settings)

    return make
