"""What requests note on sheets of their own, in simulated time."""

from __future__ import annotations

import threading
from collections import Counter

import pytest

from shipsilently_core import Source
from shipsilently_core._events import Check
from shipsilently_core._seen import NESTED, Apart, Seen
from shipsilently_core._snapshot import Row, Snapshot
from shipsilently_core._view import View
from tests.core.delivering import Setup, run_while_delivering, sheet


def test_what_a_request_notes_by_itself_is_bounded_too() -> None:
    """Beyond the bound are, for a moment, at most the flags that requests under way have read."""
    made = Setup(max_buffer_size=10, max_batch_size=10)
    first, second = sheet(*map(str, range(25))), sheet(*map(str, range(25, 40)))
    made.analytics.enlist(first)
    made.analytics.enlist(second)
    assert made.woken == 1
    assert (len(made.analytics), made.analytics.dropped) == (10, 30)
    assert made.flush() == 10
    assert made.post.taken == [str(number) for number in range(30, 40)]
    assert made.lost == [(30, "buffer_full")]


def test_what_is_noted_wakes_as_what_is_recorded() -> None:
    """A batch that is full with what is on sheets is told of once."""
    made = Setup(max_batch_size=10)
    for _ in range(2):
        for number in range(4):
            made.analytics.enlist(sheet("a", "b", "c"))
            assert made.woken == number // 3
        made.analytics.enlist(sheet("d"))
        assert made.woken == 1
        assert made.flush() == 13
        made.woken = 0


@pytest.mark.parametrize(("before", "then"), [(3, 3), (3, 10), (1, 30), (30, 1)])
def test_a_large_batch_is_told_of_soon(before: int, then: int) -> None:
    """Within ten requests where they go on as before, within fifty where they come to read more."""
    made = Setup(max_batch_size=1_000)
    for _ in range(2):
        noted, late = 0, 0
        while not made.woken:
            flags = before if noted < 500 else then
            made.analytics.enlist(sheet(*map(str, range(flags))))
            noted += flags
            late += noted - flags >= 1_000
        assert late < (50 if then > before else 10)
        assert made.flush() == noted
        made.woken = 0


def test_requests_that_read_on_after_they_were_looked_at_are_counted_again() -> None:
    """Where many are under way at once, as tasks are, a full batch does not wait for a hundred."""
    made = Setup(max_batch_size=100)
    under_way = [sheet() for _ in range(25)]
    for seen in under_way:
        made.analytics.enlist(seen)
    for number, seen in enumerate(under_way[:15]):
        seen.counted.update({f"{number} {flag}": True for flag in range(10)})
    for _ in range(14):
        made.analytics.enlist(sheet())
    assert made.woken == 0
    made.analytics.enlist(sheet())
    assert made.woken == 1


def test_what_is_taken_from_too_many_sheets_wakes_too() -> None:
    """However little had been counted on them before."""
    made = Setup(max_batch_size=5_000)
    under_way = []
    for _ in range(101):
        seen = sheet()
        made.analytics.enlist(seen)
        under_way.append(seen)
    for number, seen in enumerate(under_way):
        seen.counted.update({f"{number} {flag}": True for flag in range(49)})
        seen.own.update({f"{number} {flag}": Row(True, "default") for flag in range(49)})
    for flag in range(60):
        under_way[-1].counted[f"more {flag}"] = True
        under_way[-1].own[f"more {flag}"] = Row(True, "default")
    for _ in range(9):
        assert made.woken == 0
        made.analytics.enlist(sheet("a"))
    assert made.woken == 1


def test_a_request_that_goes_on_is_listed_again_once_it_was_taken() -> None:
    """Nothing that is noted after a delivery is lost, nothing before it delivered twice."""
    made = Setup()
    seen = sheet("a", "b", "c", "d")
    later = {key: seen.counted.pop(key) for key in ("c", "d")}
    made.analytics.enlist(seen)
    assert made.flush() == 2
    assert not seen.listed
    made.clock.advance(5.0)
    for key, value in later.items():
        seen.counted[key] = value
        if not seen.listed:
            made.analytics.enlist(seen)
    checks: list[Check] = []
    made.analytics.take_all(checks)
    assert [check[2] for check in checks] == [made.clock.time()] * 2
    assert made.post.taken == ["a", "b"]


def test_what_is_counted_elsewhere_is_not_taken_from_a_sheet() -> None:
    """Of a flag that was served as a default, or that nobody knows, the event is made apart."""
    made = Setup()
    seen = sheet("a", "b", "c")
    seen.counted.update({"b": Apart(), "c": NESTED, "unknown": Apart()})
    made.analytics.enlist(seen)
    made.flush()
    assert made.post.taken == ["a", "c"]


def test_sheets_are_taken_in_the_order_of_what_is_recorded_between() -> None:
    """What a request noted before something else was counted is delivered before it."""
    made = Setup()
    made.analytics.enlist(sheet("a", "b"))
    made.analytics.record("c", True, "default")
    made.analytics.enlist(sheet("d"))
    made.flush()
    assert made.post.taken == ["a", "b", "c", "d"]


def test_only_so_many_requests_are_kept_for_what_they_noted() -> None:
    """Where nothing is delivered, sheets are emptied all the same, for what they hold on to."""
    made = Setup(max_batch_size=5_000)
    sheets = [sheet("a") for _ in range(250)]
    for each in sheets:
        made.analytics.enlist(each)
    assert sum(each.listed for each in sheets) <= 100
    assert len(made.analytics) == 250


def test_nothing_is_noted_where_analytics_is_off() -> None:
    """A sheet counts as listed, so that no read asks again, and nothing of it is kept."""
    made = Setup(enabled=False)
    seen = sheet("a")
    made.analytics.enlist(seen)
    assert seen.listed
    assert made.analytics.idle
    assert made.flush() == 0


def test_of_what_is_noted_a_share_is_sampled() -> None:
    """Each check by itself, as of what is recorded."""
    numbers = iter([0.1, 0.9, 0.2, 0.8])
    made = Setup(rng=lambda: next(numbers), sampling_rate=0.5)
    made.analytics.enlist(sheet("a", "b", "c", "d"))
    made.flush()
    assert made.post.taken == ["a", "c"]


def test_threads_note_while_another_delivers_and_nothing_is_lost() -> None:
    """Each flag that eight requests read, each in threads of its own, is delivered once."""
    made = Setup(max_buffer_size=1_000_000)
    rows = {str(number): Row(True, "default") for number in range(5_000)}
    view = View(Snapshot(rows, complete=True), (), {}, Source.CACHE)

    def read(seen: Seen, keys: range) -> None:
        for number in keys:
            seen.counted[str(number)] = True
            if not seen.listed:
                made.analytics.enlist(seen)

    requests = [Seen(None, view, {}, rows, {}, listed=False) for _ in range(8)]
    threads = [
        threading.Thread(target=read, args=(seen, range(half, 5_000, 2)))
        for seen in requests
        for half in (0, 1)
    ]
    run_while_delivering(made, threads)
    assert Counter(made.post.taken) == dict.fromkeys(rows, 8)
