"""The event stream, over real connections."""

import httpx
import pytest

from shipsilently_local import LocalService
from shipsilently_local.streams import Streams, sse

from .conftest import connect, listening


def test_an_event_has_a_name_and_json() -> None:
    """An event is written with its name and one line of JSON."""
    assert sse("flags.updated", {"envId": "x"}) == b'event: flags.updated\ndata: {"envId":"x"}\n\n'


def test_a_stream_begins_with_connected(client: httpx.Client) -> None:
    """The first event says that the stream is live and names the connection."""
    names = set()
    for _ in range(2):
        ticket = client.post("/v1/stream/ticket").json()["ticket"]
        with client.stream("GET", "/v1/stream", params={"ticket": ticket}) as response:
            assert response.headers["content-type"].startswith("text/event-stream")
            assert response.headers["cache-control"] == "no-store"
            assert "content-length" not in response.headers
            names.add(next(response.iter_text()))
    assert len(names) == 2
    assert all(name.startswith('event: connected\ndata: {"connectionId":"') for name in names)


def test_a_change_reaches_every_stream(service: LocalService, client: httpx.Client) -> None:
    """Each open stream is told of a change, with the environment and not the flags."""
    with listening(client) as one, connect(service) as other, listening(other) as two:
        service.set_flag("banner", default="Hello")
        assert one.next() == two.next() == ("flags.updated", {"envId": "local"})


def test_heartbeats_come_while_nothing_happens() -> None:
    """A quiet stream carries a heartbeat each interval, as a named event."""
    with (
        LocalService({}, heartbeat=0.02) as service,
        connect(service) as client,
        listening(client) as listener,
    ):
        assert [listener.next() for _ in range(3)] == [("heartbeat", {})] * 3


def test_open_streams_are_counted(service: LocalService, client: httpx.Client) -> None:
    """A stream counts while it is open and no longer."""
    assert service.open_streams == 0
    with listening(client):
        assert service.open_streams == 1
    assert service.wait_for_streams(0)


def test_open_streams_can_be_dropped(service: LocalService, client: httpx.Client) -> None:
    """Dropping the open streams breaks them; a new one can be opened at once."""
    with listening(client) as listener:
        service.fault("stream", drop=True, live=True, times=0)
        with pytest.raises(httpx.RemoteProtocolError):
            listener.rest()
    with listening(client) as listener:
        service.drop_streams()
        with pytest.raises(httpx.RemoteProtocolError):
            listener.rest()


def test_a_live_drop_refuses_new_streams_too(service: LocalService, client: httpx.Client) -> None:
    """Without times=0 the drop goes on for the streams to come."""
    with listening(client) as listener:
        service.fault("stream", drop=True, live=True)
        with pytest.raises(httpx.RemoteProtocolError):
            listener.rest()
    with pytest.raises(httpx.RemoteProtocolError), listening(client):
        pass


def test_open_streams_can_fall_silent() -> None:
    """A silenced stream stays open without a heartbeat, and speaks again once cleared."""
    with (
        LocalService({"f": 1}, heartbeat=0.02) as service,
        connect(service) as client,
        listening(client) as listener,
    ):
        service.fault("stream", silence=True, live=True, times=0)
        service.set_flag("f", default=2)
        assert service.open_streams == 1
        service.clear_faults()
        service.set_flag("f", default=3)
        seen = [listener.next()[0]]
        while seen[-1] != "flags.updated":
            seen.append(listener.next()[0])
        assert seen.count("flags.updated") == 1


def test_a_stopped_service_ends_its_streams(service: LocalService, client: httpx.Client) -> None:
    """A stop ends an open stream as HTTP ends a response."""
    with listening(client) as listener:
        service.stop()
        assert listener.rest() == b""


async def test_a_stream_said_twice_is_told_once() -> None:
    """Changes that come faster than a stream can be served are one event."""
    streams = Streams(30.0, "local")
    stream = streams.open()
    streams.add(stream)
    streams.announce()
    streams.announce()
    assert len(streams) == 1
    assert await stream._next() == sse("flags.updated", {"envId": "local"})
    assert stream._waiting.empty()


async def test_a_stream_opened_at_the_end_ends_at_once() -> None:
    """A stream that comes in while the service stops is not kept open."""
    streams = Streams(30.0, "local")
    streams.close()
    stream = streams.open()
    streams.add(stream)
    assert await stream._next() == b""
