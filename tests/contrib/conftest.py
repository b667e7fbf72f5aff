"""What the exporters' tests share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from shipsilently_core import signals
from tests.core.wire_server import WireServer


@pytest.fixture
def listen() -> Iterator[Callable[[Callable[..., Any]], None]]:
    """Connect a receiver to `flag_evaluated` for the length of a test."""
    connected: list[Callable[..., Any]] = []

    def connect(receiver: Callable[..., Any]) -> None:
        signals.connect(signals.flag_evaluated, receiver)
        connected.append(receiver)

    yield connect
    for receiver in connected:
        signals.disconnect(signals.flag_evaluated, receiver)


@pytest.fixture
def server() -> Iterator[WireServer]:
    """A scripted server."""
    with WireServer() as running:
        yield running
