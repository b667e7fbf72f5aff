"""What is proven of every server."""

from __future__ import annotations

import re
import signal
import threading
from collections import Counter

from shipsilently_local import LocalService
from tests.servers.harness import (
    ROOT,
    Program,
    Server,
    delivered_events,
    eventually,
    opened_streams,
    user_names,
)

__all__ = [
    "assert_changes_arrive_everywhere",
    "assert_ends_quickly",
    "assert_nobody_gets_anothers_answer",
    "assert_one_stream_each",
    "assert_quiet",
    "serving_processes",
]

#: Seconds. The servers need up to 1 s themselves, and the machine may be busy.
END_LIMIT = 8.0

_UGLY = re.compile(r"Traceback|Exception ignored|Warning|shipsilently", re.IGNORECASE)


def serving_processes(server: Server, count: int) -> set[int]:
    """Ask until `count` different processes have answered."""
    seen: set[int] = set()

    def enough() -> bool:
        seen.update(answer.pid for answer in server.ask_all(user_names(8), at_once=8, hold="0.01"))
        return len(seen) >= count

    eventually(enough, f"{count} processes answer, seen {seen}")
    assert len(seen) == count
    return seen


def assert_one_stream_each(service: LocalService, pids: set[int], *, others: int = 0) -> None:
    """One stream for each process that serves, and `others` more; none was ever opened beside."""
    expected = len(pids) + others
    assert service.wait_for_streams(expected, 10), f"{service.open_streams} streams for {pids}"
    assert opened_streams(service) == (expected, expected)


def assert_changes_arrive_everywhere(
    server: Server, service: LocalService, pids: set[int], version: int = 2
) -> None:
    """Every process serves a change, each says that it streams, and none goes back."""
    arrived: set[int] = set()
    service.set_flag("version", default=version)

    def everywhere() -> bool:
        # These were given in any order, but all of them after those of the round before.
        answers = server.ask_all(user_names(8), at_once=8, hold="0.01")
        old = {answer.pid for answer in answers if answer.version != version}
        assert not old & arrived, "a process went back to the version before"
        new = [answer for answer in answers if answer.version == version]
        assert all(answer.state == "streaming" for answer in new)
        arrived.update(answer.pid for answer in new)
        return arrived >= pids

    # Polling would take 30 s.
    eventually(everywhere, f"version {version} is served by {pids}, so far by {arrived}")


def assert_nobody_gets_anothers_answer(server: Server, *, users: int = 200) -> None:
    """Of many users who ask at once, each is told who they are, also from memory."""
    names = user_names(users)
    for asked in (names, names[::4]):
        answers = server.ask_all(asked, at_once=12)
        assert [answer.who for answer in answers] == asked


def assert_ends_quickly(
    server: Server, service: LocalService, how: signal.Signals, *, delivers: bool = False
) -> float:
    """The server and all its streams end, in a reasonable time.

    Args:
        server: The server.
        service: The service that its site uses.
        how: SIGTERM to the master, or SIGINT to all.
        delivers: Whether it gives us a chance to deliver what was counted.

    Returns:
        The seconds.
    """
    _leave_events(server)
    # With these a batch may have become full, which is delivered before the end.
    threading.Event().wait(0.3)
    before = delivered_events(service)
    _leave_events(server)
    # An answer is here a moment before its server is done with it; in that moment Ctrl-C makes some
    # print a traceback, and gunicorn's gthread worker wait for itself.
    threading.Event().wait(0.7)
    seconds = server.stop(how)
    assert not delivers or delivered_events(service) > before, "the last events are lost"
    assert seconds < END_LIMIT, f"took {seconds:.1f} s\n{server.output}"
    assert service.wait_for_streams(0, 5), "a process has been left behind"
    return seconds


def _leave_events(server: Server) -> None:
    """Be answered from memory, which is an event, by a process whose stream is up."""
    streaming: Counter[int] = Counter()

    def answered_from_memory() -> bool:
        answer = server.ask("user-1")
        streaming[answer.pid] += answer.state == "streaming"
        # The first may have been asked of the service, since the stream's start outdates all.
        return streaming[answer.pid] > 2

    eventually(answered_from_memory, "an answer comes from memory")


def assert_quiet(server: Program, *but: str) -> None:
    """The server's output holds no traceback, no warning and nothing of ours.

    Args:
        server: The server, which has ended.
        but: Patterns of lines that the server itself is to blame for.
    """
    # The project's own folder may be named after it.
    lines = server.output.replace(str(ROOT), "").splitlines()
    ugly = [line for line in lines if _UGLY.search(line)]
    assert all(any(re.search(pattern, line) for pattern in but) for line in ugly), server.output
