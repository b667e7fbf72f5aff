"""What one caller gets to see, as a view of what is known, and the results made from it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from ._kinds import unshared
from ._overrides import overrides
from ._snapshot import Row, Snapshot, result_of
from .values import EvaluationResult, Failure, Reason, Source

__all__ = [
    "IMPERSONAL",
    "UNSET",
    "StandIn",
    "View",
    "default_result",
    "overridden",
    "override_result",
]


class _Unset:
    def __repr__(self) -> str:
        return "UNSET"


UNSET: Any = _Unset()
"""Stands for a default that the caller left out."""

#: What one context's flags may tell of anybody: no personal rule made them.
IMPERSONAL = (Reason.DEFAULT, Reason.FLAG_DISABLED)


class StandIn(Struct, frozen=True):
    """Flags that are served to anybody, where a context's own lack.

    Attributes:
        snapshot: The flags.
        source: Where they come from.
        age: Seconds since they were last known to be current.
    """

    snapshot: Snapshot
    source: Source
    age: float | None = None

    def find(self, key: str) -> Row | None:
        """The flag's row, unless a rule for somebody else made it."""
        row = self.snapshot.get(key)
        return row if row is not None and row.reason in IMPERSONAL else None


class View(Struct, gc=False, eq=False):
    """What one caller gets to see: its own context's flags, and what stands in where they lack.

    Attributes:
        own: The context's flags; ``None`` where nothing is known of it.
        stand_ins: What serves where they lack, the best first.
        defaults: The declared ones, which serve where those lack too.
        source: Where its own were taken from.
        failure: Why they may be out of date; ``None`` where they are not.
        status: The HTTP status that came with the failure.
        age: Seconds since they were last known to be current; ``None`` while they are.
        counted: Whether the service itself has counted a check of each of these flags.
        latency_ms: Milliseconds that the call took which this comes from; 0 from memory.
    """

    own: Snapshot | None
    stand_ins: tuple[StandIn, ...]
    defaults: Mapping[str, Any]
    source: Source
    failure: Failure | None = None
    status: int | None = None
    age: float | None = None
    counted: bool = False
    latency_ms: float = 0.0

    def uncounted(self) -> View:
        """The same for another request that waited for this one's call."""
        return View(
            self.own,
            self.stand_ins,
            self.defaults,
            self.source,
            self.failure,
            self.status,
            self.age,
        )

    def is_counted(self, key: str) -> bool:
        """Whether a check of this flag has been counted by the service."""
        return self.counted and self.own is not None and key in self.own

    def find(self, key: str) -> tuple[Row, Source, float | None] | None:
        """The flag's row, where it comes from, and its age."""
        if self.own is not None:
            row = self.own.get(key)
            if row is not None:
                return row, self.source, self.age
        for other in self.stand_ins:
            row = other.find(key)
            if row is not None:
                return row, other.source, other.age
        return None

    def results(self) -> dict[str, EvaluationResult]:
        """Every flag that is known, as a dictionary of the caller's own."""
        if self.failure is None and self.own is not None and not self.stand_ins:
            return self.own.results(self.source, False, self.age)
        fallback = self.failure is not None
        own = {}
        if self.own is not None:
            own = self.own.results(self.source, fallback, self.age)
        return self._stand_ins() | own

    def _stand_ins(self) -> dict[str, EvaluationResult]:
        found = {}
        if self.failure is not None:
            for key, value in self.defaults.items():
                found[key] = default_result(key, value, self.failure)
        fallback = self.failure is not None
        for other in reversed(self.stand_ins):
            for key, row in other.snapshot.rows.items():
                if row.reason in IMPERSONAL:
                    found[key] = result_of(key, row, other.source, fallback=fallback, age=other.age)
        return found


def default_result(key: str, value: Any, failure: Failure) -> EvaluationResult:
    """The result for a flag of which nothing better than a default can be served."""
    found = failure is not Failure.NOT_FOUND
    reason = Reason.ERROR_FALLBACK if found else Reason.FLAG_NOT_FOUND
    return EvaluationResult(key, unshared(value), reason, None, Source.DEFAULT, failure)


def overridden(results: dict[str, EvaluationResult]) -> dict[str, EvaluationResult]:
    """These results, with what a test has set put in their place."""
    for key, value in overrides.values.items():
        results[key] = override_result(key, value)
    return results


def override_result(key: str, value: Any) -> EvaluationResult:
    """The result for a flag that a test has set."""
    return EvaluationResult(key, unshared(value), Reason.DEFAULT, None, Source.OVERRIDE)
