"""`reload_context`: flags that follow a login amid a request, and never show who was before."""

import asyncio
import gc
import threading
from collections.abc import Callable
from typing import Annotated, Any

import pytest
from fastapi import Depends, FastAPI, Request, WebSocket
from fastapi.templating import Jinja2Templates
from jinja2 import DictLoader, Environment
from shipsilently_fastapi import (
    FlagsDep,
    RequestFlags,
    ShipSilently,
    connection,
    current_flags,
    flags,
    get_flags,
)
from shipsilently_fastapi.templating import add_flags
from starlette.requests import HTTPConnection

from shipsilently_core import Context, Flags
from shipsilently_core import flags as core_flags
from shipsilently_core.testing import ScriptedService, override_flags
from tests.test_fastapi.apps import app_with, attempts, serving, socket_status

Make = Callable[..., ShipSilently]


def of_session(connection: HTTPConnection) -> dict[str, Any]:
    """A context function: whoever is logged in."""
    return {"userId": connection.scope.get("session", {}).get("user")}


async def of_session_async(connection: HTTPConnection) -> dict[str, Any]:
    """The same, awaitable."""
    await asyncio.sleep(0)
    return of_session(connection)


def log_in(connection: HTTPConnection, user: str | None) -> None:
    """Make this the request's user."""
    connection.scope["session"] = {"user": user}


def request_of(user: str) -> Request:
    """A request of this user."""
    return Request({"type": "http", "headers": [], "session": {"user": user}})


@pytest.mark.parametrize("context", [of_session, of_session_async])
@pytest.mark.parametrize("installed", [True, False])
def test_flags_follow_a_login(
    make: Make, service: ScriptedService, context: Any, installed: bool
) -> None:
    """After it, everything that shows flags shows the new user's, by one more evaluation."""
    shipsilently = make(context=context)
    app = app_with(shipsilently) if installed else FastAPI(lifespan=shipsilently.lifespan)
    templates = Jinja2Templates(env=Environment(loader=DictLoader({"who": "{{ flag('who') }}"})))
    add_flags(templates)

    @app.get("/async")
    async def login(request: Request, flags: FlagsDep) -> list[Any]:
        before = flags.get("who", "")
        log_in(request, "ada")
        assert await flags.reload_context(request) is flags
        found = [flags, get_flags(request), current_flags() if installed else flags]
        page = templates.TemplateResponse(request, "who").body
        return [before, *(each.get("who", "") for each in found), page]

    @app.get("/plain")
    def login_plain(request: Request, flags: FlagsDep) -> list[Any]:
        before = flags.get("who", "")
        log_in(request, "bob")
        return [before, flags.reload_context(request).get("who", ""), flags.get("who", "")]

    with serving(app) as client:
        assert client.get("/async").json() == ["nobody", *["ada"] * 4]
        assert client.get("/plain").json() == ["nobody", "bob", "bob"]
    assert attempts(service) == 3


@pytest.mark.parametrize("context", [of_session, of_session_async])
async def test_without_the_await_nobody_elses_values_are_served(
    make: Make, caplog: pytest.LogCaptureFixture, context: Any
) -> None:
    """What was seen before is gone at once; until somebody awaits, what is known is served."""
    request = request_of("ada")
    flags = await make(context=context).flags(request)
    assert flags.get("who", "") == "ada"
    log_in(request, "bob")
    flags.reload_context(request)
    assert flags.get("who", "default") == "default"
    assert flags.evaluate_all() == {}
    assert "await" in caplog.text
    assert (await flags).get("who", "") == "bob"
    assert flags.context == Context({"userId": "bob"})


class Turnstile(ScriptedService):
    """Answers for each user when that one is let."""

    def __init__(self) -> None:
        super().__init__(lambda context: {"who": context.get("userId", "nobody")})
        self.gates = {"ada": asyncio.Event(), "bob": asyncio.Event()}
        self.arrived = asyncio.Queue[str]()

    async def pass_(self, user: str) -> None:
        """Wait until they are let."""
        self.arrived.put_nowait(user)
        await self.gates[user].wait()

    async def asend(self, request: Any) -> Any:
        """Answer one request later."""
        answer = self.send(request)
        await self.pass_("bob" if b"bob" in request.body else "ada")
        return answer


@pytest.mark.parametrize("slow", ["context", "service"])
@pytest.mark.parametrize("kind", ["first", "refresh"])
@pytest.mark.parametrize("first_let", ["ada", "bob"])
async def test_an_evaluation_under_way_does_not_bring_the_one_before_back(
    make: Make, service: ScriptedService, slow: str, kind: str, first_let: str
) -> None:
    """Whichever is answered first, tasks that began before the login see the new user, too."""
    turnstile = Turnstile()

    async def context(connection: HTTPConnection) -> dict[str, Any]:
        found = of_session(connection)
        if slow == "context" and found["userId"] in turnstile.gates:
            await turnstile.pass_(found["userId"])
        return found

    client = make().client
    if slow == "service":
        client = type(client)(api_key="k", transport=turnstile, background=False, timeout=30)
    scope_type = "http" if kind == "first" else "websocket"
    request = HTTPConnection({"type": scope_type, "headers": [], "session": {"user": None}})
    flags = ShipSilently(client=client, context=context).flags(request)
    if kind == "refresh":
        turnstile.gates["ada"].set()
        await flags
        turnstile.gates["ada"].clear()
        while not turnstile.arrived.empty():
            turnstile.arrived.get_nowait()
    log_in(request, "ada")
    before = asyncio.ensure_future(flags.arefresh() if kind == "refresh" else flags.aload())
    async with asyncio.timeout(10):
        assert await turnstile.arrived.get() == "ada"
        log_in(request, "bob")
        after = asyncio.ensure_future(flags.reload_context(request).aload())
        assert await turnstile.arrived.get() == "bob"
        turnstile.gates[first_let].set()
        for _ in range(20):
            await asyncio.sleep(0)
            assert flags.get("who", "default") in ("default", "bob")
        for gate in turnstile.gates.values():
            gate.set()
        await asyncio.gather(before, after)
    assert flags.get("who", "") == "bob"
    assert flags.context == Context({"userId": "bob"})
    if slow == "service":
        client.close()


def test_a_thread_that_waits_does_not_bring_the_one_before_back(
    make: Make, service: ScriptedService
) -> None:
    """A read in another thread, under way at the login, gives the new user's value."""
    asked, go_on = threading.Event(), threading.Event()
    request = request_of("ada")

    def context(connection: HTTPConnection) -> dict[str, Any]:
        found = of_session(connection)
        if found["userId"] == "ada":
            asked.set()
            assert go_on.wait(10)
        return found

    flags = make(context=context).flags(request)
    seen: list[str] = []
    reader = threading.Thread(target=lambda: seen.append(flags.get("who", "")))
    reader.start()
    assert asked.wait(10)
    log_in(request, "bob")
    flags.reload_context(request)
    go_on.set()
    reader.join()
    assert seen == ["bob"]
    assert flags.context == Context({"userId": "bob"})


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("moment", ["ask", "found", "fresh", "seen", "shown"])
@pytest.mark.parametrize("awaited", [True, False])
def test_what_was_found_out_before_a_login_is_shown_to_nobody(
    make: Make, monkeypatch: pytest.MonkeyPatch, moment: str, known: bool, awaited: bool
) -> None:
    """In whichever step of a first read another thread reloads, the new user's value is given."""
    request = request_of("ada")
    shipsilently = make(context=of_session)
    flags = shipsilently.flags(request)
    if known:
        for user in ("ada", "bob"):
            shipsilently.client.evaluate_all({"userId": user})
    place, name = {
        "ask": (connection, "ask"),
        "found": (shipsilently.client.evaluator, "context"),
        "fresh": (shipsilently.client, "fresh"),
        "seen": (shipsilently.client, "aresolve" if awaited else "resolve"),
        "shown": (core_flags, "Seen"),
    }[moment]
    if known and moment in ("seen", "shown"):
        # That is one step then.
        place, name = connection, "Seen"
    step: Any = getattr(place, name)

    def amid(*given: Any) -> Any:
        found = step(*given)
        monkeypatch.undo()
        log_in(request, "bob")
        flags.reload_context(request)
        return found

    monkeypatch.setattr(place, name, amid)
    if awaited:
        asyncio.run(flags.aload())
    assert flags.get("who", "") == "bob"
    assert flags.context == Context({"userId": "bob"})


def test_a_login_while_a_read_lets_go_of_the_request_is_seen(make: Make) -> None:
    """A read that has found out for whom needs the request no more; one that comes after does."""
    logs_in = False
    flags: RequestFlags

    class Watched(Request):
        """A request, and whoever looks into it may find that somebody logs in meanwhile."""

        def __getattribute__(self, name: str) -> Any:
            nonlocal logs_in
            if name == "scope" and logs_in:
                logs_in = False
                log_in(self, "bob")
                flags.reload_context(self)
            return super().__getattribute__(name)

    def context(connection: HTTPConnection) -> dict[str, Any]:
        nonlocal logs_in
        user = of_session(connection)
        logs_in = user == {"userId": "ada"}
        return user

    flags = make(context=context).flags(Watched(request_of("ada").scope))
    flags.get("who", "")
    assert flags.get("who", "") == "bob"


def test_two_logins_in_the_midst_of_a_read_show_nobody_the_first_of_them(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A read that had begun before is for whoever came last, also where the flags are fresh."""
    request = request_of("ada")
    shipsilently = make(context=of_session)
    flags = shipsilently.flags(request)
    for user in ("ada", "bob", "eve"):
        shipsilently.client.evaluate_all({"userId": user})
    assert flags.get("who", "") == "ada"
    # Whichever of them a read goes on with that finds something to mind.
    steps: dict[str, Any] = {name: getattr(Flags, name) for name in ("_seen", "_seen_later")}
    fresh = shipsilently.client.fresh

    def reload(user: str) -> None:
        log_in(request, user)
        flags.reload_context(request)
        assert flags.context == Context({"userId": user})

    def first(go_on: Any, flags: Flags) -> Any:
        monkeypatch.undo()
        reload("bob")
        monkeypatch.setattr(shipsilently.client, "fresh", second)
        return go_on(flags)

    def second(*given: Any) -> Any:
        monkeypatch.undo()
        found = fresh(*given)
        reload("eve")
        return found

    for name, step in steps.items():
        monkeypatch.setattr(Flags, name, lambda self, step=step: first(step, self))
    assert flags.get("unknown", "default") == "default"
    assert flags.get("who", "") == "eve"


def test_a_read_in_the_midst_of_a_reload_keeps_nobody(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once `reload_context` has returned, the new user's value is read."""
    request = request_of("ada")
    flags = make(context=of_session).flags(request)
    assert flags.get("who", "") == "ada"
    forget = RequestFlags._forget

    def while_others_read(self: RequestFlags) -> None:
        assert flags.get("who", "") == "ada"
        forget(self)
        flags.get("who", "")

    monkeypatch.setattr(RequestFlags, "_forget", while_others_read)
    log_in(request, "bob")
    assert flags.reload_context(request).get("who", "") == "bob"
    assert flags.context == Context({"userId": "bob"})


def test_a_socket_can_reload_too(make: Make) -> None:
    """A socket's flags follow a login, and can be refreshed afterwards."""
    app = app_with(make(context=of_session))

    @app.websocket("/")
    async def socket(socket: WebSocket, flags: FlagsDep) -> None:
        await socket.accept()
        log_in(socket, "ada")
        seen = [flags.get("who", ""), (await flags.reload_context(socket)).get("who", "")]
        log_in(socket, "bob")
        await flags.refresh()
        await socket.send_text(" ".join([*seen, flags.get("who", "")]))

    with serving(app) as client:
        assert socket_status(client, "/") == "nobody ada bob"


@pytest.mark.parametrize("has_function", [True, False])
def test_flags_of_a_dependency_follow_the_context_function(make: Make, has_function: bool) -> None:
    """Flags of `flags.using(...)` become the context function's; without one, they stay."""

    def given() -> dict[str, str]:
        return {"userId": "eve"}

    app = app_with(make(context=of_session if has_function else None))
    user_flags: Any = flags.using(given)

    @app.get("/")
    async def login(
        request: Request, flags: Annotated[RequestFlags, Depends(user_flags)]
    ) -> list[str]:
        before = flags.get("who", "")
        log_in(request, "ada")
        return [before, (await flags.reload_context(request)).get("who", "")]

    with serving(app) as client:
        assert client.get("/").json() == ["eve", "ada" if has_function else "eve"]


def test_a_context_function_that_raises_then_leaves_nobody(
    make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    """Where it cannot be found out who is there, what everybody gets is served, not the old."""

    def context(connection: HTTPConnection) -> dict[str, Any]:
        if connection.scope["session"]["user"] is None:
            raise KeyError
        return of_session(connection)

    request = request_of("ada")
    flags = make(context=context).flags(request)
    assert flags.get("who", "") == "ada"
    log_in(request, None)
    assert flags.reload_context(request).get("who", "default") == "default"
    assert "the context function raised KeyError" in caplog.text


async def test_the_overrides_of_a_test_stay(make: Make, service: ScriptedService) -> None:
    """While a test has set flags, a reload asks nothing and shows what the test has set."""
    request = request_of("ada")
    flags = await make(context=of_session).flags(request)
    with override_flags(who="set"):
        log_in(request, "bob")
        assert (await flags.reload_context(request)).get("who", "") == "set"
    assert attempts(service) == 1
    assert (await flags).get("who", "") == "bob"


@pytest.mark.parametrize("installed", [True, False])
def test_a_login_leaves_no_garbage(make: Make, installed: bool) -> None:
    """Flags that have followed a login are gone with their request, without the collector."""
    shipsilently = make(context=of_session)
    app = app_with(shipsilently) if installed else FastAPI(lifespan=shipsilently.lifespan)

    def alive() -> int:
        return sum(type(thing) is RequestFlags for thing in gc.get_objects())

    @app.get("/")
    async def login(request: Request, flags: FlagsDep) -> str:
        log_in(request, "ada")
        return (await flags.reload_context(request)).get("who", "")

    with serving(app) as client:
        assert client.get("/").json() == "ada"
        gc.collect()
        gc.disable()
        try:
            before = alive()
            assert client.get("/").json() == "ada"
            assert alive() == before
        finally:
            gc.enable()
