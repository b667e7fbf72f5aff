"""A site whose own logging raises: no request and no thread of ours ends with that."""

from __future__ import annotations

import contextlib
import io
import logging
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from blinker import NamedSignal

from shipsilently_core import signals
from shipsilently_core._log import say
from tests.core.running import QUICK, Running, eventually, running
from tests.core.support import setup

Lines = list[logging.LogRecord]


class _AsksForARequest(logging.Filter):
    """As many sites have one, to put a request's number into each line."""

    def filter(self, record: logging.LogRecord) -> bool:
        raise LookupError("there is no request")


@pytest.fixture
def strict() -> Iterator[None]:
    """Every line of the client meets a filter that raises."""
    log, strict = logging.getLogger("shipsilently"), _AsksForARequest()
    log.addFilter(strict)
    yield
    log.removeFilter(strict)


@contextmanager
def connected(signal: NamedSignal, receiver: Callable[..., Any]) -> Iterator[None]:
    """A receiver, for the length of a block."""
    signals.connect(signal, receiver)
    try:
        yield
    finally:
        signals.disconnect(signal, receiver)


def test_a_line_names_who_has_logged_it(lines: Lines) -> None:
    """Not this function, which every line comes by."""
    say(logging.WARNING, "%s and %s", 1, 2)
    assert [(line.getMessage(), line.funcName) for line in lines] == [
        ("1 and 2", "test_a_line_names_who_has_logged_it")
    ]


def test_what_a_filter_raises_is_shown_as_python_shows_what_a_handler_raises(
    strict: None, capsys: pytest.CaptureFixture[str]
) -> None:
    """On standard error, and by nothing that could raise again."""
    say(logging.WARNING, "a line")
    assert "LookupError: there is no request" in capsys.readouterr().err


@pytest.mark.parametrize("how", ["switched off", "none", "closed"])
def test_where_nothing_can_be_shown_nothing_is(
    strict: None, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`logging.raiseExceptions` counts, and so does a process without a standard error."""
    shown: io.StringIO | None = io.StringIO()
    if how == "switched off":
        monkeypatch.setattr(logging, "raiseExceptions", False)
    elif how == "none":
        shown = None
    else:
        assert shown is not None
        shown.close()
    monkeypatch.setattr(sys, "stderr", shown)
    say(logging.WARNING, "a line")
    assert shown is None or shown.closed or not shown.getvalue()


def test_no_request_raises_what_the_site_s_logging_does(strict: None) -> None:
    """Not for a service that fails, an unknown flag, another type, or a receiver that raises."""

    def broken(sender: object, **arguments: object) -> None:
        raise RuntimeError("a receiver")

    s = setup({"a": 1})
    with connected(signals.evaluation_failed, broken):
        assert s.client.flags(user_id="u1").get("a", "text") == "text"
        assert s.client.flags(user_id="u1").get("unknown", 2) == 2
        s.service.fail(503)
        assert s.client.flags(user_id="u2").get("a", 3) == 3
        assert s.client.evaluate("a", {"userId": "u3"}, 4) == 4


def test_an_outage_ends_no_thread_of_the_background(strict: None) -> None:
    """What it logs meanwhile meets the filter, and afterwards it opens the gate as always."""
    with running({"a": 1}) as run:
        names = {t.name for t in threading.enumerate() if t.name.startswith("shipsilently-")}
        run.service.fail(503)
        run.service.drop_streams()
        for number in range(4):
            run.client.flags(user_id=f"u{number}").get("a")
        assert run.client.status().gate == "server"
        run.service.recover()
        run.service.set({"a": 2})

        def healed() -> bool:
            run.clock.advance(1)
            return run.client.flags(user_id="u9").get("a") == 2

        eventually(healed)
        assert names <= {t.name for t in threading.enumerate()}


@pytest.mark.parametrize("raised", [RuntimeError, SystemExit])
def test_whatever_ends_a_thread_s_work_it_begins_anew(
    raised: type[BaseException], lines: Lines
) -> None:
    """Also `SystemExit`, which would end the thread, and so the stream for good, without a word."""
    trouble = [raised("once")]

    def rng() -> float:
        if trouble and threading.current_thread().name == "shipsilently-stream":
            raise trouble.pop()
        return 0.5

    with running(rng=rng) as run:
        run.service.drop_streams()
        eventually(lambda: run.service.tickets == 2)
        run.is_in(run.states[0])
        assert not trouble
    told = [line.getMessage() for line in lines]
    assert f"the background's thread for stream raised {raised.__name__}; it begins anew" in told


def test_a_thread_that_is_to_end_does_not_begin_anew() -> None:
    """A client that is closed meanwhile has no thread left."""
    waits = threading.Event()

    def rng() -> float:
        if threading.current_thread().name == "shipsilently-stream":
            waits.set()
            raise RuntimeError("each time")
        return 0.5

    retry = {**QUICK, "base_delay": 3_600.0, "max_delay": 3_600.0}
    run = Running(None, rng=rng, retry=retry)
    with contextlib.closing(run.client):
        run.client.start()
        run.is_in(run.client.connection_state)
        eventually(lambda: run.service.tickets == 1)
        run.service.drop_streams()
        assert waits.wait(5)
    assert not [t for t in threading.enumerate() if t.name == "shipsilently-stream"]


def test_a_receiver_that_exits_ends_no_thread_of_the_background(lines: Lines) -> None:
    """It is told as one that raises, and what comes next is told to all receivers again."""
    told: list[object] = []

    def exits(sender: object, **arguments: object) -> None:
        told.append(sender)
        sys.exit("restart me")

    with running({"a": 1}) as run, connected(signals.flag_changed, exits):
        run.change({"a": 2})
        eventually(lambda: len(told) == 1)
        run.change({"a": 3})
        eventually(lambda: len(told) == 2)
        eventually(lambda: run.client.flags(user_id="u1").get("a") == 3)
    message = "a receiver of the signal flag-changed raised"
    assert [line.getMessage() for line in lines].count(message) == 2
