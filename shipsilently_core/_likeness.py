"""Answers to a batch, read by what tells them from one that was read before.

Most of an environment's flags are the same for most of its users, to the byte. What has the same
bytes as a row that was read and checked is that row: it is neither read again nor held twice.
"""

from __future__ import annotations

from collections import Counter
from itertools import compress
from operator import ne
from sys import intern

from ._form import Form, Raws, form_of
from ._snapshot import Row, Snapshot
from ._wire import parse_batch, raw_rows, read_row, without_mark

__all__ = ["Likeness"]

#: Rows; fewer than these take little memory.
_WORTH_SHARING = 8
#: So many answers tell what is usual, and so many of them have to agree on it: a flag that half of
#: the users have is not to change it again and again, as old snapshots keep what they rest on.
_ENOUGH, _USUAL = 32, 24
#: Kinds of users that are told apart.
_MOST_BASES = 3
#: After so many answers in a row that are like nothing, only each of so many is compared.
_PATIENCE, _NOW_AND_THEN = 8, 8
#: A snapshot, and the keys of rows that could not be read.
_Read = tuple[Snapshot, list[str]]


class _Base:
    """What others are compared with: an answer, or what many have taught.

    Args:
        snapshot: Its flags; an attribute, like the next two.
        malformed: The keys of its rows that cannot be read.
        raws: The bytes of all its rows.
        form: Its text, where others can be compared with that.
    """

    def __init__(
        self, snapshot: Snapshot, malformed: list[str], raws: Raws, form: Form | None
    ) -> None:
        self.snapshot = snapshot
        self.malformed = malformed
        self.raws = raws
        self._form = form
        self._keys = list(raws)
        self._compared = 0
        self._seen: Counter[tuple[str, bytes]] = Counter()

    def by_text(self, text: bytes) -> Raws | None:
        """The rows of an answer that are not the same here, found without decoding it.

        Returns:
            ``None`` where it has other flags, or is not like this one; also where only `by_rows`
            can tell.
        """
        different = None if self._form is None else self._form.different(text)
        if different is None or not different.keys().isdisjoint(self.malformed):
            # Of what cannot be read it is not certain that it is one row.
            return None
        return self._if_like(different)

    def by_rows(self, raws: Raws) -> Raws | None:
        """The rows that are not the same here, of all an answer's rows in their order.

        Returns:
            ``None`` where it has other flags, or is not like this one.
        """
        if list(raws) != self._keys:
            return None
        different = dict(compress(raws.items(), map(ne, raws.values(), self.raws.values())))
        return self._if_like(different)

    def _if_like(self, different: Raws) -> Raws | None:
        """The same where an answer in which these rows are different is worth holding by them."""
        return different if 2 * len(different) <= len(self.raws) else None

    def snapshot_with(self, different: Raws) -> Snapshot | None:
        """The snapshot of an answer in which these rows are different.

        Returns:
            ``None`` where other rows than here cannot be read.
        """
        rows = {}
        for key, raw in different.items():
            row = read_row(raw, key)
            if row is not None:
                rows[key] = Row(row.value, intern(row.reason), row.ruleId and intern(row.ruleId))
            if (row is None) != (key in self.malformed):
                return None
        return Snapshot(rows, complete=True, base=self.snapshot)

    def taught(self, different: Raws, rows: dict[str, Row]) -> _Base | None:
        """Learn from an answer which rows here are somebody's own.

        Args:
            different: The rows that are different in it.
            rows: The same, read.

        Returns:
            A base with what is usual in their place, once that is known and differs.
        """
        self._seen.update(different.items())
        self._compared += 1
        if self._compared < _ENOUGH:
            return None
        seen, self._seen, self._compared = self._seen, Counter(), 0
        usual = {key: different[key] for key in rows if seen[key, different[key]] >= _USUAL}
        if not usual:
            return None
        all_rows = self.snapshot.rows | {key: rows[key] for key in usual}
        raws = self.raws | usual
        form = self._form and self._form.filled(raws)
        return _Base(Snapshot(all_rows, complete=True), self.malformed, raws, form)


class Likeness:
    """Reads answers, and makes snapshots that hold only what tells them from one that was before.

    What they are compared with is at first somebody's flags; what is peculiar to that somebody is
    found out by and by. There are a few such, for kinds of users that have little in common.
    Several threads may use it at once: what they teach it at the same moment may be lost, and
    nothing else.
    """

    def __init__(self) -> None:
        #: The latest used first.
        self._bases: tuple[_Base, ...] = ()
        #: The latest that was like none of them, and its body: the next may be like it.
        self._unlike: tuple[_Base, bytes] | None = None
        self._misses = 0

    def read(self, body: bytes) -> _Read | None:
        """A batch's snapshot and the keys of malformed rows.

        Args:
            body: The answer, decompressed.

        Returns:
            ``None`` where it is not the promised JSON.
        """
        if self._misses > _PATIENCE and self._misses % _NOW_AND_THEN:
            self._misses += 1
            return _read_alone(body)
        text = without_mark(body)
        for base in self._bases:
            found = self._held_by(base, base.by_text(text))
            if found is not None:
                return found
        raws = raw_rows(body)
        if raws is None or len(raws) < _WORTH_SHARING:
            return _read_alone(body)
        for base in self._bases:
            found = self._held_by(base, base.by_rows(raws))
            if found is not None:
                return found
        return self._read_unlike(body, raws)

    def _read_unlike(self, body: bytes, raws: Raws) -> _Read | None:
        """An answer like none of the bases. If it is like the last such one, that is a base."""
        if self._unlike is not None:
            other, its_body = self._unlike
            different = other.by_rows(raws)
            if different is not None:
                form = form_of(without_mark(its_body), other.raws)
                base = _Base(other.snapshot, other.malformed, other.raws, form)
                found = self._held_by(base, different)
                if found is not None:
                    self._unlike = None
                    return found
        self._misses += 1
        found = _read_alone(body)
        self._unlike = found and (_Base(*found, raws, None), body)
        return found

    def _held_by(self, base: _Base, different: Raws | None) -> _Read | None:
        """What `base` makes of an answer in which these rows are different, if it can.

        It is the first to be tried from now on.
        """
        snapshot = None if different is None else base.snapshot_with(different)
        if different is None or snapshot is None:
            return None
        self._misses = 0
        latest = base.taught(different, snapshot.own) or base
        others = (other for other in self._bases if other is not base)
        self._bases = (latest, *others)[:_MOST_BASES]
        return snapshot, list(base.malformed)


def _read_alone(body: bytes) -> _Read | None:
    found = parse_batch(body)
    return found and (Snapshot(found[0], complete=True), found[1])
