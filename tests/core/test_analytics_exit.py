"""The last delivery: when a client is closed, and when a process ends without closing it."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from shipsilently_core import ShipSilentlyClient
from shipsilently_local import LocalService
from tests.core.running import eventually
from tests.servers.harness import delivered_events, run_script

U1 = {"userId": "u1"}


@pytest.fixture
def service() -> Iterator[LocalService]:
    """A service with one flag."""
    with LocalService({"a": 1}) as running:
        yield running


SCRIPTS = {
    "a read": 'client.get("a", 0)',
    "a request": 'client.flags().get("a", 0)',
    "a started client": 'assert client.wait_ready(10); client.get("a", 0)',
    "a coroutine": (
        "import asyncio\n"
        "async def main():\n"
        '    await client.flags().aget("a", 0)\n'
        "asyncio.run(main())"
    ),
    "an exit": 'import sys; client.get("a", 0); sys.exit(0)',
    "a hook that comes before ours": 'import atexit; atexit.register(client.get, "a", 0)',
    "a thread": (
        "import threading\n"
        'thread = threading.Thread(target=lambda: client.get("a", 0))\n'
        "thread.start()"
    ),
}


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_script_that_just_ends_delivers(
    script: str, service: LocalService, tmp_path: Path
) -> None:
    """One check, no `close`, however it came about: delivered once, and nothing is printed."""
    # With a stream that is up at once, what was evaluated before it is asked for anew, and then it
    # is the service that counts the check.
    source = (
        "from shipsilently_core import ShipSilentlyClient\n"
        "client = ShipSilentlyClient(stream=False)\nclient.evaluate_all()\n" + SCRIPTS[script]
    )
    ended = run_script(source, tmp_path, service)
    assert (ended.status, ended.output, ended.errors) == (0, "", "")
    assert delivered_events(service) == 1
    assert service.state()["events"]["accepted"] == 1


@pytest.mark.parametrize(
    "fault", [{"silence": True}, {"status": 503}, {"drop": True}, {"garbage": True}]
)
def test_an_end_during_an_outage_is_quick_and_quiet(
    fault: dict[str, object], service: LocalService, tmp_path: Path
) -> None:
    """What cannot be delivered within a second is lost, without a word and without a traceback."""
    service.fault("analytics", **fault)
    source = (
        "from shipsilently_core import ShipSilentlyClient\n"
        "client = ShipSilentlyClient()\nclient.evaluate_all()\n"
        'client.get("a", 0)\nprint("end", flush=True)\n'
    )
    ended = run_script(source, tmp_path, service)
    assert (ended.status, ended.output.strip(), ended.errors) == (0, "end", "")
    assert ended.seconds < 5


def client_of(service: LocalService, **settings: Any) -> ShipSilentlyClient:
    """A client of the local service."""
    return ShipSilentlyClient(api_key=service.key, api_url=service.url, **settings)


@pytest.mark.parametrize("started", [False, True])
def test_closing_delivers(started: bool, service: LocalService) -> None:
    """Once; closing again, or the process's end, delivers nothing a second time."""
    client = client_of(service)
    if started:
        assert client.wait_ready(5)
    for _ in range(50):
        client.get("a", 0, U1)
    client.close()
    client.close()
    client.at_exit()
    assert service.state()["events"]["accepted"] == 50


@pytest.mark.parametrize("started", [False, True])
async def test_closing_in_a_task_delivers(started: bool, service: LocalService) -> None:
    """`aclose`, as lifespans call it."""
    client = client_of(service)
    if started:
        assert await client.await_ready(5)
    for _ in range(50):
        client.get("a", 0, U1)
    await client.aclose()
    assert (await asyncio.to_thread(service.state))["events"]["accepted"] == 50


def test_closing_does_not_wait_longer_than_it_may(service: LocalService) -> None:
    """With an analytics endpoint that hangs, `close` comes back within its time."""
    service.fault("analytics", silence=True)
    client = client_of(service)
    client.get("a", 0, U1)
    begin = time.monotonic()
    client.close(timeout=0.3)
    assert time.monotonic() - begin < 3


def test_what_is_on_its_way_when_a_client_is_closed_is_delivered(
    service: LocalService, lines: list[logging.LogRecord]
) -> None:
    """A delivery that hangs is ended, without a word, and its events go out with the last one."""
    service.fault("analytics", silence=True, times=1)
    client = client_of(service, analytics={"max_batch_size": 1})
    assert client.wait_ready(5)
    client.get("a", 0, U1)
    eventually(lambda: service.state()["requests"]["analytics"])
    client.get("a", 0, U1)
    client.close()
    assert service.state()["events"]["accepted"] == 2
    assert [line.getMessage() for line in lines if "events" in line.getMessage()] == []
