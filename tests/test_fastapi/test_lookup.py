"""`current_flags`: where code without a connection finds the flags, and where it does not."""

import asyncio
import threading
from collections.abc import Callable
from contextvars import Context, copy_context
from typing import Any

import pytest
from fastapi import FastAPI, WebSocket
from shipsilently_fastapi import (
    FlagsDep,
    FlagsMiddleware,
    RequestFlags,
    ShipSilently,
    current_flags,
    get_flags,
)
from starlette.requests import HTTPConnection

from tests.test_fastapi.apps import PRO, app_with, from_headers, serving, socket_status

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
