"""All flags of one context, held so that contexts which differ little take little memory."""

from __future__ import annotations

from itertools import compress
from operator import attrgetter, ne
from typing import Any

from msgspec import Struct

from ._kinds import unshared
from .values import EvaluationResult, Reason, Source

__all__ = ["Likeness", "Row", "Snapshot", "result_of"]

#: Rows; fewer than these take little memory.
_WORTH_SHARING = 8
#: Types of values that never count as the same.
_APART = (dict, list, float)
_value_of = attrgetter("value")


class Row(Struct, frozen=True, gc=False):
    """One evaluated flag as the service sends it."""

    value: Any
    reason: str
    ruleId: str | None = None  # the protocol's spelling
    flagKey: str | None = None


class Snapshot:
    """All flags of one context as of one answer. Never changed once made, so it can be shared.

    Args:
        rows: By flag key.
        complete: Whether it is the answer to a batch; otherwise a flag may exist
            that it does not hold.
        base: Another snapshot, with all the flags that `rows` leaves out.
    """

    __slots__ = ("_base", "_own", "_results", "complete")

    def __init__(
        self, rows: dict[str, Row], *, complete: bool, base: Snapshot | None = None
    ) -> None:
        self._own = rows
        self._base = base
        self.complete = complete
        self._results: (
            dict[tuple[Source, bool], tuple[dict[str, EvaluationResult], frozenset[str]]] | None
        ) = None

    def __len__(self) -> int:
        return len(self._own if self._base is None else self._base._own)

    def __contains__(self, key: str) -> bool:
        return key in self._own or (self._base is not None and key in self._base._own)

    def get(self, key: str) -> Row | None:
        """One flag's row."""
        row = self._own.get(key)
        if row is None and self._base is not None:
            row = self._base._own.get(key)
        return row

    @property
    def rows(self) -> dict[str, Row]:
        """All rows by flag key; not to be changed."""
        return self._own if self._base is None else self._base._own | self._own

    @property
    def own_rows(self) -> int:
        """How many rows it holds by itself."""
        return len(self._own)

    def results(
        self, source: Source, *, fallback: bool, age: float | None = None
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
        results, nested = self._made(source, fallback)
        if self._base is None:
            results = results.copy()
        else:
            others, more = self._base._made(source, fallback)
            results, nested = others | results, nested | more
        for key in nested:
            results[key] = _unshared(results[key])
        return results

    def _made(
        self, source: Source, fallback: bool
    ) -> tuple[dict[str, EvaluationResult], frozenset[str]]:
        """Its own rows as results, made once, and which of them hold objects or arrays."""
        kept = self._results
        if kept is None:
            kept = self._results = {}
        made = kept.get((source, fallback))
        if made is None:
            results = {
                key: result_of(key, row, source, fallback=fallback)
                for key, row in self._own.items()
            }
            nested = frozenset(k for k, row in self._own.items() if type(row.value) in (dict, list))
            made = kept[source, fallback] = (results, nested)
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


class _Base(Struct, frozen=True):
    """What others are compared with.

    Attributes:
        snapshot: It, with all its rows.
        keys: Of its flags, in order; the rest is in the same order.
        rows: Its rows.
        kinds: The types of its values.
        apart: Whether one of them has to be compared more closely than Python does.
    """

    snapshot: Snapshot
    keys: list[str]
    rows: list[Row]
    kinds: list[type[Any]]
    apart: bool


class Likeness:
    """Makes snapshots that hold only what tells them from one that they are like.

    Most of an environment's flags are the same for most of its users.
    """

    def __init__(self) -> None:
        self._base: _Base | None = None

    def snapshot(self, rows: dict[str, Row]) -> Snapshot:
        """A complete snapshot of these rows."""
        base = self._base
        if base is not None and list(rows) == base.keys:
            different = _different(rows, base)
            if 2 * len(different) <= len(rows):
                return Snapshot(different, complete=True, base=base.snapshot)
        snapshot = Snapshot(rows, complete=True)
        if len(rows) >= _WORTH_SHARING:
            # The flags have changed, or these are another kind of users: so are the next, perhaps.
            kinds = _kinds_of(rows)
            apart = any(kind in _APART for kind in kinds)
            self._base = _Base(snapshot, list(rows), list(rows.values()), kinds, apart)
        return snapshot


def _kinds_of(rows: dict[str, Row]) -> list[type[Any]]:
    return list(map(type, map(_value_of, rows.values())))


def _different(rows: dict[str, Row], base: _Base) -> dict[str, Row]:
    """The rows that are not the base's. Each step is one pass without a loop in Python."""
    different = dict(compress(rows.items(), map(ne, rows.values(), base.rows)))
    kinds = _kinds_of(rows)
    if base.apart or kinds != base.kinds:
        # In Python, True equals 1, {"n": True} equals {"n": 1}, and -0.0 equals 0.0.
        for (key, row), kind, other in zip(rows.items(), kinds, base.kinds, strict=True):
            if kind is not other or kind in _APART:
                different[key] = row
    return different
