"""A service that takes questions and answers none: who still waits for it."""

import pytest

from shipsilently_core._gate import Gate
from shipsilently_core.testing import ManualClock
from shipsilently_core.values import Failure


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def gate(clock: ManualClock) -> Gate:
    return Gate(clock, lambda: 0.5, base=1.0, ceiling=30.0, timeout=2.0, max_contexts=100)


def answer(gate: Gate, clock: ManualClock, key: bytes, seconds: float) -> None:
    """One attempt that succeeds after so long."""
    gate.under_way(key)
    clock.advance(seconds)
    gate.succeeded(key)
    gate.ended(key)


def begin(gate: Gate, *keys: bytes) -> None:
    """Attempts that do not end."""
    for key in keys:
        assert gate.admit(key) is None
        gate.under_way(key)


def test_a_fourth_request_does_not_join_three_that_hang(gate: Gate, clock: ManualClock) -> None:
    """Where the service usually takes 20 ms, three silent attempts are enough after 160 ms."""
    answer(gate, clock, b"before", 0.02)
    begin(gate, b"a", b"b", b"c")
    clock.advance(0.159)
    assert gate.admit(b"d") is None
    clock.advance(0.002)
    assert gate.admit(b"d") is Failure.TIMEOUT


def test_a_context_of_which_nothing_is_known_is_given_more_time(
    gate: Gate, clock: ManualClock
) -> None:
    """Nobody gets a default for a pause of the service that may end: half a deadline is given."""
    answer(gate, clock, b"before", 0.02)
    begin(gate, b"a", b"b", b"c")
    clock.advance(0.99)
    assert gate.admit(b"new", known=False) is None
    clock.advance(0.02)
    assert gate.admit(b"new", known=False) is Failure.TIMEOUT


def test_two_slow_attempts_are_no_sign(gate: Gate, clock: ManualClock) -> None:
    """Fewer than three attempts under way keep nobody away, however long they take."""
    answer(gate, clock, b"before", 0.02)
    begin(gate, b"a", b"b")
    clock.advance(1.9)
    assert gate.admit(b"c") is None


def test_any_answer_proves_that_the_service_lives(gate: Gate, clock: ManualClock) -> None:
    """While others are answered, three slow attempts are their own affair."""
    answer(gate, clock, b"before", 0.02)
    begin(gate, b"a", b"b", b"c")
    clock.advance(1.0)
    answer(gate, clock, b"other", 0.02)
    assert gate.admit(b"d") is None


def test_a_slow_service_is_given_its_usual_time(gate: Gate, clock: ManualClock) -> None:
    """Where answers take 100 ms, nobody is kept away before 800 ms of silence."""
    answer(gate, clock, b"before", 0.1)
    begin(gate, b"a", b"b", b"c")
    clock.advance(0.79)
    assert gate.admit(b"d") is None
    clock.advance(0.02)
    assert gate.admit(b"d") is Failure.TIMEOUT


def test_before_the_first_answer_half_the_deadline_is_given(gate: Gate, clock: ManualClock) -> None:
    """A process that knows nothing of the service's pace waits for half a deadline."""
    begin(gate, b"a", b"b", b"c")
    clock.advance(0.99)
    assert gate.admit(b"d") is None
    clock.advance(0.02)
    assert gate.admit(b"d") is Failure.TIMEOUT


def test_the_end_of_an_attempt_makes_room(gate: Gate, clock: ManualClock) -> None:
    """Once one of the three has ended, in whatever way, another may ask."""
    answer(gate, clock, b"before", 0.02)
    begin(gate, b"a", b"b", b"c")
    clock.advance(1.0)
    assert gate.admit(b"d") is Failure.TIMEOUT
    gate.ended(b"a")
    assert gate.admit(b"d") is None


def test_a_forked_child_counts_its_own_attempts(gate: Gate, clock: ManualClock) -> None:
    """What was under way in the parent keeps nobody away in the child."""
    answer(gate, clock, b"before", 0.02)
    begin(gate, b"a", b"b", b"c")
    clock.advance(1.0)
    gate.renew()
    assert gate.admit(b"d") is None
