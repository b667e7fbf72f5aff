"""The sites' pages as a visitor sees them: which checkout, and after how long."""

from __future__ import annotations

import asyncio
import re
import statistics
import time
from collections.abc import Iterable
from dataclasses import dataclass

import httpx

__all__ = ["ROUNDS", "Glance", "NotSeenError", "Page", "Timing"]

#: How many requests a timing sums up.
ROUNDS = 50

#: Seconds between two looks at a page that is to change.
_PAUSE = 0.005

_CHECKOUT = re.compile(r'<section(?=[^>]*\bid="checkout")[^>]*\bdata-variation="(\w+)"')


class NotSeenError(Exception):
    """A page did not become or did not stay what it should; says what was seen instead."""


@dataclass(frozen=True, slots=True)
class Glance:
    """What one request for a page has given.

    Attributes:
        variation: The checkout on it, ``old`` or ``new``; ``None`` where there was none.
        ms: How long it took.
        problem: What came instead of a checkout.
    """

    variation: str | None
    ms: float
    problem: str = ""

    def __str__(self) -> str:
        return self.problem or f"the page with the {self.variation} checkout"


@dataclass(frozen=True, slots=True)
class Timing:
    """How long requests took, in milliseconds."""

    median: float
    worst: float

    @classmethod
    def of(cls, times: Iterable[float]) -> Timing:
        """Sum up single times, of which there is at least one."""
        times = list(times)
        return cls(statistics.median(times), max(times))


class Page:
    """The first page of one site.

    Args:
        client: What it is requested with.
        url: Where it is.
    """

    def __init__(self, client: httpx.AsyncClient, url: str) -> None:
        self._client = client
        self.url = url

    async def look(self) -> Glance:
        """Request it once."""
        begin = time.perf_counter()
        try:
            answer = await self._client.get(self.url)
        except httpx.HTTPError as error:
            return Glance(None, _since(begin), f"no answer ({type(error).__name__})")
        ms = _since(begin)
        if answer.status_code != 200:
            return Glance(None, ms, f"status {answer.status_code}")
        found = _CHECKOUT.search(answer.text)
        if found is None:
            return Glance(None, ms, "a page without a checkout")
        return Glance(found[1], ms)

    async def becomes(self, variation: str, limit: float) -> float:
        """Wait until it shows a variation; milliseconds from now until it did.

        Raises:
            NotSeenError: It did not within `limit` seconds.
        """
        begin = time.perf_counter()
        while True:
            glance = await self.look()
            passed = _since(begin)
            if glance.variation == variation:
                return passed
            if passed > limit * 1000:
                raise NotSeenError(
                    f"expected the {variation} checkout within {limit:g} s, last seen: {glance}"
                )
            await asyncio.sleep(_PAUSE)

    async def stays(self, variation: str) -> float:
        """Request it once; how many milliseconds that took.

        Raises:
            NotSeenError: It shows something else.
        """
        glance = await self.look()
        if glance.variation != variation:
            raise NotSeenError(f"expected the {variation} checkout to stay, seen: {glance}")
        return glance.ms


def _since(begin: float) -> float:
    return (time.perf_counter() - begin) * 1000
