"""The parts that begin and end with a process: threads, bells, hooks, and the pid."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path
from textwrap import dedent

import pytest

from shipsilently_core import ConnectionState
from shipsilently_core._process import Bell, ProcessGuard, Worker
from shipsilently_core._wire import Reply
from shipsilently_core.config import AnalyticsConfig
from shipsilently_core.testing import ScriptedService
from tests.core.running import Running, eventually, running

ROOT = Path(__file__).resolve().parents[2]


# Bells and workers.


def test_a_bell_ends_one_wait() -> None:
    """A ring ends the wait that is going on, or the next one; any number of rings count once."""
    bell = Bell()
    bell.ring()
    bell.ring()
    assert bell.wait(60) is False
    assert bell.wait(0.01) is False
    waiting = Worker("waiting", lambda: (bell.wait(60), None)[1])
    assert waiting.start()
    bell.ring()
    waiting.join(5)
    assert "waiting" not in [thread.name for thread in threading.enumerate()]


def test_a_closed_bell_lets_nobody_wait() -> None:
    """Closing ends the wait that is going on and all that follow, for every thread."""
    bell = Bell()
    workers = [Worker(f"waiting {n}", lambda: (bell.wait(None), None)[1]) for n in range(3)]
    for worker in workers:
        assert worker.start()
    assert not bell.closed
    bell.close()
    for worker in workers:
        worker.join(5)
    assert bell.closed
    assert bell.wait(None) is True
    bell.ring()
    assert bell.wait(None) is True
    assert not [t for t in threading.enumerate() if t.name.startswith("waiting")]


def test_nobody_waits_for_a_thread_that_never_began_or_is_its_own() -> None:
    """Joining what was never started, or oneself, returns at once."""
    assert Worker("never started", lambda: None).join(60) is True
    done = threading.Event()
    workers: list[Worker] = []

    def work() -> None:
        assert workers[0].join(60) is True
        done.set()

    workers.append(Worker("its own", work))
    assert workers[0].start()
    assert done.wait(5)


def test_a_thread_that_was_refused_is_started_the_next_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where the system had none left for a while, nothing is lost, and there is one in the end."""
    ran: list[str] = []
    began, go = threading.Event(), threading.Event()

    def work() -> None:
        ran.append(threading.current_thread().name)
        began.set()
        go.wait(20)

    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    worker = Worker("late", work)
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        assert worker.start() is False
        assert worker.start() is False
        assert worker.join(60) is True
    assert worker.start() is True
    assert began.wait(20)
    assert worker.join(0.01) is False
    # It runs already, so that there is nothing to refuse.
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        assert worker.start() is True
    go.set()
    assert worker.join(20) is True
    assert worker.start() is True
    assert ran == ["late"]


# The pid.


def test_the_parent_is_left_once_however_many_threads_see_the_fork() -> None:
    """Of threads that find themselves in a child together, one leaves, and the others wait."""
    guard = ProcessGuard()
    assert guard.pid == os.getpid()
    guard.check(lambda: pytest.fail("this is still the same process"))
    # As in a child, where it is the parent's.
    guard._pid, guard.mark = -1, b"\0"
    inside, go, left = threading.Event(), threading.Event(), []
    after: list[int] = []

    def leave() -> None:
        inside.set()
        assert go.wait(5)
        left.append(1)

    def use() -> None:
        guard.check(leave)
        after.append(len(left))

    first, second = Worker("first", use), Worker("second", use)
    assert first.start()
    assert inside.wait(5)
    assert second.start()
    second.join(0.05)
    assert after == []
    go.set()
    first.join(5)
    second.join(5)
    assert left == [1]
    assert after == [1, 1]
    assert guard.pid == os.getpid()


SCRIPT = """
import os, sys
from shipsilently_core import ShipSilentlyClient
from shipsilently_core.testing import ScriptedService

{before}
service = ScriptedService({{"a": 1}}, streaming=True)
client = ShipSilentlyClient(api_key="sk_test", transport=service)
client.start()
assert client.wait_ready(10)
unused = ShipSilentlyClient(api_key="sk_test", api_url="http://127.0.0.1:9")
child = os.fork()
if child:
    _, status = os.waitpid(child, 0)
    print("parent", client.get("a", context={{"userId": "system"}}), status, flush=True)
else:
    # Threads do not live on in a child; what is known does, and the first use starts anew.
    print("child", client.get("a", context={{"userId": "system"}}), end=" ", flush=True)
    print(client.wait_ready(10), service.tickets > 0, flush=True)
    print(unused.status().pid == os.getpid(), unused.connection_state, flush=True)
    client.close()
    os._exit(0)
"""


@pytest.mark.parametrize("before", ["", "del os.register_at_fork"], ids=["hooks", "no hooks"])
def test_a_fork_is_noticed_with_and_without_hooks(before: str, tmp_path: Path) -> None:
    """Where no hook tells of a fork, comparing pids does: the child serves, the parent goes on."""
    script = tmp_path / "script.py"
    script.write_text(dedent(SCRIPT.format(before=before)), encoding="utf-8")
    ended = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", script],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert ended.stderr == ""
    assert ended.stdout.splitlines() == ["child 1 True True", "True idle", "parent 1 0"]
    assert ended.returncode == 0


# What a client starts.


def test_only_what_is_wanted_is_started() -> None:
    """Without streaming and analytics there is one thread, with both there are three."""

    def threads() -> list[str]:
        names = {thread.name for thread in set(threading.enumerate()) - before}
        return sorted(name for name in names if name.startswith("shipsilently-"))

    before = set(threading.enumerate())
    with running(stream=False, analytics=AnalyticsConfig(enabled=False)):
        assert threads() == ["shipsilently-refresh"]
    with running():
        assert threads() == ["shipsilently-events", "shipsilently-refresh", "shipsilently-stream"]


def test_a_background_that_is_switched_off_starts_nothing() -> None:
    """With `background=False`, `start` and reading flags open nothing and start no thread."""
    before = set(threading.enumerate())
    run = Running(None, background=False)
    run.client.start()
    assert run.client.flags({"userId": "u1"}).get("a") == 1
    # Those of tests before may end meanwhile.
    assert set(threading.enumerate()) <= before
    assert run.client.connection_state is ConnectionState.IDLE
    assert run.service.tickets == 0
    run.client.close()


# The scripted service.


def test_a_scripted_service_that_fails_refuses_streams_too() -> None:
    """A ticket from before the failure opens nothing."""
    service = ScriptedService({"a": 1}, streaming=True)
    service.fail(503)
    refused = service.open_stream("scripted")
    assert isinstance(refused, Reply)
    assert refused.status == 503
    service.recover()
    assert not isinstance(service.open_stream("scripted"), Reply)


def test_a_scripted_service_drops_its_streams_when_the_client_ends() -> None:
    """What a client that is closed interrupts is over for its reader at once."""
    with running() as run:
        run.service.interrupt()
        eventually(lambda: run.service.tickets == 2)
