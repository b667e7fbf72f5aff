"""The life of the one connection, in simulated time."""

from __future__ import annotations

import itertools
import logging
import random
import threading
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from email.utils import format_datetime, formatdate
from typing import Any

import pytest

from shipsilently_core import ConnectionState, Failure, RetryConfig
from shipsilently_core._answers import BadAnswer
from shipsilently_core._process import Worker
from shipsilently_core._stream import Silence, StreamBroken
from shipsilently_core._wire import Reply
from tests.core.simulation import (
    CONNECTED,
    DAY,
    HEARTBEAT,
    SILENCE,
    UPDATED,
    Simulation,
    Step,
    heartbeats,
    ticket,
)
from tests.core.support import fixed

STREAMING = ConnectionState.STREAMING
RECONNECTING = ConnectionState.RECONNECTING
POLLING = ConnectionState.POLLING
#: What the rule gives for the random numbers of `ladder`: one every 30 s, as half of 60 s is.
ATTEMPTS_A_DAY = 2943
HTML = Reply(200, b"<html>", {"content-type": "text/html"})

Lines = list[logging.LogRecord]


def ladder(count: int, *, seed: int = 7, ceiling: float = 60.0) -> list[float]:
    """The delays that the protocol's rule gives for these random numbers."""
    rng = random.Random(seed)
    return [rng.random() * min(ceiling, 2.0 ** min(n, 10)) for n in range(count)]


def texts(lines: Lines) -> list[str]:
    return [line.getMessage() for line in lines]


# A day of failure.

REFUSALS: dict[str, Reply] = {
    "503": Reply(503),
    "500": Reply(500),
    "401": Reply(401),
    "403": Reply(403),
    "404": Reply(404),
    "302": Reply(302),
    "no connection": Reply(failure=Failure.NETWORK, connected=False, cause="ConnectError"),
    "time-out": Reply(failure=Failure.TIMEOUT, cause="ReadTimeout"),
    "a page of HTML": HTML,
    "nothing": Reply(200),
    "204": Reply(204),
    "another JSON": Reply(200, b"[]"),
    "no ticket": Reply(200, b"{}"),
    "an empty ticket": ticket(""),
    "a ticket of another type": Reply(200, b'{"ticket":7}'),
    "deep nesting": Reply(200, b'{"x":' + b"[" * 100_000),
}


def is_a_ladder(simulation: Simulation) -> None:
    """A day on the ladder: each delay is the rule's, and each ticket is asked for after it."""
    count = len(simulation.waits)
    assert simulation.waits == ladder(count)
    assert simulation.tickets == pytest.approx(
        [0.0, *itertools.accumulate(simulation.waits)][:count]
    )
    for number, wait in enumerate(simulation.waits):
        assert 0 <= wait < min(60, 2 ** min(number, 10))
    high = simulation.waits[6:]
    assert sum(high) / len(high) == pytest.approx(30, abs=1.5)
    assert min(high) < 1
    assert max(high) > 59
    assert count == ATTEMPTS_A_DAY


@pytest.mark.parametrize("answer", REFUSALS)
def test_a_day_without_a_ticket_is_a_day_of_patient_tries(answer: str) -> None:
    """Whatever stands in for a ticket: the same ladder of tries, never a stop, one state."""
    simulation = Simulation(DAY, on_ticket=lambda _: REFUSALS[answer]).run()
    is_a_ladder(simulation)
    assert simulation.opened == []
    assert simulation.changes() == [RECONNECTING]


@pytest.mark.parametrize("status", [401, 403, 404, 500, 503, 204, 200])
def test_a_day_of_refused_streams_is_a_day_of_patient_tries(status: int) -> None:
    """A stream that is refused, a ticket that has expired included, is tried with a new ticket."""
    simulation = Simulation(DAY, on_open=lambda _: Reply(status)).run()
    is_a_ladder(simulation)
    assert simulation.opened == [f"t{number}" for number in range(len(simulation.tickets))]
    assert simulation.changes() == [RECONNECTING]


ACCEPTED: dict[str, list[Step]] = {
    "no byte": [],
    "an empty chunk": [(0.0, b"")],
    "a comment": [(0.0, b":\n\n")],
    "half an event": [(0.0, b"event: connec")],
    "an event without a name": [(0.0, b"data: 1\n\n")],
    "a heartbeat": [(0.0, HEARTBEAT)],
    "an update": [(0.0, UPDATED)],
    "the first event": [(0.0, CONNECTED)],
}


@pytest.mark.parametrize("case", ACCEPTED)
def test_a_server_that_accepts_and_drops_is_not_hammered(case: str) -> None:
    """A stream that opens and ends at once, with or without some bytes, climbs the same ladder."""
    simulation = Simulation(DAY, on_open=lambda _: ACCEPTED[case]).run()
    is_a_ladder(simulation)
    live = case in ("a heartbeat", "an update", "the first event")
    cycle = [STREAMING, RECONNECTING] if live else [RECONNECTING]
    assert simulation.changes() == cycle * (len(simulation.tickets) if live else 1)
    assert all(feed.closed for feed in simulation.feeds)


def test_a_month_of_normal_life_costs_one_ticket_a_day() -> None:
    """With a heartbeat every 30 s and a drop a day, each drop is made good within a second."""
    simulation = Simulation(30 * DAY, on_open=lambda _: heartbeats(DAY)).run()
    assert len(simulation.tickets) == 30
    assert all(0 <= wait < 1 for wait in simulation.waits)
    assert simulation.changes() == [STREAMING, RECONNECTING] * 29 + [STREAMING]
    down = sum(
        up - lost
        for (lost, _), (up, _) in zip(
            simulation.states[1::2], simulation.states[2::2], strict=False
        )
    )
    assert down == pytest.approx(sum(simulation.waits[:29]))
    assert simulation.updates == []


@pytest.mark.parametrize("base", [0.01, 1.0, 5.0])
def test_the_ladder_is_the_configured_one(base: float) -> None:
    """Base and ceiling of the delays are those of the configuration."""
    retry = RetryConfig(base_delay=base, max_delay=base * 4)
    simulation = Simulation(
        base * 50, retry=retry, rng=fixed(0.5), on_ticket=lambda _: Reply(503)
    ).run()
    assert simulation.waits[:4] == pytest.approx([base * n for n in (0.5, 1, 2, 2)])
    assert set(simulation.waits[2:]) == {base * 2}


# Health.


def life(seconds: float) -> list[Step]:
    """A stream that is live for so long."""
    return [(0.0, CONNECTED), (seconds, b""), (0.0, StreamBroken("the server ended it"))]


@pytest.mark.parametrize(
    ("seconds", "waits"),
    [(0.0, [1, 2, 4, 8]), (29.9, [1, 2, 4, 8]), (30.0, [1, 1, 1, 1]), (80.0, [1, 1, 1, 1])],
)
def test_only_a_healthy_stream_starts_the_ladder_again(seconds: float, waits: list[int]) -> None:
    """A stream that lived for 30 s after it came up starts the ladder again, no other does."""
    simulation = Simulation(
        4 * seconds + 16, rng=fixed(0.999999), on_open=lambda _: life(seconds)
    ).run()
    assert [round(wait) for wait in simulation.waits[:4]] == waits


def test_health_is_counted_from_the_first_event() -> None:
    """The time for which an open stream says nothing does not count."""
    steps: list[Step] = [(60.0, CONNECTED), (5.0, StreamBroken("the server ended it"))]
    simulation = Simulation(300, rng=fixed(0.5), on_open=lambda _: steps).run()
    assert simulation.waits[:3] == [0.5, 1, 2]


def test_the_ladder_goes_on_where_it_was_after_a_sick_stream() -> None:
    """Refused tickets and short-lived streams are steps of one ladder; health ends it."""
    ends: list[Reply | list[Step]] = [Reply(503), life(1), Reply(401), life(31), Reply(503)]
    simulation = Simulation(
        300, rng=fixed(0.5), on_open=lambda n: ends[n] if n < len(ends) else heartbeats(DAY)
    ).run()
    assert simulation.waits == [0.5, 1, 2, 0.5, 1]


# Tickets.


def test_each_connect_has_a_ticket_of_its_own() -> None:
    """No two streams are opened with the same ticket, and each is asked for after the wait."""
    simulation = Simulation(1000, on_open=lambda n: life(40) if n < 5 else heartbeats(DAY)).run()
    assert simulation.opened == ["t0", "t1", "t2", "t3", "t4", "t5"]
    ends = itertools.accumulate(wait + 40 for wait in simulation.waits)
    assert simulation.tickets == pytest.approx([0, *ends])


def test_a_refused_ticket_leads_to_a_new_one() -> None:
    """A ticket that is refused, fails, comes late or has expired is followed by another try."""
    answers: list[Reply] = [
        ticket("good"),
        Reply(401),
        Reply(500),
        Reply(failure=Failure.TIMEOUT, cause="ReadTimeout"),
        ticket("expired"),
        ticket("new"),
    ]
    streams: dict[str, Any] = {"good": life(1), "expired": Reply(401), "new": heartbeats(DAY)}
    simulation = Simulation(500, on_ticket=lambda number: answers[number])
    simulation.on_open = lambda _: streams[simulation.opened[-1]]
    simulation.run()
    assert simulation.opened == ["good", "expired", "new"]
    assert simulation.waits == ladder(5)
    assert simulation.changes() == [STREAMING, RECONNECTING, STREAMING]


def test_no_ticket_is_ever_logged(lines: Lines) -> None:
    """No line of the log holds a ticket, whatever happens to the stream it opens."""
    secret = "s3cr3t-ticket"
    errors = [RuntimeError(secret), StreamBroken("ReadError"), KeyError(secret)]
    answers: list[Any] = [Reply(401), Reply(500), HTML, [], *([(0.0, error)] for error in errors)]
    simulation = Simulation(
        DAY, on_ticket=lambda _: ticket(secret), on_open=lambda n: answers[n % len(answers)]
    ).run()
    assert simulation.opened[:2] == [secret, secret]
    assert lines
    for line in lines:
        assert secret not in line.getMessage()
        assert line.exc_info is None


# Giving up.


def test_a_plan_without_streaming_means_polling_for_good(lines: Lines) -> None:
    """A 402 for the ticket ends the tries, in the state `polling`, with one line."""
    simulation = Simulation(DAY, on_ticket=lambda _: Reply(402)).run()
    assert len(simulation.tickets) == 1
    assert simulation.waits == []
    assert simulation.changes() == [POLLING]
    assert texts(lines) == ["the plan has no streaming (HTTP 402): polling instead"]


def test_a_plan_that_loses_streaming_means_polling_for_good() -> None:
    """A 402 after a stream that was live ends the tries as well."""
    simulation = Simulation(
        DAY,
        on_ticket=lambda n: ticket("t") if n == 0 else Reply(402),
        on_open=lambda _: heartbeats(300),
    ).run()
    assert simulation.changes() == [STREAMING, RECONNECTING, POLLING]
    assert len(simulation.tickets) == 2


@pytest.mark.parametrize("live", [True, False])
def test_without_retries_the_first_end_is_the_last(live: bool) -> None:
    """With retrying switched off, the first failure means polling for good."""
    simulation = Simulation(
        DAY,
        retry=RetryConfig(enabled=False),
        on_ticket=lambda _: ticket("t") if live else Reply(503),
        on_open=lambda _: heartbeats(300),
    ).run()
    assert simulation.changes() == [STREAMING, RECONNECTING, POLLING][0 if live else 1 :]
    assert len(simulation.tickets) == 1
    assert simulation.waits == []


def test_a_402_of_the_stream_itself_is_a_refusal_like_any_other() -> None:
    """Only the ticket tells what the plan holds."""
    simulation = Simulation(100, on_open=lambda _: Reply(402)).run()
    assert len(simulation.tickets) > 3
    assert simulation.changes() == [RECONNECTING]


def test_a_client_that_is_closed_meanwhile_ends_it_without_a_word(lines: Lines) -> None:
    """The end of a stream that its own client ended is no loss, and no other try follows."""
    simulation = Simulation(600, on_open=lambda _: heartbeats(600)).run()
    assert simulation.changes() == [STREAMING]
    assert len(simulation.tickets) == 1
    assert lines == []


def test_a_client_that_is_closed_while_it_waits_ends_it() -> None:
    """No ticket is asked for after a wait in which the client was closed."""
    simulation = Simulation(0.1, rng=fixed(0.9), on_ticket=lambda _: Reply(503)).run()
    assert len(simulation.tickets) == 1
    assert len(simulation.waits) == 1


# Retry-After.


def ahead(seconds: float) -> str:
    """An HTTP date so far ahead of the simulation's beginning."""
    return formatdate(1_800_000_000 + seconds, usegmt=True)


RETRY_AFTER: list[tuple[str | None, float]] = [
    ("2", 2),
    ("0", 0),
    ("1.5", 1.5),
    ("120", 120),
    (ahead(3), 3),
    (format_datetime(datetime.fromtimestamp(1_800_000_003, UTC))[:-6], 3),
    (ahead(-3), 1),
    ("-5", 1),
    ("soon", 1),
    ("", 1),
    ("nan", 1),
    ("inf", 1),
    ("2, 3", 1),
    ("9" * 400, 3600),
]


@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize("place", ["ticket", "stream"])
@pytest.mark.parametrize(("text", "pause"), RETRY_AFTER, ids=[repr(t)[:40] for t, _ in RETRY_AFTER])
def test_retry_after_is_kept_in_every_form(
    text: str, pause: float, place: str, status: int
) -> None:
    """The pause that the service asks for is kept; what cannot be read counts as the base."""
    refusal = Reply(status, b"", {"retry-after": text})
    for number, least in ((0.001, max(pause, 0.001)), (0.9, max(pause, 0.9))):
        simulation = Simulation(
            0.001,
            rng=fixed(number),
            on_ticket=lambda _: refusal if place == "ticket" else ticket("t"),
            on_open=lambda _: refusal,
        )
        simulation.lasts = least
        simulation.run()
        assert simulation.waits[0] == pytest.approx(least)


@pytest.mark.parametrize(("status", "pause"), [(429, 1.0), (503, 0.25)])
def test_a_429_always_asks_for_a_pause_and_a_503_only_in_words(status: int, pause: float) -> None:
    """Without the header a 429 means the base of the backoff, a 503 the backoff alone."""
    simulation = Simulation(pause, rng=fixed(0.25), on_ticket=lambda _: Reply(status)).run()
    assert simulation.waits == [pause]


def test_a_service_that_asks_for_no_pause_at_all_is_not_hammered() -> None:
    """An hour of `Retry-After: 0` costs no more tries than an hour of failure without it."""
    zero = Reply(429, b"", {"retry-after": "0"})
    simulation = Simulation(3600, on_ticket=lambda _: zero).run()
    assert simulation.waits == ladder(len(simulation.waits))


# The watchdog.


def every(seconds: float, chunk: bytes) -> Iterator[Step]:
    return itertools.repeat((seconds, chunk))


SIGNS_OF_NOTHING: dict[str, Callable[[], Iterable[Step]]] = {
    "silence": lambda: [SILENCE],
    "comments": lambda: every(7, b":\n\n"),
    "bytes of an event without an end": lambda: every(7, b"data: x\n"),
    "an event that is dripped": lambda: every(80, b"e"),
    "events without a name": lambda: every(7, b"data: x\n\n"),
    "named events without data": lambda: every(7, b"event: heartbeat\n\n"),
    "blank lines": lambda: every(7, b"\n"),
}


@pytest.mark.parametrize("case", SIGNS_OF_NOTHING)
def test_a_stream_without_whole_named_events_is_dead(case: str, lines: Lines) -> None:
    """After 90 s without a whole named event the connection is given up and made anew."""
    simulation = Simulation(91, rng=fixed(0.9), on_open=lambda _: SIGNS_OF_NOTHING[case]()).run()
    assert simulation.tickets == pytest.approx([0, 90.9])
    assert simulation.changes() == [RECONNECTING]
    assert texts(lines) == [
        "the stream ended (silence); until it is back, only polling finds changes"
    ]


@pytest.mark.parametrize("case", SIGNS_OF_NOTHING)
def test_a_stream_that_goes_dead_is_noticed(case: str) -> None:
    """The 90 s run from the last whole named event."""
    simulation = Simulation(
        500,
        rng=fixed(0.5),
        on_open=lambda _: itertools.chain(heartbeats(60), SIGNS_OF_NOTHING[case]()),
    ).run()
    assert simulation.states[:3] == [
        (0.0, STREAMING),
        (pytest.approx(150), RECONNECTING),
        (pytest.approx(150.5), STREAMING),
    ]


def test_the_watchdog_is_as_patient_as_configured() -> None:
    """Another heartbeat time-out is kept to."""
    simulation = Simulation(
        6, rng=fixed(0.0), retry=RetryConfig(heartbeat_timeout=5), on_open=lambda _: [SILENCE]
    ).run()
    assert simulation.tickets == [0, 5]


def test_any_named_event_keeps_the_stream() -> None:
    """Events of every name that come within the time are signs of life, an unknown one too."""
    simulation = Simulation(DAY, on_open=lambda _: every(89, b"event: news\ndata: 1\n\n")).run()
    assert len(simulation.tickets) == 1
    assert simulation.changes() == [STREAMING]
    assert simulation.updates == []


def test_a_read_that_takes_too_long_is_silence() -> None:
    """A clock that has reached the limit while bytes were read ends the wait all the same."""
    simulation = Simulation(101, rng=fixed(0.9))
    simulation.on_open = lambda _: Slow(simulation)
    simulation.run()
    assert simulation.tickets == pytest.approx([0, 100.9])


class Slow:
    """A stream whose read takes longer than it was told."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation

    def read(self, timeout: float) -> bytes:
        self._simulation.clock.advance(100)
        return b":\n\n"

    def close(self) -> None:
        pass


# Updates.


def test_every_update_is_told() -> None:
    """Each `flags.updated` is passed on at once, whatever its data; other events are not."""
    steps: list[Step] = [
        (0.0, CONNECTED + UPDATED),
        (5.0, UPDATED + UPDATED + HEARTBEAT),
        (5.0, UPDATED[:20]),
        (5.0, UPDATED[20:]),
        (5.0, b"event: flags.updated\ndata: <html>\n\n"),
        (5.0, b"event: Flags.Updated\ndata: {}\n\nevent: other\ndata: {}\n\n"),
        SILENCE,
    ]
    simulation = Simulation(90, on_open=lambda _: steps).run()
    assert simulation.updates == [0, 5, 5, 15, 20]


# Errors of every kind.


class OddError(Exception):
    """An error that nobody knows."""


ERRORS: list[Exception] = [
    ConnectionResetError(104, "Connection reset by peer"),
    StreamBroken("RemoteProtocolError"),
    UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"),
    ValueError("no JSON"),
    KeyError("shape"),
    RuntimeError("out of memory"),
    MemoryError(),
    RecursionError(),
    OSError(24, "Too many open files"),
    StopIteration(),
    TimeoutError(),
    BadAnswer("broken compression"),
    OddError("?"),
]


@pytest.fixture
def uncaught(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What would have been printed as the end of a thread."""
    found: list[Any] = []
    monkeypatch.setattr(threading, "excepthook", found.append)
    return found


def run_in_a_thread(simulation: Simulation) -> None:
    worker = Worker("stream under test", lambda: (simulation.run(), None)[1])
    assert worker.start()
    worker.join(30)


@pytest.mark.parametrize("place", ["read", "open", "ticket", "update"])
def test_no_error_ends_the_stream_for_good(place: str, lines: Lines, uncaught: list[Any]) -> None:
    """After an error of any kind, anywhere, updates flow again; each cause has one line."""
    healthy = len(ERRORS)

    def fail(number: int) -> None:
        if number < healthy:
            raise ERRORS[number]

    def on_ticket(number: int) -> Reply:
        if place == "ticket":
            fail(number)
        return ticket("t")

    def on_open(number: int) -> Iterable[Step]:
        if place == "open":
            fail(number)
        if place == "read" and number < healthy:
            return [(0.0, CONNECTED), (0.0, ERRORS[number])]
        return itertools.chain([(0.0, CONNECTED), (0.0, UPDATED)], every(30, HEARTBEAT))

    simulation = Simulation(3600, rng=fixed(0.0), on_ticket=on_ticket, on_open=on_open)
    if place == "update":

        class Failing(list[float]):
            def append(self, moment: float) -> None:
                super().append(moment)
                fail(len(self) - 1)

        simulation.updates = Failing()
    run_in_a_thread(simulation)
    assert uncaught == []
    assert len(simulation.tickets) == healthy + 1
    assert len(simulation.updates) == (healthy + 1 if place == "update" else 1)
    assert simulation.changes()[-1] is STREAMING
    causes = [texts(lines)[n].partition("(")[2].partition(")")[0] for n in range(len(lines))]
    assert len(causes) == len(set(causes)) == healthy
    assert {line.levelname for line in lines} == {"WARNING"}
    assert not any(line.exc_info for line in lines)


def test_an_error_while_the_network_is_made_is_no_end(uncaught: list[Any]) -> None:
    """A transport that cannot be made now is made later."""
    simulation = Simulation(100, on_open=lambda _: heartbeats(DAY))
    tries = iter([OddError("no certificates"), OSError(24, "Too many open files")])

    def transport() -> Simulation:
        for error in tries:
            raise error
        return simulation

    simulation.stream._transport = transport
    run_in_a_thread(simulation)
    assert uncaught == []
    assert simulation.changes() == [RECONNECTING, STREAMING]


def test_a_line_without_an_end_is_a_broken_stream(lines: Lines) -> None:
    """A server that sends a line or an event beyond every measure is left and tried again."""
    megabyte = b"x" * 1024 * 1024
    bad: list[list[Step]] = [
        [(0.0, CONNECTED), (0.0, b"data: "), (0.0, megabyte)],
        [(0.0, CONNECTED), *([(0.0, b"data: " + megabyte[:-10] + b"\n")] * 5)],
    ]
    simulation = Simulation(
        100, on_open=lambda n: bad[n] if n < len(bad) else heartbeats(DAY)
    ).run()
    assert simulation.changes() == [STREAMING, RECONNECTING] * 2 + [STREAMING]
    assert [text.split(";")[0] for text in texts(lines)] == [
        "the stream ended (a line is longer than the cap)",
        "the stream ended (an event is larger than the cap)",
    ]


def test_silence_and_its_like_say_what_they_are() -> None:
    """The two ends of a stream that are expected carry no text but a cause."""
    assert StreamBroken("ReadError").cause == str(StreamBroken("ReadError")) == "ReadError"
    assert str(Silence()) == ""


def test_a_day_of_failure_is_told_once_a_minute(lines: Lines) -> None:
    """A day of one failure gives a line a minute at most, with a count."""
    simulation = Simulation(DAY, on_ticket=lambda _: Reply(503)).run()
    assert 1000 < len(lines) <= 1440
    assert len(lines) < len(simulation.tickets)
    assert texts(lines)[0] == (
        "could not get a ticket for the stream: server (HTTP 503); meanwhile only polling finds "
        "changes"
    )
    assert {line.levelname for line in lines} == {"WARNING"}
