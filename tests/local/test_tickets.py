"""Stream tickets."""

from shipsilently_local.tickets import Tickets


class Clock:
    """A clock that stands until it is moved."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


def test_a_ticket_is_good_once() -> None:
    """The second use of a ticket is refused."""
    tickets = Tickets(60.0, Clock())
    ticket = tickets.issue()
    assert tickets.redeem(ticket)
    assert not tickets.redeem(ticket)


def test_an_unknown_ticket_is_refused() -> None:
    """A ticket that was never given out opens nothing."""
    assert not Tickets(60.0, Clock()).redeem("")


def test_a_ticket_lives_for_its_time() -> None:
    """A ticket is good until its time to live has passed, and not after."""
    clock = Clock()
    tickets = Tickets(60.0, clock)
    early, late = tickets.issue(), tickets.issue()
    clock.now += 59.9
    assert tickets.redeem(early)
    clock.now += 0.1
    assert not tickets.redeem(late)
    assert tickets.ttl == 60.0


def test_old_tickets_are_forgotten() -> None:
    """Tickets that nobody used do not pile up."""
    clock = Clock()
    tickets = Tickets(60.0, clock)
    for _ in range(5):
        tickets.issue()
    clock.now += 60
    tickets.issue()
    assert len(tickets._good_until) == 1


def test_tickets_are_long_and_different() -> None:
    """A ticket cannot be guessed: long, and never the same."""
    tickets = Tickets(60.0, Clock())
    issued = {tickets.issue() for _ in range(100)}
    assert len(issued) == 100
    assert min(map(len, issued)) >= 32
