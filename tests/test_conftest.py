"""What the tests share keeps its promises."""

import socket

import pytest

from tests.conftest import is_local
from tests.ports import own_ports


@pytest.mark.parametrize("address", [("127.0.0.1", 1), ("::1", 1, 0, 0), ("localhost", 1), "/x"])
def test_addresses_of_this_machine_are_local(address: object) -> None:
    """Loopback addresses and Unix sockets count as this machine."""
    assert is_local(address)


@pytest.mark.parametrize("address", [("192.0.2.1", 1), ("2001:db8::1", 1, 0, 0), ("a.invalid", 1)])
def test_other_addresses_are_not_local(address: object) -> None:
    """Any other address and any unresolved name count as another machine."""
    assert not is_local(address)


def testconnections_elsewhere_are_refused_and_noticed(
    connections_elsewhere: list[object],
) -> None:
    """A connection to another machine fails at once and is kept for the test's own failure."""
    address = ("192.0.2.1", 9)
    with socket.socket() as connection, pytest.raises(OSError, match="only connect to this"):
        connection.connect(address)
    with socket.socket() as connection:
        assert connection.connect_ex(address) != 0
    assert connections_elsewhere == [address, address]
    connections_elsewhere.clear()


def test_the_free_port_is_free(free_port: int) -> None:
    """The port that the fixture gives can be listened on."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", free_port))
        server.listen()


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_no_other_process_takes_the_ports_that_are_listened_on_here(host: str) -> None:
    """Each is another one of this process's, none of those that connections are given."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    found = set()
    for _ in range(20):
        with socket.create_server((host, 0), family=family) as server:
            found.add(server.getsockname()[1])
    assert len(found) == 20
    assert found <= set(own_ports())
    with socket.create_server((host, 0), family=family) as server:
        address = server.getsockname()[:2]
        with socket.create_connection(address) as connection:
            assert connection.getsockname()[1] > 32_000


def test_each_process_has_ports_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of seven that run the tests together, and of one alone."""
    found: list[int] = []
    for worker in ("", *(f"gw{number}" for number in range(7))):
        monkeypatch.setenv("PYTEST_XDIST_WORKER", worker)
        found += own_ports()
    assert len(found) == len(set(found))
    assert max(found) < 32_768
