"""Who may ask the service now."""

from __future__ import annotations

import pytest

from shipsilently_core import Failure
from shipsilently_core._gate import Gate
from shipsilently_core.testing import ManualClock
from tests.core.support import fixed, held_by_nobody

U1, U2, U3 = b"u1", b"u2", b"u3"


@pytest.fixture
def clock() -> ManualClock:
    """Time that the test moves."""
    return ManualClock()


def gate_of(clock: ManualClock, *, number: float = 0.5, max_contexts: int = 100) -> Gate:
    return Gate(clock, fixed(number), base=1.0, ceiling=30.0, max_contexts=max_contexts)


def fail(
    gate: Gate, key: bytes, failure: Failure = Failure.SERVER, *, connected: bool = True
) -> bool:
    return gate.failed(key, failure, connected=connected)


def test_everybody_may_ask_a_service_that_works(clock: ManualClock) -> None:
    """A new gate is open and a success changes nothing."""
    gate = gate_of(clock)
    assert gate.admit(U1) is None
    assert not gate.succeeded(U1)
    assert gate.closed is None
    assert gate.held_for() == 0
    assert gate.probe_in() is None


def test_a_context_rests_after_its_own_failure(clock: ManualClock) -> None:
    """Within its cool-down a context may not ask and learns why; the others may."""
    gate = gate_of(clock)
    assert not fail(gate, U1, Failure.TIMEOUT)
    assert gate.admit(U1) is Failure.TIMEOUT
    assert gate.admit(U2) is None
    clock.advance(0.5)
    assert gate.admit(U1) is None


def test_cool_downs_grow_up_to_the_ceiling(clock: ManualClock) -> None:
    """The bounds are 1, 2, 4, 8, 16, then 30 s for ever, and a success starts them again."""
    gate = gate_of(clock, number=1.0)
    waits = []
    for _ in range(8):
        fail(gate, U1)
        start = clock.monotonic()
        while gate.admit(U1) is not None:
            clock.advance(0.5)
        waits.append(clock.monotonic() - start)
    assert waits == [1, 2, 4, 8, 16, 30, 30, 30]
    gate.succeeded(U1)
    fail(gate, U1)
    clock.advance(1)
    assert gate.admit(U1) is None


def test_a_ladder_never_ends_below_its_base(clock: ManualClock) -> None:
    """A ceiling less than the base counts as the base."""
    gate = Gate(clock, fixed(1.0), base=1.0, ceiling=0.1, max_contexts=10)
    fail(gate, U1)
    clock.advance(0.5)
    assert gate.admit(U1) is Failure.SERVER
    clock.advance(0.5)
    assert gate.admit(U1) is None


def test_one_context_alone_never_closes_the_gate(clock: ManualClock) -> None:
    """A hundred failures of one context tell nothing of the others."""
    gate = gate_of(clock)
    for _ in range(100):
        fail(gate, U1)
    assert gate.closed is None
    assert gate.admit(U2) is None


def test_three_failures_in_a_row_of_two_contexts_close_the_gate(clock: ManualClock) -> None:
    """The third failure closes it, and with the failure of that attempt."""
    gate = gate_of(clock)
    assert not fail(gate, U1)
    assert not fail(gate, U2)
    assert fail(gate, U1, Failure.TIMEOUT)
    assert gate.closed is Failure.TIMEOUT
    assert gate.admit(U3) is Failure.TIMEOUT


def test_a_success_between_keeps_the_gate_open(clock: ManualClock) -> None:
    """Failures count only as long as nothing succeeds in between, and so do their contexts."""
    gate = gate_of(clock)
    fail(gate, U1)
    fail(gate, U2)
    gate.succeeded(U3)
    assert not fail(gate, U1)
    assert not fail(gate, U1)
    assert not fail(gate, U1)
    assert gate.closed is None


def test_no_connection_closes_the_gate_at_once(clock: ManualClock) -> None:
    """Where nobody listens, one failure is enough."""
    gate = gate_of(clock)
    assert fail(gate, U1, Failure.NETWORK, connected=False)
    assert gate.admit(U2) is Failure.NETWORK


def test_a_closed_gate_lets_one_probe_through_on_the_ladder(clock: ManualClock) -> None:
    """When its time has come one request may try, and the next only after its answer."""
    gate = gate_of(clock)
    fail(gate, U1, connected=False)
    assert gate.probe_in() == 0.5
    assert gate.admit(U2) is Failure.SERVER
    clock.advance(0.5)
    assert gate.probe_in() == 0
    assert gate.admit(U2) is None
    assert gate.admit(U3) is Failure.SERVER
    assert not fail(gate, U2, Failure.TIMEOUT)
    assert gate.closed is Failure.TIMEOUT
    assert gate.probe_in() == 1.0


def test_a_probe_that_never_ends_is_replaced(clock: ManualClock) -> None:
    """After the ladder's ceiling another request may be the probe."""
    gate = gate_of(clock)
    fail(gate, U1, connected=False)
    clock.advance(0.5)
    assert gate.admit(U1) is None
    clock.advance(29.9)
    assert gate.admit(U2) is Failure.SERVER
    clock.advance(0.1)
    assert gate.admit(U2) is None


def test_where_a_background_probes_no_request_does(clock: ManualClock) -> None:
    """A closed gate stays closed for requests while the background may be about to open it."""
    gate = gate_of(clock)
    gate.background = True
    fail(gate, U1, connected=False)
    clock.advance(30)
    assert gate.admit(U2) is Failure.SERVER


@pytest.mark.parametrize("failure", [Failure.SERVER, Failure.PROTOCOL])
def test_where_only_the_background_s_context_is_refused_a_request_opens_the_gate(
    clock: ManualClock, failure: Failure
) -> None:
    """After each answer to the background that is none, one request may try beside it."""
    gate = gate_of(clock)
    gate.background = True
    for key in (U1, U1, U2):
        fail(gate, key, failure)
    assert gate.admit(U3) is failure
    fail(gate, U1, failure)
    assert gate.admit(U3) is None
    assert gate.admit(b"u4") is failure
    assert gate.succeeded(U3)
    assert gate.admit(b"u4") is None


def test_a_request_that_tries_in_vain_leaves_the_background_s_ladder_alone(
    clock: ManualClock,
) -> None:
    """The background tries when it would have tried, and only after that another request."""
    gate = gate_of(clock)
    gate.background = True
    for key in (U1, U1, U2, U1):
        fail(gate, key)
    assert gate.probe_in() == 1.0
    assert gate.admit(U3) is None
    clock.advance(0.25)
    fail(gate, U3)
    assert gate.probe_in() == 0.75
    assert gate.admit(U3) is Failure.SERVER
    clock.advance(0.75)
    fail(gate, U1)
    assert gate.probe_in() == 2.0
    assert gate.admit(b"u4") is None


def test_a_context_that_rests_does_not_try_beside_the_background(clock: ManualClock) -> None:
    """One that is always refused leaves that to the others, however often it asks."""
    gate = gate_of(clock)
    gate.background = True
    for key in (U1, U1, U2, U1):
        fail(gate, key)
    assert gate.admit(U2) is Failure.SERVER
    assert gate.admit(U3) is None


def test_a_request_beside_that_was_interrupted_changes_no_ladder(clock: ManualClock) -> None:
    """What fails for its context later counts as any other failure."""
    gate = gate_of(clock)
    gate.background = True
    for key in (U1, U1, U2, U1):
        fail(gate, key)
    assert gate.admit(U3) is None
    gate.ended(U3)
    clock.advance(1)
    fail(gate, U3)
    assert gate.probe_in() == 2.0


@pytest.mark.parametrize("failure", [Failure.TIMEOUT, Failure.NETWORK, Failure.AUTH])
def test_where_the_service_is_out_of_reach_no_request_pays_for_trying(
    clock: ManualClock, failure: Failure
) -> None:
    """Neither is one sent to try a key that was refused."""
    gate = gate_of(clock)
    gate.background = True
    for key in (U1, U1, U2, U1, U1):
        fail(gate, key, failure)
    clock.advance(30)
    assert gate.admit(U3) is failure
    assert gate.probe_in() == 0


def test_a_background_that_does_not_come_to_it_is_not_waited_for(clock: ManualClock) -> None:
    """Where a try of its own would have ended long ago, one request at a time is the probe."""
    gate = gate_of(clock)
    gate.background = True
    fail(gate, U1, Failure.NETWORK, connected=False)
    late = gate.probe_in()
    assert late is not None
    clock.advance(late + 30.0 + 2 * 2.0 - 0.25)
    assert gate.admit(U2) is Failure.NETWORK
    clock.advance(0.25)
    assert gate.admit(U2) is None
    assert gate.admit(U3) is Failure.NETWORK
    fail(gate, U2, Failure.NETWORK, connected=False)
    assert gate.admit(U3) is Failure.NETWORK
    clock.advance(1.0 + 30.0 + 2 * 2.0)
    assert gate.admit(U3) is None
    assert gate.succeeded(U3)


def test_a_background_that_keeps_to_retry_after_is_not_late(clock: ManualClock) -> None:
    """Nobody asks before that time, and then the background is the first."""
    gate = gate_of(clock)
    gate.background = True
    fail(gate, U1, connected=False)
    gate.hold(100)
    clock.advance(100)
    assert gate.admit(U2) is Failure.SERVER
    clock.advance(30.0 + 2 * 2.0)
    assert gate.admit(U2) is None


def test_who_has_waited_is_told_by_what_is_usual(clock: ManualClock) -> None:
    """An attempt counts as one that waits after eight times the usual, and a tenth of a second."""
    gate = gate_of(clock)
    assert not gate.has_waited(U1)
    gate.under_way(U1)
    clock.advance(0.0625)
    assert not gate.has_waited(U1)
    clock.advance(0.0625)
    assert gate.has_waited(U1)
    gate.succeeded(U1)
    gate.ended(U1)
    gate.under_way(U2)
    clock.advance(1.0)
    assert not gate.has_waited(U2)
    clock.advance(0.0625)
    assert gate.has_waited(U2)


def test_the_first_success_opens_the_gate_and_ends_every_cool_down(clock: ManualClock) -> None:
    """What the outage had caused is over for everybody at once."""
    gate = gate_of(clock)
    for key in (U1, U2, U1):
        fail(gate, key)
    assert gate.succeeded(U3)
    assert gate.closed is None
    assert gate.probe_in() is None
    assert [gate.admit(key) for key in (U1, U2, U3)] == [None, None, None]
    assert not gate.succeeded(U3)


def test_retry_after_rules_over_everything(clock: ManualClock) -> None:
    """Until it has passed nobody may ask, whether the gate is open or a probe is due."""
    gate = gate_of(clock)
    gate.hold(10)
    assert gate.admit(U1) is Failure.THROTTLED
    fail(gate, U1, connected=False)
    clock.advance(5)
    assert gate.held_for() == 5
    assert gate.probe_in() == 5
    assert gate.admit(U1) is Failure.THROTTLED
    clock.advance(5)
    assert gate.held_for() == 0
    assert gate.admit(U1) is None


def test_a_shorter_retry_after_does_not_shorten_a_longer_one(clock: ManualClock) -> None:
    """Of two pauses the later end counts."""
    gate = gate_of(clock)
    gate.hold(10)
    gate.hold(1)
    assert gate.held_for() == 10


def test_cool_downs_are_bounded(clock: ManualClock) -> None:
    """Beyond `max_contexts` the oldest cool-down is forgotten."""
    gate = gate_of(clock, max_contexts=2)
    fail(gate, U1)
    gate.succeeded(U3)
    fail(gate, U2)
    gate.succeeded(U3)
    fail(gate, U3)
    assert gate.admit(U1) is None
    assert gate.admit(U2) is Failure.SERVER


def test_two_requests_at_the_moment_of_the_probe(clock: ManualClock) -> None:
    """A request that saw a closed gate asks again inside the lock, where it may be open."""
    gate = gate_of(clock)
    fail(gate, U1, connected=False)
    gate.succeeded(U1)
    assert gate._admit_probe(U1, clock.monotonic()) is None


def test_a_forked_child_has_locks_of_its_own_and_no_background(clock: ManualClock) -> None:
    """After `renew` a lock held at the fork is not waited for, and requests probe themselves."""
    gate = gate_of(clock)
    gate.background = True
    held_by_nobody(gate._lock)
    gate.renew()
    assert fail(gate, U1, connected=False)
    clock.advance(1)
    assert gate.admit(U1) is None


def test_attempts_that_vanished_block_nobody_for_good(clock: ManualClock) -> None:
    """Attempts whose event loop was dropped before they ended stop counting after a while."""
    gate = gate_of(clock)
    for key in (U1, U2, U3, b"u4", b"u5", b"u6"):
        gate.under_way(key)
    clock.advance(1.5)
    assert gate.admit(b"u7") is Failure.TIMEOUT
    clock.advance(3)
    assert gate.admit(b"u7") is None
    for key in (U1, U2, U3):
        gate.under_way(key)
    clock.advance(1.5)
    assert gate.admit(b"u7") is Failure.TIMEOUT


def test_an_attempt_that_takes_the_place_of_another_is_the_youngest(clock: ManualClock) -> None:
    """A context whose attempt was dropped and begun anew counts from the new beginning."""
    gate = gate_of(clock)
    for key in (U1, U2, U3):
        gate.under_way(key)
    clock.advance(1.5)
    gate.under_way(U1)
    assert gate.admit(b"u7") is None
