"""The limits of time of task queues, which are raised in the midst of whatever a task does."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from shipsilently_core import Config, ShipSilentlyClient, signals
from shipsilently_core._http import HttpTransport
from shipsilently_core._process import is_time_limit
from shipsilently_core._wire import Reply, Request
from shipsilently_core.testing import ManualClock, ScriptedService
from tests.core.lines import ASK
from tests.core.storing import BrokenStore
from tests.core.support import KEY, JobTimeoutException, SoftTimeLimitExceeded, setup
from tests.servers.harness import run_script

WHO = {"userId": "u1"}


class Derived(SoftTimeLimitExceeded):
    """A limit of an application's own."""


LIMITS = [SoftTimeLimitExceeded, JobTimeoutException, Derived]


@pytest.mark.parametrize("kind", LIMITS)
def test_a_limit_is_known_by_the_names_of_its_classes(kind: type[Exception]) -> None:
    """Neither Celery nor RQ has to be there for that."""
    assert is_time_limit(kind())


@pytest.mark.parametrize("error", [TimeoutError(), ValueError(), OSError(), SystemExit()])
def test_nothing_else_is_a_limit(error: BaseException) -> None:
    """What a call may fail with is its failure."""
    assert not is_time_limit(error)


#: Each verb, in the midst of whose call a signal comes, as from the parent of a pool's process.
LIMITED = """
import logging, os, signal, sys, threading
import httpx
from shipsilently_core import ShipSilentlyClient
from tests.core.support import JobTimeoutException, SoftTimeLimitExceeded
from tests.core.wire_server import Answer, WireServer, batch_of

class Derived(SoftTimeLimitExceeded):
    pass

KINDS = {
    "Celery": SoftTimeLimitExceeded, "RQ": JobTimeoutException, "derived": Derived,
}
WHO = {"userId": "u1"}
way, Limit = sys.argv[1], KINDS[sys.argv[2]]

def limit(*_):
    raise Limit

def limiting(answer):
    def script(received):
        # A part of the answer may come first.
        if answer.raw is None:
            os.kill(os.getpid(), signal.SIGUSR1)
        else:
            threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGUSR1)).start()
        return answer
    return script

logging.disable()
signal.signal(signal.SIGUSR1, limit)
server = WireServer()
settings = {}
if way == "httpx":
    settings["http_client"] = httpx.Client()
if way == "proxy":
    os.environ["HTTP_PROXY"] = server.url
client = ShipSilentlyClient(
    api_key="k", api_url="http://127.0.0.1:9" if way == "proxy" else server.url,
    timeout=20, background=False, max_age=0, **settings,
)

def flush():
    client.get("a", False, WHO)
    client.flush(20)

VERBS = [
    lambda: client.evaluate("a", WHO, False),
    lambda: client.evaluate_detail("a", WHO, False),
    lambda: client.evaluate_all(WHO),
    lambda: client.flags(WHO).get("a", False),
    lambda: client.flags(WHO).evaluate_all(),
    flush,
]
ANSWERS = [
    Answer(silent=True),
    # Also where a refusal's head has come already.
    Answer(raw=b"HTTP/1.1 429 Slow Down\\r\\nRetry-After: 30\\r\\nContent-Length: 9\\r\\n\\r\\n"),
]
for answer in ANSWERS:
    for verb in VERBS:
        server.always(limiting(answer))
        before = len(server.received)
        try:
            verb()
        except Limit:
            assert len(server.received) == before + 1
            print("limited")
        # What has been begun is over: the same connection is not used again.
        server.always(batch_of({"a": True}))
        connections = server.connections
        assert client.evaluate_all(WHO)["a"].value is True
        assert server.connections == connections + 1
client.close(0)
for made in settings.values():
    made.close()
server.stop()
print("end")
"""


@pytest.mark.parametrize(
    ("way", "kind"), [("own", "Celery"), ("own", "RQ"), ("httpx", "derived"), ("proxy", "Celery")]
)
def test_a_limit_in_the_midst_of_a_call_ends_the_task(way: str, kind: str, tmp_path: Path) -> None:
    """It comes out of every verb, and its connection is not used again."""
    source = LIMITED.replace("sys.argv[1]", repr(way)).replace("sys.argv[2]", repr(kind))
    ended = run_script(source, tmp_path)
    assert (ended.status, ended.errors) == (0, "")
    assert ended.lines == ["limited"] * 12 + ["end"]


@pytest.mark.parametrize("kind", LIMITS)
def test_a_limit_in_a_client_of_ones_own_is_none_of_its_failures(kind: type[Exception]) -> None:
    """What it raises comes out, whatever else it raises becomes a reply."""

    def fail(request: Any) -> Any:
        raise kind

    with httpx.Client(transport=httpx.MockTransport(fail)) as client:
        transport = HttpTransport(
            Config(api_key=KEY, api_url="http://flags.invalid", http_client=client)
        )
        with pytest.raises(kind):
            transport.send(ASK)


VERBS: dict[str, Callable[[ShipSilentlyClient], object]] = {
    "evaluate": lambda client: client.evaluate("a", WHO, False),
    "evaluate_all": lambda client: client.evaluate_all(WHO),
    "flags": lambda client: client.flags(WHO).get("a", False),
}


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("kind", LIMITS)
def test_a_limit_in_a_call_of_the_store_ends_the_task(kind: type[Exception], verb: str) -> None:
    """It is not the store's failure: the store is used on, and nobody is told of anything."""
    clock = ManualClock()
    store = BrokenStore(clock.time, kind())
    told: list[object] = []
    client = ShipSilentlyClient(
        Config(
            api_key=KEY,
            api_url="http://flags.invalid",
            store=store,
            background=False,
            on_error=told.append,
        ),
        transport=ScriptedService({"a": True}),
        clock=clock,
    )
    with pytest.raises(kind):
        VERBS[verb](client)
    assert store.calls
    assert told == []
    status = client.status().store
    assert status is not None
    assert (status.error, status.cool_down) == (None, 0)
    store.error = None
    assert client.evaluate("a", WHO, False) is True
    client.close()


@pytest.mark.parametrize("awaited", [False, True])
@pytest.mark.parametrize("kind", LIMITS)
def test_a_limit_in_a_receiver_ends_the_task(kind: type[Exception], awaited: bool) -> None:
    """It comes out of what has told the receiver, and is not logged as the receiver's mistake."""
    run = setup({"a": True}, background=False)
    run.service.fail(503)

    def receiver(sender: object, **arguments: object) -> None:
        raise kind

    def evaluate() -> object:
        if awaited:
            return asyncio.run(run.client.aevaluate("a", WHO, False))
        return run.client.evaluate("a", WHO, False)

    with (
        signals.evaluation_failed.connected_to(receiver, sender=run.client),
        pytest.raises(kind),
    ):
        evaluate()
    run.service.recover()
    run.client.close()


@pytest.mark.parametrize("kind", LIMITS)
def test_a_limit_in_a_callback_ends_the_task(kind: type[Exception]) -> None:
    """So it is in `on_error`."""

    def on_error(report: object) -> None:
        raise kind

    run = setup({"a": True}, background=False, on_error=on_error)
    run.service.fail(503)
    with pytest.raises(kind):
        run.client.evaluate_all(WHO)
    run.client.close()


class Limited(ScriptedService):
    """A service whose transport is interrupted once."""

    limit: Exception | None = None

    def send(self, request: Request) -> Reply:
        """As usual, or the limit."""
        limit, self.limit = self.limit, None
        if limit is not None:
            raise limit
        return super().send(request)


def test_those_who_wait_for_a_limited_call_are_not_left_alone() -> None:
    """The attempt is over for its leader alone, so the next one asks at once."""
    service = Limited({"a": True})
    client = ShipSilentlyClient(
        Config(api_key=KEY, api_url="http://flags.invalid", background=False),
        transport=service,
        clock=ManualClock(),
    )
    service.limit = SoftTimeLimitExceeded()
    flags = client.flags(WHO)
    with pytest.raises(SoftTimeLimitExceeded):
        flags.get("a", False)
    assert flags.get("a", False) is True
    assert len(service.requests) == 1
    client.close()
