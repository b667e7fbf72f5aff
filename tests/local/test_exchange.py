"""One request and the means to misbehave on it, without a server."""

import asyncio
from typing import Any

from starlette.types import Message

from shipsilently_local.exchange import Exchange, RawAnswer


class Transport(asyncio.Transport):
    """A connection that keeps what was written and tells when it was closed."""

    def __init__(self, client: "Client") -> None:
        super().__init__()
        self.written: list[bytes] = []
        self._client = client

    def write(self, data: Any) -> None:
        """Keep ``data``."""
        self.written.append(data)

    def abort(self) -> None:
        """Closed at once."""
        self._client.left.set()

    def close(self) -> None:
        """Closed when all is written."""
        self._client.left.set()


class Client:
    """The other side: stays until it has left."""

    def __init__(self) -> None:
        self.left = asyncio.Event()
        self.transport = Transport(self)

    async def receive(self) -> Message:
        """Only the news that the client left."""
        await self.left.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        """Nothing arrives here."""

    def exchange(self, body: bytes = b"{}") -> Exchange:
        """An exchange with this client."""
        return Exchange(
            {"type": "http"}, self.receive, self.send, body, self.transport, asyncio.Event()
        )


async def test_the_body_is_replayed_once() -> None:
    """The application reads the body that was read for it, then the client's real messages."""
    client = Client()
    exchange = client.exchange(b"body")
    assert await exchange.replay() == {
        "type": "http.request",
        "body": b"body",
        "more_body": False,
    }
    client.left.set()
    assert await exchange.replay() == {"type": "http.disconnect"}


async def test_only_a_disconnect_means_gone() -> None:
    """Another message from the client does not end the wait for it to leave."""
    client = Client()
    exchange = client.exchange()
    messages = iter([{"type": "http.request"}, {"type": "http.disconnect"}])

    async def receive() -> Message:
        return next(messages)

    exchange.receive = receive
    await exchange.gone()
    assert list(messages) == []


async def test_a_pause_ends_in_its_time() -> None:
    """A pause that nobody disturbs says so."""
    assert await Client().exchange().pause(0.001)


async def test_a_pause_ends_when_the_client_leaves() -> None:
    """The longest pause ends with the client."""
    client = Client()
    client.left.set()
    assert not await client.exchange().pause(None)


async def test_a_pause_ends_when_the_service_stops() -> None:
    """The longest pause ends with the service."""
    exchange = Client().exchange()
    exchange.stopping.set()
    assert not await exchange.pause(None)


async def test_a_raw_answer_is_written_byte_by_byte() -> None:
    """The head goes out whole, the body one byte at a time, then the connection closes."""
    client = Client()
    raw = RawAnswer(client.exchange(), 0.0, head_too=False)
    await raw.send({"type": "http.response.start", "status": 200, "headers": [(b"a", b"b")]})
    await raw.send({"type": "http.response.body", "body": b"xyz"})
    await raw.close()
    assert client.transport.written == [
        b"HTTP/1.1 200 OK\r\na: b\r\nconnection: close\r\n\r\n",
        b"x",
        b"y",
        b"z",
    ]


async def test_a_raw_answer_stops_when_the_client_leaves() -> None:
    """Nothing is written to a client that has gone; the application may go on sending."""
    client = Client()
    raw = RawAnswer(client.exchange(), 10.0, head_too=True)
    client.left.set()
    await raw.send({"type": "http.response.start", "status": 200, "headers": []})
    await raw.send({"type": "http.response.body", "body": b"xyz"})
    assert client.transport.written == [b"H"]
