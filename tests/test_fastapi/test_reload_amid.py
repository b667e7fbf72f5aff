"""A login in the midst of something: of a step, a context function, a mounted app."""

import asyncio
import threading
from collections.abc import Callable
from typing import Annotated, Any

import pytest
from fastapi import Depends, FastAPI, Request
from fastapi.templating import Jinja2Templates
from jinja2 import DictLoader, Environment
from shipsilently_fastapi import (
    FlagsDep,
    RequestFlags,
    ShipSilently,
    connection,
    flags,
    get_flags,
    lookup,
)
from shipsilently_fastapi.templating import add_flags
from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Receive, Scope, Send

from shipsilently_core import Context, Flags
from tests.test_fastapi.apps import app_with, serving
from tests.test_fastapi.test_reload import log_in, of_session, of_session_async, request_of

Make = Callable[..., ShipSilently]

BOB = Context({"userId": "bob"})


class Amid:
    """Puts a login of bob into the midst of one step, the first time that it is done.

    Args:
        monkeypatch: To put itself in the step's place.
        owner: What has the step.
        name: Its name there.
        login: What to do.
    """

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, login: Callable[[], object]
    ) -> None:
        self.done = False
        real = getattr(owner, name)

        def step(*given: Any, **named: Any) -> Any:
            found = real(*given, **named)
            if not self.done:
                self.done = True
                login()
            return found

        monkeypatch.setattr(owner, name, step)


def test_what_a_first_read_asks_next_is_not_for_the_user_before(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A login between whom for and the evaluation of what is not known gives the new user's."""
    request = request_of("ada")
    flags = make(context=of_session).flags(request)

    def login() -> None:
        log_in(request, "bob")
        flags.reload_context(request)

    assert Amid(monkeypatch, RequestFlags, "_at_once", login).done is False
    flags.get("who", "")
    assert (flags.get("who", ""), flags.context) == ("bob", BOB)


class LoginByType(dict[str, Any]):
    """A scope whose type is asked for when somebody logs in."""

    login: Callable[[], object] | None = None

    def __getitem__(self, key: str) -> Any:
        login = self.login
        if key == "type" and login is not None:
            self.login = None
            login()
        return super().__getitem__(key)


@pytest.mark.parametrize("known", [True, False])
def test_a_login_amid_a_first_read_does_not_lose_the_connection(make: Make, known: bool) -> None:
    """The context function is asked for the new user, not passed over."""
    scope = LoginByType(request_of("ada").scope)
    request = Request(scope)
    shipsilently = make(context=of_session)
    flags = shipsilently.flags(request)
    if known:
        shipsilently.client.evaluate_all({"userId": "ada"})

    def login() -> None:
        log_in(request, "bob")
        flags.reload_context(request)

    scope.login = login
    flags.get("who", "")
    assert (flags.get("who", ""), flags.context) == ("bob", BOB)


def test_the_connection_of_a_login_stays(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a login changed a copy of the scope only, a read under way does not go back."""
    scope = request_of("ada").scope
    shipsilently = make(context=of_session)
    flags = shipsilently.flags(HTTPConnection(scope))
    flags._connection = scope
    changed = HTTPConnection({**scope, "session": {"user": "bob"}})
    Amid(monkeypatch, connection, "Request", lambda: flags.reload_context(changed))
    flags.get("who", "")
    assert (flags.get("who", ""), flags.context) == ("bob", BOB)


def test_whoever_looks_flags_up_after_a_login_changes_nothing(make: Make) -> None:
    """Code that has the request as it was before sees the new user's flags."""
    before = request_of("ada")
    app = app_with(make(context=of_session))
    before.scope["app"] = app
    flags = get_flags(before)
    assert flags.get("who", "") == "ada"
    flags.reload_context(HTTPConnection({**before.scope, "session": {"user": "bob"}}))
    assert get_flags(before).get("who", "") == "bob"


@pytest.mark.parametrize("kind", ["http", "websocket"])
def test_a_login_amid_a_refresh_keeps_nobody(
    make: Make, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """In whichever step of showing what a refresh has brought another thread reloads."""
    scope = {"type": kind, "headers": [], "session": {"user": "ada"}}
    request = HTTPConnection(scope)
    flags = make(context=of_session).flags(request)
    assert flags.get("who", "") == "ada"

    def login() -> None:
        log_in(request, "bob")
        flags.reload_context(request)

    amid = Amid(monkeypatch, Flags, "_settle", login)
    flags.refresh()
    if not amid.done:
        login()
    assert (flags.get("who", ""), flags.context) == ("bob", BOB)


# Several sets of flags in one request.


def mallory() -> dict[str, str]:
    """A dependency that says whom some flags are for."""
    return {"userId": "mallory"}


def eve() -> dict[str, str]:
    """Another one."""
    return {"userId": "eve"}


@pytest.mark.parametrize("by", range(3))
def test_all_flags_of_a_request_follow_a_login(make: Make, by: int) -> None:
    """Those of `using(...)` and the request's own, whichever of them is told."""
    app = app_with(make(context=of_session))
    templates = Jinja2Templates(env=Environment(loader=DictLoader({"who": "{{ flag('who') }}"})))
    add_flags(templates)

    @app.get("/")
    async def login(
        request: Request,
        own: FlagsDep,
        second: Annotated[RequestFlags, Depends(flags.using(mallory))],
        third: Annotated[RequestFlags, Depends(flags.using(eve))],
    ) -> list[Any]:
        every = [own, second, third]
        before = [each.get("who", "") for each in every]
        log_in(request, "ada")
        await every[by].reload_context(request)
        page = templates.TemplateResponse(request, "who").body
        return [*before, *(each.get("who", "") for each in every), page]

    with serving(app) as client:
        assert client.get("/").json() == ["nobody", "mallory", "eve", *["ada"] * 4]


async def test_flags_that_nobody_has_any_more_are_not_held(make: Make) -> None:
    """However often a socket makes flags for another context, they do not add up."""
    own = await make(context=of_session).flags(request_of("ada"))
    for user in range(10):
        own.of(Context({"userId": str(user)}))
    assert len(own._others) == 1


@pytest.mark.parametrize("installed", [True, False])
@pytest.mark.parametrize("by", ["inner", "outer"])
def test_a_login_in_a_mounted_app_is_one_for_the_app_around(
    make: Make, installed: bool, by: str
) -> None:
    """Each with a context function of its own, neither shows the user before."""
    outer = app_with(make(context=of_session))
    inner_flags = make(context=lambda connection: of_session(connection) | {"plan": "pro"})
    inner = app_with(inner_flags) if installed else FastAPI(lifespan=inner_flags.lifespan)
    seen: list[str] = []

    class Around:
        def __init__(self, app: ASGIApp) -> None:
            self.app = app

        async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] != "http":
                await self.app(scope, receive, send)
                return
            held = scope["around"] = await get_flags(HTTPConnection(scope))
            seen.append(held.get("who", ""))
            await self.app(scope, receive, send)
            seen.append((await held).get("who", ""))

    outer.add_middleware(Around)
    # So that it stands within the flags' own.
    outer.user_middleware.reverse()

    @inner.get("/")
    async def login(request: Request, flags: FlagsDep) -> list[str]:
        before = flags.get("who", "")
        log_in(request, "ada")
        told = flags if by == "inner" else request.scope["around"]
        await told.reload_context(request)
        return [before, (await flags).get("who", ""), str(told is flags)]

    outer.mount("/in", inner)
    with serving(outer) as client:
        assert client.get("/in/").json() == ["nobody", "ada", str(by == "inner")]
    assert seen == ["nobody", "ada"]


def test_two_threads_in_a_mounted_app_have_the_same_flags(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both look for the first time at once, and a login is seen by both."""
    outer, inner = app_with(make()), FastAPI(lifespan=make(context=of_session).lifespan)
    outer.mount("/in", inner)
    others: list[RequestFlags] = []

    @inner.get("/")
    def find(request: Request) -> bool:
        Amid(monkeypatch, lookup, "ref", lambda: others.append(get_flags(request)))
        return [get_flags(request)] == others

    with serving(outer) as client:
        assert client.get("/in/").json() is True


# A context function that does more than it should.


@pytest.mark.parametrize("awaitable", [True, False])
@pytest.mark.parametrize("step", ["read", "load", "refresh"])
@pytest.mark.parametrize("kind", ["http", "websocket"])
def test_a_context_function_that_reloads_comes_to_an_end(
    make: Make, caplog: pytest.LogCaptureFixture, awaitable: bool, step: str, kind: str
) -> None:
    """What everybody gets is served, and the log says what to change."""
    asked: list[RequestFlags] = []

    def context(connection: HTTPConnection) -> dict[str, Any]:
        if asked:
            log_in(connection, "bob")
            asked.append(asked[0].reload_context(connection))
        return of_session(connection)

    async def context_async(connection: HTTPConnection) -> dict[str, Any]:
        await asyncio.sleep(0)
        return context(connection)

    request = HTTPConnection({"type": kind, "headers": [], "session": {"user": "ada"}})
    flags = make(context=context_async if awaitable else context).flags(request)
    is_known = step == "refresh"
    if is_known:
        asyncio.run(flags.aload())
        assert flags.get("who", "default") == "ada"
    asked.append(flags)
    if is_known and kind == "http":
        flags.reload_context(request)

    async def act() -> str:
        if step == "refresh":
            await flags.refresh()
        elif step == "load" or awaitable:
            await flags
        return flags.get("who", "default")

    assert asyncio.run(act()) == "default"
    assert "reload_context where somebody logs in" in caplog.text
    assert len(asked) < 10


async def test_one_login_amid_many_reads_is_no_circle(make: Make) -> None:
    """However many tasks have asked for the user before, all see the new one."""
    request = request_of("ada")
    flags = make(context=of_session_async).flags(request)
    loading = [asyncio.ensure_future(flags.aget("who", "")) for _ in range(10)]
    await asyncio.sleep(0)
    log_in(request, "bob")
    flags.reload_context(request)
    assert await asyncio.gather(*loading) == ["bob"] * 10


@pytest.mark.parametrize("awaitable", [True, False])
def test_a_context_function_that_reads_a_flag_comes_to_an_end(make: Make, awaitable: bool) -> None:
    """It needs what it is to give; what everybody gets is served."""

    async def context_async(connection: HTTPConnection) -> dict[str, Any]:
        await own
        return of_session(connection)

    def context(connection: HTTPConnection) -> dict[str, Any]:
        own.get("who", "")
        return of_session(connection)

    own = make(context=context_async if awaitable else context).flags(request_of("ada"))
    asyncio.run(own.aload())
    assert own.get("who", "default") == "default"


class Once:
    """An awaitable that is no coroutine, and counts how often it is awaited."""

    def __init__(self, given: Any) -> None:
        self.given, self.awaited = given, 0

    def __await__(self) -> Any:
        self.awaited += 1
        yield from asyncio.sleep(0).__await__()
        return self.given


@pytest.mark.parametrize("reloaded", [True, False])
async def test_what_a_plain_context_function_gives_is_awaited_once(
    make: Make, reloaded: bool
) -> None:
    """Also where somebody logs in meanwhile: then what it gives anew is, too."""
    made: list[Once] = []

    def context(connection: HTTPConnection) -> Once:
        made.append(Once(of_session(connection)))
        return made[-1]

    request = request_of("ada")
    flags = make(context=context).flags(request)
    loading = asyncio.ensure_future(flags.aload())
    await asyncio.sleep(0)
    if reloaded:
        log_in(request, "bob")
        flags.reload_context(request)
    await loading
    assert [each.awaited for each in made] == [1] * (1 + reloaded)
    assert flags.get("who", "") == ("bob" if reloaded else "ada")


async def test_a_wait_for_the_context_that_is_cancelled_leaves_nothing(make: Make) -> None:
    """Whoever comes next asks anew, and it is for whoever is there by then."""
    request = request_of("ada")
    flags = make(context=of_session_async).flags(request)
    loading = asyncio.ensure_future(flags.aload())
    await asyncio.sleep(0)
    loading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await loading
    log_in(request, "bob")
    assert (await flags).get("who", "") == "bob"


def test_a_thread_of_an_endpoint_reads_while_the_loop_logs_in(make: Make) -> None:
    """A plain read that waits for an awaitable context gives the new user's value."""
    asked, logged_in = threading.Event(), threading.Event()

    async def context(connection: HTTPConnection) -> dict[str, Any]:
        found = of_session(connection)
        if found["userId"] == "eve":
            asked.set()
            await asyncio.to_thread(logged_in.wait, 10)
        return found

    app = app_with(make(context=context))

    @app.get("/")
    def read(request: Request) -> list[str]:
        log_in(request, "eve")
        own = get_flags(request)

        def login() -> None:
            assert asked.wait(10)
            log_in(request, "bob")
            own.reload_context(request)
            logged_in.set()

        other = threading.Thread(target=login)
        other.start()
        first = own.get("who", "")
        other.join()
        return [first, own.get("who", "")]

    with serving(app) as client:
        assert client.get("/").json() == ["bob", "bob"]
