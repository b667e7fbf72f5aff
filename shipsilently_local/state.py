"""Everything the service knows while it runs, and what of it people can read."""

from __future__ import annotations

import asyncio
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from .bodies import Event
from .document import Flag, are_same
from .faults import ENDPOINTS, Fault, FaultTable
from .streams import Streams
from .tickets import Tickets

__all__ = ["RecordedRequest", "ServiceState"]

ENV_ID = "local"


@dataclass(frozen=True, slots=True)
class RecordedRequest:
    """A request as it came in. ``at`` is `time.monotonic`; header names are lower-case."""

    method: str
    path: str
    query: str
    headers: Mapping[str, str]
    body: bytes
    at: float
    client_port: int


class ServiceState:
    """Flags, faults, tickets, counters, and the streams of the present run.

    Touched only on the service's event loop, or while no loop runs.
    """

    def __init__(
        self,
        flags: Mapping[str, Flag],
        key: str,
        *,
        heartbeat: float = 30.0,
        ticket_ttl: float = 60.0,
        max_recorded: int = 10_000,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.flags = flags
        self.key = key
        self.clock = clock
        self.faults = FaultTable()
        self.tickets = Tickets(ticket_ttl, clock)
        self.requests: deque[RecordedRequest] = deque(maxlen=max_recorded)
        self._heartbeat = heartbeat
        self._evaluations: Counter[str] = Counter()
        self._calls: Counter[str] = Counter()
        self._events: dict[str, dict[str, Counter[str]]] = {}
        self.begin()

    def begin(self) -> None:
        """A new run: no streams, not stopping. Tickets, counts and faults stay."""
        self.streams = Streams(self._heartbeat, ENV_ID)
        self.streams.muted = self.faults.mutes_streams
        self.stopping = asyncio.Event()

    def end(self) -> None:
        """Let every stream and every wait end."""
        self.stopping.set()
        self.streams.close()

    def put_flags(self, flags: Mapping[str, Flag]) -> bool:
        """Serve these flags from now on and say so; False when they are the same."""
        if are_same(flags, self.flags):
            return False
        self.flags = flags
        self.streams.announce()
        return True

    def add_fault(self, fault: Fault) -> str:
        """Put ``fault`` in force, on open streams too if it is for them."""
        fault_id = self.faults.add(fault)
        if fault.live and fault.drop:
            self.streams.drop()
        self.streams.muted = self.faults.mutes_streams
        return fault_id

    def clear_faults(self, fault_id: str | None = None) -> int:
        """Clear one fault or all; returns how many were cleared."""
        count = self.faults.clear() if fault_id is None else int(self.faults.remove(fault_id))
        self.streams.muted = self.faults.mutes_streams
        return count

    def count_call(self, endpoint: str) -> None:
        """One request came in for ``endpoint``."""
        self._calls[endpoint] += 1

    def count_evaluations(self, keys: Iterable[str]) -> None:
        """Each of these flags was evaluated once."""
        self._evaluations.update(list(keys))

    def count_events(self, events: Iterable[Event]) -> None:
        """These analytics events were accepted."""
        for event in events:
            variations = self._events.setdefault(event.flag_key, {})
            variations.setdefault(event.variation_key, Counter())[event.reason] += 1

    def summary(self) -> dict[str, Any]:
        """What ``GET /local/state`` says."""
        totals = {
            flag: {variation: dict(reasons) for variation, reasons in variations.items()}
            for flag, variations in self._events.items()
        }
        return {
            "flags": list(self.flags),
            "evaluations": dict(self._evaluations),
            "events": {
                "accepted": sum(
                    sum(reasons.values()) for by in totals.values() for reasons in by.values()
                ),
                "byFlag": totals,
            },
            "openStreams": len(self.streams),
            "requests": {name: self._calls[name] for name in ENDPOINTS.values()},
        }
