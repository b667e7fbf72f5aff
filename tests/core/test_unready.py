"""What is imported with the first use, where it cannot be: the call fails, and nothing raises."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import pytest

from shipsilently_core import Config, Failure, ShipSilentlyClient, Source
from shipsilently_core._http import HttpTransport
from shipsilently_core._resolver import Unready
from shipsilently_core._wire import Reply, ticket_request
from tests.core.running import eventually
from tests.core.support import KEY, SoftTimeLimitExceeded
from tests.core.wire_server import Answer, WireServer

MODULES = ("_http", "_background", "_tasks")


@pytest.fixture
def client(server: WireServer) -> Any:
    """A client of a server that knows one flag."""
    body = b'{"flags": {"a": {"flagKey": "a", "value": true, "reason": "default"}}}'
    server.always(Answer(body=body))
    made = ShipSilentlyClient(
        api_key=KEY, api_url=server.url, stream=False, retry={"base_delay": 0.01, "max_delay": 0.02}
    )
    yield made
    made.close()


def missing(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    """Let these modules be such as cannot be imported."""
    for name in names:
        monkeypatch.setitem(sys.modules, f"shipsilently_core.{name}", None)


@pytest.mark.parametrize("name", MODULES)
@pytest.mark.parametrize("door", ["flags", "aflags"])
def test_a_read_without_what_it_needs_serves_the_default(
    name: str,
    door: str,
    client: ShipSilentlyClient,
    monkeypatch: pytest.MonkeyPatch,
    lines: list[Any],
) -> None:
    """The read gives the default or, where the rest works, the value; later ones give the value."""
    missing(monkeypatch, name)
    read = client.flags(user_id="u1")
    if door == "flags":
        result = read.detail("a", False)
    else:
        result = asyncio.run(read.adetail("a", False))
    assert result.error in (None, Failure.NETWORK)
    assert (result.error is None) is (result.value is True)
    if result.error is not None:
        assert result.source == Source.DEFAULT
    monkeypatch.undo()
    eventually(lambda: client.flags(user_id="u2").get("a", False) is True)
    assert all("Traceback" not in line.getMessage() for line in lines)


def test_the_log_says_why_there_is_no_background(
    client: ShipSilentlyClient, monkeypatch: pytest.MonkeyPatch, lines: list[Any]
) -> None:
    """Once in a minute, however many requests try it again."""
    missing(monkeypatch, "_background")
    client.start()
    for _ in range(3):
        client.flags(user_id="u1").load()
    told = [text for line in lines if "background" in (text := line.getMessage())]
    assert told == [
        "the background cannot be started now (ModuleNotFoundError); each request tries it again"
    ]


def test_the_log_says_why_there_is_no_network(
    client: ShipSilentlyClient, monkeypatch: pytest.MonkeyPatch, lines: list[Any]
) -> None:
    """As of any failure, by the name of what went wrong."""
    missing(monkeypatch, "_http", "_background")
    assert client.flags(user_id="u1").get("a", False) is False
    assert any("could not be reached (ModuleNotFoundError)" in line.getMessage() for line in lines)
    assert client.flush() == 0


@pytest.mark.parametrize("name", ["_http.HttpTransport", "_background.Background"])
def test_a_time_limit_in_the_midst_of_it_ends_the_task(
    name: str, client: ShipSilentlyClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What ends a task is no failure of an import, and is passed on."""
    import shipsilently_core._background
    import shipsilently_core._http  # noqa: F401  # both are there

    class Module:
        def __getattr__(self, name: str) -> Any:
            raise SoftTimeLimitExceeded

    monkeypatch.setitem(sys.modules, f"shipsilently_core.{name.partition('.')[0]}", Module())
    with pytest.raises(SoftTimeLimitExceeded):
        client.flags(user_id="u1").get("a", False)
    monkeypatch.undo()
    eventually(lambda: client.flags(user_id="u1").get("a", False) is True)


async def test_a_transport_without_what_tasks_need_fails_in_them(
    server: WireServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may have been made before there was an event loop; the call in a task gives a reply."""
    transport = HttpTransport(Config(api_key=KEY, api_url=server.url))
    transport._tasks = None
    missing(monkeypatch, "_tasks")
    reply = await transport.asend(ticket_request())
    assert (reply.failure, reply.cause) == (Failure.NETWORK, "ModuleNotFoundError")
    monkeypatch.undo()
    server.always(Answer(body=b"{}"))
    assert (await transport.asend(ticket_request())).status == 200
    await transport.aclose()


async def test_what_stands_in_for_a_transport_fails_in_every_way() -> None:
    """It has each verb of a transport, and no call of it raises."""
    unready = Unready(OSError(24, "Too many open files: secret"))
    request = ticket_request()
    for reply in (unready.send(request), await unready.asend(request), unready.open_stream("t")):
        assert isinstance(reply, Reply)
        assert (reply.failure, reply.connected, reply.cause) == (Failure.NETWORK, False, "OSError")
    unready.interrupt()
    unready.forget()
    unready.close()
    await unready.aclose()
