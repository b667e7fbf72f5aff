"""A streamed event: processor time of the client's thread, from the socket to the event."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

from .loopback import EVENT, service
from .outcome import Figure, Goal, Outcome, Settings, missing_figures
from .timing import Work, median, ratio, take_turns

#: Events of one turn at least: as many as are sent at once.
_BLOCK = 100


def run(settings: Settings) -> Outcome:
    """Measure."""
    readers: dict[str, Callable[[str, contextlib.ExitStack], Iterator[Any]]] = {
        "shipsilently": ours
    }
    if not settings.own:
        readers |= {"launchdarkly-server-sdk": launchdarkly, "httpx-sse over httpx": httpx_sse}
    missing: dict[str, str] = {}
    with service() as url, contextlib.ExitStack() as stack:
        works: dict[str, Work] = {}
        for name, reader in readers.items():
            try:
                events = reader(url, stack)
                next(events)
            except ImportError:
                missing[name] = "is not installed"
            else:
                works[name] = _work(events)
        works["shipsilently, parser alone"] = _parser(EVENT)
        figures = take_turns(works, settings, most=100_000)
    rows = [
        Figure(name, median(took) * 1e6, "µs", ratio(figures["shipsilently"], took))
        for name, took in figures.items()
    ]
    reached = median(figures["shipsilently"]) * 1e6
    return Outcome(
        [*rows, *missing_figures(missing, "µs")], [Goal("an event ≤ 5 µs", reached, 5.0)]
    )


def ours(url: str, stack: contextlib.ExitStack) -> Iterator[Any]:
    """The transport's stream and the parser, as the background uses them."""
    from shipsilently_core import Config
    from shipsilently_core._http import HttpTransport
    from shipsilently_core._sse import EventParser

    transport = HttpTransport(Config(api_key="bench", api_url=url))
    stream: Any = transport.open_stream("ticket")
    stack.callback(transport.close)
    stack.callback(stream.close)
    parser = EventParser()
    while True:
        yield from parser.feed(stream.read(10.0))


def launchdarkly(url: str, stack: contextlib.ExitStack) -> Iterator[Any]:
    """LaunchDarkly's reader of event streams."""
    module = import_module("ld_eventsource")
    strategy = import_module("ld_eventsource.config").ConnectStrategy.http(f"{url}/v1/stream")
    client = module.SSEClient(connect=strategy)
    stack.callback(client.close)
    yield from client.events


def httpx_sse(url: str, stack: contextlib.ExitStack) -> Iterator[Any]:
    """httpx-sse over httpx."""
    connect = import_module("httpx_sse").connect_sse
    client = stack.enter_context(import_module("httpx").Client(trust_env=False))
    source = stack.enter_context(connect(client, "GET", f"{url}/v1/stream"))
    yield from source.iter_sse()


def _work(events: Iterator[Any]) -> Work:
    def work(count: int) -> float:
        count = max(count, _BLOCK)
        began = time.thread_time()
        for _, _event in zip(range(count), events, strict=False):
            pass
        return time.thread_time() - began

    def scaled(count: int) -> float:
        return work(count) * count / max(count, _BLOCK)

    return scaled


def _parser(event: bytes) -> Work:
    from shipsilently_core._sse import EventParser

    parser = EventParser()

    def work(count: int) -> float:
        began = time.thread_time()
        for _ in range(count):
            parser.feed(event)
        return time.thread_time() - began

    return work
