"""What the tests share keeps its promises."""

import socket

import pytest

from tests.conftest import is_local


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
