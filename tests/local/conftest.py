"""What the tests of the local service share: a running service, and a reader of its stream."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest

from shipsilently_local import LocalService

FLAGS: dict[str, Any] = {
    "checkout-v2": {
        "default": False,
        "rules": [
            {
                "name": "paying customers",
                "when": [{"attribute": "plan", "operator": "in", "value": ["pro", "team"]}],
                "serve": True,
            }
        ],
    },
    "banner": "Welcome",
}


def connect(service: LocalService, **settings: Any) -> httpx.Client:
    """A plain HTTP client of ``service`` that shows its key."""
    return httpx.Client(
        base_url=service.url, headers={"X-API-Key": service.key}, timeout=10, **settings
    )


@pytest.fixture
def service() -> Iterator[LocalService]:
    """A running service with two flags."""
    with LocalService(FLAGS) as running:
        yield running


@pytest.fixture
def client(service: LocalService) -> Iterator[httpx.Client]:
    """A client of ``service``."""
    with connect(service) as connected:
        yield connected


class Listener:
    """Reads the events of one open stream, in order."""

    def __init__(self, response: httpx.Response) -> None:
        self.response = response
        self._bytes = response.iter_raw()
        self._buffer = b""

    def next(self) -> tuple[str, Any]:
        """The next event's name and data."""
        while b"\n\n" not in self._buffer:
            self._buffer += next(self._bytes)
        block, _, self._buffer = self._buffer.partition(b"\n\n")
        fields = dict(line.split(": ", 1) for line in block.decode().splitlines())
        return fields["event"], json.loads(fields["data"])

    def rest(self) -> bytes:
        """Everything until the stream ends."""
        return self._buffer + b"".join(self._bytes)


@contextmanager
def listening(client: httpx.Client) -> Iterator[Listener]:
    """An open stream, past its first event."""
    ticket = client.post("/v1/stream/ticket").json()["ticket"]
    with client.stream("GET", "/v1/stream", params={"ticket": ticket}) as response:
        listener = Listener(response)
        assert listener.next()[0] == "connected"
        yield listener
