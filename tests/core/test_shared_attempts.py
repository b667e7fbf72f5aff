"""One attempt for one context, whoever waits for it: threads, tasks, and both."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from shipsilently_core import Failure, ShipSilentlyClient, Source
from shipsilently_core._wire import Reply, Request
from shipsilently_core.testing import ScriptedService
from tests.core.support import KEY, fixed

WHO = {"userId": "u1"}
LONG = 20.0


class Gated(ScriptedService):
    """A service whose answers wait until they are released."""

    def __init__(self, flags: Any) -> None:
        super().__init__(flags)
        self.begun = threading.Event()
        self.released = threading.Event()

    def send(self, request: Request) -> Reply:
        reply = super().send(request)
        self.begun.set()
        self.released.wait(LONG)
        return reply

    async def asend(self, request: Request) -> Reply:
        reply = super().send(request)
        self.begun.set()
        while not self.released.is_set():  # noqa: ASYNC110  # other threads release it
            await asyncio.sleep(0.005)
        return reply


@pytest.fixture
def service() -> Iterator[Gated]:
    """A service that answers when the test says so."""
    gated = Gated({"a": 1})
    yield gated
    gated.released.set()


def client_of(service: ScriptedService, **settings: Any) -> ShipSilentlyClient:
    return ShipSilentlyClient(
        **{"api_key": KEY, "timeout": LONG, **settings}, transport=service, rng=fixed()
    )


def read(client: ShipSilentlyClient) -> Any:
    return client.flags(WHO).detail("a", 0)


async def aread(client: ShipSilentlyClient) -> Any:
    return await client.flags(WHO).adetail("a", 0)


@contextmanager
def threads(count: int, work: Callable[[], Any]) -> Iterator[list[Any]]:
    """Run `work` in so many threads; what each of them gave or raised."""
    outcomes: list[Any] = []

    def run() -> None:
        try:
            outcomes.append(work())
        except BaseException as error:
            outcomes.append(error)

    running = [threading.Thread(target=run, daemon=True) for _ in range(count)]
    for thread in running:
        thread.start()
    yield outcomes
    for thread in running:
        thread.join(LONG)
    assert len(outcomes) == count


def wait_for_followers(client: ShipSilentlyClient, count: int) -> None:
    """Until so many wait for the one attempt, the one that leads not counted."""
    deadline = time.monotonic() + LONG
    while time.monotonic() < deadline:
        waiting = 0
        for attempt in list(client.evaluator._in_flight.values()):
            threads_waiting = attempt._event._changed._waiters  # type: ignore[attr-defined]
            waiting += len(threads_waiting) + len(attempt._futures)
        if waiting >= count:
            return
        time.sleep(0.005)
    raise AssertionError("they did not come to wait")


def test_thirty_two_threads_cost_one_request(service: Gated) -> None:
    """One thread asks and all get the answer."""
    client = client_of(service)
    with threads(32, lambda: read(client)) as outcomes:
        assert service.begun.wait(LONG)
        wait_for_followers(client, 31)
        service.released.set()
    assert len(service.requests) == 1
    assert {(o.value, o.source) for o in outcomes} == {(1, Source.SERVER)}


async def test_two_hundred_tasks_cost_one_request(service: Gated) -> None:
    """One task asks and all get the answer."""
    client = client_of(service)
    tasks = [asyncio.create_task(aread(client)) for _ in range(200)]
    await asyncio.sleep(0)
    await asyncio.to_thread(wait_for_followers, client, 200)
    service.released.set()
    outcomes = await asyncio.gather(*tasks)
    assert len(service.requests) == 1
    assert {(o.value, o.source) for o in outcomes} == {(1, Source.SERVER)}


@pytest.mark.parametrize("first", ["threads", "tasks"])
async def test_threads_and_tasks_share_one_request(first: str, service: Gated) -> None:
    """Whichever leads, the others of both kinds get its answer."""
    client = client_of(service)
    loop = asyncio.get_running_loop()
    tasks: list[asyncio.Future[Any]] = []
    if first == "tasks":
        tasks = [asyncio.ensure_future(aread(client)) for _ in range(50)]
        await asyncio.sleep(0)
    with threads(16, lambda: read(client)) as outcomes:
        assert await loop.run_in_executor(None, service.begun.wait, LONG)
        if first == "threads":
            tasks = [asyncio.ensure_future(aread(client)) for _ in range(50)]
        await asyncio.sleep(0.05)
        service.released.set()
        answers = await asyncio.gather(*tasks)
        # The threads are joined below; the loop has nothing more to do for them.
    assert len(service.requests) == 1
    assert {o.value for o in [*outcomes, *answers]} == {1}


async def test_two_loops_share_one_request(service: Gated) -> None:
    """Tasks of different event loops in different threads wait for one answer."""
    client = client_of(service)
    task = asyncio.create_task(aread(client))
    await asyncio.sleep(0)
    with threads(4, lambda: asyncio.run(aread(client))) as outcomes:
        await asyncio.to_thread(wait_for_followers, client, 5)
        service.released.set()
        assert (await task).value == 1
    assert len(service.requests) == 1
    assert [o.value for o in outcomes] == [1] * 4


async def test_a_leading_task_that_is_cancelled_fails_nobody(service: Gated) -> None:
    """The request goes on without the task that began it, and the others get the answer."""
    client = client_of(service)
    leader = asyncio.create_task(aread(client))
    await asyncio.sleep(0)
    others = [asyncio.create_task(aread(client)) for _ in range(20)]
    await asyncio.to_thread(wait_for_followers, client, 21)
    leader.cancel()
    await asyncio.wait([leader])
    assert leader.cancelled()
    service.released.set()
    assert {(await other).value for other in others} == {1}
    assert len(service.requests) == 1


async def test_a_waiting_task_that_is_cancelled_fails_nobody(service: Gated) -> None:
    """A client that hangs up takes nothing from the others."""
    client = client_of(service)
    tasks = [asyncio.create_task(aread(client)) for _ in range(20)]
    await asyncio.to_thread(wait_for_followers, client, 20)
    for task in tasks[5:15]:
        task.cancel()
    await asyncio.wait(tasks[5:15])
    service.released.set()
    assert {(await task).value for task in tasks[:5] + tasks[15:]} == {1}
    assert len(service.requests) == 1


def test_an_interrupted_leading_thread_lets_another_lead(service: Gated) -> None:
    """An exception from outside is the leader's own; one of the others asks anew."""
    client = client_of(service)
    answer = service.send
    interrupted = threading.Event()

    def send(request: Request) -> Reply:
        if not interrupted.is_set():
            service.requests.append(request)
            service.begun.set()
            interrupted.wait(LONG)
            raise SystemExit("the server's own time limit")
        return answer(request)

    service.send = send  # type: ignore[method-assign]
    service.released.set()
    with threads(8, lambda: read(client)) as outcomes:
        assert service.begun.wait(LONG)
        wait_for_followers(client, 7)
        interrupted.set()
    raised = [o for o in outcomes if isinstance(o, BaseException)]
    assert [type(error) for error in raised] == [SystemExit]
    assert [o.value for o in outcomes if o not in raised] == [1] * 7
    # The one that was interrupted, and one more; who comes later finds a fresh value.
    assert len(service.requests) == 2


async def test_an_interrupted_leading_task_lets_another_lead() -> None:
    """What breaks the work itself is not waited out by the others."""
    service = ScriptedService({"a": 1})
    client = client_of(service)
    calls = 0

    async def asend(request: Request) -> Reply:
        nonlocal calls
        calls += 1
        await asyncio.sleep(0)
        if calls == 1:
            raise asyncio.CancelledError
        return service.send(request)

    service.asend = asend  # type: ignore[method-assign]
    outcomes = await asyncio.gather(*(aread(client) for _ in range(10)))
    assert {o.value for o in outcomes} == {1}
    assert calls == 2


async def test_what_a_transport_raises_is_seen_by_who_asked_and_not_tried_for_ever() -> None:
    """A fault in a test's own transport, say: each who waits sees it once, at their own turn."""
    client = client_of(ScriptedService({"a": 1}))
    calls = 0

    async def asend(request: Request) -> Reply:
        nonlocal calls
        calls += 1
        raise RuntimeError("the transport's own")

    client._transport.asend = asend  # type: ignore[method-assign, union-attr]
    outcomes = await asyncio.gather(*(aread(client) for _ in range(3)), return_exceptions=True)
    assert [str(outcome) for outcome in outcomes] == ["the transport's own"] * 3
    assert calls == 3


@pytest.mark.parametrize("awaited", [False, True])
async def test_nobody_waits_beyond_the_deadline(awaited: bool, service: Gated) -> None:
    """Where the leader never comes back, the others serve what is known in time."""
    client = client_of(service, timeout=0.2)
    with threads(1, lambda: read(client)):
        assert await asyncio.to_thread(service.begun.wait, LONG)
        start = time.monotonic()
        result = await aread(client) if awaited else await asyncio.to_thread(read, client)
        assert time.monotonic() - start < 2
        assert (result.value, result.error) == (0, Failure.TIMEOUT)
        service.released.set()


async def test_an_attempt_from_before_a_change_is_not_joined(service: Gated) -> None:
    """After the service's word of a change, a request asks anew and sees the new value."""
    client = client_of(service)
    before = asyncio.create_task(aread(client))
    await asyncio.to_thread(service.begun.wait, LONG)
    client.evaluator.cache.invalidate()
    service.set({"a": 2})
    after = asyncio.create_task(aread(client))
    await asyncio.sleep(0.05)
    service.released.set()
    assert (await after).value == 2
    # The one that had asked before sees what it was told, or what came meanwhile.
    assert (await before).value in (1, 2)
    assert len(service.requests) == 2
    assert client.get("a", 0, WHO) == 2


async def test_other_contexts_do_not_wait(service: Gated) -> None:
    """Only requests for the same context share."""
    client = client_of(service)
    tasks = [
        asyncio.create_task(client.flags({"userId": f"u{number}"}).aget("a", 0))
        for number in range(20)
    ]
    await asyncio.sleep(0.02)
    service.released.set()
    assert list(await asyncio.gather(*tasks)) == [1] * 20
    assert len(service.requests) == 20


def test_plain_verbs_do_not_share(service: Gated) -> None:
    """`evaluate_all` makes its own one attempt, always."""
    client = client_of(service)
    service.released.set()
    with threads(8, lambda: client.evaluate_all(WHO)["a"]) as outcomes:
        pass
    assert [o.value for o in outcomes] == [1] * 8
    assert len(service.requests) == 8
