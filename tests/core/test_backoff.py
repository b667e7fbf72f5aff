"""Exponential backoff with full jitter."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shipsilently_core._backoff import full_jitter
from tests.core.support import fixed


@pytest.mark.parametrize(
    ("attempt", "bound"),
    [(0, 1), (1, 2), (2, 4), (5, 32), (6, 60), (7, 60), (10_000_000, 60)],
)
def test_bounds_double_up_to_the_ceiling(attempt: int, bound: float) -> None:
    """The bound of a delay doubles with each try and stays at the ceiling, for however long."""
    assert full_jitter(attempt, 1.0, 60.0, fixed(0.0)) == 0
    assert full_jitter(attempt, 1.0, 60.0, fixed(0.5)) == bound / 2


@given(
    st.integers(0, 10**9),
    st.floats(0.001, 1000),
    st.floats(0.001, 1000),
    st.floats(0, 1, exclude_max=True),
)
def test_delays_are_within_their_bound(
    attempt: int, base: float, ceiling: float, number: float
) -> None:
    """Every delay is at least 0 and never more than the ceiling."""
    assert 0 <= full_jitter(attempt, base, ceiling, fixed(number)) <= ceiling


def test_delays_are_spread_evenly() -> None:
    """Half of the delays are below half of the bound: a fleet does not come back all at once."""
    rng = random.Random(1).random
    delays = [full_jitter(3, 1.0, 60.0, rng) for _ in range(10_000)]
    for part in (0.25, 0.5, 0.75):
        assert sum(delay < 8 * part for delay in delays) / 10_000 == pytest.approx(part, abs=0.02)
