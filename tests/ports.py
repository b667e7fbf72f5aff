"""Ports that no other process takes, and that no client of another test calls.

Tests run in several processes at once, and many call an address where nobody listens any more. Were
that the next free port of the system's, a server of another process might listen there by then, or
a connection of anybody's might have it for its own end. So each process counts through a range of
its own, below the one from which systems take ports for connections: 32768 and up on Linux, 49152
elsewhere.
"""

from __future__ import annotations

import errno
import itertools
import os
import re
import socket
from typing import Any

import pytest

__all__ = ["free_port", "own_ports", "use_own_ports"]

_FIRST, _EACH, _PROCESSES = 20_000, 1_500, 8


def own_ports() -> range:
    """This process's: by its number among those of pytest-xdist, the last for one that is alone."""
    number = re.search(r"\d+", os.environ.get("PYTEST_XDIST_WORKER", ""))
    which = _PROCESSES - 1 if number is None else int(number[0]) % (_PROCESSES - 1)
    return range(_FIRST + which * _EACH, _FIRST + (which + 1) * _EACH)


def use_own_ports(patch: pytest.MonkeyPatch) -> None:
    """From now on, a socket that is bound to port 0 gets the next free one of this process's own.

    Args:
        patch: Can take that back.
    """
    ports, bind = own_ports(), socket.socket.bind
    # Not from the start: another run, ended a moment ago, may have left connections there.
    following = itertools.cycle([*ports[os.getpid() % _EACH :], *ports[: os.getpid() % _EACH]])

    def bind_to_own(self: socket.socket, address: Any, /) -> None:
        if self.family not in (socket.AF_INET, socket.AF_INET6) or address[1] != 0:
            bind(self, address)
            return
        for port in itertools.islice(following, _EACH):
            try:
                bind(self, (address[0], port, *address[2:]))
            except OSError as error:
                if error.errno != errno.EADDRINUSE:
                    raise
            else:
                return
        raise OSError(errno.EADDRINUSE, f"none of the ports {ports} is free")

    patch.setattr(socket.socket, "bind", bind_to_own)


def free_port() -> int:
    """A TCP port of the loopback interface that nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
