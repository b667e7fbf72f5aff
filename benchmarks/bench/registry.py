"""Every measurement, by name, in the order of the table.

Each is a module of this package with a function ``run(settings) -> Outcome``, imported in a
process of its own, so that none finds what another has left behind.
"""

from __future__ import annotations

from importlib import import_module
from typing import NamedTuple

from .outcome import Outcome, Settings

__all__ = ["MEASUREMENTS", "Measurement"]


class Measurement(NamedTuple):
    """One row of the table.

    Attributes:
        name: For ``--only``, and the module that holds it.
        title: What is measured.
        limit: Seconds after which it is given up.
    """

    name: str
    title: str
    limit: float = 240.0

    def run(self, settings: Settings) -> Outcome:
        """Measure in this process."""
        outcome = import_module(f".{self.name}", __package__).run(settings)
        assert isinstance(outcome, Outcome)
        return outcome


MEASUREMENTS = {
    entry.name: entry
    for entry in (
        Measurement("reads", "a flag read again in a request, nothing recorded"),
        Measurement("first_read", "the first read of a flag in a request, its event recorded"),
        Measurement("cached_request", "a request with a cached answer and ten reads, added"),
        Measurement("all_flags", "all flags of a returning user"),
        Measurement("decode", "a batch of 200 flags from bytes to what is kept"),
        Measurement("memory", "memory of a cached user with 200 flags, and collecting it", 300.0),
        Measurement("unread", "installed, and no flag read: added to a request"),
        Measurement("templates", "one flag in a template"),
        Measurement("depends", "FastAPI endpoint with Depends(flags) and one read, added"),
        Measurement("compiled", "our own code compiled to C, added to a request"),
        Measurement("new_user", "a new user, one at a time, processor time of the client"),
        Measurement("crowd", "new users, 16 at once"),
        Measurement("throughput", "requests per second of each example under wrk"),
        Measurement("imports", "import of an integration where its framework is"),
        Measurement("stream", "a streamed event, processor time of the client"),
        Measurement("propagation", "from the service's event to the new value", 120.0),
        Measurement("outage", "requests after the gate has closed"),
    )
}
