"""`current_flags`: where code without a connection finds the flags, and where it does not."""

import asyncio
import threading
from collections.abc import Callable
from contextvars import Context, copy_context
from typing import Annotated, Any

import httpx2
import pytest
from fastapi import Depends, FastAPI, Request, WebSocket
from shipsilently_fastapi import (
    FlagsDep,
    FlagsMiddleware,
    RequestFlags,
    ShipSilently,
    current_flags,
    get_flags,
)
from starlette.middleware import Middleware
from starlette.requests import HTTPConnection

from shipsilently_core import ShipSilentlyClient
from shipsilently_core.testing import ScriptedService
from tests.test_fastapi.apps import PRO, Plans, app_with, from_headers, serving, socket_status

Make = Callable[..., ShipSilently]


def test_current_flags_are_those_of_the_request(make: Make) -> None:
    """In endpoints, sockets and the threads started for them, they are the request's own."""
    app = app_with(make(context=from_headers))

    @app.get("/async")
    async def read_async(flags: FlagsDep) -> list[bool]:
        in_task = asyncio.create_task(asyncio.to_thread(current_flags))
        return [current_flags() is flags, await in_task is flags]

    @app.get("/plain")
    def read_plain(flags: FlagsDep) -> list[bool]:
        return [current_flags() is flags, current_flags().is_enabled("new")]

    @app.websocket("/socket")
    async def read_socket(socket: WebSocket, flags: FlagsDep) -> None:
        await socket.accept()
        await socket.send_text(str(current_flags() is flags))

    with serving(app) as client:
        assert client.get("/async", headers=PRO).json() == [True, True]
        assert client.get("/plain", headers=PRO).json() == [True, True]
        assert socket_status(client, "/socket", headers=PRO) == "True"


def test_without_a_request_there_are_none(make: Make) -> None:
    """Outside of a request, and in a thread of one's own, the error says what to do."""
    with pytest.raises(LookupError, match="runs for no request"):
        current_flags()
    app = app_with(make(context=from_headers))
    errors: list[str] = []

    def work() -> None:
        try:
            current_flags()
        except LookupError as error:
            errors.append(str(error))

    @app.get("/")
    async def home() -> None:
        # In a context of its own, as threads were before they began to inherit one.
        thread = threading.Thread(target=Context().run, args=(work,))
        thread.start()
        await asyncio.to_thread(thread.join)

    with serving(app) as client:
        client.get("/", headers=PRO)
    assert len(errors) == 1
    with pytest.raises(LookupError):
        current_flags()


def test_without_the_middleware_there_are_none(make: Make) -> None:
    """Where only the lifespan is installed, the error names the middleware."""
    app = FastAPI(lifespan=make().lifespan)

    @app.get("/")
    async def home() -> str:
        with pytest.raises(LookupError, match="FlagsMiddleware"):
            current_flags()
        return "ok"

    with serving(app) as client:
        assert client.get("/").json() == "ok"


def test_a_mounted_apps_flags_are_current_while_it_runs(make: Make) -> None:
    """Within a mounted app with a context of its own, that app's flags are the current ones."""
    inner = app_with(make(context=lambda connection: {"userId": "inner"}))

    @inner.get("/who")
    async def who(flags: FlagsDep) -> list[Any]:
        return [flags.get("who", ""), current_flags() is flags]

    outer = app_with(make(context=from_headers))
    outer.mount("/inner", inner)
    with serving(outer) as client:
        assert client.get("/inner/who", headers=PRO).json() == ["inner", True]


def test_a_server_may_end_a_request_in_another_context(make: Make) -> None:
    """A request that is begun in one context and ended in another ends without an error."""

    async def endpoint(scope: Any, receive: Any, send: Any) -> None:
        assert current_flags() is scope["shipsilently.flags"]
        await asyncio.sleep(0)

    middleware: Any = FlagsMiddleware(endpoint, make())
    running = middleware({"type": "http", "headers": []}, None, None).__await__()
    copy_context().run(next, running)
    with pytest.raises(StopIteration):
        copy_context().run(next, running)


def test_threads_of_one_request_find_the_same_flags(make: Make) -> None:
    """Whichever thread is first to want the flags of a request, they are everybody's."""
    app = FastAPI(lifespan=make().lifespan)
    for _ in range(50):
        connection = HTTPConnection({"type": "http", "headers": [], "app": app})
        together = threading.Barrier(4)
        found: list[RequestFlags] = []

        def find(
            connection: HTTPConnection = connection,
            together: threading.Barrier = together,
            found: list[RequestFlags] = found,
        ) -> None:
            together.wait()
            found.append(get_flags(connection))

        threads = [threading.Thread(target=find) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert found == [get_flags(connection)] * 4


@pytest.mark.parametrize("has_middleware", [True, False])
@pytest.mark.parametrize("joins", [True, False])
@pytest.mark.parametrize("read_before", ["nothing", "around", "in a thread", "by a dependency"])
def test_current_flags_are_those_of_the_app_at_hand(
    make: Make, has_middleware: bool, joins: bool, read_before: str
) -> None:
    """In a mounted app without the middleware they are its own too, whoever has read before."""
    client = ShipSilentlyClient(
        api_key="sk_test" if joins else "sk_other",
        transport=ScriptedService(Plans()),
        background=False,
    )
    of_inner = ShipSilently(client=client, context=lambda connection: {"userId": "inner"})
    inner = app_with(of_inner) if has_middleware else FastAPI(lifespan=of_inner.lifespan)
    outer = app_with(make(context=from_headers))

    class Around:
        def __init__(self, app: Any) -> None:
            self.app = app

        async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
            if scope["type"] == "http" and read_before == "around":
                assert (await get_flags(Request(scope))).get("who", "") == "ada"
                assert current_flags().get("who", "") == "ada"
            await self.app(scope, receive, send)

    def in_thread(request: Request) -> None:
        if read_before == "in a thread":
            get_flags(request).load()

    async def in_task(request: Request) -> None:
        if read_before == "by a dependency":
            await get_flags(request)

    async def read() -> list[Any]:
        flags = await current_flags()
        in_thread = await asyncio.to_thread(current_flags)
        return [flags.get("who", ""), in_thread is flags]

    async def whose(
        request: Request,
        thread: Annotated[None, Depends(in_thread)],
        task: Annotated[None, Depends(in_task)],
    ) -> list[Any]:
        found = await asyncio.create_task(read())
        return [*found, get_flags(request) is current_flags()]

    outer.user_middleware.append(Middleware(Around))
    for app in (inner, outer):
        app.get("/who")(whose)
    outer.mount("/inner", inner)
    with serving(outer) as browser:
        for _ in range(2):
            assert browser.get("/inner/who", headers=PRO).json() == ["inner", True, True]
            assert browser.get("/who", headers=PRO).json() == ["ada", True, True]
    client.close()


def test_a_task_that_outlives_its_request_keeps_its_flags(make: Make) -> None:
    """What a request has read, a task that it has started finds after its end, once evaluated."""
    app = app_with(make(context=from_headers))
    seen: list[Any] = []
    over = asyncio.Event()

    async def later() -> None:
        await over.wait()
        seen.append(current_flags())

    @app.get("/")
    async def home(flags: FlagsDep) -> None:
        seen.extend([flags, asyncio.create_task(later())])

    async def run() -> None:
        transport = httpx2.ASGITransport(app=app)
        async with httpx2.AsyncClient(transport=transport, base_url="http://test") as client:
            await client.get("/", headers=PRO)
        over.set()
        await seen[1]

    asyncio.run(run())
    assert seen[0] is seen[2]


async def who(flags: FlagsDep) -> str:
    """An endpoint that says whom the flags are for."""
    return flags.get("who", "default")


def test_one_that_is_shared_by_outermost_and_innermost_hides_no_app_between(make: Make) -> None:
    """Each request is for whom the nearest app with a context says, not only the first."""
    shared = make()
    outermost, innermost = (FastAPI(lifespan=shared.lifespan) for _ in range(2))
    between = FastAPI(lifespan=make(context=from_headers).lifespan)
    innermost.get("/who")(who)
    between.mount("/innermost", innermost)
    outermost.mount("/between", between)
    outermost.mount("/innermost", innermost)
    with serving(innermost) as client:
        for _ in range(2):
            assert client.get("/who", headers=PRO).json() == "nobody"
    with serving(outermost) as client:
        for _ in range(2):
            assert client.get("/innermost/who", headers=PRO).json() == "nobody"
            assert client.get("/between/innermost/who", headers=PRO).json() == "ada"
