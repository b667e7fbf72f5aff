"""A client in a process of its own: forks, ends, and everything that may happen at the end."""

from __future__ import annotations

import logging
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from shipsilently_core import ConnectionState, ShipSilentlyClient, signals
from shipsilently_local import LocalService
from tests.servers.harness import (
    Program,
    eventually,
    local_service,
    opened_streams,
    run_script,
)
from tests.servers.tls import tls_front

pytestmark = pytest.mark.timeout(60)

#: Seconds. What takes no time at all may still have to wait for a busy machine.
AT_ONCE = 2.0


@pytest.fixture
def service() -> Iterator[LocalService]:
    """A service that tells users who they are."""
    with local_service() as running:
        yield running


class Clients:
    """Makes clients of a service, and closes them when the test is over."""

    def __init__(self, service: LocalService) -> None:
        self._service = service
        self._made: list[ShipSilentlyClient] = []

    def make(self, **settings: Any) -> ShipSilentlyClient:
        """One more."""
        where = {"api_url": self._service.url, "api_key": self._service.key}
        self._made.append(ShipSilentlyClient(**{**where, **settings}))
        return self._made[-1]

    def close(self) -> None:
        """Close them all."""
        for client in self._made:
            client.close()


@pytest.fixture
def clients(service: LocalService) -> Iterator[Clients]:
    """Clients of the service."""
    made = Clients(service)
    yield made
    made.close()


def own_threads() -> list[threading.Thread]:
    """The threads of every client in this process."""
    return [
        thread
        for thread in threading.enumerate()
        if thread.name.startswith("shipsilently-") and thread.name != "shipsilently-local"
    ]


def no_threads() -> bool:
    """Whether no client has a thread any more."""
    return not own_threads()


# What the scripts below begin with.
PRELUDE = """
import atexit, os, signal, sys, threading, time
from shipsilently_core import ShipSilentlyClient, signals

def say(*words):
    os.write(1, (" ".join(map(str, words)) + "\\n").encode())

def until(condition, limit=20):
    end = time.monotonic() + limit
    pause = threading.Event()
    while not condition():
        if time.monotonic() > end:
            say("too late")
            os._exit(9)
        pause.wait(0.01)
"""


def program(source: str, service: LocalService, folder: Path, **environment: str) -> Program:
    """A script that is still running."""
    script = folder / "script.py"
    script.write_text(PRELUDE + source, encoding="utf-8")
    # Python 3.12 and later warn of forks where threads run.
    command: list[str | Path] = ["python", "-W", "ignore::DeprecationWarning", script]
    return Program(command, service, folder, **environment)


# Forks.

FORK = """
def version(user):
    return client.flags({"userId": user}).get("version", 0)

client = ShipSilentlyClient()
assert client.wait_ready(10)
until(lambda: client.connection_state == "streaming")
assert version("user-1") == 1
say("forking")
child = os.fork()
name = "parent" if child else "child"
users = ["user-1", "user-2"] if child else ["user-11", "user-12"]
for user in users:
    assert client.evaluate("who", {"userId": user}, "") == user
    assert client.flags({"userId": user}).get("who", "") == user
say("reading", name)
until(lambda: version(users[0]) == 2)
until(lambda: client.connection_state == "streaming")
say("changed", name)
until(lambda: version(users[1]) == 3)
say("over", name)
if child:
    _, status = os.waitpid(child, 0)
    until(lambda: version(users[0]) == 4)
    say("outlived", status)
"""


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_client_made_before_the_fork_stays_live_in_parent_and_child(
    scheme: str, service: LocalService, tmp_path: Path, certificate: Path
) -> None:
    """The child gets changes on a stream of its own, the parent's lives on, and beyond it."""
    with ExitStack() as stack:
        environment = {}
        if scheme == "https":
            url = stack.enter_context(tls_front(service.port, certificate))
            environment = {"SHIPSILENTLY_API_URL": url, "SSL_CERT_FILE": str(certificate)}
        running = stack.enter_context(program(FORK, service, tmp_path, **environment))
        running.said("reading", 2)
        assert service.wait_for_streams(2, 10)
        service.set_flag("version", default=2)
        running.said("changed", 2)
        service.set_flag("version", default=3)
        running.said("over", 2)
        assert service.wait_for_streams(1, 5), "the parent's stream has ended with the child"
        service.set_flag("version", default=4)
        assert running.said("outlived") == [["outlived", "0"]]
        assert running.process.wait(10) == 0
    assert opened_streams(service) == (2, 2), "a stream had to be opened again"
    assert "Traceback" not in running.output


def test_a_forked_child_never_speaks_on_its_parents_connections(
    service: LocalService, tmp_path: Path
) -> None:
    """What the child asks arrives on connections that were made after the fork."""
    with program(FORK, service, tmp_path) as running:
        running.said("reading", 2)
        assert service.wait_for_streams(2, 10)
    requests = service.requests
    # The parent forked after its first own question, when its stream was up.
    forked = next(n for n, request in enumerate(requests) if b'"user-1"' in request.body)
    before = {request.client_port for request in requests[: forked + 1]}
    of_child = {r.client_port for r in requests if b'"user-11"' in r.body or b'"user-12"' in r.body}
    assert before
    assert of_child
    assert not before & of_child


FORK_WHILE_BUSY = """
client = ShipSilentlyClient()
signals.flags_updated.connect(lambda *a, **k: None, weak=False)
assert client.wait_ready(10)
stop = threading.Event()

def work(number):
    turn = 0
    while not stop.is_set():
        turn += 1
        who = {"userId": f"user-{(number * 50 + turn) % 200}"}
        client.flags(who).evaluate_all()
        client.evaluate("who", who, "")
        client.get("version", 0, who)
        client.flags({**who, "turn": turn}).get("who", "")

threads = [threading.Thread(target=work, args=(number,), daemon=True) for number in range(4)]
for thread in threads:
    thread.start()
for turn in range(50):
    user = f"user-{turn}"
    child = os.fork()
    if child == 0:
        right = client.flags({"userId": user, "child": True}).get("who", "") == user
        right = right and client.evaluate("who", {"userId": user}, "") == user
        if turn % 10 == 0:
            client.close()
        os._exit(0 if right else 1)
    end = time.monotonic() + 10
    while (ended := os.waitpid(child, os.WNOHANG)) == (0, 0):
        if time.monotonic() > end:
            os.kill(child, signal.SIGKILL)
            say("stuck", turn)
            os._exit(1)
        time.sleep(0.002)
    if ended[1]:
        say("wrong", turn, ended[1])
        os._exit(2)
stop.set()
for thread in threads:
    thread.join()
assert client.connection_state == "streaming"
say("fine")
"""


def test_children_forked_in_the_midst_of_calls_do_not_deadlock(
    service: LocalService, tmp_path: Path
) -> None:
    """Fifty children forked while threads are inside all kinds of calls get their own answers."""
    ended = run_script(PRELUDE + FORK_WHILE_BUSY, tmp_path, service, options=(), limit=50)
    assert (ended.status, ended.lines) == (0, ["fine"]), ended
    assert service.wait_for_streams(0)


def test_two_first_uses_in_a_forked_child_wait_for_each_other(
    service: LocalService, tmp_path: Path
) -> None:
    """No thread of a child gets ahead of the one that is letting go of the parent's connections."""
    source = """
    from shipsilently_core._http import HttpTransport
    from shipsilently_core import Config

    class Slow(HttpTransport):
        letting_go = threading.Event()
        done = threading.Event()

        def forget(self):
            self.letting_go.set()
            threading.Event().wait(0.3)
            super().forget()
            self.done.set()

        def send(self, request):
            if os.getpid() != parent and not self.done.is_set():
                say("spoke on the parent's connection")
            return super().send(request)

    parent = os.getpid()
    slow = Slow(Config())
    client = ShipSilentlyClient(transport=slow)
    client.evaluate_all({"userId": "user-0"})
    child = os.fork()
    if child == 0:
        first = threading.Thread(target=client.evaluate_all, args=({"userId": "user-1"},))
        first.start()
        slow.letting_go.wait(5)
        client.evaluate_all({"userId": "user-2"})
        first.join()
        os._exit(0)
    say("child", os.waitpid(child, 0)[1])
    """
    ended = run_script(PRELUDE + dedent(source), tmp_path, service, options=())
    assert ended.lines == ["child 0"], ended


def test_a_function_that_makes_the_http_client_is_called_in_each_process(
    service: LocalService, tmp_path: Path
) -> None:
    """With `http_client=function`, parent and child send with clients of their own."""
    source = """
    import httpx

    def make():
        say("made", os.getpid())
        return httpx.Client()

    client = ShipSilentlyClient(http_client=make)
    assert client.wait_ready(10)
    assert client.evaluate("who", {"userId": "user-1"}, "") == "user-1"
    child = os.fork()
    user = "user-2" if child else "user-3"
    for _ in range(20):
        assert client.evaluate("who", {"userId": user}, "") == user
    if child == 0:
        os._exit(0)
    say("child", os.waitpid(child, 0)[1])
    """
    ended = run_script(PRELUDE + dedent(source), tmp_path, service, options=())
    assert ended.status == 0, ended
    assert "child 0" in ended.lines
    made = [line for line in ended.lines if line.startswith("made")]
    assert len(made) == len(set(made)) == 2


def test_closing_in_a_forked_child_leaves_the_parents_connection_alone(
    service: LocalService, tmp_path: Path
) -> None:
    """The child closes its copy, twice, and the parent's stream goes on to tell of changes."""
    source = """
    client = ShipSilentlyClient()
    assert client.wait_ready(10)
    until(lambda: client.connection_state == "streaming")
    child = os.fork()
    if child == 0:
        client.close()
        client.close()
        assert client.flags({"userId": "user-1"}).get("who", "none") == "nobody"
        os._exit(0)
    say("child", os.waitpid(child, 0)[1])
    until(lambda: client.flags({"userId": "user-1"}).get("version", 0) == 2)
    say("over", client.connection_state)
    """
    with program(dedent(source), service, tmp_path) as running:
        assert running.said("child") == [["child", "0"]]
        service.set_flag("version", default=2)
        assert running.said("over") == [["over", "streaming"]]
        assert running.process.wait(10) == 0
    assert opened_streams(service) == (1, 1)


# Ends.


@pytest.mark.parametrize("settings", ["", "stream=False, polling_interval=300"])
@pytest.mark.parametrize("ready", [True, False])
def test_a_script_that_ends_with_sys_exit_does_not_hang(
    settings: str, ready: bool, service: LocalService, tmp_path: Path
) -> None:
    """The exit status is the script's, it comes at once without `close`, and nothing is printed."""
    source = f"""
    client = ShipSilentlyClient({settings})
    client.start()
    assert client.evaluate("who", {{"userId": "user-1"}}, "") == "user-1"
    if {ready}:
        assert client.wait_ready(10)
    print("end", flush=True)
    sys.exit(3)
    """
    ended = run_script(PRELUDE + dedent(source), tmp_path, service)
    assert (ended.status, ended.errors) == (3, "")
    assert ended.seconds < AT_ONCE
    assert service.wait_for_streams(0)


@pytest.mark.parametrize("fault", [{"silence": True}, {"delay": 60.0}, {"status": 503}])
def test_a_script_ends_at_once_while_the_service_does_not_answer(
    fault: dict[str, Any], service: LocalService, tmp_path: Path
) -> None:
    """Calls and streams that hang hold up no exit."""
    service.fault("*", **fault)
    source = """
    client = ShipSilentlyClient(timeout=30)
    client.start()
    until(lambda: len(threading.enumerate()) > 2)
    threading.Event().wait(0.2)
    print("end", flush=True)
    sys.exit(3)
    """
    ended = run_script(PRELUDE + dedent(source), tmp_path, service)
    assert ended.status == 3
    assert "Traceback" not in ended.errors
    assert ended.seconds < AT_ONCE


HOOKS = """
def hook(name):
    def run():
        for what in (
            lambda: client.evaluate("who", {"userId": "user-1"}, ""),
            lambda: client.flags({"userId": f"user-{name}"}).get("who", ""),
            lambda: client.evaluate_all({"userId": "user-2"}),
            lambda: client.get("who", "", {"userId": "user-1"}),
            lambda: getattr(client, "flush", int)(),
            lambda: client.connection_state,
            lambda: client.close(),
            lambda: client.close(),
        ):
            what()
        say("hook", name)
    return run
"""


@pytest.mark.parametrize("started", [True, False])
def test_exit_hooks_of_users_may_use_the_client(
    started: bool, service: LocalService, tmp_path: Path
) -> None:
    """Hooks that run before and after ours evaluate, read and close, and nothing is raised."""
    source = f"""
    atexit.register(hook("7"))  # runs after ours
    client = ShipSilentlyClient()
    if {started}:
        client.start()
        assert client.wait_ready(10)
    else:
        client.evaluate("who", None, "")
    atexit.register(hook("8"))  # runs before ours
    print("end", flush=True)
    """
    ended = run_script(PRELUDE + HOOKS + dedent(source), tmp_path, service)
    assert (ended.status, ended.errors) == (0, "")
    assert ended.lines == ["end", "hook 8", "hook 7"]
    assert ended.seconds < AT_ONCE


def test_a_second_signal_during_the_end_prints_nothing(
    service: LocalService, tmp_path: Path
) -> None:
    """A signal handler that exits again while the last events are delivered ends all at once."""
    service.fault("analytics", silence=True)
    source = """
    signal.signal(signal.SIGALRM, lambda *_: sys.exit(0))
    client = ShipSilentlyClient()
    client.evaluate_all({"userId": "user-1"})
    client.get("who", "", {"userId": "user-1"})
    atexit.register(lambda: signal.setitimer(signal.ITIMER_REAL, 0.2))
    print("end", flush=True)
    """
    ended = run_script(PRELUDE + dedent(source), tmp_path, service)
    assert (ended.status, ended.errors) == (0, "")
    assert ended.seconds < AT_ONCE
    assert any(request.path == "/v1/analytics/events" for request in service.requests)


def test_a_first_use_in_an_exit_hook_evaluates(service: LocalService, tmp_path: Path) -> None:
    """A client whose first flag is read while the interpreter ends asks all the same."""
    source = """
    client = ShipSilentlyClient()
    atexit.register(lambda: say(client.flags({"userId": "user-5"}).get("who", "")))
    print("end", flush=True)
    """
    ended = run_script(PRELUDE + dedent(source), tmp_path, service)
    assert (ended.status, ended.errors, ended.lines) == (0, "", ["end", "user-5"])
    assert ended.seconds < AT_ONCE


def test_threads_that_outlive_the_main_thread_may_use_the_client(
    service: LocalService, tmp_path: Path
) -> None:
    """A thread that is no daemon goes on evaluating after the main thread's end, then all ends."""
    source = """
    client = ShipSilentlyClient()
    client.start()

    def work():
        threading.main_thread().join()
        for number in range(20):
            user = f"user-{number}"
            assert client.flags({"userId": user}).get("who", "") == user
            assert client.evaluate("who", {"userId": user}, "") == user
        print("end", flush=True)

    threading.Thread(target=work).start()
    """
    ended = run_script(PRELUDE + dedent(source), tmp_path, service)
    assert (ended.status, ended.errors, ended.lines) == (0, "", ["end"])
    assert ended.seconds < AT_ONCE


def test_a_daemon_thread_in_the_midst_of_a_call_prints_nothing_at_the_end(
    service: LocalService, tmp_path: Path
) -> None:
    """Threads still evaluating when the interpreter ends neither hold it up nor complain."""
    source = """
    client = ShipSilentlyClient()
    client.start()

    def work(number):
        turn = 0
        while True:
            turn += 1
            client.flags({"userId": f"user-{number}", "turn": turn}).get("who", "")

    for number in range(4):
        threading.Thread(target=work, args=(number,), daemon=True).start()
    threading.Event().wait(0.3)
    print("end", flush=True)
    """
    ended = run_script(PRELUDE + dedent(source), tmp_path, service)
    assert (ended.status, ended.errors) == (0, "")
    assert ended.seconds < AT_ONCE


# In this process.


def test_threads_have_names_and_end_with_the_process(
    service: LocalService, clients: Clients
) -> None:
    """The background is daemon threads whose names say whose they are; none before it starts."""
    client = clients.make()
    client.evaluate_all({"userId": "user-1"})
    assert no_threads()
    client.start()
    client.start()
    threads = own_threads()
    assert sorted(thread.name for thread in threads) == [
        "shipsilently-events",
        "shipsilently-refresh",
        "shipsilently-stream",
    ]
    assert all(thread.daemon for thread in threads)
    client.close()
    assert no_threads()


def test_closing_twice_and_from_many_threads_is_fine(
    service: LocalService, clients: Clients
) -> None:
    """`close` may be called again, also by several threads at the same moment."""
    client = clients.make()
    assert client.wait_ready(10)
    threads = [threading.Thread(target=client.close) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    client.close()
    assert no_threads()
    assert client.connection_state is ConnectionState.IDLE
    assert service.wait_for_streams(0)


def test_a_receiver_may_close_the_client(service: LocalService, clients: Clients) -> None:
    """`close` in a receiver, which runs in the background's own thread, ends everything."""
    client = clients.make()
    seen: list[ConnectionState] = []

    def receiver(sender: object, *, state: ConnectionState, previous: ConnectionState) -> None:
        seen.append(state)
        client.close()

    with signals.connection_state_changed.connected_to(receiver, sender=client):
        client.start()
        eventually(no_threads, "the threads end")
    assert seen == [ConnectionState.STREAMING, ConnectionState.IDLE]
    assert service.wait_for_streams(0)


def test_a_receiver_of_the_other_thread_may_close_the_client(
    service: LocalService, clients: Clients
) -> None:
    """`close` in a receiver of a change, which the evaluating thread calls, ends everything."""
    client = clients.make()
    with signals.flags_updated.connected_to(lambda *_, **__: client.close(), sender=client):
        assert client.wait_ready(10)
        assert service.wait_for_streams(1)
        eventually(lambda: client.connection_state is ConnectionState.STREAMING, "it streams")
        service.set_flag("version", default=2)
        eventually(no_threads, "the threads end")
    assert service.wait_for_streams(0)


@pytest.mark.parametrize("silent", ["headers", "body"])
def test_closing_unblocks_a_reader_at_once(
    silent: str, service: LocalService, clients: Clients, lines: list[logging.LogRecord]
) -> None:
    """`close` ends a read that waits, for an event or for the headers, long before its limit."""
    client = clients.make(timeout=30.0)
    if silent == "headers":
        service.fault("stream", silence=True)
        client.start()
        eventually(lambda: opened_streams(service) == (1, 1), "the stream is asked for")
    else:
        client.start()
        assert service.wait_for_streams(1)
    begin = time.monotonic()
    client.close(timeout=20)
    assert time.monotonic() - begin < AT_ONCE
    assert no_threads()
    assert service.wait_for_streams(0)
    assert lines == [], "our own end was taken for a failure"


def test_closing_at_any_moment_leaves_no_thread_and_no_stream(
    service: LocalService, clients: Clients
) -> None:
    """However short a time after the start it comes, `close` ends all that was about to begin."""
    pause = threading.Event()
    for turn in range(60):
        client = clients.make(timeout=30.0)
        client.start()
        pause.wait(turn / 4000)
        begin = time.monotonic()
        client.close(timeout=10)
        assert time.monotonic() - begin < AT_ONCE
        assert no_threads(), f"turn {turn}"
    assert service.wait_for_streams(0)


def test_closing_does_not_wait_for_a_connection_that_nobody_accepts(clients: Clients) -> None:
    """A connection that is still being made holds `close` up for no longer than it was told."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as deaf:
        port = deaf.getsockname()[1]
        fillers = [socket.socket() for _ in range(4)]
        for filler in fillers:
            filler.setblocking(False)
            filler.connect_ex(("127.0.0.1", port))
        client = clients.make(api_url=f"http://127.0.0.1:{port}", timeout=8.0)
        client.start()
        begin = time.monotonic()
        client.close(timeout=0.3)
        assert time.monotonic() - begin < AT_ONCE
        for filler in fillers:
            filler.close()
    eventually(no_threads, "the threads end")
