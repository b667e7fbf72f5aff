"""All flags of one context, held so that contexts which differ little take little memory."""

from __future__ import annotations

from typing import Any

from msgspec import Struct, field

from ._kinds import unshared
from .values import EvaluationResult, Reason, Source

__all__ = ["FROM_CACHE", "NO_ROWS", "Row", "Snapshot", "result_of"]


class Row(Struct, frozen=True, gc=False):
    """One evaluated flag as the service sends it; its key may be left out."""

    value: Any
    reason: str
    ruleId: str | None = None  # the protocol's spelling
    flagKey: str | None = None


class _Made(Struct, frozen=True):
    """All rows of a snapshot as results, and the keys of those whose values are not flat."""

    source: Source
    fallback: bool
    results: dict[str, EvaluationResult]
    nested: frozenset[str]


#: Looked up once: to find a member of an enumeration takes as long as to read a flag.
FROM_CACHE = Source.CACHE

#: Nothing is ever put into it.
NO_ROWS: dict[str, Row] = {}


# There may be very many, which the garbage collector need not look through: none is in a cycle.
class Snapshot(Struct, gc=False, eq=False):
    """All flags of one context as of one answer. Never changed once made, so it can be shared.

    Attributes:
        own: Rows by flag key: all of them, or those that are not the base's.
        complete: Whether it is the answer to a batch; otherwise a flag may exist
            that it does not hold.
        base: Another snapshot, which has no base, with all the flags that `own` leaves out.
        made: What `results` has made of the own rows last.
        ready: The same, where it is all that `results` gives for what is fresh and from the
            cache, so that a copy of it can be handed out.
        shared: The base's rows; none without a base.
    """

    own: dict[str, Row]
    complete: bool
    base: Snapshot | None = None
    made: _Made | None = None
    ready: dict[str, EvaluationResult] | None = None
    shared: dict[str, Row] = field(default_factory=lambda: NO_ROWS)

    def __post_init__(self) -> None:
        if self.base is not None:
            self.shared = self.base.own

    def __len__(self) -> int:
        return len(self.own if self.base is None else self.base.own)

    def __contains__(self, key: str) -> bool:
        return key in self.own or (self.base is not None and key in self.base.own)

    def get(self, key: str) -> Row | None:
        """One flag's row."""
        row = self.own.get(key)
        if row is None and self.base is not None:
            row = self.base.own.get(key)
        return row

    @property
    def rows(self) -> dict[str, Row]:
        """All rows by flag key; not to be changed."""
        return self.own if self.base is None else self.base.own | self.own

    @property
    def own_rows(self) -> int:
        """How many rows it holds by itself."""
        return len(self.own)

    def results(
        self, source: Source, fallback: bool, age: float | None = None
    ) -> dict[str, EvaluationResult]:
        """Every flag as a result from `source`, with a dictionary and objects of the caller's own.

        Args:
            source: See `EvaluationResult`, like the rest.
            fallback: Whether they stand in for a call that failed.
            age: The same.
        """
        if age is not None:
            return {
                key: result_of(key, row, source, fallback=fallback, age=age)
                for key, row in self.rows.items()
            }
        base = self.base
        whole = self if base is None else base
        made = whole.made
        if made is None or made.source is not source or made.fallback is not fallback:
            made = whole._make(source, fallback)
        results = made.results.copy()
        if made.nested:
            for key in made.nested:
                results[key] = _unshared(results[key])
        if base is not None:
            # There are few of these for each of many users: to keep them would take more room
            # than to make them takes time.
            for key, row in self.own.items():
                results[key] = result_of(key, row, source, fallback=fallback)
        return results

    def _make(self, source: Source, fallback: bool) -> _Made:
        """All rows of one without a base as results; and which are not flat."""
        results = {
            key: result_of(key, row, source, fallback=fallback) for key, row in self.own.items()
        }
        nested = frozenset(k for k, row in self.own.items() if type(row.value) in (dict, list))
        made = self.made = _Made(source, fallback, results, nested)
        self.ready = None if source is not FROM_CACHE or fallback or nested else results
        return made


def result_of(
    key: str, row: Row, source: Source, *, fallback: bool, age: float | None = None
) -> EvaluationResult:
    """A row as a result of the caller's own.

    Args:
        key: The flag.
        row: What is known of it.
        source: See `EvaluationResult`.
        fallback: Whether it stands in for a call that failed.
        age: See `EvaluationResult`.
    """
    value = row.value
    if type(value) in (dict, list):
        value = unshared(value)
    reason = Reason.ERROR_FALLBACK if fallback else row.reason
    return EvaluationResult(key, value, reason, row.ruleId, source, None, age)


def _unshared(result: EvaluationResult) -> EvaluationResult:
    return EvaluationResult(
        result.flag_key,
        unshared(result.value),
        result.reason,
        result.rule_id,
        result.source,
        result.error,
        result.age,
    )
