"""The frameworks' start-up hooks while the service, or the network's resolver, hangs."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.servers.harness import run_script

pytestmark = pytest.mark.timeout(60)

#: Seconds that any hook may take; what hangs does so for a minute.
LIMIT = 1.0

BEGIN = """
import socket, sys, threading, time
from contextlib import contextmanager

def blocked(*args, **kwargs):
    threading.Event().wait(60)
    raise OSError

if sys.argv[0] and {resolver}:
    socket.getaddrinfo = blocked

@contextmanager
def timed(name):
    begin = time.monotonic()
    yield
    print(name, time.monotonic() - begin, flush=True)
"""

DJANGO = """
import os
os.environ["DJANGO_SETTINGS_MODULE"] = "tests.servers.apps.django_settings"
import django
from django.apps import apps
django.setup()
import shipsilently_django.checks
with timed("ready"):
    apps.get_app_config("shipsilently").ready()
from shipsilently_django import FlagsMiddleware, get_client
with timed("middleware"):
    FlagsMiddleware(lambda request: None)
with timed("client"):
    get_client()
"""

FLASK = """
from flask import Flask
from shipsilently_flask import ShipSilently
app = Flask("site")
with timed("init_app"):
    ShipSilently().init_app(app)
"""

FASTAPI = """
import asyncio
from fastapi import FastAPI
from shipsilently_fastapi import ShipSilently
import shipsilently_core._http
shipsilently = ShipSilently()

async def live():
    gap, last, over = 0.0, time.monotonic(), False

    async def tick():
        nonlocal gap, last
        while not over:
            await asyncio.sleep(0.02)
            gap, last = max(gap, time.monotonic() - last), time.monotonic()

    ticking = asyncio.create_task(tick())
    context = shipsilently.lifespan(FastAPI())
    with timed("startup"):
        await context.__aenter__()
    await asyncio.sleep(0.3)
    gap_before_end = gap
    begin = time.monotonic()
    await context.__aexit__(None, None, None)
    print("shutdown", time.monotonic() - begin - 2.0, flush=True)
    over = True
    await ticking
    print("gap", gap, flush=True)

asyncio.run(live())
"""


@pytest.fixture
def deaf() -> Iterator[int]:
    """The port of a service that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as listener:
        yield listener.getsockname()[1]


@pytest.mark.parametrize("resolver", [False, True], ids=["deaf-service", "blocked-resolver"])
@pytest.mark.parametrize("framework", ["DJANGO", "FLASK", "FASTAPI"])
def test_start_up_hooks_wait_for_nothing(
    framework: str, resolver: bool, deaf: int, tmp_path: Path
) -> None:
    """No hook waits for the service or for a name, none raises, and the event loop goes on."""
    host = "flags.invalid" if resolver else "127.0.0.1"
    ended = run_script(
        BEGIN.replace("{resolver}", str(resolver)) + globals()[framework],
        tmp_path,
        SHIPSILENTLY_API_URL=f"http://{host}:{deaf}",
        SHIPSILENTLY_API_KEY="sk_local",
    )
    assert ended.status == 0, ended
    assert "Traceback" not in ended.errors
    took = {name: float(seconds) for name, seconds in map(str.split, ended.lines)}
    assert took
    assert max(took.values()) < LIMIT, took
