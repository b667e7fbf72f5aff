"""What the client tells the rest of the program."""

from __future__ import annotations

import asyncio
import functools
import gc
import logging
import sys
import threading
import weakref
from collections.abc import Callable
from typing import Any

import blinker
import pytest

from shipsilently_core import signals

Lines = list[logging.LogRecord]


def emitter() -> tuple[signals.Emitter, list[tuple[object, ...]]]:
    """An emitter, and what it warned of."""
    warnings: list[tuple[object, ...]] = []
    return signals.Emitter(lambda *args: warnings.append(args)), warnings


def test_every_receiver_of_the_sender_is_called() -> None:
    """A receiver gets the sender and the arguments by name; one of another sender does not."""
    signal = blinker.NamedSignal("something")
    calls: list[tuple[Any, int]] = []

    def receiver(sender: Any, *, number: int) -> None:
        calls.append((sender, number))

    def another(sender: Any, **arguments: Any) -> None:
        raise AssertionError("not for this sender")

    signal.connect(receiver)
    signal.connect(another, sender="other")
    emitter()[0].emit(signal, "me", number=1)
    assert calls == [("me", 1)]


def test_a_receiver_that_raises_stops_nobody(lines: Lines) -> None:
    """Each failing receiver is logged, the others are called, and the caller goes on."""
    signal = blinker.NamedSignal("something")
    calls = []

    def bad(sender: Any) -> None:
        calls.append("bad")
        raise RuntimeError("broken receiver")

    def worse(sender: Any) -> None:
        calls.append("worse")
        raise ValueError("broken too")

    def good(sender: Any) -> None:
        calls.append("good")

    for receiver in (bad, worse, good):
        signal.connect(receiver)
    emitter()[0].emit(signal, "me")
    assert sorted(calls) == ["bad", "good", "worse"]
    assert [line.getMessage() for line in lines] == [
        "a receiver of the signal something raised"
    ] * 2
    assert all(line.exc_info for line in lines)


class SoftTimeLimitExceeded(Exception):
    """As Celery raises it, from the handler of a signal, amid whatever runs."""


@pytest.mark.parametrize("error", [SystemExit(1), SoftTimeLimitExceeded()])
def test_the_end_of_a_worker_or_a_task_comes_out_of_a_receiver(error: BaseException) -> None:
    """In the main thread, where servers and task queues raise it to end what runs there."""

    def interrupted() -> None:
        raise error

    with pytest.raises(type(error)):
        emitter()[0].call("a receiver", interrupted)


def test_a_receiver_that_exits_in_another_thread_is_logged(lines: Lines) -> None:
    """There it would end that thread, and nobody would be told."""
    going_on: list[bool] = []

    def work() -> None:
        emitter()[0].call("a receiver", sys.exit)
        going_on.append(True)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join(10)
    assert going_on
    assert [line.getMessage() for line in lines] == ["a receiver raised"]


def test_a_signal_without_receivers_costs_nothing() -> None:
    """Nothing is looked up where nobody listens."""

    class Deaf:
        receivers = ()

    emitter()[0].emit(Deaf(), "me")  # type: ignore[arg-type]


async def test_a_coroutine_function_runs_on_the_loop(lines: Lines) -> None:
    """A receiver that is a coroutine function is run on the application's loop, and may fail."""
    signal, done = blinker.NamedSignal("something"), asyncio.Event()
    loops = []

    async def receiver(sender: Any) -> None:
        loops.append(asyncio.get_running_loop())
        done.set()

    async def bad(sender: Any) -> None:
        raise RuntimeError("broken receiver")

    signal.connect(receiver)
    signal.connect(bad)
    emits, warnings = emitter()
    emits.loop = asyncio.get_running_loop()
    await asyncio.to_thread(emits.emit, signal, "me")
    await done.wait()
    while not lines:  # noqa: ASYNC110  # the log has no event to wait for
        await asyncio.sleep(0.01)
    assert loops == [emits.loop]
    assert [line.getMessage() for line in lines] == ["a receiver of the signal something raised"]
    assert warnings == []


def test_a_coroutine_function_without_a_loop_is_told_of() -> None:
    """Where there is no loop to run it on, a coroutine function is not run, and that is said."""
    signal = blinker.NamedSignal("something")

    async def receiver(sender: Any) -> None:
        raise AssertionError("never run")

    signal.connect(receiver)
    emits, warnings = emitter()
    emits.emit(signal, "me")
    loop = emits.loop = asyncio.new_event_loop()
    loop.close()
    emits.emit(signal, "me")
    assert [warning[2] for warning in warnings] == ["a receiver of the signal something"] * 2


class Local:
    def __init__(self, calls: list[str]) -> None:
        self.calls = calls

    def method(self, sender: Any) -> None:
        self.calls.append("method")


def test_connected_receivers_are_held_until_they_are_disconnected() -> None:
    """Lambdas, closures, partials and bound methods live on, work, and leave nothing behind."""
    signal = blinker.NamedSignal("something")
    calls: list[str] = []
    gone: list[weakref.ref[Any]] = []
    handles: list[Callable[..., Any]] = []

    def connect_all() -> None:
        local = Local(calls)

        def closure(sender: Any) -> None:
            calls.append("closure")

        @functools.partial(signals.connect, signal)
        def decorated(sender: Any) -> None:
            calls.append("decorated")

        receivers: list[Callable[..., Any]] = [
            lambda sender: calls.append("lambda"),
            closure,
            functools.partial(lambda word, sender: calls.append(word), "partial"),
            local.method,
        ]
        for receiver in receivers:
            assert signals.connect(signal, receiver) is receiver
        handles.extend([*receivers, decorated])
        gone.append(weakref.ref(local))

    connect_all()
    gc.collect()
    emitter()[0].emit(signal, "me")
    assert sorted(calls) == ["closure", "decorated", "lambda", "method", "partial"]
    while handles:
        signals.disconnect(signal, handles.pop())
    gc.collect()
    emitter()[0].emit(signal, "me")
    assert len(calls) == 5
    assert gone[0]() is None
    assert not signal.receivers


@pytest.mark.parametrize("name", [n for n in signals.__all__ if not n.endswith("connect")])
def test_every_signal_has_its_name(name: str) -> None:
    """The signals of the module are blinker signals under their own names."""
    signal = getattr(signals, name)
    assert isinstance(signal, blinker.NamedSignal)
    assert signal.name == name.replace("_", "-")
