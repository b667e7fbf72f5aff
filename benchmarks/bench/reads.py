"""One flag, read again in a request that has read it: nothing is recorded."""

from __future__ import annotations

from . import peers
from .outcome import Figure, Goal, Outcome, Settings, missing_figures
from .timing import median, ratio, repeated, take_turns

FLAGS = {f"flag-{number}": number % 2 == 0 for number in range(200)}

#: As nearly as each peer can: what it keeps for a request, read with no event made.
_CLASS = "held.flag_0"


def run(settings: Settings) -> Outcome:
    """Measure."""
    from shipsilently_core import FlagSet

    class Few(FlagSet):
        flag_0: bool = False

    peers.READERS["launchdarkly-server-sdk"] = peers.launchdarkly_held
    names = peers.OURS if settings.own else peers.NAMES
    with peers.opened(names, FLAGS) as (ready, missing):
        works = {}
        for name, peer in ready.items():
            held = peer.held()
            read = repeated(peer.read, {**peer.names, "held": held, "key": "flag-0"})
            read(1)
            works[name] = read
        ours = ready["shipsilently"]
        works["shipsilently, FlagSet"] = repeated(_CLASS, {"held": ours.held().as_(Few)})
        figures = take_turns(works, settings)
        notes = {name: peer.note for name, peer in ready.items()}
    rows = [
        Figure(
            name,
            median(took) * 1e9,
            "ns",
            ratio(figures["shipsilently"], took),
            notes.get(name, ""),
        )
        for name, took in figures.items()
    ]
    reached = ratio(figures["shipsilently"], figures["dict"])
    return Outcome(
        [*rows, *missing_figures(missing, "ns")],
        [Goal("second read of a flag ≤ 5 × dict.get", reached, 5.0)],
    )
