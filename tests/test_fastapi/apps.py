"""The people and the small apps of these tests."""

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

from fastapi import FastAPI
from shipsilently_fastapi import ShipSilently
from starlette.requests import HTTPConnection
from starlette.testclient import TestClient, WebSocketDenialResponse
from starlette.websockets import WebSocketDisconnect

from shipsilently_core.testing import ScriptedService


class Plans:
    """Flags by context: `new` for the plan pro, `who` tells whom they were evaluated for."""

    def __call__(self, context: dict[str, Any]) -> dict[str, Any]:
        return {
            "new": context.get("plan") == "pro",
            "color": "red",
            "limit": 3,
            "who": context.get("userId", "nobody"),
        }


def from_headers(connection: HTTPConnection) -> dict[str, str | None]:
    """A context function: user and plan as the headers say."""
    headers = connection.headers
    return {"userId": headers.get("x-user"), "plan": headers.get("x-plan")}


async def from_headers_async(connection: HTTPConnection) -> dict[str, str | None]:
    """The same, awaitable."""
    return from_headers(connection)


PRO = {"x-user": "ada", "x-plan": "pro"}
FREE = {"x-user": "bob", "x-plan": "free"}


def app_with(shipsilently: ShipSilently, **settings: Any) -> FastAPI:
    """An app with everything installed."""
    app = FastAPI(**settings)
    shipsilently.install(app)
    return app


@contextlib.contextmanager
def serving(app: Any, **settings: Any) -> Iterator[TestClient]:
    """A test client with the lifespan running."""
    with TestClient(app, **settings) as client:
        yield client


def socket_status(client: TestClient, path: str, **settings: Any) -> int | str:
    """What a socket is answered: a denial's status, a close code, or its first text."""
    try:
        with client.websocket_connect(path, **settings) as socket:
            return socket.receive_text()
    except WebSocketDenialResponse as denial:
        return denial.status_code
    except WebSocketDisconnect as end:
        return end.code


def attempts(service: ScriptedService) -> int:
    """How many calls the service has had."""
    return len(service.requests)


def our_threads() -> list[str]:
    """The names of the client's own threads that are alive."""
    threads = [
        thread
        for thread in threading.enumerate()
        if "shipsilently" in thread.name and thread.name != "shipsilently-local"
    ]
    for thread in threads:
        if thread.name == "shipsilently-aside":
            # It tells that its work is done a moment before it ends.
            thread.join(10)
    return [thread.name for thread in threads if thread.is_alive()]
