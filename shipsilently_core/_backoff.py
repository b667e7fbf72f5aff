"""Exponential backoff with full jitter."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["full_jitter"]

#: 2 to this power times any base is beyond every ceiling; it keeps the power finite.
_HIGHEST_POWER = 62


def full_jitter(attempt: int, base: float, ceiling: float, rng: Callable[[], float]) -> float:
    """The delay in seconds before the next try.

    Uniform in ``[0, min(ceiling, base * 2 ** attempt))``: the rule that every
    ShipSilently SDK follows, so that a fleet never comes back all at once.

    Args:
        attempt: How many tries have failed since the ladder began, less one: 0 for the first.
        base: Seconds, the bound for the first try.
        ceiling: Seconds, the bound that is never exceeded.
        rng: Gives a number in ``[0, 1)``.
    """
    bound: float = min(ceiling, base * 2 ** min(attempt, _HIGHEST_POWER))
    return rng() * bound
