"""The client's log lines."""

from __future__ import annotations

import logging

from shipsilently_core._notices import Notices
from shipsilently_core.testing import ManualClock
from tests.core.support import held_by_nobody

Lines = list[logging.LogRecord]


def texts(lines: Lines) -> list[str]:
    return [line.getMessage() for line in lines]


def test_one_kind_is_told_once_a_minute_with_a_count(lines: Lines) -> None:
    """Within a minute of a line the same kind is only counted; the next line says how often."""
    clock = ManualClock()
    notices = Notices(clock)
    for _ in range(600):
        notices.warn("kind", "it broke at %s", "x")
        clock.advance(0.2)
    assert texts(lines) == [
        "it broke at x",
        "it broke at x (and 299 more like it since the last such line)",
    ]
    assert {line.levelname for line in lines} == {"WARNING"}
    assert {line.name for line in lines} == {"shipsilently"}


def test_kinds_do_not_silence_each_other(lines: Lines) -> None:
    """Each kind has a minute of its own."""
    notices = Notices(ManualClock())
    for kind in ("a", "b", "a"):
        notices.warn(kind, kind)
    assert texts(lines) == ["a", "b"]


def test_once_is_once(lines: Lines) -> None:
    """What is told once is not told again, whatever time passes."""
    clock = ManualClock()
    notices = Notices(clock)
    for _ in range(3):
        notices.once("kind", "a mistake")
        clock.advance(1e9)
    assert texts(lines) == ["a mistake"]


def test_kinds_are_bounded(lines: Lines) -> None:
    """Of very many kinds the oldest is forgotten, so that memory stays bounded."""
    notices = Notices(ManualClock())
    for number in range(1_001):
        notices.warn(f"kind {number}", "x")
    assert len(notices._told) == 1_000
    notices.warn("kind 0", "told again")
    assert texts(lines)[-1] == "told again"


def test_a_flood_of_kinds_is_thirty_lines_a_minute(lines: Lines) -> None:
    """What is new each time, as a key that somebody sends, is told of thirty times, then not."""
    clock = ManualClock()
    notices = Notices(clock)
    for number in range(600):
        notices.once(f"missing {number}", "there is no flag %d", number)
        clock.advance(0.2)
    told = texts(lines)
    assert told[:29] == [f"there is no flag {number}" for number in range(29)]
    assert told[29] == "there is no flag 29 (others like it are left out for the next 54 s)"
    assert told[30:59] == [f"there is no flag {number}" for number in range(300, 329)]
    assert len(told) == 60


def test_a_flood_hides_nothing_else(lines: Lines) -> None:
    """Lines with another message are logged as ever; one that was left out is told later."""
    clock = ManualClock()
    notices = Notices(clock)
    for number in range(40):
        notices.once(f"missing {number}", "there is no flag %d", number)
    notices.warn("failure", "the service failed")
    assert texts(lines)[-1] == "the service failed"
    clock.advance(60)
    notices.once("missing 39", "there is no flag %d", 39)
    assert texts(lines)[-1] == "there is no flag 39 (and 1 more like it since the last such line)"
    notices.once("missing 0", "there is no flag %d", 0)
    assert len(lines) == 32


def test_recovery_is_told_once(lines: Lines) -> None:
    """After failures the first success says how long it took, the next ones say nothing."""
    clock = ManualClock()
    notices = Notices(clock)
    notices.working(lambda: 3)
    for _ in range(5):
        notices.broken()
        clock.advance(10)
    notices.working(lambda: 3)
    notices.working(lambda: 3)
    assert texts(lines) == ["the service answers again after 50 s; 3 contexts are held"]
    assert lines[0].levelname == "INFO"


def test_after_the_end_nothing_is_said(lines: Lines) -> None:
    """Once silenced, as at the interpreter's end, neither warnings nor recovery are told."""
    notices = Notices(ManualClock())
    notices.broken()
    notices.silence()
    notices.warn("kind", "x")
    notices.working(lambda: 1)
    assert lines == []


def test_two_threads_that_recover_tell_it_once(lines: Lines) -> None:
    """Who comes second to the lock finds it told already."""
    notices = Notices(ManualClock())

    class Racing:
        def __enter__(self) -> None:
            notices._broken_since = None

        def __exit__(self, *error: object) -> None:
            pass

    notices.broken()
    notices._lock = Racing()  # type: ignore[assignment]
    notices.working(lambda: 0)
    assert texts(lines) == []


def test_a_forked_child_has_a_lock_of_its_own(lines: Lines) -> None:
    """After `renew` a lock that was held at the fork is not waited for."""
    notices = Notices(ManualClock())
    held_by_nobody(notices._lock)
    notices.renew()
    notices.warn("kind", "x")
    assert texts(lines) == ["x"]
