"""Fixtures of the tests under real servers."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from shipsilently_local import LocalService
from tests.servers.harness import local_service


@pytest.fixture
def service() -> Iterator[LocalService]:
    """A service that tells users who they are."""
    with local_service() as running:
        yield running


@pytest.fixture
def say(capsys: pytest.CaptureFixture[str]) -> Callable[[str], None]:
    """Show a line of what was measured, also when tests pass."""

    def show(line: str) -> None:
        with capsys.disabled():
            print(f"\n    {line}", end=" ", flush=True)

    return show
