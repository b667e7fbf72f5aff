"""`RequestFlags`: lazy, for whoever asks, refreshed on demand, usable to the very end."""

import asyncio
import gc
import threading
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from contextvars import ContextVar
from typing import Any

import pytest
from fastapi import BackgroundTasks, Depends, FastAPI, Request, WebSocket
from fastapi.responses import JSONResponse, StreamingResponse
from shipsilently_fastapi import FlagsDep, RequestFlags, ShipSilently, current_flags, get_flags
from starlette.requests import HTTPConnection, empty_receive, empty_send

from shipsilently_core import Context, EvaluationError, ShipSilentlyClient, Source
from shipsilently_core.testing import ManualClock, ScriptedService
from tests.core.support import check_unknown
from tests.test_fastapi.apps import (
    FREE,
    PRO,
    app_with,
    attempts,
    from_headers,
    from_headers_async,
    serving,
    socket_status,
)

Make = Callable[..., ShipSilently]


def connection(kind: str = "http", **headers: str) -> HTTPConnection:
    """A request or a socket with these headers."""
    pairs = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    return HTTPConnection({"type": kind, "headers": pairs, "path": "/"})


ADA = connection(x_user="ada", x_plan="pro")


@pytest.mark.parametrize("sent", [["new"], {"new": 1}, None, 1], ids=str)
async def test_what_somebody_sends_for_a_key_may_be_anything(make: Make, sent: Any) -> None:
    """A key that is no string is read as an unknown flag, by each verb, and raises nothing."""
    for flags in (await make().flags(ADA), make().flags(ADA)):
        assert await flags.aget(sent, "mine") == "mine"
        assert await flags.ais_enabled(sent) is False
        assert (await flags.adetail(sent, "mine")).value == "mine"
        check_unknown(flags, sent)


async def test_the_context_is_found_out_when_the_first_flag_is_needed(
    make: Make, service: ScriptedService
) -> None:
    """The context function is not called before, and once only."""
    calls = []

    async def context(connection: HTTPConnection) -> dict[str, Any]:
        calls.append(connection)
        return {"userId": "ada"}

    flags = make(context=context).flags(ADA)
    assert calls == []
    assert await flags is flags
    assert flags.get("who", "") == "ada"
    await flags.aload()
    assert await flags.aget("who", "") == "ada"
    assert [call.scope for call in calls] == [ADA.scope]
    assert flags.context == Context({"userId": "ada"})
    assert attempts(service) == 1


async def test_tasks_of_one_request_share_its_evaluation(
    make: Make, service: ScriptedService
) -> None:
    """Tasks that start together get the same flags by one attempt."""
    flags = make(context=from_headers_async).flags(ADA)
    found = await asyncio.gather(*(flags.aget("who", "") for _ in range(20)))
    assert found == ["ada"] * 20
    assert attempts(service) == 1


async def test_tasks_that_find_out_the_context_together_agree(make: Make) -> None:
    """Where two tasks call the context function at once, the first answer is everybody's."""
    numbers = iter(["first", "second"])

    async def context(connection: HTTPConnection) -> dict[str, str]:
        await asyncio.sleep(0.01)
        return {"userId": next(numbers)}

    flags = make(context=context).flags(ADA)
    found = await asyncio.gather(flags.aget("who", ""), flags.aget("who", ""))
    assert list(found) == ["first", "first"]
    assert list(numbers) == []


@pytest.mark.parametrize("context", [from_headers, from_headers_async])
def test_plain_code_in_a_thread_may_be_the_first_to_read(
    make: Make, service: ScriptedService, context: Any
) -> None:
    """A plain endpoint that awaits nothing gets real flags, whatever the context function is."""
    app = app_with(make(context=context))

    @app.get("/")
    def home(request: Request) -> list[Any]:
        flags = get_flags(request)
        return [flags.get("who", ""), flags.is_enabled("new"), "who" in flags]

    with serving(app) as client:
        assert client.get("/", headers=PRO).json() == ["ada", True, True]
    assert attempts(service) == 1


@pytest.mark.parametrize("context", [from_headers, from_headers_async])
async def test_a_plain_read_on_the_loop_serves_what_is_known(
    make: Make, service: ScriptedService, caplog: pytest.LogCaptureFixture, context: Any
) -> None:
    """A read before any await never blocks the loop: what is known, with one line of advice."""
    flags = make(context=context).flags(ADA)
    assert flags.get("who", "default") == "default"
    assert flags.detail("who", "default").source is Source.DEFAULT
    assert attempts(service) == 0
    assert sum("await" in line for line in caplog.messages) == 1
    assert await flags.aget("who", "") == "ada"
    assert flags.get("who", "") == "ada"


class Eventually:
    """Something to await that is no coroutine."""

    def __await__(self) -> Generator[Any, Any, dict[str, str]]:
        """Give a context."""
        return from_headers_async(ADA).__await__()  # type: ignore[return-value]  # of headers


@pytest.mark.parametrize("context", [from_headers_async, lambda connection: Eventually()])
async def test_a_plain_read_in_a_foreign_thread_serves_what_everybody_gets(
    make: Make, client: ShipSilentlyClient, context: Any
) -> None:
    """Where an async context function cannot be awaited, nobody else's values are served."""
    await client.aevaluate_all({})
    await client.aevaluate_all({"userId": "eve"})
    flags = make(context=context).flags(ADA)
    found = []
    thread = threading.Thread(target=lambda: found.append(flags.get("who", "default")))
    thread.start()
    await asyncio.to_thread(thread.join)
    assert found == ["default"]
    assert await flags.aget("who", "") == "ada"


async def context_with_a_bug_async(connection: HTTPConnection) -> dict[str, str]:
    """Fails."""
    raise KeyError("ada's secret")


def context_with_a_bug(connection: HTTPConnection) -> dict[str, str]:
    """Fails."""
    raise KeyError("ada's secret")


@pytest.mark.parametrize("context", [context_with_a_bug, context_with_a_bug_async])
def test_a_context_function_that_raises_breaks_no_request(
    make: Make, service: ScriptedService, caplog: pytest.LogCaptureFixture, context: Any
) -> None:
    """A bug in the context function costs the flags, not the request; the log says where."""
    app = app_with(make(context=context))

    @app.get("/async")
    async def read_async(flags: FlagsDep) -> str:
        return flags.get("who", "default")

    @app.get("/plain")
    def read_plain(request: Request) -> str:
        return get_flags(request).get("who", "default")

    with serving(app) as client:
        for path in ("/async", "/plain"):
            assert client.get(path).json() == "default"
    told = [line for line in caplog.messages if "context function" in line]
    assert len(told) == 1
    assert "KeyError" in told[0]
    assert "test_connection.py" in told[0]
    assert "secret" not in caplog.text
    assert attempts(service) == 0


def test_a_context_of_a_wrong_kind_is_told_of(make: Make, caplog: pytest.LogCaptureFixture) -> None:
    """A context function that gives no mapping costs the context, not the request."""
    app = app_with(make(context=lambda connection: "ada"))

    @app.get("/")
    async def home(flags: FlagsDep) -> str:
        return flags.get("who", "")

    with serving(app) as client:
        assert client.get("/").json() == "nobody"
    assert any("a str cannot be read as a mapping" in line for line in caplog.messages)


def test_a_socket_can_be_refreshed(
    make: Make, service: ScriptedService, clock: ManualClock
) -> None:
    """A socket keeps its flags, and `await flags.refresh()` shows what a new request would see."""
    app = app_with(make(context=from_headers))

    @app.websocket("/")
    async def socket(socket: WebSocket, flags: FlagsDep) -> None:
        await socket.accept()
        async for message in socket.iter_text():
            if message == "refresh":
                assert await flags.refresh() is flags
            await socket.send_json(flags.get("color", ""))

    def ask(session: Any, message: str) -> Any:
        session.send_text(message)
        return session.receive_json()

    with serving(app) as client, client.websocket_connect("/", headers=PRO) as session:
        assert ask(session, "read") == "red"
        service.set({"color": "blue"})
        assert ask(session, "refresh") == "red"
        assert attempts(service) == 1
        clock.advance(60)
        assert ask(session, "read") == "red"
        assert ask(session, "refresh") == "blue"
        service.fail(503)
        clock.advance(60)
        assert ask(session, "refresh") == "blue"
        assert attempts(service) == 3


async def test_a_refresh_finds_out_the_context_anew(make: Make) -> None:
    """After a refresh the flags are those of whoever the socket belongs to by then."""
    user = {"userId": "ada"}
    flags = make(context=lambda connection: dict(user)).flags(connection("websocket"))
    assert await flags.aget("who", "") == "ada"
    user["userId"] = "bob"
    assert await flags.aget("who", "") == "ada"
    await flags.refresh()
    assert flags.get("who", "") == "bob"
    assert flags.context == Context({"userId": "bob"})

    request = make(context=lambda connection: dict(user)).flags(ADA)
    await request.aload()
    user["userId"] = "eve"
    await request.refresh()
    assert request.get("who", "") == "bob"
    fixed = flags.of(Context({"userId": "mallory"}))
    await fixed.aload()
    await fixed.refresh()
    assert fixed.get("who", "") == "mallory"


async def test_a_socket_that_forgets_the_await_keeps_its_flags(
    make: Make, service: ScriptedService, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing is asked, the values stay the same person's, one line tells, the next await asks."""
    user = {"userId": "ada"}

    async def context(connection: HTTPConnection) -> dict[str, str]:
        return dict(user)

    flags = await make(context=context).flags(connection("websocket"))
    clock.advance(60)
    user["userId"] = "bob"
    assert flags.refresh().get("who", "") == "ada"
    assert flags.context == Context({"userId": "ada"})
    assert attempts(service) == 1
    assert sum("await" in line for line in caplog.messages) == 1
    assert await flags.aget("who", "") == "bob"
    assert flags.context == Context({"userId": "bob"})


async def test_a_slow_refresh_of_one_person_does_not_replace_the_next_one(
    make: Make, clock: ManualClock
) -> None:
    """Where a socket becomes another's amid a refresh, the later refresh is what is seen."""
    people = asyncio.Queue[str]()
    release = asyncio.Event()

    async def context(connection: HTTPConnection) -> dict[str, str]:
        name = await people.get()
        if name == "slow":
            await release.wait()
        return {"userId": name}

    people.put_nowait("ada")
    flags = await make(context=context).flags(connection("websocket"))
    people.put_nowait("slow")
    slow = asyncio.ensure_future(flags.refresh())
    await asyncio.sleep(0)
    assert flags.get("who", "") == "ada"
    people.put_nowait("bob")
    await flags.refresh()
    assert flags.get("who", "") == "bob"
    release.set()
    await slow
    assert flags.get("who", "") == "bob"
    assert flags.context == Context({"userId": "bob"})


async def test_a_refresh_that_raises_leaves_a_socket_whose_it_was(service: ScriptedService) -> None:
    """With `disable_cache`, values and context both stay as they were before a failed refresh."""
    user = {"userId": "ada"}
    client = ShipSilentlyClient(
        api_key="k", transport=service, background=False, disable_cache=True
    )
    shipsilently = ShipSilently(client=client, context=lambda connection: dict(user))
    flags = await shipsilently.flags(connection("websocket"))
    user["userId"] = "bob"
    service.fail(503)
    with pytest.raises(EvaluationError):
        await flags.refresh()
    assert flags.get("who", "") == "ada"
    assert flags.context == Context({"userId": "ada"})
    client.close()


@pytest.mark.parametrize("context", [from_headers, from_headers_async])
def test_plain_code_in_a_thread_refreshes_at_once(
    make: Make, service: ScriptedService, clock: ManualClock, context: Any
) -> None:
    """Where waiting is allowed, `flags.refresh()` needs no `await`."""
    app = app_with(make(context=context))

    @app.get("/")
    def home(request: Request) -> list[str]:
        flags = get_flags(request)
        seen = flags.get("color", "")
        service.set({"color": "blue"})
        clock.advance(60)
        return [seen, flags.get("color", ""), flags.refresh().get("color", "")]

    with serving(app) as client:
        assert client.get("/", headers=PRO).json() == ["red", "red", "blue"]
    assert attempts(service) == 2


def test_flags_can_be_read_after_the_response(make: Make, service: ScriptedService) -> None:
    """Background tasks, plain and async, and streaming bodies read the request's own flags."""
    app = app_with(make(context=from_headers))
    seen = []

    def task(flags: RequestFlags) -> None:
        seen.append(flags.get("who", "") + current_flags().get("who", ""))

    async def async_task(flags: RequestFlags) -> None:
        seen.append(await flags.aget("who", "") + await current_flags().aget("who", ""))

    @app.get("/tasks")
    async def tasks(request: Request, background: BackgroundTasks) -> str:
        background.add_task(task, get_flags(request))
        background.add_task(async_task, get_flags(request))
        return "ok"

    @app.get("/stream")
    async def stream(request: Request) -> StreamingResponse:
        async def body() -> AsyncIterator[str]:
            for _ in range(3):
                yield await get_flags(request).aget("who", "") + " "

        return StreamingResponse(body())

    @app.get("/plain-stream")
    def plain_stream() -> StreamingResponse:
        def body() -> Iterator[str]:
            for _ in range(3):
                yield current_flags().get("who", "") + " "

        return StreamingResponse(body())

    with serving(app) as client:
        assert client.get("/tasks", headers=PRO).json() == "ok"
        assert seen == ["adaada", "adaada"]
        assert client.get("/stream", headers=FREE).text == "bob bob bob "
        assert client.get("/plain-stream", headers=FREE).text == "bob bob bob "
    assert attempts(service) == 2


current: ContextVar[dict[str, str]] = ContextVar("current")


def set_user(request: Request) -> None:
    """Set the user as a plain dependency does: where the endpoint cannot see it."""
    current.set({"userId": request.headers["x-user"]})
    request.state.user = request.headers["x-user"]


async def set_user_async(request: Request) -> None:
    """Set the user as an async dependency does."""
    set_user(request)


@pytest.mark.parametrize("dependency", [set_user, set_user_async])
def test_the_user_may_be_set_by_any_kind_of_dependency(make: Make, dependency: Any) -> None:
    """What a dependency has put into the request's state before is there for the context."""

    def context(connection: HTTPConnection) -> dict[str, str]:
        return {"userId": connection.state.user}

    app = app_with(make(context=context), dependencies=[Depends(dependency)])

    @app.get("/async")
    async def read_async(request: Request, flags: FlagsDep) -> list[str]:
        found = (flags, get_flags(request), current_flags())
        return [flags.get("who", "") for flags in found]

    @app.get("/plain")
    def read_plain(request: Request, flags: FlagsDep) -> list[str]:
        found = (flags, get_flags(request), current_flags())
        return [flags.get("who", "") for flags in found]

    with serving(app) as client:
        for path in ("/async", "/plain"):
            for headers, user in ((PRO, "ada"), (FREE, "bob")):
                assert client.get(path, headers=headers).json() == [user] * 3


def test_a_middleware_may_copy_the_scope(make: Make) -> None:
    """What a middleware within has put into a scope of its own is there for the context."""

    def context(connection: HTTPConnection) -> dict[str, str]:
        return {"userId": connection.scope["who"]}

    class Copying:
        def __init__(self, app: Any) -> None:
            self.app = app

        async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
            await self.app({**scope, "who": "ada"}, receive, send)

    app = FastAPI()
    app.add_middleware(Copying)
    make(context=context).install(app)

    @app.get("/")
    async def home(flags: FlagsDep) -> str:
        return flags.get("who", "")

    with serving(app) as client:
        assert client.get("/").json() == "ada"


def test_an_exception_handler_can_read_flags(make: Make) -> None:
    """Flags are there for the app's own exception handlers."""
    app = app_with(make(context=from_headers))

    @app.exception_handler(LookupError)
    async def handler(request: Request, error: Exception) -> JSONResponse:
        return JSONResponse(get_flags(request).get("who", ""), 418)

    @app.get("/")
    async def home(flags: FlagsDep) -> None:
        raise LookupError

    with serving(app) as client:
        answer = client.get("/", headers=PRO)
    assert (answer.status_code, answer.json()) == (418, "ada")


def test_users_are_kept_apart_under_load(make: Make) -> None:
    """Many threads of plain endpoints, each for its own user: nobody sees another's value."""
    app = app_with(make(context=from_headers))

    @app.get("/")
    def home(flags: FlagsDep) -> list[Any]:
        return [flags.get("who", ""), flags.is_enabled("new")]

    wrong = []

    def ask(client: Any, number: int) -> None:
        plan = "pro" if number % 2 else "free"
        headers = {"x-user": f"u{number}", "x-plan": plan}
        for _ in range(10):
            answer = client.get("/", headers=headers).json()
            if answer != [f"u{number}", plan == "pro"]:
                wrong.append(answer)

    with serving(app) as client:
        threads = [threading.Thread(target=ask, args=(client, n)) for n in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert wrong == []


def test_a_socket_gets_what_requests_get(make: Make) -> None:
    """`get_flags` works with a socket, before it is accepted and after."""
    app = app_with(make(context=from_headers_async))

    @app.websocket("/")
    async def socket(socket: WebSocket) -> None:
        flags = await get_flags(socket).aload()
        await socket.accept()
        assert get_flags(socket) is flags
        await socket.send_text(flags.get("who", ""))

    with serving(app) as client:
        assert socket_status(client, "/", headers=PRO) == "ada"


@pytest.mark.parametrize("installed", [True, False])
def test_a_request_leaves_no_garbage(make: Make, installed: bool) -> None:
    """The flags of a request, used or not, are gone with it, without the garbage collector."""
    shipsilently = make(context=from_headers)
    app = app_with(shipsilently) if installed else FastAPI(lifespan=shipsilently.lifespan)

    def alive() -> int:
        return sum(type(thing) is RequestFlags for thing in gc.get_objects())

    @app.get("/used")
    async def used(flags: FlagsDep) -> list[Any]:
        return [flags.get("who", ""), alive()]

    @app.get("/unused")
    async def unused() -> int:
        return alive()

    with serving(app) as client:
        gc.collect()
        gc.disable()
        try:
            before = alive()
            assert client.get("/used", headers=PRO).json() == ["ada", before + 1]
            assert client.get("/unused", headers=PRO).json() == before + installed
            assert alive() == before
        finally:
            gc.enable()


@pytest.mark.parametrize("way", ["scope", "common", "whole"])
@pytest.mark.parametrize("has_to_be_awaited", [True, False])
@pytest.mark.parametrize(("kind", "whole"), [("http", Request), ("websocket", WebSocket)])
async def test_the_context_function_takes_a_request_or_a_socket(
    make: Make, way: str, has_to_be_awaited: bool, kind: str, whole: Any
) -> None:
    """Also where only the scope is there, or what requests and sockets have in common."""

    def context(connection: Any) -> dict[str, str]:
        assert type(connection) is whole
        given.append(connection)
        return {"userId": getattr(connection, "method", "no method")}

    async def context_async(connection: Any) -> dict[str, str]:
        return context(connection)

    given: list[Any] = []
    common = connection(kind)
    common.scope["method"] = "PUT"
    handed_over: Any = {
        "scope": common.scope,
        "common": common,
        "whole": whole(common.scope, empty_receive, empty_send),
    }[way]
    flags = make(context=context_async if has_to_be_awaited else context).flags(handed_over)
    await flags
    assert flags.get("who", "") == ("PUT" if kind == "http" else "no method")
    await flags.refresh()
    assert flags.get("who", "") == ("PUT" if kind == "http" else "no method")
    assert all(one is given[0] for one in given)
    assert (given[0] is handed_over) is (way == "whole")


async def test_a_connection_of_ones_own_kind_is_handed_over_as_it_is(make: Make) -> None:
    """What is more than an `HTTPConnection` gets to the context function."""

    class Visit(HTTPConnection):
        visitor = "ada"

    def context(connection: Any) -> dict[str, str]:
        return {"userId": connection.visitor}

    flags = await make(context=context).flags(Visit({"type": "http", "headers": []}))
    assert flags.get("who", "") == "ada"
