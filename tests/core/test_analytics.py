"""The buffer of flag checks and its delivery, in simulated time."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

import pytest

from shipsilently_core import Failure
from shipsilently_core._events import Check
from shipsilently_core._seen import Apart
from shipsilently_core._wire import Reply, Request
from tests.core.delivering import OK, Setup, run_while_delivering, sheet

BOTH = pytest.mark.parametrize("flush", [Setup.flush, Setup.aflush])
Flush = Callable[..., int]


# The buffer.


def test_the_oldest_goes_first_and_is_counted() -> None:
    """A full buffer keeps the newest events, and knows how many it has lost."""
    made = Setup(max_buffer_size=10)
    keys = made.record(25)
    assert len(made.analytics) == 10
    assert made.analytics.dropped == 15
    assert made.flush() == 10
    assert made.post.taken == keys[15:]
    assert made.lost == [(15, "buffer_full")]


class TakenMeanwhile(deque[Any]):
    """A buffer that looks too full, and is empty when its oldest is to go."""

    def __len__(self) -> int:
        return 100 if not super().__len__() else 0


def test_an_event_that_was_taken_meanwhile_is_not_lost() -> None:
    """Where a delivery empties the buffer between a look at it and the removal of its oldest."""
    made = Setup(max_buffer_size=10)
    made.analytics._buffer = TakenMeanwhile()
    made.analytics.end_turn([], 0, None)
    assert made.analytics.dropped == 0
    assert made.lost == []


def test_a_buffer_of_one_keeps_the_last() -> None:
    """The smallest bound works."""
    made = Setup(max_buffer_size=1, max_batch_size=1)
    made.record(3)
    assert made.flush() == 1
    assert made.post.taken == ["2"]


@pytest.mark.parametrize(
    ("rate", "counted"), [(1.0, 1000), (7, 1000), (0.25, 250), (0.0, 0), (-3, 0)]
)
def test_a_share_is_sampled(rate: float, counted: int) -> None:
    """Of a thousand checks the configured share is counted; a rate beyond 0 to 1 is clamped."""
    numbers = iter([number / 1000 for number in range(1000)])
    made = Setup(rng=lambda: next(numbers), sampling_rate=rate)
    made.record(1000)
    assert len(made.analytics) == counted


def test_nothing_is_counted_where_analytics_is_off() -> None:
    """`enabled=False` records nothing."""
    made = Setup(enabled=False)
    made.record(5)
    assert len(made.analytics) == 0
    assert made.flush() == 0
    assert made.post.bodies == []


def test_a_full_batch_wakes_once_until_it_is_taken() -> None:
    """The background is woken at `max_batch_size`, not by every event after it."""
    made = Setup(max_batch_size=100)
    made.record(99)
    assert made.woken == 0
    made.record(50)
    assert made.woken == 1
    made.flush()
    made.record(99)
    assert made.woken == 1
    made.record(1)
    assert made.woken == 2


def test_a_child_process_begins_with_nothing() -> None:
    """After a fork the buffer, the turn and the counts are the parent's; and what its requests
    noted, of which only those that go on in the child count there what they read there."""
    made = Setup(max_buffer_size=10)
    made.record(15)
    under_way = sheet("a", "b")
    read_later = {"b": under_way.counted.pop("b")}
    made.analytics.enlist(under_way)
    made.analytics.renew()
    made.analytics.wake = made.wake
    under_way.counted |= read_later
    assert not under_way.listed
    made.analytics.enlist(under_way)
    assert made.flush() == 1
    assert made.post.taken == ["b"]
    assert (len(made.analytics), made.analytics.dropped) == (0, 0)
    assert made.analytics.idle
    made.record(3)
    assert made.woken == 0
    assert made.flush() == 3
    assert made.lost == []


# Delivery.


@BOTH
def test_a_flush_tells_how_many_were_accepted(flush: Flush) -> None:
    """The number is the service's own, over all requests of the flush."""
    made = Setup()
    made.record(3)
    made.post.answers = [Reply(200, b'{"accepted":2}')]
    assert flush(made) == 2
    assert made.analytics.idle
    assert flush(made) == 0
    assert len(made.post.bodies) == 1


@BOTH
def test_a_large_buffer_goes_out_in_chunks_in_order(flush: Flush) -> None:
    """At most 1,000 events in one request, one request after the other."""
    made = Setup()
    keys = made.record(3_500)
    assert flush(made) == 3_500
    assert [len(body) for body in made.post.bodies] == [1_000, 1_000, 1_000, 500]
    assert made.post.taken == keys


KEPT = {
    "network": Reply(failure=Failure.NETWORK, connected=False),
    "timeout": Reply(failure=Failure.TIMEOUT),
    "500": Reply(500),
    "503": Reply(503),
    "429": Reply(429),
    "page": Reply(200, b"<html>"),
    "empty": Reply(200),
    "redirect": Reply(302),
}


@BOTH
@pytest.mark.parametrize("reply", KEPT.values(), ids=KEPT)
def test_what_could_not_be_taken_now_goes_back_in_front(reply: Reply, flush: Flush) -> None:
    """The failed chunk and all after it are kept in order, before what came since."""
    made = Setup()
    keys = made.record(2_500)
    made.post.answers = [OK, reply]
    assert flush(made) == 1_000
    assert len(made.post.bodies) == 2
    assert len(made.analytics) == 1_500
    keys += made.record(10, first=2_500)
    made.clock.advance(1)
    assert flush(made) == 1_510
    assert made.post.taken == keys
    assert made.lost == []


@BOTH
@pytest.mark.parametrize("status", [400, 401, 403, 404, 413, 418])
def test_what_is_refused_is_dropped(
    status: int, flush: Flush, lines: list[logging.LogRecord]
) -> None:
    """Another 4xx loses its chunk alone, says so once, and the next chunk is tried."""
    made = Setup()
    keys = made.record(1_200)
    made.post.answers = [Reply(status)]
    assert flush(made) == 200
    assert made.post.taken == keys[1_000:]
    assert made.analytics.idle
    assert made.analytics.dropped == 1_000
    assert made.lost == [(1_000, "refused")]
    assert [line.getMessage() for line in lines] == [
        f"the service refused 1000 analytics events (HTTP {status}); they are dropped"
    ]


def test_losses_are_told_once_for_each_flush() -> None:
    """However they came about, with their sum and both causes."""
    made = Setup(max_buffer_size=10)
    made.record(12)
    made.post.answers = [Reply(400)]
    made.flush()
    assert made.lost == [(12, "buffer_full and refused")]
    assert made.analytics.dropped == 12
    made.record(1)
    made.flush()
    assert made.lost == [(12, "buffer_full and refused")]


def test_what_goes_back_keeps_to_the_bound() -> None:
    """Where there is not room for all of it, the oldest is lost."""
    made = Setup(max_buffer_size=10)
    made.record(8)

    def meanwhile(request: Request) -> Reply:
        made.record(5, first=8)
        return Reply(500)

    assert made.analytics.flush(meanwhile, 2) == 0
    assert len(made.analytics) == 10
    assert made.lost == [(3, "buffer_full")]
    made.flush()
    assert made.post.taken == [str(number) for number in range(3, 13)]


def test_events_on_their_way_still_count_as_undelivered() -> None:
    """While a request is out its events are seen, each once."""
    made = Setup()
    made.record(1_500)
    seen: list[tuple[int, bool]] = []

    def look(request: Request) -> Reply:
        seen.append((len(made.analytics), made.analytics.idle))
        return made.post.send(request)

    made.analytics.flush(look, 2)
    assert seen == [(1_500, False), (500, False)]
    assert (len(made.analytics), made.analytics.idle) == (0, True)


# Pauses.


@BOTH
@pytest.mark.parametrize(
    ("reply", "pause"),
    [
        (Reply(429, headers={"retry-after": "7"}), 7),
        (Reply(503, headers={"retry-after": "7"}), 7),
        (Reply(429), 1),
        (Reply(429, headers={"retry-after": "tomorrow"}), 1),
        (Reply(429, headers={"retry-after": "1.5"}), 1.5),
        (Reply(429, headers={"retry-after": "-5"}), 1),
        (Reply(429, headers={"retry-after": "nan"}), 1),
        (Reply(429, headers={"retry-after": "inf"}), 1),
        (Reply(429, headers={"retry-after": "2, 5"}), 1),
        (Reply(429, headers={"retry-after": ""}), 1),
        (Reply(503, headers={"retry-after": "Fri, 15 Jan 2027 08:00:03 GMT"}), 3),
        (Reply(503, headers={"retry-after": "Fri, 15 Jan 2027 08:00:03"}), 3),
        (Reply(503, headers={"retry-after": "Thu, 01 Jan 1970 00:00:00 GMT"}), 1),
        (Reply(429, headers={"retry-after": "99999999"}), 3600),
    ],
)
def test_a_pause_that_the_service_asks_for_is_kept_by_every_flush(
    reply: Reply, pause: float, flush: Flush
) -> None:
    """`Retry-After` holds for explicit flushes too, and the background waits as long."""
    made = Setup()
    made.record(200)
    made.post.answers = [reply]
    assert flush(made) == 0
    began = made.clock.monotonic()
    assert made.analytics.due_in(began) == pause
    made.clock.advance(pause - 0.5)
    assert flush(made) == 0
    assert len(made.post.bodies) == 1
    made.clock.advance(0.5)
    assert made.analytics.due_in(began) == 0
    assert flush(made) == 200


def test_losses_in_a_pause_are_told() -> None:
    """A flush that may send nothing still tells what the buffer has lost."""
    made = Setup(max_buffer_size=10)
    made.record(10)
    made.post.answers = [Reply(429, headers={"retry-after": "60"})]
    made.flush()
    made.record(5)
    made.flush()
    assert made.lost == [(5, "buffer_full")]


def test_the_background_waits_for_the_interval_or_a_full_batch() -> None:
    """Due after `flush_interval`; at once with `max_batch_size` events."""
    made = Setup(max_batch_size=10, flush_interval=30)
    last = made.clock.monotonic()
    made.record(9)
    assert made.analytics.due_in(last) == 30
    made.clock.advance(12)
    assert made.analytics.due_in(last) == 18
    made.record(1)
    assert made.analytics.due_in(last) == 0
    made.clock.advance(1_000)
    assert made.analytics.due_in(last) == 0


def test_under_load_full_batches_are_gathered_for_a_second_or_a_whole_request() -> None:
    """Eight in a second go at once; the next waits for the next second, or for 1,000 events."""
    made = Setup(max_batch_size=10)
    now = made.clock.monotonic

    def delivers_eight() -> None:
        for _ in range(8):
            made.record(10)
            assert made.analytics.due_in(now()) == 0
            assert made.flush() == 10

    delivers_eight()
    made.record(10)
    assert made.analytics.due_in(now()) == 1.0
    made.clock.advance(0.25)
    assert made.analytics.due_in(now()) == 0.75
    woken = made.woken
    made.record(989)
    assert made.analytics.due_in(now()) == 0.75
    assert made.woken == woken
    made.record(1)
    assert made.analytics.due_in(now()) == 0
    assert made.woken == woken + 1
    assert made.flush() == 1_000
    made.record(10)
    made.clock.advance(0.75)
    assert made.analytics.due_in(now()) == 0
    made.clock.advance(0.25)
    assert made.flush() == 10
    made.clock.advance(1.0)
    delivers_eight()


@pytest.mark.parametrize("reply", [Reply(500), Reply(failure=Failure.NETWORK), Reply(200)])
def test_after_a_failure_the_background_waits_for_the_interval(reply: Reply) -> None:
    """Even with a full batch, whatever failed."""
    made = Setup(max_batch_size=10, flush_interval=30)
    made.record(50)
    made.post.answers = [reply]
    made.flush()
    assert made.analytics.due_in(made.clock.monotonic()) == 30
    made.clock.advance(30)
    assert made.analytics.due_in(made.clock.monotonic()) == 0
    assert made.flush() == 50
    made.record(10)
    assert made.analytics.due_in(made.clock.monotonic()) == 0


def test_a_pause_of_nothing_is_still_one() -> None:
    """Of a service that says ``Retry-After: 0`` nothing is asked before the backoff's base."""
    made = Setup(max_batch_size=10, flush_interval=30)
    made.record(2_000)
    made.post.answers = [Reply(429, headers={"retry-after": "0"})]
    assert made.flush() == 0
    assert made.analytics.due_in(made.clock.monotonic()) == 1.0
    made.clock.advance(1)
    assert made.analytics.due_in(made.clock.monotonic()) == 0
    assert made.flush() == 2_000


@pytest.mark.parametrize("size", [120, 1_000])
def test_what_is_noted_while_a_batch_is_taken_does_not_keep_the_next_from_waking(
    monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    """Once the buffer is empty a full batch wakes the background again, at its usual size."""
    made = Setup(max_batch_size=100)
    take = made.analytics._let_oldest_go

    def as_another_request_begins() -> None:
        made.analytics.enlist(sheet("late"))
        take()

    made.analytics.enlist(sheet(*map(str, range(size))))
    made.analytics.enlist(sheet("next"))
    monkeypatch.setattr(made.analytics, "_let_oldest_go", as_another_request_begins)
    made.flush()
    monkeypatch.undo()
    woken = made.woken
    for _ in range(100):
        made.analytics.enlist(sheet("x"))
    assert made.woken == woken + 1


def test_a_batch_that_comes_while_another_is_taken_wakes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the one that delivers is not the background, nobody else would tell it."""
    made = Setup(max_batch_size=100)
    made.record(100)
    arm = made.analytics._await_batch

    def late() -> None:
        made.record(100)
        arm()

    monkeypatch.setattr(made.analytics, "_await_batch", late)
    assert made.flush() == 100
    assert made.woken == 2


def test_who_was_woken_for_less_than_it_seemed_is_woken_for_a_batch() -> None:
    """What requests have on their sheets is guessed; the guess holds only until somebody looks."""
    made = Setup(max_batch_size=10, flush_interval=30)
    seen = sheet("a")
    seen.counted.update(dict.fromkeys(map(str, range(20)), Apart()))
    made.analytics.enlist(seen)
    made.analytics.enlist(sheet("b"))
    assert made.woken == 1
    assert made.analytics.due_in(made.clock.monotonic()) == 30
    made.record(7)
    assert made.woken == 1
    made.record(1)
    assert made.woken == 2


def test_what_interrupts_the_taking_of_a_batch_loses_nothing() -> None:
    """A limit of time that strikes there costs a delivery and no event, and the next may begin."""

    class Interrupted(deque[Check]):
        strikes = True

        def popleft(self) -> Check:
            if self.strikes and len(self) == 3:
                self.strikes = False
                raise KeyboardInterrupt
            return super().popleft()

    made = Setup()
    keys = made.record(5)
    made.analytics._buffer = Interrupted(made.analytics._buffer)
    with pytest.raises(KeyboardInterrupt):
        made.flush()
    assert made.flush() == 5
    assert made.post.taken == keys


def test_after_an_error_of_our_own_the_background_waits_too() -> None:
    """A transport that raises is not called in a loop, and what it was given is kept."""
    made = Setup(max_batch_size=10, flush_interval=30)
    keys = made.record(20)

    def broken(request: Request) -> Reply:
        raise RuntimeError

    with pytest.raises(RuntimeError):
        made.analytics.flush(broken, 2)
    assert made.analytics.due_in(made.clock.monotonic()) == 30
    assert made.flush() == 20
    assert made.post.taken == keys


def test_a_failure_is_warned_of_once_a_minute(lines: list[logging.LogRecord]) -> None:
    """In a long outage there is one line a minute, which tells of what was lost, too."""
    made = Setup(max_buffer_size=10)
    for _ in range(60):
        made.record(20)
        made.post.answers = [Reply(500)]
        made.flush()
        made.clock.advance(0.5)
    assert [line.getMessage() for line in lines] == [
        "analytics events could not be delivered (server); 10 wait for the next time, 10 were lost"
    ]
    assert sum(count for count, _ in made.lost) == made.analytics.dropped == 60 * 20 - 10


def test_reading_more_than_can_be_delivered_is_warned_of_once(
    lines: list[logging.LogRecord],
) -> None:
    """Where every delivery succeeds and the buffer overflows all the same."""
    made = Setup(max_buffer_size=10)
    for _ in range(5):
        made.record(15)
        made.flush()
    assert [line.getMessage() for line in lines] == [
        "more flags are read than can be delivered: 5 analytics events were lost"
    ]


# Time and turns.


@BOTH
def test_a_flush_keeps_to_its_time(flush: Flush) -> None:
    """Each request gets what is left; what there is no time for is kept."""
    made = Setup()
    keys = made.record(3_000)
    send = made.post.send

    def slow(request: Request) -> Reply:
        made.clock.advance(0.75)
        return send(request)

    made.post.send = slow  # type: ignore[method-assign]  # the post is the test's
    assert flush(made, timeout=1.5) == 2_000
    assert made.post.timeouts == [1.5, 0.75]
    assert flush(made, timeout=9) == 1_000
    assert made.post.taken == keys


def test_a_second_flush_waits_for_its_turn() -> None:
    """Two threads deliver one after the other, and nothing twice."""
    made = Setup()
    made.record(5)
    out, go = threading.Event(), threading.Event()
    accepted: list[int] = []

    def slow(request: Request) -> Reply:
        out.set()
        assert go.wait(5)
        return made.post.send(request)

    first = threading.Thread(target=lambda: accepted.append(made.analytics.flush(slow, 5)))
    first.start()
    assert out.wait(5)
    made.record(3, first=5)
    second = threading.Thread(target=lambda: accepted.append(made.flush(5)))
    second.start()
    go.set()
    first.join(5)
    second.join(5)
    assert sorted(accepted) == [3, 5]
    assert made.post.bodies == [["0", "1", "2", "3", "4"], ["5", "6", "7"]]


@BOTH
def test_a_flush_gives_up_waiting_for_its_turn(flush: Flush) -> None:
    """Behind one that hangs it returns 0 in its time, having taken nothing."""
    made = Setup()
    made.record(5)
    out, go = threading.Event(), threading.Event()

    def hanging(request: Request) -> Reply:
        out.set()
        assert go.wait(5)
        return made.post.send(request)

    first = threading.Thread(target=made.analytics.flush, args=(hanging, 5))
    first.start()
    assert out.wait(5)
    assert flush(made, timeout=0.05) == 0
    go.set()
    first.join(5)
    assert made.post.taken == ["0", "1", "2", "3", "4"]


def test_tasks_flush_one_after_the_other() -> None:
    """Of many tasks at once one delivers, and nothing goes out twice."""
    made = Setup()
    keys = made.record(5)

    async def slow(request: Request) -> Reply:
        await asyncio.sleep(0)
        return made.post.send(request)

    async def all_at_once() -> list[int]:
        return await asyncio.gather(*(made.analytics.aflush(slow, 5) for _ in range(5)))

    assert sorted(asyncio.run(all_at_once())) == [0, 0, 0, 0, 5]
    assert made.post.taken == keys


def test_a_flush_that_is_cancelled_loses_nothing() -> None:
    """What was on its way goes back, and the next flush may begin."""
    made = Setup()
    keys = made.record(5)

    async def cancelled() -> None:
        out = asyncio.Event()

        async def hanging(request: Request) -> Reply:
            out.set()
            await asyncio.Event().wait()
            raise AssertionError("never answered")

        task = asyncio.create_task(made.analytics.aflush(hanging, 5))
        await out.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await made.analytics.aflush(made.post.asend, 5) == 5

    asyncio.run(cancelled())
    assert made.post.taken == keys


def test_a_receiver_of_losses_may_flush() -> None:
    """Told of losses, it may deliver what is left at once."""
    made = Setup(max_buffer_size=10)
    accepted: list[int] = []
    made.analytics._tell_dropped = lambda count, cause: accepted.append(made.flush())
    made.record(12)
    made.post.answers = [Reply(500)]
    made.flush()
    assert accepted == [10]


def test_many_threads_lose_count_of_nothing() -> None:
    """Accepted, lost and waiting add up to what eight threads recorded while one delivers."""
    made = Setup(max_buffer_size=500)
    threads = [threading.Thread(target=made.record, args=(5_000,)) for _ in range(8)]
    run_while_delivering(made, threads)
    assert len(made.post.taken) + made.analytics.dropped == 8 * 5_000
    assert sum(count for count, _ in made.lost) == made.analytics.dropped
