"""One run of the checks that need the service, and what it has found out so far."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from shipsilently_core import Config
from shipsilently_core._http import HttpTransport
from shipsilently_core._wire import Reply, Request

__all__ = ["Session", "seconds"]


@dataclass(slots=True)
class Session:
    """What the checks share.

    Attributes:
        config: The settings.
        transport: The client's own way to the service.
        quick: Measure less and do not wait for a heartbeat.
        patience: Seconds to wait for a heartbeat.
        progress: Told of what takes a while.
        proxied: Whether calls go by way of a proxy of the environment's.
        flags: The keys of the environment's flags, once they are known.
        skew: Seconds by which this machine's clock is ahead of the service's, once known.
    """

    config: Config
    transport: HttpTransport
    quick: bool
    patience: float
    progress: Callable[[str], None]
    proxied: bool = False
    flags: frozenset[str] | None = None
    skew: float | None = None

    def timed(self, request: Request) -> tuple[Reply, float]:
        """Carry out one call; with it, the seconds that it took."""
        begin = time.perf_counter()
        reply = self.transport.send(request)
        return reply, time.perf_counter() - begin


def seconds(value: float) -> str:
    """A duration for people."""
    if value < 1:
        return f"{value * 1000:.1f} ms" if value < 0.01 else f"{value * 1000:.0f} ms"
    return f"{value:.3g} s"
