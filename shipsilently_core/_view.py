"""What one caller gets to see, as a view of what is known, and the results made from it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ._kinds import unshared
from ._overrides import overrides
from ._wire import Row, Snapshot, result_of
from .values import EvaluationResult, Failure, Reason, Source

__all__ = ["UNSET", "View", "default_result", "overridden", "override_result"]


class _Unset:
    def __repr__(self) -> str:
        return "UNSET"


UNSET: Any = _Unset()
"""Stands for a default that the caller left out."""

#: What the baseline may tell of anybody: no personal rule made it.
_IMPERSONAL = (Reason.DEFAULT, Reason.FLAG_DISABLED)


class View:
    """What one caller gets to see: its own context's flags, and what stands in where they lack.

    Attributes:
        own: The context's flags; ``None`` where nothing is known of it.
        source: Where those were taken from.
        failure: Why they may be out of date; ``None`` where they are not.
        status: The HTTP status that came with the failure.
        counted: Whether the service itself has counted a check of each of these flags.
        latency_ms: Milliseconds that the call took which this comes from; 0 from memory.
    """

    __slots__ = (
        "_baseline",
        "_defaults",
        "counted",
        "failure",
        "latency_ms",
        "own",
        "source",
        "status",
    )

    def __init__(
        self,
        own: Snapshot | None,
        baseline: Snapshot | None,
        defaults: Mapping[str, Any],
        source: Source,
        failure: Failure | None = None,
        status: int | None = None,
    ) -> None:
        self.own = own
        self.source = source
        self.failure = failure
        self.status = status
        # A batch that succeeded is the whole truth: what it lacks does not exist.
        whole = own is not None and own.complete and failure is None
        self._baseline = None if whole else baseline
        self._defaults = defaults
        self.counted = False
        self.latency_ms = 0.0

    def uncounted(self) -> View:
        """The same for another request that waited for this one's call."""
        return View(
            self.own, self._baseline, self._defaults, self.source, self.failure, self.status
        )

    def is_counted(self, key: str) -> bool:
        """Whether a check of this flag has been counted by the service."""
        return self.counted and self.own is not None and key in self.own.rows

    def find(self, key: str) -> tuple[Row, Source] | None:
        """The flag's row and where it comes from."""
        if self.own is not None:
            row = self.own.rows.get(key)
            if row is not None:
                return row, self.source
        if self._baseline is not None:
            row = self._baseline.rows.get(key)
            if row is not None and row.reason in _IMPERSONAL:
                return row, Source.BASELINE
        return None

    def results(self) -> dict[str, EvaluationResult]:
        """Every flag that is known, as a dictionary of the caller's own."""
        fallback = self.failure is not None
        own = {} if self.own is None else self.own.results(self.source, fallback=fallback)
        if not fallback and self._baseline is None:
            found = own.copy()
        else:
            found = self._stand_ins() | own
        for key, result in found.items():
            if type(result.value) in (dict, list):
                found[key] = EvaluationResult(
                    key,
                    unshared(result.value),
                    result.reason,
                    result.rule_id,
                    result.source,
                    result.error,
                )
        return found

    def _stand_ins(self) -> dict[str, EvaluationResult]:
        found = {}
        if self.failure is not None:
            for key, value in self._defaults.items():
                found[key] = default_result(key, value, self.failure)
        if self._baseline is not None:
            for key, row in self._baseline.rows.items():
                if row.reason in _IMPERSONAL:
                    found[key] = result_of(
                        key, row, Source.BASELINE, fallback=self.failure is not None
                    )
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
