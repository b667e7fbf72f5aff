"""Which client and whose context an app has, by what it was made with and by the apps around."""

import logging
from collections.abc import Callable, Iterator
from typing import Any

import httpx2
import pytest
from fastapi import APIRouter, FastAPI, Request, WebSocket
from shipsilently_fastapi import FlagsDep, ShipSilently, apps, get_flags
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import PlainTextResponse
from starlette.routing import Host, Mount, Route, Router
from starlette.testclient import TestClient

from shipsilently_core import ShipSilentlyClient
from shipsilently_core.testing import ScriptedService
from tests.test_fastapi.apps import (
    PRO,
    app_with,
    attempts,
    from_headers,
    serving,
    socket_status,
)

Make = Callable[..., ShipSilently]
Join = Callable[[FastAPI, ShipSilently], None]


async def who(flags: FlagsDep) -> str:
    """An endpoint that says whom the flags are for."""
    return flags.get("who", "default")


@pytest.fixture
def unused() -> Iterator[ShipSilentlyClient]:
    """A client of the same environment that mounted apps have, and that nobody should ask."""
    service = ScriptedService({"who": "another client"})
    client = ShipSilentlyClient(api_key="sk_test", transport=service, background=False)
    yield client
    assert attempts(service) == 0
    client.close()


def named(name: str) -> Callable[[Any], dict[str, str]]:
    """A context function of an app with this name."""
    return lambda connection: {"userId": f"{name} {connection.headers['x-user']}"}


def app_of(shipsilently: ShipSilently | None, has_middleware: bool) -> FastAPI:
    """An app with that page, with or without the middleware, or without everything."""
    if shipsilently is None:
        app = FastAPI()
    elif has_middleware:
        app = app_with(shipsilently)
    else:
        app = FastAPI(lifespan=shipsilently.lifespan)
    app.get("/who")(who)
    return app


@pytest.mark.parametrize("outer_has_middleware", [True, False])
@pytest.mark.parametrize("inner_has_middleware", [True, False])
@pytest.mark.parametrize(("own", "whose"), [(None, "inner"), (False, "inner"), (True, "third")])
def test_an_app_within_a_mounted_app_follows_the_nearest(
    make: Make,
    unused: ShipSilentlyClient,
    caplog: pytest.LogCaptureFixture,
    outer_has_middleware: bool,
    inner_has_middleware: bool,
    own: bool | None,
    whose: str,
) -> None:
    """The context is that of the nearest app that has one, the client that of the outermost."""
    of_its_own = None
    if own is not None:
        of_its_own = ShipSilently(client=unused, context=named("third") if own else None)
    third = app_of(of_its_own, inner_has_middleware)
    inner = app_of(ShipSilently(client=unused, context=named("inner")), inner_has_middleware)
    outer = app_of(make(context=from_headers), outer_has_middleware)
    inner.mount("/third", third)
    outer.mount("/inner", inner)
    with serving(outer) as client:
        for _ in range(2):
            assert client.get("/inner/third/who", headers=PRO).json() == f"{whose} ada"
            assert client.get("/inner/who", headers=PRO).json() == "inner ada"
            assert client.get("/who", headers=PRO).json() == "ada"
    # The lifespan that runs is the outermost app's, and nothing is wrong with that.
    assert caplog.messages == []


def mounted_plainly(outer: FastAPI, inner: FastAPI) -> None:
    """The usual way."""
    outer.mount("/inner", inner)


def mounted_in_a_router(outer: FastAPI, inner: FastAPI) -> None:
    """In a router that the app includes."""
    router = APIRouter()
    router.mount("/inner", inner)
    outer.include_router(router)


def mounted_with_middleware(outer: FastAPI, inner: FastAPI) -> None:
    """With middleware of the mount's own."""
    middleware = [Middleware(CORSMiddleware, allow_origins=["*"])]
    outer.router.routes.append(Mount("/inner", app=inner, middleware=middleware))


def mounted_in_a_mount(outer: FastAPI, inner: FastAPI) -> None:
    """In routes that are mounted together."""
    outer.router.routes.append(Mount("/", routes=[Mount("/inner", app=inner)]))


def mounted_on_a_host(outer: FastAPI, inner: FastAPI) -> None:
    """By the name of the host."""
    outer.router.routes.append(Host("testserver", app=Router([Mount("/inner", app=inner)])))


@pytest.mark.parametrize(
    "mount",
    [
        *(mounted_plainly, mounted_in_a_router, mounted_with_middleware, mounted_in_a_mount),
        mounted_on_a_host,
    ],
)
def test_the_apps_around_are_found_however_an_app_is_mounted(
    make: Make, unused: ShipSilentlyClient, mount: Callable[[FastAPI, FastAPI], None]
) -> None:
    """Mounts in routers, with middleware, in mounts and on hosts all lead to the app around."""
    third, inner = (
        FastAPI(),
        app_of(ShipSilently(client=unused, context=named("inner")), has_middleware=False),
    )
    third.get("/who")(who)
    outer = app_of(make(context=from_headers), has_middleware=False)
    mount(inner, third)
    mount(outer, inner)
    with serving(outer) as client:
        assert client.get("/inner/inner/who", headers=PRO).json() == "inner ada"


@pytest.mark.parametrize("has_router", [True, False])
async def test_where_no_state_arrives_a_mounted_app_finds_the_outermost(
    make: Make, caplog: pytest.LogCaptureFixture, has_router: bool
) -> None:
    """Without a lifespan, and with one whose state no server hands over, the client is found."""
    inner, third = FastAPI(), FastAPI()
    third.get("/who")(who)
    inner.mount("/third", third)
    outer = FastAPI(lifespan=make(context=from_headers).lifespan)
    if has_router:
        outer.include_router(APIRouter())
    outer.mount("/inner", inner)
    async with outer.router.lifespan_context(outer):
        transport = httpx2.ASGITransport(app=outer)
        async with httpx2.AsyncClient(transport=transport, base_url="http://test") as client:
            answer = await client.get("/inner/third/who", headers=PRO)
        assert answer.json() == "ada"
    assert caplog.messages == []
    assert TestClient(outer).get("/inner/third/who", headers=PRO).json() == "ada"
    told = [record.levelno for record in caplog.records if record.name == "shipsilently"]
    assert told == [logging.WARNING]


def test_a_mounted_app_that_includes_a_router_keeps_its_client(make: Make) -> None:
    """A mounted app's own lifespan never runs; a router in the app does not hide it."""
    inner = FastAPI(lifespan=make(context=from_headers).lifespan)
    router = APIRouter()
    router.get("/who")(who)
    inner.include_router(router)
    outer = FastAPI()
    outer.mount("/inner", inner)
    with serving(outer) as client:
        assert client.get("/inner/who", headers=PRO).json() == "ada"


def test_an_app_may_be_mounted_in_one_after_the_other(make: Make) -> None:
    """What is around an app is found anew where it is another one."""
    inner = FastAPI()
    inner.get("/who")(who)
    for name in ("first", "second"):
        between = FastAPI(lifespan=make(context=named(name)).lifespan)
        between.mount("/inner", inner)
        outer = FastAPI(lifespan=make(context=from_headers).lifespan)
        outer.mount("/between", between)
        with serving(outer) as client:
            assert client.get("/between/inner/who", headers=PRO).json() == f"{name} ada"


def test_routes_without_an_app_are_served(make: Make) -> None:
    """A router that a server runs as it is has its lifespan's client, run or not."""

    async def page(request: Request) -> PlainTextResponse:
        return PlainTextResponse((await get_flags(request)).get("who", "default"))

    lifespan = make(context=from_headers).lifespan
    router = Router([Route("/who", page)], lifespan=lifespan)
    with serving(router) as client:
        assert client.get("/who", headers=PRO).text == "ada"
    assert TestClient(router).get("/who", headers=PRO).text == "ada"
    app = Starlette(routes=[Route("/who", page)], lifespan=lambda app: lifespan(app))
    assert TestClient(app).get("/who", headers=PRO).text == "ada"


def mounted_in_two(
    make: Make,
    unused: ShipSilentlyClient,
    mount: Callable[[FastAPI, FastAPI], None],
    inner: FastAPI,
    has_middleware: bool = False,
) -> FastAPI:
    """An app that mounts two, both of which mount the same third one."""
    outer = app_of(make(context=from_headers), has_middleware)
    for name in ("first", "second"):
        of_its_own = ShipSilently(client=unused, context=named(name))
        between = app_of(of_its_own, has_middleware)
        mount(between, inner)
        outer.mount(f"/{name}", between)
    return outer


@pytest.mark.parametrize(
    "mount",
    [
        *(mounted_plainly, mounted_in_a_router, mounted_with_middleware, mounted_in_a_mount),
        mounted_on_a_host,
    ],
)
@pytest.mark.parametrize("has_middleware", [True, False])
@pytest.mark.parametrize("root_path", ["", "/shop"])
def test_an_app_in_several_follows_the_one_that_a_request_has_come_through(
    make: Make,
    unused: ShipSilentlyClient,
    caplog: pytest.LogCaptureFixture,
    mount: Callable[[FastAPI, FastAPI], None],
    has_middleware: bool,
    root_path: str,
) -> None:
    """Each request and each socket is for whom the apps around it say, however those mount it."""
    inner = FastAPI()
    inner.get("/who")(who)

    @inner.websocket("/socket")
    async def read_socket(socket: WebSocket, flags: FlagsDep) -> None:
        await socket.accept()
        await socket.send_text(flags.get("who", "default"))

    @inner.get("/deeper/who")
    async def deeper(flags: FlagsDep) -> str:
        return flags.get("who", "default")

    outer = mounted_in_two(make, unused, mount, inner, has_middleware)
    mount(outer, inner)
    with serving(outer, root_path=root_path) as client:
        for _ in range(2):
            for way, whose in (("/first", "first ada"), ("/second", "second ada"), ("", "ada")):
                for page in ("who", "deeper/who"):
                    answer = client.get(f"{root_path}{way}/inner/{page}", headers=PRO)
                    assert answer.json() == whose
                socket = f"{root_path}{way}/inner/socket"
                assert socket_status(client, socket, headers=PRO) == whose
    assert caplog.messages == []


def mounted_in_an_included_router(outer: FastAPI, inner: FastAPI) -> None:
    """In a router that is included below a path."""
    router = APIRouter()
    router.mount("/within", inner)
    outer.include_router(router, prefix="/inner")


def mounted_on_a_host_of_an_included_router(outer: FastAPI, inner: FastAPI) -> None:
    """By the name of the host, in a router that is included below a path."""
    router = APIRouter()
    router.routes.append(Host("testserver", app=Router([Mount("/within", app=inner)])))
    outer.include_router(router, prefix="/inner")


@pytest.mark.parametrize(
    "mount", [mounted_in_an_included_router, mounted_on_a_host_of_an_included_router]
)
def test_the_paths_of_included_routers_count(
    make: Make, unused: ShipSilentlyClient, mount: Callable[[FastAPI, FastAPI], None]
) -> None:
    """Where a router is included below a path, its mounts are followed there."""
    inner = FastAPI()
    inner.get("/who")(who)
    outer = mounted_in_two(make, unused, mount, inner)
    with serving(outer) as client:
        for name in ("first", "second"):
            answer = client.get(f"/{name}/inner/within/who", headers=PRO)
            assert answer.json() == f"{name} ada"


@pytest.mark.parametrize("has_middleware", [True, False])
@pytest.mark.parametrize("leads_to", ["nothing", "itself"])
def test_where_a_path_does_not_tell_the_way_the_log_says_what_to_do(
    make: Make,
    unused: ShipSilentlyClient,
    caplog: pytest.LogCaptureFixture,
    has_middleware: bool,
    leads_to: str,
) -> None:
    """A path that has been changed on the way leaves the outermost app, and `install` helps."""

    class Moved(FastAPI):
        pass

    # What is told once for each kind of app is told anew.
    apps._untold.cache_clear()

    class Moving:
        def __init__(self, app: Any) -> None:
            self.app = app

        async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
            moved = {**scope, "path": "/moved/who", "root_path": ""}
            await self.app(moved, receive, send)

    def mount(outer: FastAPI, inner: FastAPI) -> None:
        middleware = [Middleware(Moving)]
        outer.router.routes.append(Mount("/inner", app=inner, middleware=middleware))

    inner = Moved()
    inner.get("/moved/who")(who)
    outer = mounted_in_two(make, unused, mount, inner, has_middleware)
    if leads_to == "itself":
        ring = Router()
        ring.mount("/", ring)
        outer.mount("/moved", ring)
    with serving(outer) as client:
        for name in ("first", "second") * 2:
            whose = f"{name} ada" if has_middleware else "ada"
            assert client.get(f"/{name}/inner/who", headers=PRO).json() == whose
    told = [line for line in caplog.messages if "a Moved is" in line]
    assert len(told) == (not has_middleware)
    assert has_middleware or "shipsilently.install(app)" in told[0]


def test_a_way_that_is_hidden_is_not_guessed(
    make: Make, unused: ShipSilentlyClient, caplog: pytest.LogCaptureFixture
) -> None:
    """Where a function stands before a mounted app, nothing else is taken for the way."""

    class Hidden(FastAPI):
        pass

    def mount(outer: FastAPI, inner: FastAPI) -> None:
        async def function(scope: Any, receive: Any, send: Any) -> None:
            await inner(scope, receive, send)

        outer.mount("/inner", function)
        outer.mount("/", inner)

    inner = Hidden()
    inner.get("/who")(who)
    outer = mounted_in_two(make, unused, mount, inner)
    with serving(outer) as client:
        assert client.get("/first/who", headers=PRO).json() == "first ada"
        assert client.get("/first/inner/who", headers=PRO).json() == "ada"
    assert len([line for line in caplog.messages if "Hidden" in line]) == 1


def test_apps_that_mount_each_other_are_gone_through_once(
    make: Make, unused: ShipSilentlyClient
) -> None:
    """Mounts that lead back to where they came from come to an end."""
    inner, alone = FastAPI(), FastAPI()
    for app in (inner, alone):
        app.get("/who")(who)
    outer = mounted_in_two(make, unused, mounted_plainly, inner)
    between = [route.app for route in outer.routes if isinstance(route, Mount)]
    for each in between:
        for other in between:
            each.mount("/again", other)  # type: ignore[attr-defined]  # they are apps
    ring = Router()
    ring.mount("/ring", ring)
    outer.mount("/ring", ring)
    outer.mount("/alone", alone)
    with serving(outer) as client:
        for way, whose in (
            ("/first", "first"),
            ("/second", "second"),
            ("/first/again/again", "first"),
        ):
            assert client.get(f"{way}/inner/who", headers=PRO).json() == f"{whose} ada"
        assert client.get("/alone/who", headers=PRO).json() == "ada"


def test_among_very_many_apps_each_request_is_followed(
    make: Make, unused: ShipSilentlyClient
) -> None:
    """Where there are too many mounts to look through, a request still finds what it is in."""
    outer = app_of(make(context=from_headers), has_middleware=False)
    for _ in range(1_100):
        outer.mount("/many", Starlette())
    inner = FastAPI()
    inner.get("/who")(who)
    between = app_of(ShipSilently(client=unused, context=named("between")), has_middleware=False)
    between.mount("/inner", inner)
    outer.mount("/between", between)
    with serving(outer) as client:
        assert client.get("/between/inner/who", headers=PRO).json() == "between ada"
