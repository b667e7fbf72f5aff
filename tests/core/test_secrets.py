"""Keys, people's attributes and answers appear in no log, no representation and no exception."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import logging
import traceback
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from shipsilently_core import (
    Config,
    Context,
    EvaluationError,
    FailureReport,
    ShipSilentlyClient,
    signals,
)
from shipsilently_core._connection import Heads
from shipsilently_core._evaluation import Attempt
from shipsilently_core._http import HttpTransport
from shipsilently_core._wire import Reply, Request, batch_request
from tests.core.tracking import frames_of, shown
from tests.core.wire_server import Answer, Received, WireServer, batch_of
from tests.servers.harness import run_script

KEY = "sk_live_recognisable-key"
PERSON = "recognisable-person@example.org"
ANSWER = "recognisable-answer"
PASSWORD = "recognisable-password"
WHO = Context(user_id=PERSON, email=PERSON)

PAGE = f"<html>{ANSWER}</html>".encode()
JSON = ("Content-Type", "application/json")
ANSWERS = {
    "good": batch_of({"a": ANSWER}),
    "malformed row": Answer(body=f'{{"flags":{{"a":{{"value":"{ANSWER}"}}}}}}'.encode()),
    "another type": batch_of({"a": [ANSWER]}),
    "page": Answer(body=PAGE),
    "500": Answer(500, PAGE),
    "401": Answer(401, PAGE),
    "404": Answer(404, PAGE),
    "429": Answer(429, PAGE, (("Retry-After", "5"),)),
    "redirect": Answer(302, PAGE, (("Location", "http://127.0.0.1:9/"),)),
    "cut off": Answer(body=PAGE, length=1_000, close=True),
    "dropped": Answer(drop=True),
    "no HTTP": Answer(raw=PAGE, close=True),
    "silent": Answer(silent=True),
    "dripping": Answer(body=PAGE * 100, step=1, pause=0.02),
    "too large": Answer(body=PAGE * 100_000),
    "broken gzip": Answer(body=PAGE, headers=(JSON, ("Content-Encoding", "gzip"))),
    "gzip": Answer(body=gzip.compress(PAGE), headers=(JSON, ("Content-Encoding", "gzip"))),
    "unknown encoding": Answer(body=PAGE, headers=(JSON, ("Content-Encoding", "br"))),
}


@pytest.fixture
def told(caplog: pytest.LogCaptureFixture) -> Iterator[list[str]]:
    """Every log record of every library, formatted, and what signals and callbacks were given."""
    heard: list[str] = []

    def receiver(sender: Any, **arguments: Any) -> None:
        heard.append(repr((sender, arguments)))

    with caplog.at_level(logging.DEBUG), signals.evaluation_failed.connected_to(receiver):
        for name in ("shipsilently", "httpx", "httpcore", "asyncio"):
            caplog.set_level(logging.DEBUG, logger=name)
        yield heard
    formatter = logging.Formatter("%(name)s %(message)s")
    heard.extend(formatter.format(record) for record in caplog.get_records("call"))
    for text in heard:
        for secret in (KEY, PERSON, ANSWER, PASSWORD, "recognisable"):
            assert secret not in text


@pytest.mark.parametrize("custom", [False, True], ids=["own", "httpx"])
@pytest.mark.parametrize("kind", ANSWERS)
def test_no_way_to_fail_tells_a_secret(
    kind: str, custom: bool, server: WireServer, told: list[str]
) -> None:
    """Whatever the answer, every verb keeps quiet about key, person and body, at DEBUG too."""
    server.always(ANSWERS[kind])
    own = httpx.Client() if custom else None
    reports: list[FailureReport] = []
    client = ShipSilentlyClient(
        api_key=KEY,
        api_url=server.url,
        timeout=0.2,
        max_age=0,
        max_response_bytes=100_000,
        background=False,
        http_client=own,
        on_error=reports.append,
    )
    client.evaluate("a", WHO, False)
    client.evaluate_all({"userId": PERSON})
    flags = client.flags(WHO)
    flags.get("a", False)
    asyncio.run(client.aevaluate("a", WHO, False))
    asyncio.run(client.flags(Context(user_id=PERSON, plan="x")).aevaluate_all())
    asyncio.run(client.aclose())
    told.extend([repr(reports), repr(client), repr(client.config), repr(flags), repr(WHO)])
    if own is not None:
        own.close()


def test_no_connection_tells_a_secret(
    free_port: int, told: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither a closed port nor a proxy with a password, usable or not."""
    for proxy in (None, f"http://me:{PASSWORD}@127.0.0.1:{free_port}", f"ftp://me:{PASSWORD}@x"):
        if proxy is not None:
            monkeypatch.setenv("HTTP_PROXY", proxy)
        client = ShipSilentlyClient(
            api_key=KEY, api_url=f"http://127.0.0.1:{free_port}", background=False
        )
        client.evaluate("a", WHO, False)
        asyncio.run(client.aevaluate_all(WHO))
        client.close()


def test_attributes_that_cannot_be_sent_are_named_without_their_value(told: list[str]) -> None:
    """The warning names the attribute alone."""
    client = ShipSilentlyClient(api_key=KEY, api_url="http://127.0.0.1:9", background=False)
    client.get("a", False, {"email": [PERSON]})
    client.get("a", False, {"email": float("nan"), "other": {PERSON: 1}})


@pytest.mark.parametrize("kind", ["500", "401", "page", "dropped", "429"])
def test_an_exception_tells_no_secret(kind: str, server: WireServer, told: list[str]) -> None:
    """Not even a traceback that shows local variables, as error trackers do."""
    server.always(ANSWERS[kind])
    client = ShipSilentlyClient(
        api_key=KEY, api_url=server.url, timeout=5, disable_cache=True, background=False
    )
    for verb in (client.evaluate_all, lambda who: client.flags(who).get("a", False)):
        with pytest.raises(EvaluationError) as caught:
            verb(WHO)
        shown = traceback.TracebackException.from_exception(caught.value, capture_locals=True)
        told.append("".join(shown.format()))
        told.append(repr(caught.value))
    client.close()


def test_a_receiver_that_fails_tells_no_secret(server: WireServer, told: list[str]) -> None:
    """The traceback of a broken receiver shows nothing of the client's."""
    server.always(ANSWERS["500"])
    client = ShipSilentlyClient(api_key=KEY, api_url=server.url, background=False)

    def broken(sender: Any, **arguments: Any) -> None:
        raise RuntimeError("broken receiver")

    with signals.evaluation_failed.connected_to(broken, sender=client):
        client.evaluate("a", WHO, False)
    client.close()


def test_no_representation_shows_a_secret(told: list[str]) -> None:
    """What travels inside shows sizes and classes."""
    config = Config(api_key=KEY, baseline_context={"userId": PERSON})
    client = ShipSilentlyClient(config)
    request = batch_request(WHO)
    call = client.evaluator.prepare(WHO, "a")
    reply = Reply(200, PAGE, {"content-type": "text/html"})
    attempt = Attempt(call, request, 0.0)
    transport = HttpTransport(config)
    told.extend(
        repr(thing) for thing in (config, client, request, call, reply, attempt, transport, WHO)
    )
    question = transport._question(request)
    told.append(repr(question))
    assert repr(question) == f"<Question of {len(request.body)} bytes>"
    assert repr(Request("/v1/evaluate", b"{}")) == "<Request /v1/evaluate of 2 bytes>"
    assert repr(reply) == f"<Reply 200 of {len(PAGE)} bytes>"
    with contextlib.suppress(Exception):
        told.append(repr(vars(client)))


def test_an_error_tracker_sees_nothing_in_what_is_sent(server: WireServer) -> None:
    """A question and its bytes are neither containers that can be walked into, nor text."""
    transport = HttpTransport(Config(api_key=KEY, api_url=server.url))
    question = transport._question(batch_request(WHO))
    sent = Heads().whole(question)
    assert KEY.encode() in bytes(sent)
    try:
        raise RuntimeError
    except RuntimeError as error:
        seen = [line for line in shown(error, but="") if line.split()[1] in ("question", "sent")]
    assert len(seen) == 2
    assert "recognisable" not in "".join(seen)


#: A request that is ended by a handler of a signal, as servers end a worker that takes too long.
ENDED = """
import logging, os, signal, sys, threading
from shipsilently_core import Context, ShipSilentlyClient
from tests.core.tracking import frames_of, shown
from tests.core.wire_server import Answer, WireServer

KEY, PERSON, way = sys.argv[1:]
WHO = Context(user_id=PERSON, email=PERSON)
signal.signal(signal.SIGUSR1, lambda *_: sys.exit(1))
logging.disable()

def ending(received):
    assert received.headers["x-api-key"] == KEY
    assert (PERSON in received.body.decode()) == (received.path != "/v1/analytics/events")
    # Not while it is still being sent.
    threading.Event().wait(0.1)
    os.kill(os.getpid(), signal.SIGUSR1)
    return Answer(silent=True)

server = WireServer()
settings = {}
if way == "httpx":
    import httpx
    settings["http_client"] = httpx.Client()
client = ShipSilentlyClient(
    api_key=KEY, api_url=server.url, timeout=20, max_age=0, background=False, **settings
)

def send_much():
    client.get("a", False, WHO)
    assert client.status().buffered_events
    client.flush(20)

for verb in (
    lambda: client.evaluate("a", WHO, False),
    lambda: client.evaluate_all(WHO),
    lambda: client.flags(WHO).get("a", False),
    send_much,
):
    server.always(ending)
    try:
        verb()
    except SystemExit as error:
        names = {frame.f_code.co_name for frame in frames_of(error, but=__file__)}
        print("ended", {"_receive", "read"} & names != set(), "exchange" in names or way == "httpx")
        lines = list(shown(error, but=__file__))
        assert len(lines) > 20, lines
        for line in lines:
            if "recognisable" in line:
                print(line)
server.stop()
client.close(0)
for made in settings.values():
    made.close()
"""


# Not by way of a proxy: the frames of httpcore hold the key.
@pytest.mark.parametrize("way", ["own", "httpx"])
def test_a_call_that_a_signal_ends_shows_an_error_tracker_no_secret(
    way: str, tmp_path: Path
) -> None:
    """The local variables of every frame that waits hold neither key nor body nor person."""
    source = f"import sys\nsys.argv[1:] = {[KEY, PERSON, way]}\n{ENDED}"
    ended = run_script(source, tmp_path)
    assert (ended.status, ended.errors) == (0, "")
    assert ended.lines == ["ended True True"] * 4


#: A request that is ended while its question, which is large, cannot be sent.
ENDED_IN_SENDING = """
import signal, socket, sys
from shipsilently_core import Context, ShipSilentlyClient
from tests.core.tracking import frames_of, shown

KEY, PERSON = sys.argv[1:]
signal.signal(signal.SIGALRM, lambda *_: sys.exit(1))
deaf = socket.create_server(("127.0.0.1", 0))
url = f"http://127.0.0.1:{deaf.getsockname()[1]}"
client = ShipSilentlyClient(api_key=KEY, api_url=url, timeout=20, background=False)
who = Context(user_id=PERSON, note=PERSON * 1_000_000)
signal.setitimer(signal.ITIMER_REAL, 1.0)
try:
    client.evaluate("a", who, False)
except SystemExit as error:
    print("_send" in {frame.f_code.co_name for frame in frames_of(error, but=__file__)})
    print([line[:200] for line in shown(error, but=__file__) if "recognisable" in line])
client.close(0)
deaf.close()
"""


def test_a_call_that_is_ended_while_it_is_sent_shows_no_secret(tmp_path: Path) -> None:
    """So it is where a service takes no more of a question."""
    source = f"import sys\nsys.argv[1:] = {[KEY, PERSON]}\n{ENDED_IN_SENDING}"
    ended = run_script(source, tmp_path)
    assert (ended.status, ended.errors) == (0, "")
    assert ended.lines == ["True", "[]"]


@pytest.mark.parametrize("limited", [False, True], ids=["cancelled", "asyncio.timeout"])
@pytest.mark.parametrize("way", ["own", "proxy", "httpx"])
async def test_a_task_that_is_ended_shows_an_error_tracker_no_secret(
    way: str, limited: bool, server: WireServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So it is where a caller's own limit ends a call, or it is cancelled."""
    asked = asyncio.Event()
    loop = asyncio.get_running_loop()

    def silent(received: Received) -> Answer:
        assert received.headers["x-api-key"] == KEY
        loop.call_soon_threadsafe(asked.set)
        return Answer(silent=True)

    server.always(silent)
    if way == "proxy":
        monkeypatch.setenv("HTTP_PROXY", server.url)
    own = httpx.Client() if way == "httpx" else None
    client = ShipSilentlyClient(
        api_key=KEY,
        api_url="http://127.0.0.1:9" if way == "proxy" else server.url,
        timeout=5,
        max_age=0,
        background=False,
        http_client=own,
    )
    lines: list[str] = []

    async def limited_call(verb: Callable[[], Awaitable[object]]) -> None:
        async with asyncio.timeout(None) as limit:
            call = asyncio.ensure_future(verb())
            waiting = asyncio.create_task(asked.wait())
            waiting.add_done_callback(lambda _: limit.reschedule(0.0) if limited else call.cancel())
            await call

    async def end(verb: Callable[[], Awaitable[object]]) -> None:
        asked.clear()
        with pytest.raises(TimeoutError if limited else asyncio.CancelledError) as caught:
            await limited_call(verb)
        assert len(list(frames_of(caught.value, but=__file__))) > 2
        lines.extend(shown(caught.value, but=__file__))

    await end(lambda: client.aevaluate("a", WHO, False))
    await end(lambda: client.aevaluate_all(WHO))
    await end(lambda: client.flags(WHO).aget("a", False))
    assert [line for line in lines if "recognisable" in line] == []
    server.stop()
    await client.aclose()
    if own is not None:
        own.close()


@pytest.mark.parametrize("key", [f"{KEY}\nx", f"{KEY} x", f"{KEY}é", f"\x00{KEY}"])
def test_a_key_that_is_refused_is_not_shown(key: str, told: list[str]) -> None:
    """The error about a key does not print it, and neither does its traceback's text."""
    with pytest.raises(ValueError, match="api_key") as caught:
        Config(api_key=key)
    told.append("".join(traceback.format_exception(caught.value)))
