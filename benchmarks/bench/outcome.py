"""What a measurement gives: figures, and goals that are met or not."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from msgspec import Struct

__all__ = ["Figure", "Goal", "Outcome", "Settings", "missing_figures"]

Unit = Literal["ns", "µs", "ms", "/s", "KB", "bytes", "MB", "%"]


class Settings(Struct, frozen=True):
    """How long to measure.

    Attributes:
        quick: As short as it can be: to see that everything runs, not for figures.
        own: Leave the peers out.
        rounds: How often everything takes its turn.
        seconds: Of one turn.
    """

    quick: bool = False
    own: bool = False
    rounds: int = 21
    seconds: float = 0.02

    @classmethod
    def of(cls, *, quick: bool, own: bool) -> Settings:
        """The settings of a short or a whole run."""
        return cls(True, own, 2, 0.001) if quick else cls(own=own)


class Figure(Struct, frozen=True):
    """One thing that was measured.

    Attributes:
        who: Ours, a peer, or a building block.
        value: In `unit`; ``None`` where nothing could be measured.
        unit: What the value counts.
        ratio: Ours to this one, round by round where they took turns: above 1, ours is larger.
        note: How, or why not.
    """

    who: str
    value: float | None
    unit: Unit
    ratio: float | None = None
    note: str = ""


class Goal(Struct, frozen=True):
    """What is to be reached.

    Attributes:
        what: In words, with its limit.
        measured: ``None`` where it could not be measured.
        limit: The bound.
        at_least: Whether more is better.
        note: Why it could not be measured, or why the limit is elsewhere.
    """

    what: str
    measured: float | None
    limit: float
    at_least: bool = False
    note: str = ""

    @property
    def met(self) -> bool | None:
        """Whether it is reached; ``None`` where that is not known."""
        if self.measured is None:
            return None
        return self.measured >= self.limit if self.at_least else self.measured <= self.limit


class Outcome(Struct, frozen=True):
    """All of one measurement."""

    figures: list[Figure]
    goals: list[Goal]


def missing_figures(missing: dict[str, str], unit: Unit) -> Iterable[Figure]:
    """A row for each peer that could not be measured, with the reason."""
    return (Figure(name, None, unit, note=reason) for name, reason in missing.items())
