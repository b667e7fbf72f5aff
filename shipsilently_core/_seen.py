"""What the flags of one request see of one evaluation, and the sheet of what was read of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct

from ._snapshot import NO_ROWS, Row, Snapshot
from ._view import View
from .values import Source

if TYPE_CHECKING:
    from ._events import Check

__all__ = ["LATER", "NESTED", "NOTHING", "NO_ROWS", "Apart", "Seen"]


class _Nested:
    """Stands in `Seen.counted` for a value that is counted here, but is made for each reader."""

    __slots__ = ()


class Apart:
    """Stands there for one that is counted elsewhere: as a default, or as an unknown flag.

    Each is an object of its own, so that whoever has put it there knows it again.
    """

    __slots__ = ()


NESTED = _Nested()


# It is in no cycle: what holds it does so until its checks are taken.
class Seen(Struct, gc=False, eq=False):
    """What is seen from one evaluation to the next, and what was read of it.

    Only `view`, `counted` and the last three change, and what `view` becomes is what it was, so a
    read never sees a mixture of two evaluations.

    Attributes:
        flags: The evaluation, where it is the cache's, fresh, and nothing else.
        view: The evaluation; from `flags` it is made when it is first needed.
        counted: The keys that were asked for, so have been counted or are noted here, in that
            order; with what they hold, `NESTED`, or an `Apart`.
        own: The context's own rows that can be read and counted on the shortest way; none where
            what is seen is more than they are.
        shared: Rows that it has in common with others, for the keys that `own` has not.
        number: Of the refresh that it came with; 0 for the first evaluation.
        listed: As `Sheet`; always for what somebody else counts.
        taken: How many of the keys have been.
        moment: As `Sheet`.
    """

    flags: Snapshot | None
    view: View | None
    counted: dict[str, Any]
    own: dict[str, Row]
    shared: dict[str, Row]
    listed: bool = True
    number: int = 0
    taken: int = 0
    moment: float = 0.0

    def row(self, key: str) -> Row | None:
        """A flag that can be read and counted on the shortest way."""
        return self.own.get(key) or self.shared.get(key)

    def take(self) -> list[Check]:
        """The checks that were noted since this was called last, for `Analytics`."""
        # In this order: what is noted from here on is listed again, or taken now.
        self.listed = False
        # The keys alone: nothing is made for each of them, at which Python might let another
        # thread go on, and put one in.
        keys = list(self.counted)
        count = len(keys)
        # Nothing is called here, so nothing comes in between: a handler of a signal may have taken
        # all that there is just before.
        first, self.taken = self.taken, count if self.taken < count else self.taken
        counted, own, shared, moment = self.counted, self.own, self.shared, self.moment
        return [
            (key, row, moment, 0.0)
            for key in (keys[first:] if first else keys)
            if type(counted[key]) is not Apart
            and (row := own.get(key) or shared.get(key)) is not None
        ]


_UNKNOWN = View(None, (), {}, Source.CACHE)

#: What is seen before anything was looked for.
NOTHING = Seen(None, _UNKNOWN, {}, NO_ROWS, NO_ROWS)
#: The same, where the next look takes more than the first one mostly does: after a read that found
#: nothing to keep, or before a refresh.
LATER = Seen(None, _UNKNOWN, {}, NO_ROWS, NO_ROWS)
