"""All flags of a returning user, whose evaluation is in the cache."""

from __future__ import annotations

from typing import ClassVar

from . import peers
from .outcome import Figure, Goal, Outcome, Settings, missing_figures
from .timing import median, ratio, repeated, take_turns

SIZES = (200, 1_000)
LEAST = "an object made anew that copies a dict"
KEPT = "the same, with the user's looked up, the process and news looked at, and kept"
AGED = "shipsilently with max_age"


class Held:
    """The least that the flags of one request can be."""

    __slots__ = ("_values",)

    def __init__(self, values: dict[str, bool]) -> None:
        self._values = values

    def copy(self) -> dict[str, bool]:
        """All of them."""
        return self._values.copy()


class Kept:
    """The least that they can be where each user's are held until there is news, in a process that
    may fork.

    Nothing is counted, nobody else's stand in, no value has to be copied, nobody can log in.
    """

    __slots__ = ("_held", "_who")

    users: ClassVar[dict[bytes, tuple[dict[str, bool], int]]] = {}
    mark = b"\1"
    generation = 1

    _held: dict[str, bool] | None

    def __init__(self, who: bytes) -> None:
        self._who = who
        self._held = None

    def all(self) -> dict[str, bool]:
        """All of them, the same to the end of the request."""
        held = self._held
        if held is None:
            assert self.mark[0]
            held, generation = self.users[self._who]
            assert generation == self.generation
            self._held = held
        return held.copy()


def run(settings: Settings) -> Outcome:
    """Measure."""
    names = peers.OURS if settings.own else peers.NAMES
    rows: list[Figure] = []
    goals: list[Goal] = []
    for size in SIZES:
        flags = {f"flag-{number}": number % 2 == 0 for number in range(size)}
        # waffle asks one cache per flag; a thousand of them tell nothing new.
        asked = tuple(name for name in names if size == SIZES[0] or name != "django-waffle")
        with peers.opened(asked, flags) as (ready, missing):
            works = {}
            for name, peer in ready.items():
                all_names = {**peer.names, "held": peer.held()}
                if name == "dict":
                    all_names = {"held": flags}
                # Each takes long enough for the loop around it not to count.
                works[name] = repeated(peer.everything, all_names, unrolled=1)
            works[LEAST] = repeated("Held(held).copy()", {"Held": Held, "held": flags}, unrolled=1)
            Kept.users[b"{}"] = (flags, Kept.generation)
            works[KEPT] = repeated("Kept(b'{}').all()", {"Kept": Kept}, unrolled=1)
            aged = peers.shipsilently(flags, "", max_age=1e9)
            works[AGED] = repeated(aged.everything, aged.names, unrolled=1)
            figures = take_turns(works, settings, most=20_000)
            notes = {name: peer.note for name, peer in ready.items()}
            notes |= {LEAST: "", KEPT: "", AGED: "so that a clock is looked at"}
            aged.close()
        ours = figures["shipsilently"]
        rows.extend(
            Figure(f"{name}, {size}", median(took) * 1e6, "µs", ratio(ours, took), notes[name])
            for name, took in figures.items()
        )
        rows.extend(
            missing_figures({f"{name}, {size}": why for name, why in missing.items()}, "µs")
        )
        reached = ratio(ours, figures["dict"])
        goals.append(Goal(f"all of {size} flags ≤ 2 × copying a dict", reached, 2.0))
    return Outcome(rows, goals)
