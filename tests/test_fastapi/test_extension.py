"""`ShipSilently`: the client in an app, and who finds it."""

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest
from fastapi import APIRouter, BackgroundTasks, FastAPI, Request
from shipsilently_fastapi import FlagsDep, FlagsMiddleware, ShipSilently, get_flags
from shipsilently_fastapi.lifespan import STATE
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Mount, Route
from starlette.testclient import TestClient

from shipsilently_core import Config, ConfigurationError, ShipSilentlyClient
from shipsilently_core.testing import ScriptedService
from tests.test_fastapi.apps import (
    FREE,
    PRO,
    app_with,
    attempts,
    from_headers,
    serving,
    socket_status,
)

Make = Callable[..., ShipSilently]


async def who(flags: FlagsDep) -> str:
    """An endpoint that says whom the flags are for."""
    return flags.get("who", "")


def test_settings_are_checked_when_it_is_made() -> None:
    """Wrong settings are an error while the app is put together, and name the setting."""
    for settings, name in (
        ({"api_key": ""}, "api_key"),
        ({"api_key": "k", "timeout": 0}, "timeout"),
        ({"api_key": "k", "context": "user"}, "context"),
        ({"api_key": "k", "client": ShipSilentlyClient(api_key="k")}, "api_key"),
        ({"config": Config(api_key="k"), "client": ShipSilentlyClient(api_key="k")}, "config"),
        ({"config": Config(api_key="k"), "timeout": 1.0}, "timeout"),
        ({"config": "sk_secret"}, "config"),
        ({"api_key": "k", "timout": 1.0}, "timout"),
        ({"client": 3}, "client"),
    ):
        with pytest.raises(ConfigurationError) as error:
            ShipSilently(**settings)
        assert error.value.setting.startswith(name)


def test_settings_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without settings, key and address are those of the environment; the key is not shown."""
    monkeypatch.setenv("SHIPSILENTLY_API_KEY", "sk_secret")
    monkeypatch.setenv("SHIPSILENTLY_API_URL", "http://127.0.0.1:9")
    shipsilently = ShipSilently()
    assert (shipsilently.config.api_key, shipsilently.config.api_url) == (
        "sk_secret",
        "http://127.0.0.1:9",
    )
    assert repr(shipsilently) == "<ShipSilently http://127.0.0.1:9>"


def test_installing_joins_what_is_there(make: Make) -> None:
    """`install` keeps the app's own lifespan and its state, and does nothing the second time."""
    events = []

    async def lifespan(app: FastAPI) -> Any:
        events.append("start")
        yield {"own": 1}
        events.append("end")

    app = FastAPI(lifespan=lifespan)
    shipsilently = make(context=from_headers)
    shipsilently.install(app)
    shipsilently.install(app)
    added: list[object] = [entry.cls for entry in app.user_middleware]
    assert added == [FlagsMiddleware]

    @app.get("/")
    async def home(request: Request, flags: FlagsDep) -> list[Any]:
        found = getattr(request.state, STATE)
        return [request.state.own, found is shipsilently, flags.get("who", "")]

    with serving(app) as client:
        assert client.get("/", headers=PRO).json() == [1, True, "ada"]
    assert events == ["start", "end"]


@pytest.mark.parametrize("bare", ["test client", "transport"])
async def test_without_a_lifespan_it_starts_with_the_first_request(
    make: Make, caplog: pytest.LogCaptureFixture, bare: str
) -> None:
    """An app whose lifespan never runs serves real flags everywhere, and says so once."""
    app = app_with(make(context=from_headers))
    seen = []

    @app.get("/")
    async def home(request: Request, flags: FlagsDep, background: BackgroundTasks) -> str:
        background.add_task(lambda: seen.append(flags.get("who", "")))
        assert get_flags(request) is flags
        return flags.get("who", "")

    for _ in range(2):
        if bare == "test client":
            answer: Any = TestClient(app).get("/", headers=PRO)
        else:
            transport = httpx2.ASGITransport(app=app)
            async with httpx2.AsyncClient(transport=transport, base_url="http://test") as client:
                answer = await client.get("/", headers=PRO)
        assert answer.json() == "ada"
    assert seen == ["ada", "ada"]
    told = [line for line in caplog.messages if "no lifespan" in line]
    assert len(told) == 1
    assert "lifespan=shipsilently.lifespan" in told[0]


def test_with_a_lifespan_nothing_is_said(make: Make, caplog: pytest.LogCaptureFixture) -> None:
    """In an app that is set up as it should be, nothing is logged."""
    app = app_with(make(context=from_headers))
    app.get("/")(who)
    with caplog.at_level(logging.INFO, "shipsilently"), serving(app) as client:
        assert client.get("/", headers=PRO).json() == "ada"
    assert [record for record in caplog.records if record.name == "shipsilently"] == []


@pytest.mark.parametrize("settled", ["lifespan", "state"])
def test_without_lifespan_and_middleware_it_is_still_found(make: Make, settled: str) -> None:
    """Where no lifespan runs, the client is found by what the app was made with."""
    shipsilently = make(context=from_headers)
    app = FastAPI(lifespan=shipsilently.lifespan if settled == "lifespan" else None)
    if settled == "state":
        setattr(app.state, STATE, shipsilently)
    app.get("/")(who)
    assert TestClient(app).get("/", headers=PRO).json() == "ada"


def test_an_app_without_a_client_serves_defaults(caplog: pytest.LogCaptureFixture) -> None:
    """Where no client can be found, flags have their defaults and one line says what to do."""

    class ForgetfulApp(FastAPI):
        pass

    app = ForgetfulApp()

    @app.get("/")
    async def home(flags: FlagsDep) -> list[Any]:
        return [flags.get("who", "default"), flags.is_enabled("new")]

    with serving(app) as client:
        for _ in range(3):
            assert client.get("/").json() == ["default", False]
    told = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert len(told) == 1
    assert "ForgetfulApp" in told[0].getMessage()
    assert "shipsilently.install(app)" in told[0].getMessage()
    assert "the client starts" not in caplog.text


def test_a_mounted_app_finds_its_parents_client(make: Make, service: ScriptedService) -> None:
    """A mounted app that has nothing itself uses the client of the app around it."""
    inner = FastAPI()
    inner.get("/who")(who)
    for outer in (
        FastAPI(lifespan=make(context=from_headers).lifespan),
        app_with(make(context=from_headers)),
    ):
        outer.mount("/inner", inner)
        with serving(outer) as client:
            assert client.get("/inner/who", headers=PRO).json() == "ada"
    assert attempts(service) == 1


@pytest.mark.parametrize("installed", [True, False])
def test_a_mounted_app_alone_starts_lazily(
    make: Make, caplog: pytest.LogCaptureFixture, installed: bool
) -> None:
    """A mounted app's lifespan never runs, so its client starts with its first request."""
    shipsilently = make(context=from_headers)
    inner = app_with(shipsilently) if installed else FastAPI(lifespan=shipsilently.lifespan)
    inner.get("/who")(who)
    outer = FastAPI()
    outer.mount("/inner", inner)
    with serving(outer) as client:
        assert client.get("/inner/who", headers=PRO).json() == "ada"
    assert sum("no lifespan" in line for line in caplog.messages) == 1


def test_an_app_and_its_mounted_app_share_a_client(make: Make, service: ScriptedService) -> None:
    """Where both have the package for one environment, the parent's client serves both."""
    unused = ScriptedService()
    other = ShipSilentlyClient(api_key="sk_test", transport=unused, background=False)
    for inner in (
        app_with(ShipSilently(client=other)),
        FastAPI(lifespan=ShipSilently(client=other).lifespan),
    ):
        inner.get("/who")(who)
        outer = app_with(make(context=from_headers))
        outer.mount("/inner", inner)
        with serving(outer) as client:
            assert client.get("/inner/who", headers=PRO).json() == "ada"
    assert attempts(unused) == 0
    other.close()


@pytest.mark.parametrize("outer_has_middleware", [True, False])
@pytest.mark.parametrize("inner_has_middleware", [True, False])
def test_a_mounted_app_may_have_a_context_of_its_own(
    make: Make, outer_has_middleware: bool, inner_has_middleware: bool
) -> None:
    """A mounted app's own context function is used, with the parent's client."""
    unused = ScriptedService()
    other = ShipSilentlyClient(api_key="sk_test", transport=unused, background=False)

    def inner_context(connection: Any) -> dict[str, str]:
        return {"userId": "inner " + connection.headers["x-user"]}

    inside = ShipSilently(client=other, context=inner_context)
    inner = app_with(inside) if inner_has_middleware else FastAPI(lifespan=inside.lifespan)
    inner.get("/who")(who)
    around = make(context=from_headers)
    outer = app_with(around) if outer_has_middleware else FastAPI(lifespan=around.lifespan)
    outer.mount("/inner", inner)
    with serving(outer) as client:
        assert client.get("/inner/who", headers=PRO).json() == "inner ada"
    assert attempts(unused) == 0
    other.close()


@pytest.mark.parametrize("has_middleware", [True, False])
def test_a_mounted_app_may_be_of_another_environment(make: Make, has_middleware: bool) -> None:
    """A mounted app with another key asks with that key, by its own client."""
    other = ShipSilentlyClient(
        api_key="sk_other", transport=ScriptedService({"who": "other"}), background=False
    )
    inside = ShipSilently(client=other)
    inner = app_with(inside) if has_middleware else FastAPI(lifespan=inside.lifespan)
    inner.get("/who")(who)
    around = make(context=from_headers)
    outer = app_with(around) if has_middleware else FastAPI(lifespan=around.lifespan)
    outer.get("/who")(who)
    outer.mount("/inner", inner)
    with serving(outer) as client:
        assert client.get("/inner/who", headers=PRO).json() == "other"
        assert client.get("/who", headers=PRO).json() == "ada"
    other.close()


def test_a_router_can_bring_the_lifespan(make: Make) -> None:
    """`APIRouter(lifespan=shipsilently.lifespan)` starts the client with the app around it."""
    router = APIRouter(lifespan=make(context=from_headers).lifespan)
    router.get("/who")(who)
    app = FastAPI()
    app.include_router(router)
    with serving(app) as client:
        assert client.get("/who", headers=FREE).json() == "bob"


def test_plain_starlette_apps_are_served(make: Make) -> None:
    """A Starlette app has flags by `get_flags`, in plain and async endpoints, mounted ones too."""

    async def read_async(request: Request) -> PlainTextResponse:
        flags = await get_flags(request).aload()
        return PlainTextResponse(flags.get("who", ""))

    def read_plain(request: Request) -> PlainTextResponse:
        return PlainTextResponse(get_flags(request).get("who", ""))

    routes = [Route("/async", read_async), Route("/plain", read_plain)]
    app = Starlette(routes=[*routes, Mount("/inner", routes=routes)])
    make(context=from_headers).install(app)
    with serving(app) as client:
        for path in ("/async", "/plain", "/inner/async", "/inner/plain"):
            assert client.get(path, headers=PRO).text == "ada"


def test_a_client_of_ones_own_stays_open(make: Make, client: ShipSilentlyClient) -> None:
    """A client that was handed in is not closed by a lifespan: it is its owner's."""
    app = app_with(make(context=from_headers))
    app.get("/who")(who)
    for _ in range(2):
        with serving(app) as test_client:
            assert test_client.get("/who", headers=PRO).json() == "ada"
    assert not client.evaluator.closed
    assert socket_status(TestClient(app), "/nowhere") != "ada"


@pytest.mark.parametrize("joined", ["lifespan", "within", "install"])
@pytest.mark.parametrize("kept_in", ["yielded", "app.state"])
def test_an_app_may_keep_what_it_likes_under_our_plain_name(
    make: Make, client: ShipSilentlyClient, joined: str, kept_in: str
) -> None:
    """A client of the app's own that it calls `shipsilently` stays there and disturbs nothing."""
    shipsilently = make(context=from_headers)

    @asynccontextmanager
    async def own(app: FastAPI) -> AsyncIterator[dict[str, Any]]:
        if kept_in == "app.state":
            app.state.shipsilently = client
        yield {"shipsilently": client} if kept_in == "yielded" else {}

    @asynccontextmanager
    async def around(app: FastAPI) -> AsyncIterator[Any]:
        async with shipsilently.lifespan(app), own(app) as state:
            yield state

    if joined == "within":
        app = FastAPI(lifespan=around)
    elif joined == "install":
        app = FastAPI(lifespan=own)
        shipsilently.install(app)
    else:
        app = FastAPI(lifespan=shipsilently.lifespan(inner=own))
    inner = FastAPI()
    app.mount("/inner", inner)

    @app.get("/")
    @inner.get("/")
    async def home(request: Request, flags: FlagsDep) -> list[Any]:
        kept = getattr(request.state, "shipsilently", None) or getattr(app.state, "shipsilently", 0)
        return [flags.get("who", ""), kept is client]

    for _ in range(2):
        with serving(app) as browser:
            for path in ("/", "/", "/inner/", "/inner/"):
                assert browser.get(path, headers=PRO).json() == ["ada", True]


def test_middleware_of_the_apps_own_may_be_given_it(make: Make) -> None:
    """`install` takes no other middleware for ours because of what that was given."""

    class Own:
        def __init__(self, app: Any, shipsilently: ShipSilently) -> None:
            self.app = app

        async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
            await self.app(scope, receive, send)

    shipsilently = make(context=from_headers)
    app = FastAPI()
    app.add_middleware(Own, shipsilently=shipsilently)
    shipsilently.install(app)
    app.get("/")(who)
    with serving(app) as client:
        assert client.get("/", headers=PRO).json() == "ada"
