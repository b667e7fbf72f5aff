"""What these tests share: a scripted service with a client, and the example shop."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from shipsilently_fastapi import ShipSilently

from shipsilently_core import ShipSilentlyClient
from shipsilently_core.testing import ManualClock, ScriptedService
from shipsilently_local import LocalService
from tests.test_fastapi.apps import Plans

EXAMPLES = Path(__file__).resolve().parent.parent.parent / "examples"


@pytest.fixture
def clock() -> ManualClock:
    """A clock that stands still."""
    return ManualClock()


@pytest.fixture
def service() -> ScriptedService:
    """A service whose flag `new` is on for the plan pro and whose `color` is red."""
    return ScriptedService(Plans())


@pytest.fixture
def client(service: ScriptedService, clock: ManualClock) -> Iterator[ShipSilentlyClient]:
    """A client of that service which does nothing by itself."""
    client = ShipSilentlyClient(
        api_key="sk_test", transport=service, clock=clock, rng=lambda: 1.0, background=False
    )
    yield client
    client.close()


@pytest.fixture
def make(client: ShipSilentlyClient) -> Callable[..., ShipSilently]:
    """Makes a `ShipSilently` with that client."""

    def make(**settings: Any) -> ShipSilently:
        return ShipSilently(client=client, **settings)

    return make


@pytest.fixture
def local_service() -> Iterator[LocalService]:
    """A service whose new checkout is for those who pay."""
    paying = {
        "name": "paying customers",
        "when": [{"attribute": "plan", "operator": "equals", "value": "pro"}],
        "serve": True,
    }
    with LocalService({"new-checkout": {"default": False, "rules": [paying]}}) as service:
        yield service


@pytest.fixture
def shop(local_service: LocalService, free_port: int) -> Iterator[httpx2.Client]:
    """A browser's session at the running shop."""
    command = [
        *(sys.executable, "-W", "error", "-m", "uvicorn", "--app-dir", str(EXAMPLES / "fastapi")),
        *("app:app", "--port", str(free_port), "--log-level", "warning"),
    ]
    environment = {
        **os.environ,
        "SHIPSILENTLY_API_URL": local_service.url,
        "SHIPSILENTLY_API_KEY": local_service.key,
    }
    with subprocess.Popen(command, env=environment) as server:
        try:
            with httpx2.Client(
                base_url=f"http://127.0.0.1:{free_port}", follow_redirects=True, trust_env=False
            ) as browser:
                wait_for(browser)
                assert local_service.wait_for_streams(1)
                yield browser
        finally:
            server.terminate()
            server.wait(10)
    assert server.returncode in (0, -15)


def wait_for(browser: httpx2.Client) -> None:
    """Wait until the shop is open."""
    until = time.monotonic() + 30
    while True:
        try:
            browser.get("/")
        except httpx2.TransportError:
            assert time.monotonic() < until
            time.sleep(0.05)
        else:
            return
