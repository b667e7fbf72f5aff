"""A context that is followed: what it was told last, and how two results differ."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ._process import Latch
from .context import Context
from .values import EvaluationResult

__all__ = ["Results", "Watch", "differing", "same"]

Results = dict[str, EvaluationResult]


class Watch:
    """One context that the background evaluates again and again.

    Args:
        context: Whom for.
        interval: Seconds between polls while nothing streams.
        on_results: Called after each successful evaluation with the results before it
            (``None`` the first time), the new ones, and whether the service had said
            that something changed.
    """

    def __init__(
        self,
        context: Context,
        interval: float,
        on_results: Callable[[Results | None, Results, bool], object],
    ) -> None:
        self.context = context
        self.interval = interval
        self._on_results = on_results
        self._last: Results | None = None
        #: Whether there is a reason to evaluate that is not the time.
        self.stale = True
        #: Whether that reason is the service's word.
        self.announced = False
        #: Monotonic seconds of the next poll, or of the next try after a failure.
        self.due = 0.0
        self.failures = 0
        #: Set once the first evaluation has succeeded.
        self.ready: Latch[bool] = Latch()

    def renew(self) -> None:
        """In a forked child: evaluate anew, with locks of its own."""
        self.stale = True
        self.failures = 0
        ready, self.ready = self.ready.result, Latch()
        if ready:
            self.ready.set(True)

    def take(self, results: Results, announced: bool) -> None:
        """Hand on new results."""
        last, self._last = self._last, results
        self.ready.set(True)
        self._on_results(last, results, announced)


def differing(last: Results, new: Results) -> frozenset[str]:
    """The keys of the flags whose values differ, those that came or went included."""
    return frozenset(
        key
        for key in last.keys() | new.keys()
        if key not in last or key not in new or not same(last[key].value, new[key].value)
    )


def same(one: Any, other: Any) -> bool:
    """Whether two flag values are the same in JSON, where ``true`` is not 1."""
    if type(one) is not type(other):
        return False
    if type(one) is dict:
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if type(one) is list:
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)
