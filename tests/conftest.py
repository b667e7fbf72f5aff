"""What the tests of every package share: no network beyond this machine, free ports, Hypothesis."""

import errno
import ipaddress
import socket
import sys
import weakref
from collections.abc import Iterator
from typing import Any

import pytest
from blinker import NamedSignal
from hypothesis import HealthCheck, settings

from shipsilently_core import _process, signals
from tests.ports import free_port, use_own_ports

# Before anything listens; to the end of the process.
use_own_ports(pytest.MonkeyPatch())

# A busy machine is slow, not wrong: examples are bounded by number, never by time.
settings.register_profile(
    "shipsilently",
    deadline=None,
    max_examples=100,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("shipsilently")


def is_local(address: object) -> bool:
    """Whether a socket address is on this machine: a Unix socket or the loopback interface."""
    if not isinstance(address, tuple):
        return True
    host = address[0]
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


@pytest.fixture(scope="session")
def connections_elsewhere() -> Iterator[list[object]]:
    """Refuse connections to other machines and collect the addresses that were tried."""
    refused: list[object] = []
    connect, connect_ex = socket.socket.connect, socket.socket.connect_ex

    def guarded_connect(self: socket.socket, address: Any, /) -> None:
        if not is_local(address):
            refused.append(address)
            raise OSError(errno.ENETUNREACH, "tests may only connect to this machine")
        connect(self, address)

    def guarded_connect_ex(self: socket.socket, address: Any, /) -> int:
        if not is_local(address):
            refused.append(address)
            return errno.ENETUNREACH
        return connect_ex(self, address)

    patch = pytest.MonkeyPatch()
    patch.setattr(socket.socket, "connect", guarded_connect)
    patch.setattr(socket.socket, "connect_ex", guarded_connect_ex)
    yield refused
    patch.undo()


@pytest.fixture(autouse=True)
def _only_this_machine(connections_elsewhere: list[object]) -> Iterator[None]:
    """Fail the test that tried to reach another machine, even if the code under test hid it.

    The refusal alone would look like an outage, which this code is made to survive.
    """
    connections_elsewhere.clear()
    yield
    assert not connections_elsewhere, f"tried to connect to {connections_elsewhere}"


def disconnect_all() -> None:
    """Disconnect every receiver from the signals, which are the whole process's."""
    for name in signals.__all__:
        signal = getattr(signals, name)
        if isinstance(signal, NamedSignal):
            signal._clear_state()


@pytest.fixture(autouse=True)
def _receivers_of_this_test() -> Iterator[None]:
    """Disconnect what a test has connected."""
    yield
    disconnect_all()


@pytest.fixture
def fresh_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if no test had run before in this process: no client, no receiver, no exporter."""
    disconnect_all()
    monkeypatch.setattr(_process, "_lived", weakref.WeakSet())
    for name in [name for name in sys.modules if name.startswith("shipsilently_core.contrib")]:
        monkeypatch.delitem(sys.modules, name)


@pytest.fixture(name="free_port")
def a_free_port() -> int:
    """A TCP port of the loopback interface that nothing listens on."""
    return free_port()
