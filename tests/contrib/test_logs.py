"""Flags beside log lines."""

from __future__ import annotations

import asyncio
import io
import logging
import threading
from collections.abc import Callable, Iterator
from contextvars import Context
from typing import Any

import pytest
import structlog

from shipsilently_core.contrib import logs
from tests.core.support import setup

Listen = Callable[[Callable[..., Any]], None]
U1 = {"userId": "ada@example.org"}
FLAGS = {"new": True, "color": "red", "layout": {"columns": 2}}


@pytest.fixture(autouse=True)
def _connected(listen: Listen) -> None:
    listen(logs.remember_flag)


def in_a_context(work: Callable[[], Any]) -> Any:
    """Run this as a server's thread would, without leaving anything in the tests' own."""
    return Context().run(work)


def test_a_request_tells_what_it_has_read() -> None:
    """Each flag with the value that was served; another request begins anew."""
    made = setup(FLAGS)

    def requests() -> None:
        logs.begin_request()
        flags = made.client.flags(U1)
        for _ in range(2):
            flags.get("new", False)
            flags.get("layout", {})
        assert logs.flags_read() == {"new": True, "layout": '{"columns":2}'}
        logs.begin_request()
        assert logs.flags_read() == {}
        made.client.flags(U1).get("color", "")
        assert logs.flags_read() == {"color": "red"}

    in_a_context(requests)


def test_outside_of_requests_nothing_is_kept() -> None:
    """A thread that never began a request collects nothing for ever."""
    made = setup(FLAGS)

    def work() -> None:
        made.client.flags(U1).get("new", False)
        assert logs.flags_read() == {}

    in_a_context(work)


def test_threads_and_tasks_of_a_request_add_to_it() -> None:
    """What a request starts tells the same request's lines; what it is told is a copy."""
    made = setup(FLAGS)

    async def request() -> None:
        logs.begin_request()
        await asyncio.create_task(made.client.flags(U1).aget("new", False))
        await asyncio.to_thread(made.client.flags(U1).get, "color", "")
        assert logs.flags_read() == {"new": True, "color": "red"}
        logs.flags_read().clear()
        assert len(logs.flags_read()) == 2

    in_a_context(lambda: asyncio.run(request()))


@pytest.fixture
def log() -> Iterator[tuple[logging.Logger, io.StringIO]]:
    """A logger whose handler has the filter."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.addFilter(logs.FlagsFilter())
    handler.setFormatter(logging.Formatter("%(message)s [%(flags)s]"))
    logger = logging.getLogger("tests.flags")
    logger.propagate = False
    logger.addHandler(handler)
    yield logger, stream
    logger.removeHandler(handler)
    logger.propagate = True


def test_the_filter_gives_every_record_its_flags(log: tuple[logging.Logger, io.StringIO]) -> None:
    """As text, in order of their keys, and a dash where there are none."""
    logger, stream = log
    made = setup(FLAGS)

    def request() -> None:
        logger.warning("before")
        logs.begin_request()
        flags = made.client.flags(U1)
        flags.get("new", False)
        flags.get("color", "")
        logger.warning("paid")

    in_a_context(request)
    assert stream.getvalue() == 'before [-]\npaid [color="red" new=true]\n'


def test_no_key_begins_a_line_of_its_own(log: tuple[logging.Logger, io.StringIO]) -> None:
    """A key may have come with the request, and be meant to look like another line."""
    logger, stream = log
    made = setup(FLAGS)

    def request() -> None:
        logs.begin_request()
        made.client.flags(U1).get("x\nroot logged in", False)
        logger.warning("paid")

    in_a_context(request)
    assert stream.getvalue() == 'paid ["x\\nroot logged in"=false]\n'


def test_the_processor_binds_flags() -> None:
    """For structlog: a dictionary, only where there is something, and never over one's own."""
    made = setup(FLAGS)
    capture = structlog.testing.CapturingLogger()
    logger = structlog.wrap_logger(
        capture, processors=[logs.add_flags, structlog.processors.JSONRenderer()]
    )

    def request() -> None:
        logger.info("before")
        logs.begin_request()
        made.client.flags(U1).get("new", False)
        logger.info("paid")
        logger.info("mine", flags="own")

    in_a_context(request)
    assert [call.args[0] for call in capture.calls] == [
        '{"event": "before"}',
        '{"event": "paid", "flags": {"new": true}}',
        '{"flags": "own", "event": "mine"}',
    ]


def test_under_wsgi_each_request_of_a_thread_begins_anew() -> None:
    """One thread handles request after request, and none sees the flags of the one before."""
    made = setup(FLAGS)

    def app(environ: Any, start_response: Any) -> list[bytes]:
        before = logs.flags_read()
        made.client.flags(U1).get(environ["flag"], None)
        return [str((before, logs.flags_read())).encode()]

    served = logs.WSGIFlagsRead(app)

    def worker() -> list[bytes]:
        return [b"".join(served({"flag": key}, None)) for key in ("new", "color")]

    assert in_a_context(worker) == [b"({}, {'new': True})", b"({}, {'color': 'red'})"]


def test_under_asgi_each_request_begins_anew() -> None:
    """Requests and sockets do, one after the other and at once; a lifespan does not."""
    made = setup(FLAGS)
    seen: list[tuple[Any, Any]] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        before = logs.flags_read()
        await asyncio.sleep(0)
        await made.client.flags(U1).aget(scope["flag"], None)
        seen.append((before, logs.flags_read()))

    served = logs.ASGIFlagsRead(app)

    async def server() -> None:
        for kind in ("http", "websocket"):
            await served({"type": kind, "flag": "new"}, None, None)
        await asyncio.gather(
            *(served({"type": "http", "flag": key}, None, None) for key in ("new", "color"))
        )

    in_a_context(lambda: asyncio.run(server()))
    assert seen == [({}, {"new": True})] * 3 + [({}, {"color": "red"})]
    in_a_context(lambda: asyncio.run(served({"type": "lifespan", "flag": "new"}, None, None)))
    assert seen[-1] == ({}, {})


def test_threads_have_requests_of_their_own() -> None:
    """Two threads of a server never see each other's flags."""
    made = setup(FLAGS)
    both = threading.Barrier(2, timeout=5)
    seen: dict[str, Any] = {}

    def worker(key: str) -> None:
        logs.begin_request()
        both.wait()
        made.client.flags(U1).get(key, None)
        both.wait()
        seen[key] = logs.flags_read()

    threads = [threading.Thread(target=worker, args=(key,)) for key in ("new", "color")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(5)
    assert seen == {"new": {"new": True}, "color": {"color": "red"}}
