"""The end of an app's lifespan delivers the checks that its requests have left."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest
from fastapi import FastAPI
from pytest_django import Settings
from shipsilently_django import get_client
from shipsilently_django.asgi import with_lifespan
from shipsilently_django.setup import reset_setup
from shipsilently_fastapi import FlagsDep, ShipSilently
from starlette.testclient import TestClient

from shipsilently_local import LocalService

Messages = Callable[..., Awaitable[Any]]


@pytest.fixture
def service() -> Iterator[LocalService]:
    """A service with one flag."""
    with LocalService({"a": 1}) as running:
        yield running


def test_fastapis_lifespan_delivers(service: LocalService) -> None:
    """Of three requests for one context the first was counted by the service, the others here."""
    shipsilently = ShipSilently(api_key=service.key, api_url=service.url, stream=False)
    app = FastAPI(lifespan=shipsilently.lifespan)

    @app.get("/")
    async def page(flags: FlagsDep) -> int:
        return int(await flags.aget("a", 0))

    with TestClient(app) as browser:
        for _ in range(3):
            assert browser.get("/").json() == 1
        assert service.state()["events"]["accepted"] == 0
    assert service.state()["events"]["byFlag"] == {"a": {"1": {"default": 2}}}


async def test_djangos_lifespan_delivers(service: LocalService, settings: Settings) -> None:
    """With `with_lifespan` around the application, what is left goes out when the server ends."""
    settings.SHIPSILENTLY = {"API_KEY": service.key, "API_URL": service.url, "OFFLINE": False}
    reset_setup()

    async def application(*_: Any) -> None:
        raise AssertionError("a lifespan is not Django's")

    messages = iter(["lifespan.startup", "lifespan.shutdown"])
    answers: list[str] = []

    async def receive() -> dict[str, str]:
        kind = next(messages)
        if kind == "lifespan.shutdown":
            client = get_client()
            assert await client.await_ready(5)
            client.get("a", 0, {"userId": "system"})
        return {"type": kind}

    async def send(message: Any) -> None:
        answers.append(message["type"])

    await with_lifespan(application)({"type": "lifespan"}, receive, send)
    assert answers == ["lifespan.startup.complete", "lifespan.shutdown.complete"]
    assert service.state()["events"]["byFlag"] == {"a": {"1": {"default": 1}}}
    reset_setup()
