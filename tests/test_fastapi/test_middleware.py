"""The middleware: which scopes it touches, and the header it may add."""

import re
from collections.abc import Callable
from typing import Annotated, Any

import httpx2
import pytest
from fastapi import Depends, FastAPI, Header, Request
from shipsilently_fastapi import (
    FlagsDep,
    FlagsMiddleware,
    RequestFlags,
    ShipSilently,
    current_flags,
    flags,
    get_flags,
)
from starlette.requests import HTTPConnection
from starlette.responses import PlainTextResponse, StreamingResponse

from shipsilently_core import Flags
from shipsilently_core.testing import ManualClock, ScriptedService
from tests.test_fastapi.apps import (
    PRO,
    app_with,
    attempts,
    from_headers,
    from_headers_async,
    serving,
)

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


@pytest.mark.parametrize("installed", [True, False])
@pytest.mark.parametrize("context", [from_headers, from_headers_async])
@pytest.mark.parametrize("error", [Exception, 500])
def test_the_handler_of_unexpected_errors_finds_the_same_flags(
    make: Make, installed: bool, context: Any, error: Any
) -> None:
    """What an endpoint has read is there for the 500 page; nobody is asked once more."""
    calls = []

    def counted(connection: HTTPConnection) -> Any:
        calls.append(connection)
        return context(connection)

    shipsilently = make(context=counted)
    app = app_with(shipsilently) if installed else FastAPI(lifespan=shipsilently.lifespan)
    seen = []

    @app.get("/")
    async def home(flags: FlagsDep) -> None:
        seen.append(flags)
        raise ZeroDivisionError

    @app.exception_handler(error)
    async def handler(request: Request, error: Exception) -> PlainTextResponse:
        seen.append(get_flags(request))
        return PlainTextResponse(get_flags(request).get("who", ""), 500)

    with serving(app, raise_server_exceptions=False) as client:
        assert client.get("/", headers=PRO).text == "ada"
    assert seen[0] is seen[1]
    assert len(calls) == 1


def test_the_handler_of_unexpected_errors_finds_the_flags_of_the_apps_user(make: Make) -> None:
    """The flags of `flags.using(...)` are those of the request for the 500 page as well."""

    def current_context(x_user: Annotated[str, Header()]) -> dict[str, str]:
        return {"userId": x_user}

    app = app_with(make())

    @app.get("/")
    async def home(flags: Annotated[RequestFlags, Depends(flags.using(current_context))]) -> None:
        raise ZeroDivisionError

    @app.exception_handler(Exception)
    def handler(request: Request, error: Exception) -> PlainTextResponse:
        with pytest.raises(LookupError):
            current_flags()
        return PlainTextResponse(get_flags(request).get("who", ""), 500)

    with serving(app, raise_server_exceptions=False) as client:
        assert client.get("/", headers=PRO).text == "ada"


def test_what_is_around_the_middleware_finds_what_was_read(
    make: Make, service: ScriptedService
) -> None:
    """Another middleware around has the flags of a request also after it, a mounted app's too."""
    seen: list[Any] = []

    class Around:
        def __init__(self, app: Any) -> None:
            self.app = app

        async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
            await self.app(scope, receive, send)
            if scope["type"] == "http":
                seen.append(get_flags(Request(scope)))
                assert seen[-1].get("who", "") == "ada"

    def calling(connection: HTTPConnection) -> Any:
        calls.append(connection)
        return from_headers(connection)

    calls: list[Any] = []
    inner, app = app_with(make(context=calling)), app_with(make(context=calling))
    app.add_middleware(Around)
    app.mount("/inner", inner)

    async def home(flags: FlagsDep) -> str:
        seen.append(flags)
        return flags.get("who", "")

    for each in (inner, app):
        each.get("/")(home)
    with serving(app) as client:
        for path in ("/", "/inner/"):
            assert client.get(path, headers=PRO).json() == "ada"
    assert seen[0] is seen[1]
    assert seen[2] is seen[3]
    assert len(calls) == 2


async def test_no_request_sees_the_flags_of_the_one_before(make: Make) -> None:
    """Where one task runs requests in a row, a failed one leaves no current flags to the next."""
    app = app_with(make(context=from_headers))

    @app.get("/")
    async def home(flags: FlagsDep) -> None:
        raise ZeroDivisionError

    transport = httpx2.ASGITransport(app=app, raise_app_exceptions=False)
    async with httpx2.AsyncClient(transport=transport, base_url="http://test") as client:
        assert (await client.get("/", headers=PRO)).status_code == 500
    with pytest.raises(LookupError):
        current_flags()


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


@pytest.mark.parametrize("context", [from_headers, from_headers_async])
@pytest.mark.parametrize("way", ["plain", "depends", "task", "refresh", "task refresh"])
def test_server_timing_tells_of_the_latest_evaluation(make: Make, context: Any, way: str) -> None:
    """Whichever way the flags are evaluated, and whether anybody has to be awaited for it."""
    app = FastAPI()
    shipsilently = make(context=context)
    shipsilently.install(app, server_timing=True)
    took: list[float | None] = []

    def note(flags: RequestFlags) -> str:
        took.append(flags.took)
        return flags.get("who", "")

    @app.get("/plain")
    def plain(request: Request) -> str:
        get_flags(request).load()
        return note(get_flags(request))

    @app.get("/depends")
    async def depends(flags: FlagsDep) -> str:
        return note(flags)

    @app.get("/task")
    async def task(request: Request) -> str:
        return note(await get_flags(request))

    @app.get("/refresh")
    def refresh(request: Request) -> str:
        flags: Any = get_flags(request).load()
        flags._took = None
        return note(flags.refresh())

    @app.get("/task refresh")
    async def task_refresh(request: Request) -> str:
        flags: Any = await get_flags(request)
        flags._took = None
        return note(await flags.arefresh())

    with serving(app) as client:
        for _ in range(2):
            # The second time nobody has to be asked.
            answer = client.get(f"/{way}", headers=PRO)
            assert answer.json() == "ada"
            assert "server-timing" in answer.headers
    assert all(seconds is not None and seconds > 0 for seconds in took)


@pytest.mark.parametrize("around", [True, False])
@pytest.mark.parametrize("joined", [True, False])
def test_server_timing_is_an_app_s_own_matter(make: Make, around: bool, joined: bool) -> None:
    """An app that is mounted, or that mounts, tells it where it wants to, with or without the
    other, whose client it may use."""
    outer = app_with(make(context=from_headers)) if not around else FastAPI()
    if around:
        make(context=from_headers).install(outer, server_timing=True)
    inner = FastAPI()
    if joined or not around:
        make(context=from_headers).install(inner, server_timing=not around)

    @inner.get("/")
    async def page(request: Request) -> str:
        return (await get_flags(request)).get("who", "")

    outer.mount("/in", inner)
    with serving(outer) as client:
        answer = client.get("/in/", headers=PRO)
    assert answer.json() == "ada"
    assert re.fullmatch(r"flags;dur=\d+\.\d", answer.headers["server-timing"])


def test_server_timing_is_off_by_default(make: Make) -> None:
    """Nobody is told about the flags unless the app wants it."""
    app = FastAPI()
    make(context=from_headers).install(app)

    @app.get("/flags")
    async def with_flags(flags: FlagsDep) -> str:
        return flags.get("who", "")

    with serving(app) as client:
        assert "server-timing" not in client.get("/flags", headers=PRO).headers


def test_without_server_timing_nothing_is_measured(make: Make) -> None:
    """Flags tell that they do not know, rather than a wrong time."""
    flags = make(context=from_headers).flags(HTTPConnection({"type": "http", "headers": []}))
    assert flags.load().took is None


@pytest.mark.parametrize("around", ["middleware", "app"])
@pytest.mark.parametrize("context", [from_headers, from_headers_async])
def test_server_timing_uses_the_flags_that_are_there(
    make: Make, service: ScriptedService, clock: ManualClock, around: str, context: Any
) -> None:
    """What a middleware outside, or an app around, has read stays so for the rest of a request."""

    class Around:
        def __init__(self, app: Any) -> None:
            self.app = app

        async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
            if scope["type"] != "http":
                await self.app(scope, receive, send)
                return
            flags = await get_flags(Request(scope))
            seen.extend([flags, flags.get("color", "")])
            service.set({"color": "blue"})
            # What is held is no longer fresh.
            clock.advance(1_000)
            await self.app(scope, receive, send)
            seen.append(get_flags(Request(scope)))

    def calling(connection: HTTPConnection) -> Any:
        calls.append(connection)
        return context(connection)

    calls: list[Any] = []
    seen: list[Any] = []
    shipsilently = make(context=calling)
    timed = FastAPI()
    shipsilently.install(timed, server_timing=True)
    app = timed if around == "middleware" else app_with(shipsilently)
    if app is not timed:
        app.mount("/", timed)
    app.add_middleware(Around)

    @timed.get("/")
    async def home(flags: FlagsDep) -> str:
        seen.append(flags)
        return flags.get("color", "")

    @timed.get("/again")
    async def again(flags: FlagsDep) -> str:
        return (await flags.refresh()).get("color", "")

    with serving(app) as client:
        answer = client.get("/", headers=PRO)
        assert (seen[1], answer.json()) == ("red", "red")
        assert seen[0] is seen[2] is seen[3]
        assert (len(calls), attempts(service)) == (1, 1)
        # Nobody has looked how long that took; of what comes later it is told.
        assert "server-timing" not in answer.headers
        answer = client.get("/again", headers=PRO)
        assert answer.json() == "blue"
        assert "server-timing" in answer.headers


def test_server_timing_needs_no_headers(make: Make) -> None:
    """An answer may leave its headers out, and what an app has sent is not changed."""
    sent = [
        {"type": "http.response.start", "status": 200},
        {"type": "http.response.start", "status": 200, "headers": [(b"a", b"b")]},
    ]
    before = [dict(message) for message in sent]

    async def raw(scope: Any, receive: Any, send: Any) -> None:
        await get_flags(Request(scope))
        await send(sent[int(scope["query_string"])])
        await send({"type": "http.response.body", "body": b""})

    app = FastAPI()
    make(context=from_headers).install(app, server_timing=True)
    app.mount("/raw", raw)
    with serving(app) as client:
        for number in range(2):
            answer = client.get(f"/raw/?{number}", headers=PRO)
            assert answer.status_code == 200
            assert re.fullmatch(r"flags;dur=\d+\.\d", answer.headers["server-timing"])
            assert answer.headers.get("a") == [None, "b"][number]
    assert sent == before


@pytest.mark.parametrize("shared", [True, False])
def test_server_timing_is_told_once(make: Make, shared: bool) -> None:
    """Where an app and one mounted in it both tell it, the answer has it one time."""
    outer, inner = FastAPI(), FastAPI()
    shipsilently = make(context=from_headers)
    shipsilently.install(outer, server_timing=True)
    of_inner = shipsilently if shared else make(context=from_headers)
    of_inner.install(inner, server_timing=True)

    @inner.get("/")
    async def page(flags: FlagsDep) -> str:
        return flags.get("who", "")

    outer.mount("/in", inner)
    with serving(outer) as client:
        answer = client.get("/in/", headers=PRO)
    assert re.fullmatch(r"flags;dur=\d+\.\d", answer.headers["server-timing"])
