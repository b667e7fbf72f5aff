"""One run of the service: a thread, a socket, and an end."""

import errno
import socket
import threading
import time

import httpx
import pytest

from shipsilently_local import LocalService, LocalServiceError, PortInUseError
from shipsilently_local.runner import Runner, listen
from shipsilently_local.state import ServiceState


def test_only_the_loopback_address_listens() -> None:
    """The service is not reachable from another machine."""
    with listen(0) as sock:
        assert sock.getsockname()[0] == "127.0.0.1"


def test_answers_are_not_held_back() -> None:
    """The socket is TCP by name, so that asyncio sends each piece of an answer at once."""
    with listen(0) as sock:
        assert sock.proto == socket.IPPROTO_TCP


def test_a_taken_port_is_told() -> None:
    """A port on which somebody listens is an error that names it."""
    with listen(0) as sock:
        port = sock.getsockname()[1]
        with pytest.raises(PortInUseError, match=f"port {port} of 127.0.0.1 is already in use"):
            listen(port)


def test_a_port_that_may_not_be_used_is_not_called_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another refusal than that somebody listens is told as what it is."""

    def refuse(sock: socket.socket, address: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    with monkeypatch.context() as patched:
        patched.setattr(socket.socket, "bind", refuse)
        with pytest.raises(LocalServiceError) as raised:
            listen(80)
    assert str(raised.value) == "cannot listen on port 80 of 127.0.0.1: Permission denied"
    assert not isinstance(raised.value, PortInUseError)
    with pytest.raises(LocalServiceError, match="cannot listen on port 65536"):
        listen(65536)


def test_a_port_can_be_taken_again_at_once() -> None:
    """A port is free for the next run when the last has ended, whatever its connections."""
    with listen(0) as sock:
        port = sock.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)):
            accepted, _ = sock.accept()
            accepted.close()
    with listen(port) as again:
        assert again.getsockname()[1] == port


def test_a_run_is_one_daemon_thread_that_ends() -> None:
    """The service's thread is named, is a daemon, and is gone after a stop."""
    runner = Runner(ServiceState({}, "sk_local"), listen(0))
    runner.start()
    (thread,) = [each for each in threading.enumerate() if each.name == "shipsilently-local"]
    assert thread.daemon
    runner.stop()
    assert not thread.is_alive()


def test_calls_run_on_the_services_thread() -> None:
    """A call gives its result or its exception to the thread that asked."""
    runner = Runner(ServiceState({}, "sk_local"), listen(0))
    runner.start()
    try:
        assert runner.call(threading.current_thread).name == "shipsilently-local"
        with pytest.raises(ZeroDivisionError):
            runner.call(lambda: 1 // 0)
    finally:
        runner.stop()


def test_a_run_that_breaks_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    """An error after the start reaches the hook for errors in threads."""
    seen: list[BaseException | None] = []
    monkeypatch.setattr(threading, "excepthook", lambda raised: seen.append(raised.exc_value))

    class Broken(Runner):
        async def _serve(self) -> None:
            self._ready.set_result(None)
            raise ZeroDivisionError

    with listen(0) as sock:
        runner = Broken(ServiceState({}, "sk_local"), sock)
        runner.start()
        runner._thread.join(10)
    assert [type(error) for error in seen] == [ZeroDivisionError]


def test_a_run_that_cannot_start_says_why() -> None:
    """A socket that is no longer open is an error at once, not a wait."""
    sock = listen(0)
    sock.close()
    with pytest.raises(OSError, match="Bad file descriptor"):
        Runner(ServiceState({}, "sk_local"), sock).start()


def test_answers_carry_the_time() -> None:
    """The `Date` of an answer is that of the answer, not that of the service's start."""
    with LocalService({"x": True}) as service, httpx.Client() as client:
        first = client.get(service.url).headers["Date"]
        deadline = time.monotonic() + 10
        while client.get(service.url).headers["Date"] == first:
            assert time.monotonic() < deadline
            threading.Event().wait(0.1)
