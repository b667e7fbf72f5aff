"""Processes that share a store ask the service once for all of them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from shipsilently_core import Failure, ShipSilentlyClient, Source
from shipsilently_core._clock import SystemClock
from shipsilently_core._wire import Reply, Request
from shipsilently_core.stores import Found, MemoryStore
from shipsilently_core.testing import ScriptedService
from tests.core.running import QUICK, Running, eventually, running, users
from tests.core.storing import ADA, EVE, Fleet
from tests.core.support import KEY

SYSTEM = {"userId": "system"}
MINUTE = 60.0


def read(client: ShipSilentlyClient, who: dict[str, Any], *, asynchronous: bool) -> Any:
    """The flag's result, one way or the other."""
    if asynchronous:
        return asyncio.run(client.flags(who).adetail("a", 0))
    return client.flags(who).detail("a", 0)


both_ways = pytest.mark.parametrize("asynchronous", [False, True], ids=["sync", "async"])


@both_ways
def test_what_one_process_was_told_the_others_need_not_ask(asynchronous: bool) -> None:
    """A context that one process has just evaluated is fresh for all, and is kept by each."""
    fleet = Fleet()
    clients = [fleet.client() for _ in range(5)]
    results = [read(client, ADA, asynchronous=asynchronous) for client in clients]
    assert [result.value for result in results] == [1] * 5
    assert [result.source for result in results] == [Source.SERVER] + [Source.CACHE] * 4
    assert all(result.age is None for result in results)
    assert fleet.asked == 1
    assert read(clients[0], EVE, asynchronous=asynchronous).value == 1
    assert fleet.asked == 2


def test_without_a_stream_it_is_fresh_for_as_long_as_its_own_would_be() -> None:
    """Where changes are polled for, another's answer ages from the moment it was asked for."""
    fleet = Fleet()
    first, second = fleet.client(), fleet.client()
    first.flags(ADA).get("a")
    fleet.clock.advance(20)
    fleet.service.set({"a": 2})
    assert second.flags(ADA).get("a") == 1
    fleet.clock.advance(9)
    assert second.flags(ADA).get("a") == 1
    assert fleet.asked == 1
    fleet.clock.advance(1)
    assert second.flags(ADA).get("a") == 2
    assert first.flags(ADA).get("a") == 2
    assert fleet.asked == 2


def test_with_max_age_0_everybody_asks() -> None:
    """Who wants to ask on each request does so, and still leaves what it was told."""
    fleet = Fleet(max_age=0.0)
    first, second = fleet.client(), fleet.client()
    for client in (first, second, first, second):
        assert client.flags(ADA).get("a") == 1
    assert fleet.asked == 4
    fleet.service.fail(503)
    assert fleet.client().flags(ADA).get("a") == 1


def test_another_key_shares_nothing() -> None:
    """Two environments in one store never see each other's answers."""
    fleet = Fleet()
    fleet.client().flags(ADA).get("a")
    fleet.client(api_key=KEY + "x").flags(ADA).get("a")
    fleet.client(api_url="http://other.invalid").flags(ADA).get("a")
    assert fleet.asked == 3


def test_an_entry_that_was_moved_in_the_store_serves_nobody() -> None:
    """One user's flags under another user's name are refused, and the service is asked."""
    fleet = Fleet(flags=lambda context: {"a": context["userId"]})
    client = fleet.client()
    client.flags(ADA).get("a")
    client.flags(EVE).get("a")
    one, two = fleet.store._contexts
    fleet.store._contexts[one], fleet.store._contexts[two] = (
        fleet.store._contexts[two],
        fleet.store._contexts[one],
    )
    victim = fleet.client()
    assert victim.flags(EVE).get("a") == "eve"
    assert fleet.asked == 3
    assert "belongs to another" in fleet.errors[0].message


def test_in_an_outage_each_process_has_what_any_process_knew() -> None:
    """A user comes to a process that has never seen them while the service is down."""
    fleet = Fleet(flags=lambda context: {"a": context["userId"]})
    fleet.client().flags(ADA).get("a")
    fleet.service.fail(503)
    fleet.clock.advance(10 * MINUTE)
    other = fleet.client()
    result = other.flags(ADA).detail("a", "")
    assert (result.value, result.source, result.age) == ("ada-4711", Source.CACHE, 10 * MINUTE)
    # Also with the gate closed, and for one read by an event loop that nobody awaited.
    for number in range(3):
        other.flags({"userId": f"u{number}"}).get("a")
    assert other.status().gate is not None
    fleet.service.recover()
    fleet.client().flags(EVE).get("a")
    fleet.service.fail(503)
    assert other.flags(EVE).get("a") == "eve"


def test_in_an_outage_a_process_that_is_cut_off_follows_the_others() -> None:
    """Newer values of those who reach the service replace older ones, never the reverse."""
    fleet = Fleet()
    cut_off, connected = fleet.client(), fleet.client()
    cut_off.flags(ADA).get("a")
    fleet.clock.advance(MINUTE)
    fleet.service.set({"a": 2})
    assert connected.flags(ADA).get("a") == 2
    fleet.clock.advance(MINUTE)
    fleet.service.fail(503)
    assert cut_off.flags(ADA).get("a") == 2
    assert connected.flags(ADA).get("a") == 2
    # What is older in the store than here is left there.
    ((name, _),) = fleet.store._contexts.items()
    fleet.clock.advance(MINUTE)
    fleet.service.recover()
    fleet.service.set({"a": 3})
    old = dict(fleet.store._contexts)
    assert connected.flags(ADA).get("a") == 3
    fleet.store._contexts.update(old)
    fleet.clock.advance(MINUTE)
    fleet.service.fail(503)
    assert connected.flags(ADA).get("a") == 3
    assert name in fleet.store._contexts


def test_in_an_outage_the_store_is_not_asked_on_every_request() -> None:
    """A context whose service call failed is looked up again once a polling interval."""
    fleet = Fleet()
    looks = 0

    class Counting(MemoryStore):
        def get(self, name: str, **how: Any) -> Found:
            nonlocal looks
            looks += 1
            return super().get(name, **how)

    fleet.store = Counting(fleet.clock.time)
    client = fleet.client()
    client.flags(ADA).get("a")
    fleet.service.fail(503)
    looks = 0
    for _ in range(600):
        fleet.clock.advance(1)
        assert client.flags(ADA).get("a") == 1
    assert 10 <= looks <= 40


# Concurrent misses.


class SlowService(ScriptedService):
    """A service that answers when it is let."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.goes_on = threading.Event()

    def send(self, request: Request) -> Reply:
        """Answer one request, later."""
        if request.path.endswith("batch"):
            self.requests.append(request)
            assert self.goes_on.wait(20)
            self.requests.pop()
        return super().send(request)


def together(count: int, work: Callable[[int], Any]) -> list[Any]:
    """What these give, done in as many threads at once."""
    results: list[Any] = [None] * count

    def run(number: int) -> None:
        results[number] = work(number)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    return results


@both_ways
def test_processes_that_miss_at_once_ask_once(asynchronous: bool) -> None:
    """One asks, the others wait for its answer in the store."""
    fleet = Fleet(timeout=20.0)
    fleet.service = service = SlowService({"a": 1})
    clients = [fleet.client() for _ in range(8)]
    timer = threading.Timer(0.1, service.goes_on.set)
    timer.start()
    results = together(8, lambda n: read(clients[n], ADA, asynchronous=asynchronous))
    timer.join()
    assert [result.value for result in results] == [1] * 8
    assert fleet.asked == 1


def test_another_takes_over_from_one_that_failed() -> None:
    """A process whose call fails lets the next one ask at once."""
    fleet = Fleet(timeout=20.0)
    fleet.service.fail(503, times=1)
    first, second = fleet.client(), fleet.client()
    assert first.flags(ADA).detail("a", 0).error == Failure.SERVER
    assert second.flags(ADA).get("a") == 1
    assert fleet.asked == 2


def test_another_takes_over_from_one_that_died() -> None:
    """A process that never puts its answer holds the others up for a part of the timeout."""
    fleet = Fleet(MemoryStore(), timeout=0.4)
    dead, alive = fleet.client(), fleet.client()
    keeper = dead.evaluator.keeper
    assert keeper is not None
    errand = keeper.look(dead.flags(ADA).context.body, leased=True)
    assert errand is not None
    errand.run()
    assert keeper.found(errand) is not None
    assert alive.flags(ADA).get("a") == 1
    assert fleet.asked == 1


class Hogged(MemoryStore):
    """A store in which somebody else is always about to ask."""

    def get(self, name: str, **how: Any) -> Found:
        """See `SharedStore`."""
        found = super().get(name, **how)
        return Found(found.data, found.now, leads=False)


def test_who_has_waited_for_too_long_asks_or_serves_what_is_known() -> None:
    """Where the others' answer never comes, a known user is served and an unknown one asked for."""
    fleet = Fleet(timeout=0.1)
    fleet.store = Hogged(fleet.clock.time)
    client = fleet.client()
    assert client.flags(ADA).detail("a", 0).source == Source.SERVER
    assert fleet.asked == 1
    fleet.clock.advance(MINUTE)
    fleet.service.set({"a": 2})
    result = client.flags(ADA).detail("a", 0)
    assert (result.value, result.source, result.age) == (1, Source.CACHE, MINUTE)
    assert fleet.asked == 1


def test_an_interrupted_request_lets_others_ask() -> None:
    """A server that ends a request in the middle leaves no lease behind."""

    class Interrupting(ScriptedService):
        def send(self, request: Request) -> Reply:
            raise KeyboardInterrupt

    fleet = Fleet(timeout=20.0)
    good, fleet.service = fleet.service, Interrupting({"a": 1})
    interrupted = fleet.client()
    with pytest.raises(KeyboardInterrupt):
        interrupted.flags(ADA).get("a")
    interrupted.close()
    fleet.service = good
    assert fleet.client().flags(ADA).get("a") == 1


def test_two_requests_of_one_process_look_once() -> None:
    """Requests for one context in one process share the look into the store as well."""
    store = SlowLook()
    fleet = Fleet(store, timeout=20.0)
    client = fleet.client()
    results = together(4, lambda _: client.flags(ADA).get("a"))
    assert results == [1] * 4
    assert store.looks == 1


class SlowLook(MemoryStore):
    """A store in which looking takes a moment."""

    deadline = 10.0
    looks = 0

    def get(self, name: str, **how: Any) -> Found:
        """See `SharedStore`."""
        self.looks += 1
        threading.Event().wait(0.1)
        return super().get(name, **how)


# After a change, with streams.


class Workers:
    """Started clients of one service and one store."""

    def __init__(self, count: int, store: MemoryStore, service: ScriptedService) -> None:
        self.service = service
        self.clients = []
        for _ in range(count):
            made = Running(None, clock=SystemClock(), store=store, retry=QUICK, timeout=10.0)
            made.client._transport = service
            self.clients.append(made.client)

    def __enter__(self) -> Workers:
        for client in self.clients:
            client.start()
        for client in self.clients:
            assert client.wait_ready(10)
        eventually(lambda: all(c.connection_state == "streaming" for c in self.clients))
        eventually(lambda: not any(client._baseline.stale for client in self.clients))
        eventually(lambda: self.heard(1))
        return self

    def __exit__(self, *_: object) -> None:
        for client in self.clients:
            client.close()

    def heard(self, generation: int) -> bool:
        """Whether each has heard of so many changes and knows the store's time since."""
        marks = [c.evaluator.keeper._mark[0] for c in self.clients if c.evaluator.keeper]
        return all(mark >= generation for mark in marks)


def test_after_a_change_a_fleet_asks_once_for_each_context() -> None:
    """Each user is evaluated once for all workers, not once in each, and all see the new value."""
    service = ScriptedService({"a": 1}, streaming=True)
    with Workers(4, MemoryStore(), service) as workers:
        people = [{"userId": f"u{number}"} for number in range(10)]
        for client in workers.clients:
            for who in people:
                assert client.flags(who).get("a") == 1
        generation = max(c.evaluator.cache.generation for c in workers.clients)
        service.requests.clear()
        service.set({"a": 2})
        service.send_event()
        eventually(lambda: workers.heard(generation + 1))
        for client in workers.clients:
            for who in people:
                assert client.flags(who).get("a") == 2
        asked = users(service)
        assert all(asked.count(who["userId"]) == 1 for who in people)
        # The baseline is everybody's, and each worker's background wants it at once.
        assert 1 <= asked.count("system") <= 4


def test_what_was_asked_for_before_the_change_is_not_fresh() -> None:
    """An answer that another process had before this one heard of a change is not used."""
    with running({"a": 1}, store=MemoryStore()) as run:
        store = run.client.config.store
        other = ShipSilentlyClient(
            api_key=KEY, api_url="http://flags.invalid", store=store, transport=run.service
        )
        assert other.flags(ADA).get("a") == 1
        generation = run.client.evaluator.cache.generation
        run.change({"a": 2})
        eventually(lambda: run.client.evaluator.cache.generation == generation + 1)
        asked = run.asked(ADA["userId"])
        assert run.client.flags(ADA).get("a") == 2
        assert run.asked(ADA["userId"]) == asked + 1


def test_a_stamp_from_the_future_is_not_fresh() -> None:
    """A store whose clock was set back serves what it has as last known good only."""
    fleet = Fleet()
    first, second = fleet.client(), fleet.client()
    first.flags(ADA).get("a")
    fleet.service.set({"a": 2})
    now = fleet.clock.time()
    fleet.store._clock = lambda: now - MINUTE
    result = second.flags(ADA).detail("a", 0)
    assert (result.value, result.source) == (2, Source.SERVER)


def test_a_store_without_a_clock_has_last_known_good_values_only() -> None:
    """Where nobody can say what was first, each process asks, and an outage finds the values."""

    class Clockless(MemoryStore):
        def get(self, name: str, **how: Any) -> Found:
            return Found(super().get(name, **how).data)

        def clock(self, name: str) -> Any:
            return None

    fleet = Fleet()
    fleet.store = Clockless(fleet.clock.time)
    first, second = fleet.client(), fleet.client()
    assert first.flags(ADA).detail("a", 0).source == Source.SERVER
    assert second.flags(ADA).detail("a", 0).source == Source.SERVER
    fleet.service.fail(503)
    result = fleet.client().flags(ADA).detail("a", 0)
    assert (result.value, result.source, result.age) == (1, Source.CACHE, 0.0)
    with running({"a": 1}, store=fleet.store) as run:
        run.change({"a": 2})
        eventually(lambda: run.client.flags(ADA).get("a") == 2)


def test_an_answer_that_comes_late_does_not_replace_a_newer_one() -> None:
    """What this process asked for after the look began is newer than what the store had."""
    fleet = Fleet()
    fleet.client().flags(ADA).get("a")

    class Overtaken(MemoryStore):
        client: ShipSilentlyClient

        def get(self, name: str, **how: Any) -> Found:
            found: Found = fleet_store.get(name, **how)
            fleet.service.set({"a": 2})
            self.client.evaluate_all(ADA)
            return found

    fleet_store, fleet.store = fleet.store, Overtaken(fleet.clock.time)
    client = Overtaken.client = fleet.client()
    assert client.flags(ADA).get("a") == 2


def test_a_background_whose_call_fails_lets_others_ask() -> None:
    """The lease of a worker that could not refresh its baseline ends with its try."""
    store = MemoryStore()
    with running({"a": 1}, store=store) as run:
        run.service.fail(503)
        run.service.send_event()
        eventually(lambda: run.client.status().failures)
        eventually(lambda: not store._leases)


def test_a_client_that_is_closed_does_not_wait_for_others() -> None:
    """Another worker that is about to ask holds up the end of none."""
    store = MemoryStore()
    with running({"a": 1}, store=store, timeout=20.0) as run:
        keeper = run.client.evaluator.keeper
        assert keeper is not None
        baseline = run.client.evaluator.baseline.body
        name = keeper._seal.name_of(baseline)
        store._leases[name] = float("inf")
        store._contexts.clear()
        run.service.send_event()
        eventually(lambda: keeper._mark[0] == run.client.evaluator.cache.generation)
        threading.Event().wait(0.05)
        run.client.close()
        assert run.client.status().failures == {}
