"""Tickets stay out of the logs of other people's clients."""

from __future__ import annotations

import asyncio
import logging
import threading

import httpx
import httpx2
import pytest

from shipsilently_core import Config, Failure
from shipsilently_core._http import HttpTransport
from shipsilently_core._wire import Reply, Request
from tests.core.wire_server import Answer, WireServer


def answer(request: httpx.Request) -> httpx.Response:
    """A stream that ends at once."""
    assert request.url.params["ticket"] == "tk_secret&more"
    return httpx.Response(200, headers={"content-type": "text/event-stream"}, content=b":\n\n")


def answer2(request: httpx2.Request) -> httpx2.Response:
    """The same of the other package."""
    assert request.url.params["ticket"] == "tk_secret&more"
    return httpx2.Response(200, headers={"content-type": "text/event-stream"}, content=b":\n\n")


@pytest.mark.parametrize(
    "client",
    [
        lambda: httpx.Client(transport=httpx.MockTransport(answer)),
        lambda: httpx2.Client(transport=httpx2.MockTransport(answer2)),
    ],
    ids=["httpx", "httpx2"],
)
def test_a_clients_own_log_line_holds_no_ticket(
    client: object, caplog: pytest.LogCaptureFixture
) -> None:
    """A client that logs the address of each request logs the stream's without its ticket."""
    transport = HttpTransport(Config(api_key="sk_test", http_client=client))
    with caplog.at_level(logging.DEBUG):
        opened = transport.open_stream("tk_secret&more")
    assert not isinstance(opened, Reply)
    opened.close()
    lines = [record.getMessage() for record in caplog.records]
    assert any("ticket=…" in line for line in lines)
    assert "tk_secret" not in caplog.text
    transport.close()


def test_an_answer_that_repeats_the_address_is_logged_without_the_ticket(
    server: WireServer, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a proxy redirects the stream, httpcore's log of that answer holds no ticket."""
    moved = "https://elsewhere.example/v1/stream?ticket=tk_secret%26more&x=1"
    server.always(Answer(302, headers=[("Location", moved)]))
    monkeypatch.setenv("HTTP_PROXY", server.url)
    transport = HttpTransport(Config(api_key="sk_test", api_url="http://flags.invalid"))
    with caplog.at_level(logging.DEBUG):
        reply = transport.open_stream("tk_secret&more")
    assert isinstance(reply, Reply)
    assert reply.status == 302
    assert "elsewhere.example" in caplog.text
    assert "tk_secret" not in caplog.text
    transport.close()


def test_other_lines_of_a_client_stay_as_they_are(caplog: pytest.LogCaptureFixture) -> None:
    """Only tickets are blotted out: other values, and lines without any, are left alone."""
    transport = HttpTransport(
        Config(
            api_key="sk_test",
            http_client=lambda: httpx.Client(transport=httpx.MockTransport(answer)),
        )
    )
    with caplog.at_level(logging.DEBUG):
        transport.open_stream("tk_secret&more")
        logging.getLogger("httpx").info("%s and %d", "a text", 5)
        logging.getLogger("httpx").info("%(name)s", {"name": "by name"})
        logging.getLogger("httpx").info(ValueError("an object"))
    lines = [record.getMessage() for record in caplog.records]
    assert "a text and 5" in lines
    assert "by name" in lines
    assert "an object" in lines
    transport.close()


async def test_a_client_that_knows_no_deadline_is_not_waited_for() -> None:
    """A call by a client that keeps to no limit of ours is given up by the task, as a timeout."""
    release = threading.Event()

    def never(request: httpx.Request) -> httpx.Response:
        release.wait(20)
        return httpx.Response(200)

    client = httpx.Client(transport=httpx.MockTransport(never))
    transport = HttpTransport(Config(api_key="sk_test", timeout=0.05, http_client=client))
    reply = await transport.asend(Request("/v1/evaluate", b"{}"))
    release.set()
    assert (reply.status, reply.failure) == (None, Failure.TIMEOUT)
    transport.close()
    await asyncio.to_thread(client.close)


def test_the_class_of_a_client_makes_one() -> None:
    """A client's class is something that makes one, though it has the verbs of one itself."""

    class Own(httpx.Client):
        def __init__(self) -> None:
            super().__init__(transport=httpx.MockTransport(answer))

    transport = HttpTransport(Config(api_key="sk_test", http_client=Own))
    opened = transport.open_stream("tk_secret&more")
    assert not isinstance(opened, Reply)
    opened.close()
    transport.close()


def test_a_client_that_was_made_here_is_closed_here() -> None:
    """Closing the transport closes the client that the given function had made, and no other."""
    made: list[httpx.Client] = []

    def make() -> httpx.Client:
        made.append(httpx.Client(transport=httpx.MockTransport(answer)))
        return made[-1]

    transport = HttpTransport(Config(api_key="sk_test", http_client=make))
    transport.open_stream("tk_secret&more")
    transport.close()
    assert [client.is_closed for client in made] == [True]

    own = httpx.Client(transport=httpx.MockTransport(answer))
    transport = HttpTransport(Config(api_key="sk_test", http_client=own))
    transport.open_stream("tk_secret&more")
    transport.close()
    assert not own.is_closed
    own.close()
