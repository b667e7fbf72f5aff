"""The middleware: which scopes it touches, and the header it may add."""

import re
from collections.abc import Callable
from typing import Any

import pytest
from fastapi import FastAPI
from shipsilently_fastapi import FlagsDep, FlagsMiddleware, RequestFlags, ShipSilently
from starlette.requests import HTTPConnection
from starlette.responses import StreamingResponse

from shipsilently_core import Flags
from shipsilently_core.testing import ScriptedService
from tests.test_fastapi.apps import PRO, attempts, from_headers, serving

Make = Callable[..., ShipSilently]


@pytest.mark.parametrize("kind", ["http", "websocket"])
async def test_requests_and_sockets_get_lazy_flags(
    make: Make, service: ScriptedService, kind: str
) -> None:
    """The flags themselves are in the scope, not evaluated yet; nothing is asked of anybody."""
    seen: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        seen.append(scope["shipsilently.flags"])

    def context(connection: HTTPConnection) -> dict[str, str]:
        asked.append(connection.headers["x-user"])
        return {"userId": connection.headers["x-user"]}

    asked: list[str] = []
    scope = {"type": kind, "headers": [(b"x-user", b"ada")]}
    middleware: Any = FlagsMiddleware(app, make(context=context))
    await middleware(scope, None, None)
    (flags,) = seen
    assert isinstance(flags, RequestFlags)
    assert isinstance(flags, Flags)
    assert flags.took is None
    assert (asked, attempts(service)) == ([], 0)
    assert scope.keys() == {"type", "headers"}
    assert (await flags).get("who", "") == "ada"
    assert (asked, attempts(service)) == (["ada"], 1)


@pytest.mark.parametrize("kind", ["lifespan", "something.new"])
async def test_other_scopes_pass(make: Make, kind: str) -> None:
    """What is neither a request nor a socket is passed on as it came."""
    seen = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        seen.append((scope, receive, send))

    middleware: Any = FlagsMiddleware(app, make(), server_timing=True)
    scope = {"type": kind}
    await middleware(scope, "receive", "send")
    assert seen == [({"type": kind}, "receive", "send")]


def test_server_timing_tells_what_the_flags_have_cost(make: Make) -> None:
    """Where it is switched on, answers that needed flags say how long those took."""
    app = FastAPI()
    make(context=from_headers).install(app, server_timing=True)

    @app.get("/flags")
    async def with_flags(flags: FlagsDep) -> str:
        return flags.get("who", "")

    @app.get("/stream")
    async def stream(flags: FlagsDep) -> StreamingResponse:
        return StreamingResponse(iter(["a", "b"]), headers={"Server-Timing": "db;dur=5"})

    @app.get("/plain")
    async def without() -> str:
        return ""

    with serving(app) as client:
        assert re.fullmatch(
            r"flags;dur=\d+\.\d", client.get("/flags", headers=PRO).headers["server-timing"]
        )
        streamed = client.get("/stream", headers=PRO)
        assert streamed.text == "ab"
        assert streamed.headers["server-timing"].startswith("db;dur=5, flags;dur=")
        assert "server-timing" not in client.get("/plain").headers


def test_server_timing_is_off_by_default(make: Make) -> None:
    """Nobody is told about the flags unless the app wants it."""
    app = FastAPI()
    make(context=from_headers).install(app)

    @app.get("/flags")
    async def with_flags(flags: FlagsDep) -> str:
        return flags.get("who", "")

    with serving(app) as client:
        assert "server-timing" not in client.get("/flags", headers=PRO).headers
