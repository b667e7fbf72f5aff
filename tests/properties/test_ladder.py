"""The ladder of waits, and the stream that climbs it, against bounds counted by hand."""

from __future__ import annotations

from collections.abc import Iterator

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from shipsilently_core import RetryConfig
from shipsilently_core._backoff import full_jitter
from shipsilently_core._wire import Reply
from shipsilently_core.values import Failure
from tests.core.simulation import CONNECTED, HEARTBEAT, Simulation, Step, ticket
from tests.properties.support import Luck, run

NUMBERS = st.floats(0, 1, exclude_max=True)


class LadderMachine(RuleBasedStateMachine):
    """Tries fail one after the other, and now and then one holds: the ladder begins anew."""

    @initialize(base=st.floats(0.001, 100), ceiling=st.floats(0.001, 1_000))
    def begin(self, base: float, ceiling: float) -> None:
        self.base, self.ceiling = base, ceiling
        self.luck = Luck()
        self.hold()

    @rule()
    def hold(self) -> None:
        self.failures = 0
        self.bound = self.base

    @rule(number=NUMBERS, times=st.sampled_from([1, 1, 1, 2, 10]))
    def fail(self, number: float, times: int) -> None:
        self.luck.number = number
        for _ in range(times):
            bound = min(self.bound, self.ceiling)
            delay = full_jitter(self.failures, self.base, self.ceiling, self.luck)
            assert delay == number * bound
            assert 0 <= delay < bound
            self.failures += 1
            self.bound = min(2 * self.bound, 1e9)

    @rule(failures=st.integers(100, 10**12), number=NUMBERS)
    def fail_for_years(self, failures: int, number: float) -> None:
        self.luck.number = number
        delay = full_jitter(failures, self.base, self.ceiling, self.luck)
        assert delay == number * self.ceiling

    @invariant()
    def starts_over_from_its_base(self) -> None:
        if hasattr(self, "luck"):
            self.luck.number = 0.5
            first = full_jitter(0, self.base, self.ceiling, self.luck)
            assert first == min(self.base, self.ceiling) / 2


def test_the_ladder_doubles_up_to_its_ceiling_and_starts_again_from_its_base() -> None:
    """Each wait is the random share of a bound that doubles with each failure, for however long."""
    run(LadderMachine)


def dies_after(seconds: float) -> Iterator[Step]:
    """A stream that comes up, lives for so long, and ends."""
    yield 0.0, CONNECTED
    while seconds > 30.0:
        yield 30.0, HEARTBEAT
        seconds -= 30.0
    yield seconds, b": the end\n\n"


#: What becomes of a try, with the seconds that the service asked for and how long the stream
#: lived after it had come up.
TRIES = st.one_of(
    st.sampled_from([401, 403, 404, 500, 503]).map(lambda status: ("ticket", Reply(status), 0.0)),
    st.sampled_from([401, 500, 204]).map(lambda status: ("stream", Reply(status), 0.0)),
    st.just(("ticket", Reply(failure=Failure.NETWORK, connected=False), 0.0)),
    st.just(("ticket", Reply(200, b'{"ticket":""}'), 0.0)),
    st.integers(0, 4_000).map(
        lambda pause: (
            "ticket",
            Reply(429, headers={"retry-after": str(pause)}),
            float(min(pause, 3600)),
        )
    ),
    st.sampled_from([0.0, 1.0, 29.0, 29.9, 30.1, 3600.0]).map(
        lambda seconds: ("lives", Reply(200), seconds)
    ),
    st.just(("ends at once", Reply(200), 0.0)),
)


@given(st.lists(TRIES, max_size=30), st.lists(NUMBERS, min_size=30, max_size=30))
def test_the_stream_climbs_the_ladder_and_leaves_it_only_in_good_health(
    tries: list[tuple[str, Reply, float]], numbers: list[float]
) -> None:
    """After each end comes one try, with a ticket of its own, and 30 s of life end the ladder."""
    opened: list[int] = []

    def on_ticket(number: int) -> Reply:
        if number == len(tries):
            # The client is closed.
            simulation.lasts = 0.0
            return Reply(failure=Failure.NETWORK)
        kind, reply, _ = tries[number]
        if kind == "ticket":
            return reply
        opened.append(number)
        return ticket(f"t{number}")

    def on_open(_: int) -> Reply | Iterator[Step]:
        kind, reply, amount = tries[opened[-1]]
        if kind == "stream":
            return reply
        return dies_after(amount) if kind == "lives" else iter(())

    drawn = iter(numbers)
    simulation = Simulation(
        lasts=float("inf"),
        retry=RetryConfig(base_delay=1.0, max_delay=60.0),
        rng=lambda: next(drawn),
        on_ticket=on_ticket,
        on_open=on_open,
    )
    simulation.notices.silence()
    simulation.run()

    expected, bounds = [], iter(ladder())
    for (kind, _, amount), number in zip(tries, numbers, strict=False):
        if kind == "lives" and amount >= 30.0:
            bounds = iter(ladder())
        wait = number * next(bounds)
        expected.append(max(wait, amount if kind == "ticket" else 0.0))
    assert simulation.waits == expected
    assert len(simulation.tickets) == len(tries) + 1
    assert simulation.opened == [f"t{number}" for number in opened]


def ladder() -> Iterator[float]:
    """The bounds that every SDK of the service agrees on, in seconds."""
    yield from (1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
    while True:
        yield 60.0
