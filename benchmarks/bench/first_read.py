"""The first read of a flag in a request, with the event that it makes."""

from __future__ import annotations

import time

from . import peers
from .outcome import Figure, Goal, Outcome, Settings, missing_figures
from .reads import FLAGS
from .timing import median, over, ratio, repeated, take_turns

#: Requests of one turn; some peers need a millisecond to make what one reads from.
_MOST = 1_000
_MOST_OF_PEERS = 100


#: Seconds.
_PAUSE = 0.05


def _settle() -> None:
    """Let the peer's own threads see to the events of its turn, and not during the next one's."""
    time.sleep(_PAUSE)


def run(settings: Settings) -> Outcome:
    """Measure."""
    names = peers.OURS if settings.own else peers.NAMES
    if not settings.own:
        peers.READERS["posthog, with events"] = peers.posthog_events
        names = (*names, "posthog, with events")
    with peers.opened(names, FLAGS) as (ready, missing):
        works = {}
        for name, peer in ready.items():
            if name == "dict":
                works[name] = repeated(peer.read, {"held": FLAGS, "key": "flag-0"})
                continue
            most = _MOST if name == "shipsilently" else _MOST_OF_PEERS
            # What was counted is delivered, so the next turn finds an empty buffer.
            after = peer.names["client"].flush if name == "shipsilently" else _settle
            works[name] = over(peer.held, peer.read, {**peer.names, "key": "flag-0"}, after, most)
        figures = take_turns(works, settings, most=_MOST)
        notes = {name: peer.note for name, peer in ready.items()}
    ours = figures["shipsilently"]
    rows = [
        Figure(name, median(took) * 1e9, "ns", ratio(ours, took), notes[name])
        for name, took in figures.items()
    ]
    goals = [Goal("first read, recorded ≤ 12 × dict.get", ratio(ours, figures["dict"]), 12.0)]
    for name, times in (("posthog", 5.0), ("launchdarkly-server-sdk", 45.0)):
        what = f"≥ {times:g} × ahead of {name}, first read"
        if name in figures:
            goals.append(Goal(what, ratio(figures[name], ours), times, at_least=True))
        else:
            why = missing.get(name, "left out")
            goals.append(Goal(what, None, times, at_least=True, note=why))
    return Outcome([*rows, *missing_figures(missing, "ns")], goals)
