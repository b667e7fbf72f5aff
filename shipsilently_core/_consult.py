"""Before the service is asked for a context: does another process know, or is it about to?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from ._cache import Cache, Entry
from ._clock import Clock
from ._process import Latch

if TYPE_CHECKING:
    from ._keeper import Keeper, Look, Wait

__all__ = ["Consultation"]

#: Seconds between two looks for what another process will have been told: the first and the last.
_PAUSE: Final = 0.005
_LONGEST_PAUSE: Final = 0.1


class Consultation:
    """One context, looked up in a shared store.

    Where another process is asking the service for it just now, this waits for that answer,
    and takes over from it where none comes. So after a change a fleet asks for a context once,
    or a few times, and not once in each process.

    Args:
        keeper: The way to the store.
        cache: Takes in what is found.
        clock: Time.
        context: Which.
        patience: Seconds to wait for others, in all.
        may_ask: Whether the service could be asked now. Otherwise nobody is kept from asking it,
            nor waited for.

    Attributes:
        entry: Set where what was found is as good as an answer of the service.
        kept: The moment by the store's clock, which an answer is to be kept with.
        leads: Whether other processes wait for this one to ask the service.
        given_up: Whether all patience is gone.
    """

    def __init__(
        self,
        keeper: Keeper,
        cache: Cache,
        clock: Clock,
        context: bytes,
        *,
        patience: float,
        may_ask: bool,
    ) -> None:
        self._keeper = keeper
        self._cache = cache
        self._clock = clock
        self._context = context
        self._patience = patience
        self._may_ask = may_ask
        self.entry: Entry | None = None
        self.kept: float | None = None
        self.leads: bool = False
        self.given_up: bool = False

    def steps(self) -> Iterator[Wait]:
        """Carry it out.

        Yields:
            What to wait for, and for how many seconds at most, before going on.
        """
        end = self._clock.monotonic() + self._patience
        pause, waited = _PAUSE, 0.0
        while (errand := self._keeper.look(self._context, leased=self._may_ask)) is not None:
            yield errand, self._keeper.deadline
            look = self._keeper.found(errand)
            if look is None or self._is_answered(look):
                return
            if not self._may_ask or look.now is None:
                return
            if look.leads or look.fresh:
                # Fresh by the store's clock, yet overtaken here: nobody else is asking.
                self.leads, self.kept = look.leads, look.now
                return
            if waited >= self._patience or self._clock.monotonic() >= end:
                self.given_up, self.kept = True, look.now
                return
            yield Latch(), pause
            waited += pause
            pause = min(2 * pause, _LONGEST_PAUSE)

    def _is_answered(self, look: Look) -> bool:
        entry = self._cache.get(self._context)
        if look.snapshot is not None:
            entry = self._cache.adopt(
                self._context,
                look.snapshot,
                age=look.age,
                kept=look.stamp,
                stamp=look.asked if look.fresh else None,
            )
        if entry is None:
            return False
        entry.looked = look.asked
        if not self._cache.is_fresh(entry):
            return False
        self.entry = entry
        return True
