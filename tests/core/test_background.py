"""The background of a client: what it keeps fresh, the states it is in, its beginning and end."""

from __future__ import annotations

import logging
import threading
from typing import Any

import pytest

from shipsilently_core import ConnectionState, Failure, FailureReport, Reason, ShipSilentlyClient
from shipsilently_core._clock import SystemClock
from shipsilently_core._wire import EVENTS, Reply, Request
from shipsilently_core.testing import ScriptedService
from tests.core.running import QUICK, Running, eventually, running, users
from tests.core.support import listening
from tests.core.wire_server import Answer, WireServer, batch_of

STREAMING = ConnectionState.STREAMING
RECONNECTING = ConnectionState.RECONNECTING
POLLING = ConnectionState.POLLING
IDLE = ConnectionState.IDLE
HOUR = 3600.0
U1 = {"userId": "u1"}


def value(client: ShipSilentlyClient, user: str = "u1") -> Any:
    """What one request of this user sees."""
    return client.flags({"userId": user}).get("a")


# Freshness.


def test_a_returning_user_costs_no_call_while_the_stream_is_up() -> None:
    """Hours of requests of one user cost one call, as nothing changes without the stream's word."""
    with running() as run:
        for _ in range(12):
            assert value(run.client) == 1
            run.clock.advance(HOUR / 2)
        assert run.asked() == 1


def test_a_change_is_seen_as_soon_as_the_service_tells_of_it() -> None:
    """The first request after the event sees the new value, at the cost of one call."""
    with running() as run:
        assert value(run.client) == 1
        run.service.set({"a": 2})
        run.clock.advance(HOUR)
        assert value(run.client) == 1
        run.service.send_event()
        eventually(lambda: value(run.client) == 2)
        assert [value(run.client) for _ in range(5)] == [2] * 5
        assert run.asked() == 2
        eventually(lambda: run.client.get("a", context={"userId": "system"}) == 2)


def test_the_background_itself_sees_a_change_without_any_request() -> None:
    """What `get` knows of the baseline's context follows the stream."""
    with running() as run:
        run.change({"a": "new"})
        eventually(lambda: run.client.get("a", context={"userId": "system"}) == "new")
        assert set(users(run.service)) == {"system"}


def test_everything_is_stale_once_after_the_stream_was_lost() -> None:
    """What changed while the stream was down was not told, so each user is asked for once more."""
    with running() as run:
        assert value(run.client) == 1
        run.service.set({"a": 2})
        run.service.drop_streams()
        eventually(lambda: run.states[-2:] == [RECONNECTING, STREAMING])
        assert [value(run.client) for _ in range(3)] == [2] * 3
        run.clock.advance(HOUR)
        assert value(run.client) == 2
        assert run.asked() == 2


def test_values_age_while_the_stream_is_down() -> None:
    """Without the stream an evaluation counts as fresh for the polling interval."""
    with running() as run:
        value(run.client)
        run.clock.advance(29)
        run.service.fail(503)
        run.service.drop_streams()
        run.is_in(RECONNECTING)
        assert value(run.client) == 1
        assert run.asked() == 1
        run.clock.advance(2)
        detail = run.client.flags(U1).detail("a")
        assert (detail.value, detail.reason) == (1, Reason.ERROR_FALLBACK)


def test_values_age_by_the_polling_interval_where_nothing_streams() -> None:
    """A plan without streaming: a user is asked for again once the interval has passed."""
    with running(streaming=False) as run:
        for step, asked in ((0, 1), (29, 1), (2, 2), (29, 2), (2, 3)):
            run.clock.advance(step)
            value(run.client)
            assert run.asked() == asked


@pytest.mark.parametrize("streaming", [True, False])
def test_an_age_that_was_asked_for_always_rules(streaming: bool) -> None:
    """`max_age=0` asks on each request and `max_age=5` after 5 s, whether it streams or not."""
    with running(streaming=streaming, max_age=0) as run:
        for _ in range(3):
            value(run.client)
        assert run.asked() == 3
    with running(streaming=streaming, max_age=5) as run:
        for step, asked in ((0, 1), (4.9, 1), (0.2, 2), (4.9, 2), (0.2, 3)):
            run.clock.advance(step)
            value(run.client)
            assert run.asked() == asked


def test_a_change_rules_over_an_age_that_was_asked_for() -> None:
    """`max_age` never makes a value fresh that the service has called changed."""
    with running(max_age=10 * HOUR) as run:
        assert value(run.client) == 1
        run.change({"a": 2})
        eventually(lambda: value(run.client) == 2)


def test_an_answer_from_before_the_change_does_not_count_as_fresh() -> None:
    """An evaluation under way while a change is told is served once and then asked again."""
    with running(lambda context: {"a": 1}) as run:
        cache = run.client.evaluator.cache

        def flags(context: dict[str, Any]) -> dict[str, Any]:
            if context["userId"] == "u1" and run.asked() == 1:
                before = cache.generation
                run.service.send_event()
                eventually(lambda: cache.generation > before)
                return {"a": "old"}
            return {"a": "new"}

        run.service.set(flags)
        assert value(run.client) == "old"
        assert value(run.client) == "new"
        assert value(run.client) == "new"
        assert run.asked() == 2


# States.


def test_each_state_is_told_once_per_change() -> None:
    """A life with three drops: streaming and reconnecting in turn, and idle at its end."""
    run = Running(None)
    assert run.client.connection_state is IDLE
    run.client.start()
    for drops in range(4):
        eventually(lambda drops=drops: run.states.count(STREAMING) == drops + 1)  # type: ignore[misc]
        if drops < 3:
            run.service.drop_streams()
    run.client.close()
    assert run.states == [STREAMING, RECONNECTING] * 3 + [STREAMING, IDLE]
    assert run.service.tickets == 4


def test_a_service_that_is_down_is_one_state() -> None:
    """However often it is tried, `reconnecting` is told once, and so is what follows."""
    run = Running(None)
    run.service.fail(503)
    run.client.start()
    eventually(lambda: run.service.tickets > 10)
    run.service.recover()
    run.is_in(STREAMING)
    run.client.close()
    assert run.states == [RECONNECTING, STREAMING, IDLE]


def test_a_plan_without_streaming_polls() -> None:
    """A 402 for the ticket means the state `polling` and no other ticket."""
    with running(streaming=False) as run:
        assert run.states == [POLLING]
        assert run.service.tickets == 1


def test_streaming_can_be_switched_off() -> None:
    """With `stream=False` nothing is streamed, and the state says so at once."""
    with running(stream=False) as run:
        assert run.states == [POLLING]
        assert run.service.tickets == 0
        assert run.client.connection_state is POLLING


def test_polling_sees_changes_too() -> None:
    """Where nothing streams, the background finds a change within the interval."""
    with running(streaming=False, clock=SystemClock(), polling_interval=0.02) as run:
        run.service.set({"a": 2})
        eventually(lambda: run.client.get("a", context={"userId": "system"}) == 2)


# A bad beginning.


@pytest.mark.parametrize(
    ("how", "failure", "line"),
    [
        ({"connected": False}, Failure.NETWORK, "the service could not be reached (scripted)"),
        ({"status": 401}, Failure.AUTH, "the service refused the API key (HTTP 401)"),
        ({"status": 503}, Failure.SERVER, "the service failed (HTTP 503)"),
    ],
)
def test_a_wrong_start_is_not_ready_says_why_and_recovers(
    how: dict[str, Any],
    failure: Failure,
    line: str,
    lines: list[logging.LogRecord],
) -> None:
    """A wrong address or key is told by hook, signal and log; one recovery, without a restart."""
    told: list[FailureReport] = []
    run = Running(None, clock=SystemClock(), polling_interval=0.05, on_error=told.append)
    run.service.fail(**how)
    with listening(run.client) as heard:
        assert not run.client.wait_ready(0.1)
        assert run.client.evaluate("a", U1, "default") == "default"
        assert run.client.connection_state is RECONNECTING
        assert {report.failure for report in told} == {failure}
        assert {report.failure for report in heard} == {failure}
        assert sum(line in record.getMessage() for record in lines) == 1
        run.service.recover()
        assert run.client.wait_ready(5)
        run.is_in(STREAMING)
        eventually(lambda: value(run.client) == 1)
    assert run.states == [RECONNECTING, STREAMING]
    assert [r.levelname for r in lines if "answers again" in r.getMessage()] == ["INFO"]
    run.client.close()


def test_nobody_listens_at_the_address(free_port: int) -> None:
    """A closed port: not ready, with the reason told; ready without a restart once it opens."""
    told: list[FailureReport] = []
    states: list[ConnectionState] = []
    client = ShipSilentlyClient(
        api_key="sk_live_x",
        api_url=f"http://127.0.0.1:{free_port}",
        polling_interval=0.05,
        retry=QUICK,
        on_error=told.append,
        on_state_change=states.append,
    )
    try:
        assert not client.wait_ready(0.2)
        assert client.evaluate("a", U1, "default") == "default"
        eventually(lambda: states == [RECONNECTING])
        assert {report.failure for report in told} == {Failure.NETWORK}
        with WireServer(batch_of({"a": 1}), port=free_port) as server:
            server.on("/v1/stream/ticket", Answer(402))
            assert client.wait_ready(5)
            eventually(lambda: states == [RECONNECTING, POLLING])
            eventually(lambda: client.get("a", context={"userId": "system"}) == 1)
    finally:
        client.close()


# Delivery of events.


class Exploding(ScriptedService):
    """A service whose events endpoint raises what no transport should, twice."""

    left = 2

    def send(self, request: Request) -> Reply:
        if request.path == EVENTS and self.left:
            self.left -= 1
            raise KeyError("secret")
        return super().send(request)


def test_an_error_nobody_foresaw_does_not_end_the_delivery_of_events(
    lines: list[logging.LogRecord],
) -> None:
    """Whatever raises while events are sent, later ones are delivered, and the log says so."""
    with running(kind=Exploding) as run:
        service = run.service
        assert isinstance(service, Exploding)
        analytics = run.client.evaluator.analytics
        while service.left:
            left = service.left
            run.client.get("a", context={"userId": "system"})
            run.clock.advance(3700)
            analytics.wake()
            eventually(lambda left=left: service.left < left)  # type: ignore[misc]

        def delivered() -> bool:
            run.client.get("a", context={"userId": "system"})
            run.clock.advance(3700)
            analytics.wake()
            return bool(service.events)

        eventually(delivered)
    assert not any("secret" in line.getMessage() for line in lines)


def test_an_interval_without_events_is_followed_by_a_whole_one() -> None:
    """Nothing is sent where nothing happened, and waking the delivery early changes nothing."""
    with running() as run:
        analytics = run.client.evaluator.analytics
        run.clock.advance(31)
        analytics.wake()
        bell = run.client._background._flush_bell  # type: ignore[union-attr]
        eventually(lambda: not bell._event.is_set())
        # It is over once it waits again for the next interval to pass.
        for _ in range(3):
            analytics.wake()
            eventually(lambda: not bell._event.is_set())
        run.client.get("a", context={"userId": "system"})
        run.clock.advance(29)
        analytics.wake()
        eventually(lambda: not bell._event.is_set())
        analytics.wake()
        eventually(lambda: not bell._event.is_set())
        assert run.service.events == []
        run.clock.advance(2)
        analytics.wake()
        eventually(lambda: run.service.events)


# Beginning and end.


def threads() -> list[str]:
    """The client's threads in this process."""
    return [t.name for t in threading.enumerate() if t.name.startswith("shipsilently-")]


def test_starting_again_does_nothing() -> None:
    """However often it is started, there is one stream and one set of threads."""
    before = threads()
    with running() as run:
        own = sorted(threads())
        for _ in range(3):
            run.client.start()
        assert sorted(threads()) == own
        assert run.service.tickets == 1
    eventually(lambda: threads() == before)


def test_threads_that_cannot_be_started_are_done_without(
    monkeypatch: pytest.MonkeyPatch, lines: list[logging.LogRecord]
) -> None:
    """Where the interpreter starts no thread any more, requests see to themselves, unsaid."""

    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("can't create new thread at interpreter shutdown")

    run = Running(None)
    monkeypatch.setattr(threading.Thread, "start", refuse)
    # At the end it has been marked as one that is over.
    monkeypatch.setattr(threading, "main_thread", threading.Thread)
    run.client.start()
    assert not run.client.evaluator.gate.background
    assert value(run.client) == 1
    run.client.close()
    assert lines == []


@pytest.mark.parametrize("by", ["another thread", "a handler of a signal"])
def test_who_comes_while_the_threads_are_started_starts_none(
    monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    """However many requests are the first, there is one stream."""
    start, came = threading.Thread.start, []
    before = threads()
    run = Running(None)

    def as_others_come(self: threading.Thread) -> None:
        if self.name.startswith("shipsilently-"):
            came.append(self.name)
            if by == "another thread":
                other = threading.Thread(target=run.client.start)
                start(other)
                other.join(10)
            else:
                run.client.start()
        start(self)

    monkeypatch.setattr(threading.Thread, "start", as_others_come)
    run.client.start()
    run.is_in(STREAMING)
    assert sorted(came) == [f"shipsilently-{name}" for name in ("events", "refresh", "stream")]
    assert len(threads()) == len(before) + 3
    assert run.service.tickets == 1
    run.client.close()


@pytest.mark.parametrize("refused", ["refresh", "events", "stream"])
def test_a_thread_that_the_system_refuses_is_started_later(
    monkeypatch: pytest.MonkeyPatch, lines: list[logging.LogRecord], refused: str
) -> None:
    """The others run, one line says so, and who comes a minute later starts it."""
    start, room = threading.Thread.start, threading.Event()

    def as_in_a_full_container(self: threading.Thread) -> None:
        if self.name == f"shipsilently-{refused}" and not room.is_set():
            raise RuntimeError("can't start new thread")
        start(self)

    monkeypatch.setattr(threading.Thread, "start", as_in_a_full_container)
    before = threads()
    run = Running(None)
    run.client._starts_itself = True
    assert value(run.client) == 1
    assert len(threads()) == len(before) + 2
    assert not run.client.evaluator.gate.background
    told = (
        "the system refuses more threads: the background runs without 1 of its 3, and tries again"
    )
    assert [line.getMessage().startswith(told) for line in lines].count(True) == 1
    room.set()
    run.clock.advance(59)
    value(run.client)
    assert len(threads()) == len(before) + 2
    run.clock.advance(1)
    value(run.client)
    run.client.start()
    assert len(threads()) == len(before) + 3
    assert run.client.evaluator.gate.background
    run.is_in(STREAMING)
    run.client.close()
    eventually(lambda: threads() == before)


def test_the_end_is_told_once_and_ends_everything() -> None:
    """After `close` no thread is left, nothing is sent any more, and what is known is served."""
    before = threads()
    with running() as run:
        value(run.client)
        asked = len(run.service.requests)
        run.client.close()
        run.client.close()
        assert threads() == before
        assert run.states == [STREAMING, IDLE]
        assert value(run.client) == 1
        assert run.client.get("a", context=U1) == 1
        assert run.client.evaluate("a", U1) == 1
        assert len(run.service.requests) == asked


def test_a_stopped_background_takes_no_state_any_more() -> None:
    """What the stream's thread finds after the end changes nothing."""
    with running() as run:
        background = run.client._background
        assert background is not None
        run.client.close()
        background._enter(STREAMING)
        assert background.state is IDLE
        assert run.client.connection_state is IDLE
        assert run.states == [STREAMING, IDLE]
