"""Keys, people's attributes and answers appear in no log, no representation and no exception."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import logging
import traceback
from collections.abc import Iterator
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
from shipsilently_core._evaluation import Attempt
from shipsilently_core._http import HttpTransport
from shipsilently_core._wire import Reply, Request, batch_request
from tests.core.wire_server import Answer, WireServer, batch_of

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


@pytest.mark.parametrize("key", [f"{KEY}\nx", f"{KEY} x", f"{KEY}é", f"\x00{KEY}"])
def test_a_key_that_is_refused_is_not_shown(key: str, told: list[str]) -> None:
    """The error about a key does not print it, and neither does its traceback's text."""
    with pytest.raises(ValueError, match="api_key") as caught:
        Config(api_key=key)
    told.append("".join(traceback.format_exception(caught.value)))
