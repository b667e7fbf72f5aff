"""What is found in an app's own lifespan that was never run, however ours was put into it."""

import contextlib
import gc
import logging
import weakref
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from types import ModuleType
from typing import Any

import pytest
from fastapi import APIRouter, FastAPI
from shipsilently_fastapi import FlagsDep, ShipSilently
from shipsilently_fastapi.behind import behind
from starlette.testclient import TestClient

from tests.test_fastapi.apps import PRO, from_headers, serving

Make = Callable[..., ShipSilently]
Lifespans = Callable[[ShipSilently], Any]


async def who(flags: FlagsDep) -> str:
    """An endpoint that says whom the flags are for."""
    return flags.get("who", "default")


def with_routers(shipsilently: ShipSilently, number: int = 1) -> FastAPI:
    """An app with that many routers, each included after the other."""
    app = FastAPI(lifespan=shipsilently.lifespan)
    for _ in range(number):
        app.include_router(APIRouter())
    return app


def with_nested_routers(shipsilently: ShipSilently) -> FastAPI:
    """An app with a router in a router, of which the inner one brings the lifespan."""
    inner, outer = APIRouter(lifespan=shipsilently.lifespan), APIRouter(prefix="/outer")
    outer.include_router(inner, prefix="/inner")
    app = FastAPI()
    app.include_router(outer)
    app.include_router(APIRouter())
    return app


def by_closure(shipsilently: ShipSilently) -> Any:
    """A lifespan that holds ours."""

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with shipsilently.lifespan(app):
            yield

    return lifespan


def by_a_bare_generator(shipsilently: ShipSilently) -> Any:
    """The same, which FastAPI makes a context manager of."""

    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with shipsilently.lifespan(app):
            yield

    return lifespan


def by_a_plain_generator(shipsilently: ShipSilently) -> Any:
    """A plain one, which FastAPI takes, too."""

    def lifespan(app: FastAPI) -> Iterator[None]:
        shipsilently.client.start()
        yield

    return lifespan


def by_a_list(shipsilently: ShipSilently) -> Any:
    """Several lifespans that a helper has put together."""
    lifespans: list[Any] = [contextlib.asynccontextmanager(nothing), shipsilently.lifespan]

    @contextlib.asynccontextmanager
    async def together(app: FastAPI) -> AsyncIterator[None]:
        async with contextlib.AsyncExitStack() as stack:
            for lifespan in lifespans:
                await stack.enter_async_context(lifespan(app))
            yield

    return together


def by_partial(shipsilently: ShipSilently) -> Any:
    """A lifespan that takes ours as an argument."""

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI, *, given: ShipSilently) -> AsyncIterator[None]:
        async with given.lifespan(app):
            yield

    return partial(lifespan, given=shipsilently)


class Site:
    """An object that holds what its app needs."""

    def __init__(self, shipsilently: ShipSilently) -> None:
        self.flags = shipsilently

    @contextlib.asynccontextmanager
    async def lifespan(self, app: FastAPI) -> AsyncIterator[None]:
        """The app's."""
        async with self.flags.lifespan(app):
            yield

    def __call__(self, app: FastAPI) -> Any:
        """The same, of the object itself."""
        return self.lifespan(app)


async def nothing(app: Any) -> AsyncIterator[None]:
    """A lifespan that does nothing."""
    yield


#: Lifespans of an app's own.
OWN: list[Lifespans] = [
    *(by_closure, by_a_bare_generator, by_a_plain_generator, by_a_list, by_partial),
    *(lambda shipsilently: Site(shipsilently).lifespan, Site),
]


def with_own(made: Lifespans, shipsilently: ShipSilently) -> FastAPI:
    """An app with a lifespan of its own."""
    return FastAPI(lifespan=made(shipsilently))


@pytest.mark.parametrize(
    "build",
    [
        *(with_routers, partial(with_routers, number=400), with_nested_routers),
        *(partial(with_own, made) for made in OWN),
    ],
)
def test_an_app_whose_lifespan_is_not_run_finds_its_client(
    make: Make, caplog: pytest.LogCaptureFixture, build: Callable[[ShipSilently], FastAPI]
) -> None:
    """Whatever ours was put into, requests have real flags, and the log has one line."""
    app = build(make(context=from_headers))
    app.get("/")(who)
    app.include_router(APIRouter())
    for _ in range(2):
        assert TestClient(app).get("/", headers=PRO).json() == "ada"
    told = [record for record in caplog.records if record.name == "shipsilently"]
    assert [record.levelno for record in told] == [logging.WARNING]
    assert "no lifespan" in told[0].getMessage()


@contextlib.asynccontextmanager
async def by_name(app: FastAPI) -> AsyncIterator[None]:
    """A lifespan of a module, which names what that holds."""
    async with globally.lifespan(app):
        yield


@contextlib.asynccontextmanager
async def by_another(app: FastAPI) -> AsyncIterator[None]:
    """A lifespan that enters another one of the module."""
    async with by_name(app):
        yield


@contextlib.asynccontextmanager
async def by_module(app: FastAPI) -> AsyncIterator[None]:
    """A lifespan that names what another module holds."""
    async with elsewhere.there.lifespan(app):
        yield


globally: Any = None
elsewhere: Any = ModuleType("elsewhere")


@pytest.mark.parametrize("lifespan", [by_name, by_another, by_module])
def test_a_lifespan_may_name_what_a_module_holds(
    make: Make, monkeypatch: pytest.MonkeyPatch, lifespan: Any
) -> None:
    """An app's own lifespan that enters ours by its name in a module leads to the client."""
    shipsilently = make(context=from_headers)
    monkeypatch.setitem(globals(), "globally", shipsilently)
    monkeypatch.setattr(elsewhere, "there", shipsilently, raising=False)
    # Each app needs a lifespan of its own: what was found for one is remembered.
    app = FastAPI(lifespan=partial(lifespan))
    app.get("/")(who)
    assert TestClient(app).get("/", headers=PRO).json() == "ada"


def test_the_apps_own_comes_before_its_routers(make: Make) -> None:
    """Of several, it is the one that serves while the lifespan runs: what is entered first."""
    by_user = {name: make(context=lambda _, n=name: {"userId": n}) for name in ("a", "b", "c")}
    first, second, third = by_user.values()

    @contextlib.asynccontextmanager
    async def own(app: FastAPI) -> AsyncIterator[None]:
        async with second.lifespan(app), first.lifespan(app), third.lifespan(app):
            yield

    own_first = FastAPI(lifespan=first.lifespan)
    routers_only, two_of_its_own = FastAPI(), FastAPI(lifespan=own)
    for app, expected in ((own_first, "a"), (routers_only, "b"), (two_of_its_own, "b")):
        app.get("/")(who)
        for shipsilently in (second, third):
            app.include_router(APIRouter(lifespan=shipsilently.lifespan))
        assert TestClient(app).get("/").json() == expected
        with serving(app) as client:
            assert client.get("/").json() == expected


def test_what_was_found_keeps_no_app_alive(make: Make) -> None:
    """An app that nobody uses any more is gone, with what was found out about it."""
    app = with_routers(make())
    app.get("/")(who)
    outer = FastAPI()
    outer.mount("/inner", app)
    assert TestClient(outer).get("/inner/").json() == "nobody"
    gone = [weakref.ref(thing) for thing in (app, outer, app.router.lifespan_context)]
    del app, outer
    gc.collect()
    assert [thing() for thing in gone] == [None] * 3


class Difficult:
    """Wants nobody to look at it."""

    __slots__ = ()

    def __getattribute__(self, name: str) -> Any:
        """Refuse."""
        raise RuntimeError("working outside of a context")

    def __call__(self, app: Any) -> Any:
        """Be a lifespan."""
        return contextlib.asynccontextmanager(nothing)(app)


def test_nothing_that_a_lifespan_holds_is_disturbed(make: Make) -> None:
    """What only wants to be called, what is not there yet, and what holds itself do no harm."""
    difficult, later = Difficult(), make()
    around: list[Any] = [difficult]
    around.append(around)
    never: Any = later

    @contextlib.asynccontextmanager
    async def lifespan(app: Any) -> AsyncIterator[None]:
        async with (
            difficult(app),
            around[0](app),
            never.lifespan(app),  # noqa: F821  # nothing is there, which is what it is for
            later.lifespan(app),
        ):
            yield

    del never
    assert behind(lifespan) is later
    assert behind(difficult) is None
    assert behind(None) is None
