"""The signals and hooks of a client that runs."""

from __future__ import annotations

import asyncio
import functools
import gc
import itertools
import logging
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from blinker import ANY, NamedSignal

from shipsilently_core import ConnectionState, EvaluationResult, Failure, FailureReport, signals
from shipsilently_core._process import run_on
from tests.core.running import Running, eventually, running

STREAMING = ConnectionState.STREAMING
RECONNECTING = ConnectionState.RECONNECTING
IDLE = ConnectionState.IDLE
U1 = {"userId": "u1"}

Told = list[tuple[Any, dict[str, Any]]]
Listen = Callable[..., Told]


@pytest.fixture
def listen() -> Iterator[Listen]:
    """Collect what a signal sends; forgotten when the test ends."""
    connected: list[tuple[NamedSignal, Callable[..., Any], Any]] = []

    def listen(signal: NamedSignal, sender: Any = ANY) -> Told:
        told: Told = []

        def receiver(sender: Any, **arguments: Any) -> None:
            told.append((sender, arguments))

        signals.connect(signal, receiver, sender)
        connected.append((signal, receiver, sender))
        return told

    yield listen
    for entry in connected:
        signals.disconnect(*entry)


# Senders and arguments.


def test_the_state_of_the_connection_is_told(listen: Listen) -> None:
    """`connection_state_changed`: from the client, with the new state and the one before."""
    run = Running(None)
    told = listen(signals.connection_state_changed, run.client)
    run.client.start()
    run.is_in(STREAMING)
    run.service.drop_streams()
    eventually(lambda: run.states[-2:] == [RECONNECTING, STREAMING])
    run.client.close()
    states = [IDLE, STREAMING, RECONNECTING, STREAMING, IDLE]
    assert told == [
        (run.client, {"state": new, "previous": old}) for old, new in itertools.pairwise(states)
    ]


def test_each_changed_flag_is_told(listen: Listen) -> None:
    """`flag_changed`: from the flag's key, with the old and the new result, or ``None``."""
    with running({"same": 1, "a": True, "gone": "x"}) as run:
        told = listen(signals.flag_changed)
        only = listen(signals.flag_changed, "a")
        run.change({"same": 1, "a": 1, "new": {"b": 2}})
        eventually(lambda: len(told) == 3)
        values = {
            key: (
                arguments["old"] and arguments["old"].value,
                arguments["new"] and arguments["new"].value,
            )
            for key, arguments in told
        }
        assert values == {"a": (True, 1), "gone": ("x", None), "new": (None, {"b": 2})}
        assert all(arguments["client"] is run.client for _, arguments in told)
        assert all(set(arguments) == {"client", "old", "new"} for _, arguments in told)
        assert [key for key, _ in only] == ["a"]
        assert isinstance(only[0][1]["new"], EvaluationResult)


def test_an_update_is_told_with_what_changed(listen: Listen) -> None:
    """`flags_updated`: on each word of the service, with the changed keys, perhaps none."""
    with running({"a": 1, "b": 1}) as run:
        told = listen(signals.flags_updated, run.client)
        run.change({"a": 2, "b": 1})
        eventually(lambda: told)
        run.service.send_event()
        eventually(lambda: len(told) == 2)
        assert told == [
            (run.client, {"changed": frozenset({"a"})}),
            (run.client, {"changed": frozenset()}),
        ]


def test_nothing_is_told_where_nothing_changed(listen: Listen) -> None:
    """Neither the first evaluation nor one after a reconnect without changes is an update."""
    told = listen(signals.flags_updated), listen(signals.flag_changed)
    with running() as run:
        asked = run.asked("system")
        run.service.drop_streams()
        eventually(lambda: run.asked("system") > asked)
    assert told == ([], [])


def test_what_changed_while_the_stream_was_down_is_told_once_it_is_back(listen: Listen) -> None:
    """A change that only the evaluation after a reconnect finds is told as any other."""
    with running() as run:
        told = listen(signals.flags_updated, run.client)
        run.service.set({"a": 2})
        run.service.drop_streams()
        eventually(lambda: told)
        assert told == [(run.client, {"changed": frozenset({"a"})})]


def test_changes_are_those_of_the_clients_own_context(listen: Listen) -> None:
    """What changes for other users only is told without a flag: the baseline's are the same."""
    with running() as run:
        flag_changed = listen(signals.flag_changed)
        updated = listen(signals.flags_updated, run.client)
        run.change(lambda context: {"a": 1 if context["userId"] == "system" else 2})
        eventually(lambda: updated)
        assert updated == [(run.client, {"changed": frozenset()})]
        assert flag_changed == []


def test_failures_are_told_by_signal_and_hook(listen: Listen) -> None:
    """`evaluation_failed` and `on_error`: class, status and flag, as the same report."""
    reports: list[FailureReport] = []
    with running(on_error=reports.append) as run:
        told = listen(signals.evaluation_failed, run.client)
        run.service.fail(503)
        run.client.evaluate("a", U1)
        run.client.evaluate_all(U1)
        run.service.recover()
        run.client.evaluate("none", U1)
        run.client.evaluate("a", U1, "text")
        expected = [
            (Failure.SERVER, 503, "a"),
            (Failure.SERVER, 503, None),
            (Failure.NOT_FOUND, 404, "none"),
            (Failure.TYPE_MISMATCH, None, "a"),
        ]
        assert told == [
            (run.client, {"failure": failure, "status": status, "flag_key": key})
            for failure, status, key in expected
        ]
        assert [(r.failure, r.status, r.flag_key) for r in reports] == expected
        assert all(report.message for report in reports)


# Isolation.


def fail(*_: object, **__: object) -> None:
    raise RuntimeError("broken receiver")


async def afail(*_: object, **__: object) -> None:
    raise RuntimeError("broken receiver")


def test_no_receiver_stops_the_client(listen: Listen, lines: list[logging.LogRecord]) -> None:
    """With a failing receiver on every signal and hook, the others are told and values flow."""
    names = [name for name in signals.__all__ if not name.endswith("connect")]
    for name in names:
        signals.connect(getattr(signals, name), fail)
    try:
        with running(on_state_change=fail, on_error=fail) as run:
            told = listen(signals.flag_changed), listen(signals.connection_state_changed)
            run.client.stream(U1, fail, on_state_change=fail)
            run.change({"a": 2})
            eventually(lambda: told[0])
            run.service.drop_streams()
            eventually(lambda: [t[1]["state"] for t in told[1]] == [RECONNECTING, STREAMING])
            run.client.evaluate("none", U1)
            run.change({"a": 3})
            eventually(lambda: run.client.flags(U1).get("a") == 3)
            eventually(lambda: len(told[0]) == 2)
    finally:
        for name in names:
            signals.disconnect(getattr(signals, name), fail)
    assert {line.levelname for line in lines if "raised" in line.getMessage()} == {"ERROR"}


def test_a_receiver_may_use_the_client(listen: Listen) -> None:
    """Reading, evaluating, following and looking from a receiver neither deadlocks nor fails."""
    seen: list[object] = []
    with running() as run:

        def receiver(sender: Any, **_: Any) -> None:
            client = run.client
            seen.append(client.get("a", context={"userId": "system"}))
            seen.append(client.evaluate("a", U1))
            seen.append(client.flags(U1).get("a"))
            seen.append(client.evaluate_all(U1)["a"].value)
            seen.append(client.connection_state)
            with client.stream(U1, lambda flags: None):
                client.start()
            seen.append("done")

        signals.connect(signals.flags_updated, receiver, run.client)
        run.change({"a": 2})
        eventually(lambda: "done" in seen)
        assert seen == [2, 2, 2, 2, STREAMING, "done"]
        signals.disconnect(signals.flags_updated, receiver, run.client)


@pytest.mark.parametrize(
    "signal", [signals.connection_state_changed, signals.flags_updated, signals.flag_changed]
)
def test_a_receiver_may_close_the_client(signal: NamedSignal) -> None:
    """`close` from the background's own threads ends them; the state says so."""
    before = set(threading.enumerate())
    with running() as run:
        ended = threading.Event()

        def receiver(sender: Any, **arguments: Any) -> None:
            if arguments.get("state") is not IDLE:
                run.client.close()
                ended.set()

        signals.connect(signal, receiver)
        try:
            run.change({"a": 2})
            run.service.drop_streams()
            assert ended.wait(5)
        finally:
            signals.disconnect(signal, receiver)
        run.is_in(IDLE)
        eventually(lambda: set(threading.enumerate()) <= before)


# Coroutine functions.


async def test_coroutine_receivers_run_on_the_loop_the_client_was_started_in() -> None:
    """Started inside a loop, receivers and hooks that are coroutine functions run there."""
    loops: list[object] = []
    done = asyncio.Event()

    async def receiver(*_: Any, **__: Any) -> None:
        loops.append(asyncio.get_running_loop())
        if len(loops) == 2:
            done.set()

    run = Running(None, on_state_change=receiver)
    with signals.connection_state_changed.connected_to(receiver, sender=run.client):
        run.client.start()
        await asyncio.wait_for(done.wait(), 5)
    await run.client.aclose()
    assert set(loops) == {asyncio.get_running_loop()}


async def test_coroutine_receivers_run_on_the_loop_that_first_awaited() -> None:
    """Of a client that was started outside, they run on the first loop that awaits a verb."""
    done = asyncio.Event()

    async def receiver(sender: Any, **_: Any) -> None:
        done.set()

    run = Running(None)
    await asyncio.to_thread(run.client.start)
    await run.client.aevaluate("a", U1)
    with signals.flags_updated.connected_to(receiver, sender=run.client):
        await asyncio.to_thread(run.is_in, STREAMING)
        await asyncio.to_thread(lambda: run.client.wait_ready(5))
        run.change({"a": 2})
        await asyncio.wait_for(done.wait(), 5)
    await run.client.aclose()


async def test_a_failing_coroutine_receiver_is_logged(lines: list[logging.LogRecord]) -> None:
    """What a coroutine function raises is logged, and the client goes on."""
    run = Running(None, on_state_change=afail)
    run.client.start()
    while not any("on_state_change raised" in line.getMessage() for line in lines):  # noqa: ASYNC110  # the log has no event to wait for
        await asyncio.sleep(0.005)
    assert await run.client.await_ready(5)
    await run.client.aclose()


def test_coroutine_receivers_without_a_loop_are_warned_of_once(
    lines: list[logging.LogRecord],
) -> None:
    """Where there never was a loop, or it is closed, they are not run, and that is said once."""

    async def receiver(*_: Any, **__: Any) -> None:
        raise AssertionError("never run")

    for closed in (False, True):
        lines.clear()
        run = Running(None, on_error=receiver)
        if closed:
            asyncio.run(run.client.aevaluate_all(U1))
        run.service.fail(503)
        for _ in range(5):
            run.client.evaluate("a", U1)
        run.client.close()
        told = [text for line in lines if "coroutine" in (text := line.getMessage())]
        assert len(told) == 1
        assert told[0].startswith("on_error is a coroutine function, but the client was not")


def test_work_for_a_closed_loop_is_put_away() -> None:
    """A loop that another thread has just closed leaves nothing unawaited, and nothing raises."""
    loop = asyncio.new_event_loop()
    loop.close()

    async def work() -> None:
        raise AssertionError("never run")

    assert not run_on(loop, work(), lambda error: None)
    assert not run_on(None, work(), lambda error: None)


# Connecting.


def receiver_kinds(calls: list[str]) -> dict[str, Callable[..., Any]]:
    """Receivers of every kind, each held by nobody else."""

    class Local:
        def method(self, sender: Any, **_: Any) -> None:
            calls.append("bound method")

        def __call__(self, sender: Any, **_: Any) -> None:
            calls.append("object")

    def closure(sender: Any, **_: Any) -> None:
        calls.append("closure")

    @functools.wraps(closure)
    def decorated(sender: Any, **_: Any) -> None:
        calls.append("decorated function")

    return {
        "lambda": lambda sender, **_: calls.append("lambda"),
        "closure": closure,
        "partial": functools.partial(lambda word, sender, **_: calls.append(word), "partial"),
        "bound method": Local().method,
        "decorated function": decorated,
        "object": Local(),
    }


@pytest.mark.parametrize("kind", receiver_kinds([]))
@pytest.mark.parametrize("sender", [None, "a"])
def test_connect_holds_every_kind_of_receiver_until_disconnect(
    kind: str, sender: str | None
) -> None:
    """`connect` keeps what nobody else holds; after `disconnect` it is called no more, and gone."""
    calls: list[str] = []
    given: tuple[Any, ...] = () if sender is None else (sender,)
    receiver = receiver_kinds(calls)[kind]
    gone = weakref.ref(getattr(receiver, "__self__", receiver))
    signals.connect(signals.flag_changed, receiver, *given)
    held = [receiver]
    del receiver
    gc.collect()
    with running() as run:
        run.change({"a": 2})
        eventually(lambda: calls)
        signals.disconnect(signals.flag_changed, held.pop(), *given)
        run.change({"a": 3})
        eventually(lambda: run.client.get("a", context={"userId": "system"}) == 3)
    assert calls == [kind]
    gc.collect()
    assert gone() is None


def test_a_receiver_of_two_senders_is_held_for_the_one_that_is_left() -> None:
    """Disconnected from one sender, a receiver still hears the other; then it is let go."""
    calls: list[str] = []

    def receiver(sender: str, **_: Any) -> None:
        calls.append(sender)

    for key in ("a", "b"):
        signals.connect(signals.flag_changed, receiver, key)
    signals.disconnect(signals.flag_changed, receiver, "a")
    gone = weakref.ref(receiver)
    with running({"a": 1, "b": 1}) as run:
        run.change({"a": 2, "b": 2})
        eventually(lambda: calls)
    assert calls == ["b"]
    signals.disconnect(signals.flag_changed, receiver, "b")
    del receiver
    gc.collect()
    assert gone() is None


def test_what_was_never_connected_can_be_disconnected() -> None:
    """`disconnect` of a stranger is nothing, and a plain connection is left as blinker does."""

    def receiver(sender: Any, **_: Any) -> None: ...

    signals.disconnect(signals.flag_changed, receiver)
    signals.flag_changed.connect(receiver, "a")
    signals.flag_changed.connect(receiver, "b")
    signals.disconnect(signals.flag_changed, receiver, "a")
    assert list(signals.flag_changed.receivers_for("b")) == [receiver]
    signals.flag_changed.disconnect(receiver)


def test_blinkers_own_connect_holds_weakly() -> None:
    """A lambda that is connected in blinker's plain way is gone at once."""
    before = len(signals.flag_changed.receivers)
    signals.flag_changed.connect(lambda sender, **_: None)
    gc.collect()
    assert len(signals.flag_changed.receivers) == before


def test_decorators_of_blinker_and_django_work() -> None:
    """`connect_via` with a flag's key, and Django's `@receiver`, connect to the signals."""
    from django.dispatch import receiver

    heard: list[tuple[str, str]] = []

    @signals.flag_changed.connect_via("a")
    def via(sender: str, **_: Any) -> None:
        heard.append(("via", sender))

    @receiver(signals.flag_changed, sender="b")  # type: ignore[arg-type]  # blinker's, not its own
    def django(sender: str, **_: Any) -> None:
        heard.append(("django", sender))

    with running({"a": 1, "b": 1, "c": 1}) as run:
        run.change({"a": 2, "b": 2, "c": 2})
        eventually(lambda: len(heard) == 2)
        eventually(lambda: run.client.get("c", context={"userId": "system"}) == 2)
    assert heard == [("via", "a"), ("django", "b")]


def test_receivers_that_come_and_go_leave_nothing_behind() -> None:
    """A thousand receivers connected and disconnected leave the signal as it was."""
    before = dict(signals.flag_changed.receivers)
    held = len(signals._held)
    for number in range(1000):
        receiver = functools.partial(fail, number)
        signals.connect(signals.flag_changed, receiver, f"key-{number % 10}")
        signals.disconnect(signals.flag_changed, receiver, f"key-{number % 10}")
    assert dict(signals.flag_changed.receivers) == before
    assert len(signals._held) == held
