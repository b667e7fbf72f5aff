"""Calls in tasks that are cut short: by their deadline, or because their caller has gone."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator

import pytest

from shipsilently_core import Config, ShipSilentlyClient
from shipsilently_core._http import HttpTransport
from shipsilently_core._tasks import TaskPool
from shipsilently_local import LocalService


@pytest.fixture
def service() -> Iterator[LocalService]:
    """A service with a flag."""
    with LocalService({"x": 1}) as running:
        yield running


def in_use(transport: HttpTransport) -> list[object]:
    """The connections of all event loops on which a call seems to be under way."""
    pools = [held.pool for held in transport._task_calls().loops.values()]
    assert pools
    found: list[object] = []
    for pool in pools:
        assert isinstance(pool, TaskPool)
        found += pool.in_use
    return found


async def test_calls_that_end_at_their_deadline_leave_no_connection_in_use(
    service: LocalService,
) -> None:
    """Wherever in a call its deadline falls, also in its very end, its connection is let go."""
    transport = HttpTransport(Config(api_url=service.url, api_key=service.key, timeout=0.05))
    client = ShipSilentlyClient(api_url=service.url, api_key=service.key, transport=transport)
    rng = random.Random(1)
    for _ in range(12):
        service.clear_faults()
        service.fault("batch", delay=rng.uniform(0.01, 0.05))
        await asyncio.gather(*(client.aevaluate_all({"userId": f"u{n}"}) for n in range(60)))
    await asyncio.sleep(0.2)
    assert in_use(transport) == []
    await client.aclose()


async def test_callers_that_go_away_leave_no_connection_in_use(service: LocalService) -> None:
    """Whenever in a call its caller is cancelled, its connection is let go."""
    transport = HttpTransport(Config(api_url=service.url, api_key=service.key, timeout=0.3))
    client = ShipSilentlyClient(api_url=service.url, api_key=service.key, transport=transport)
    rng = random.Random(1)

    async def leave_early(number: int) -> None:
        task = asyncio.create_task(client.aevaluate_all({"userId": f"u{number}"}))
        await asyncio.sleep(rng.uniform(0, 0.05))
        task.cancel()
        await asyncio.wait([task])

    for _ in range(15):
        await asyncio.gather(*(leave_early(number) for number in range(40)))
    await asyncio.sleep(0.6)
    assert in_use(transport) == []
    await client.aclose()
