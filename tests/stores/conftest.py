"""Fixtures of the tests with real stores."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from shipsilently_local import LocalService
from tests.servers.harness import local_service
from tests.stores.redis_server import NO_PROGRAM, PROGRAM, RedisServer


@pytest.fixture
def redis_server(tmp_path: Path) -> Iterator[RedisServer]:
    """A server with nothing in it."""
    if not PROGRAM:
        pytest.skip(NO_PROGRAM)
    with RedisServer(tmp_path) as running:
        yield running


@pytest.fixture
def service() -> Iterator[LocalService]:
    """A service that tells users who they are."""
    with local_service() as running:
        yield running
