"""Start and end: composition, order, faults, cancelling, several lives."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Iterator
from typing import Any

import anyio
import pytest
from fastapi import APIRouter, FastAPI, Request
from shipsilently_fastapi import FlagsDep, Lifespan, ShipSilently
from shipsilently_fastapi.lifespan import running
from starlette.applications import Starlette
from starlette.testclient import TestClient

from shipsilently_core import ConfigurationError, ShipSilentlyClient
from shipsilently_core.testing import ScriptedService
from shipsilently_local import LocalService
from tests.test_fastapi.apps import our_threads, serving


@pytest.fixture
def local() -> Iterator[LocalService]:
    """A service on this machine."""
    with LocalService({"new": True}) as service:
        yield service


@pytest.fixture
def shipsilently(local: LocalService) -> ShipSilently:
    """With a client of its own, which talks to that service."""
    return ShipSilently(api_key=local.key, api_url=local.url)


def add_endpoint(app: FastAPI) -> None:
    """Add a page that shows a flag and what the lifespans have left in the state."""

    @app.get("/")
    async def home(request: Request, flags: FlagsDep) -> list[Any]:
        state = {name for name in ("own", "second") if hasattr(request.state, name)}
        return [flags.is_enabled("new"), sorted(state)]


@contextlib.asynccontextmanager
async def own(app: Any) -> AsyncIterator[dict[str, int]]:
    """An app's own lifespan, with state."""
    yield {"own": 1}


async def own_unwrapped(app: Any) -> AsyncIterator[dict[str, int]]:
    """The same as FastAPI takes it, too."""
    yield {"own": 1}


@contextlib.asynccontextmanager
async def second(app: Any) -> AsyncIterator[dict[str, int]]:
    """One more, with other state."""
    yield {"second": 2}


@contextlib.asynccontextmanager
async def stateless(app: Any) -> AsyncIterator[None]:
    """One without state."""
    yield


def test_the_lifespan_starts_and_ends_the_client(
    shipsilently: ShipSilently, local: LocalService
) -> None:
    """The client lives as long as the lifespan, and leaves no thread."""
    app = FastAPI(lifespan=shipsilently.lifespan)
    add_endpoint(app)
    with serving(app) as client:
        first = shipsilently.client
        assert client.get("/").json() == [True, []]
        assert local.wait_for_streams()
        assert our_threads()
    assert first.evaluator.closed
    assert not our_threads()


def test_an_app_may_live_several_times(shipsilently: ShipSilently, local: LocalService) -> None:
    """Each life of the app has a client that works, as in a row of tests."""
    app = FastAPI(lifespan=shipsilently.lifespan)
    add_endpoint(app)
    clients = []
    for _ in range(3):
        with serving(app) as client:
            clients.append(shipsilently.client)
            assert client.get("/").json() == [True, []]
            assert local.wait_for_streams()
    assert len({id(client) for client in clients}) == 3
    assert not our_threads()


@pytest.mark.parametrize(
    ("inner", "state"), [(own, ["own"]), (own_unwrapped, ["own"]), (stateless, [])]
)
def test_the_apps_own_lifespan_runs_within(
    shipsilently: ShipSilently, inner: Any, state: list[str]
) -> None:
    """`lifespan(inner=...)` takes every kind of lifespan and keeps its state."""
    app = FastAPI(lifespan=shipsilently.lifespan(inner=inner))
    add_endpoint(app)
    with serving(app) as client:
        assert client.get("/").json() == [True, state]


def test_lifespans_nest(shipsilently: ShipSilently) -> None:
    """Several inner lifespans all run, and the state of each is kept."""
    app = FastAPI(lifespan=shipsilently.lifespan(inner=own)(inner=second))
    add_endpoint(app)
    with serving(app) as client:
        assert client.get("/").json() == [True, ["own", "second"]]


def test_it_can_be_used_in_a_lifespan(shipsilently: ShipSilently) -> None:
    """An app's own lifespan may enter ours as a context manager."""

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[dict[str, Any]]:
        async with shipsilently.lifespan(app) as state:
            yield {**state, "own": 1}

    app = FastAPI(lifespan=lifespan)
    add_endpoint(app)
    with serving(app) as client:
        assert client.get("/").json() == [True, ["own"]]


@pytest.mark.parametrize("state", [None, {"own": 1}])
@pytest.mark.parametrize("path", ["/", "/inner/", "/inner/third/"])
def test_a_lifespan_around_it_need_not_hand_its_state_on(
    shipsilently: ShipSilently, caplog: pytest.LogCaptureFixture, state: Any, path: str
) -> None:
    """While ours runs within the app's own, requests find it, also those to mounted apps."""
    hidden = {"shipsilently": shipsilently}

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[Any]:
        async with hidden["shipsilently"].lifespan(app):
            yield state

    app, inner, third = FastAPI(lifespan=lifespan), FastAPI(), FastAPI()
    for each in (app, inner, third):
        add_endpoint(each)
    inner.mount("/third", third)
    app.mount("/inner", inner)
    for _ in range(2):
        with serving(app) as client:
            assert shipsilently.running == 1
            for _ in range(2):
                assert client.get(path).json() == [True, sorted(state or {})]
        assert (shipsilently.running, running) == (0, {})
    assert caplog.messages == []
    # It cannot be seen from outside what such a lifespan would run.
    assert TestClient(app).get(path).json() == [False, []]


def test_the_first_that_begins_serves_the_app() -> None:
    """Of several in an app's own lifespan, the first to begin is found, until it has ended."""
    first, second = (owned(ScriptedService({"new": new})) for new in (True, False))
    hidden = [first, second]

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with hidden[0].lifespan(app), hidden[1].lifespan(app):
            yield

    app = FastAPI(lifespan=lifespan)
    add_endpoint(app)
    with serving(app) as client:
        assert client.get("/").json() == [True, []]
        # The same app, once more at the same time.
        with serving(app) as another:
            assert another.get("/").json() == [True, []]
        assert client.get("/").json() == [True, []]
    assert running == {}


def test_the_client_can_be_used_from_the_first_to_the_last(
    shipsilently: ShipSilently, local: LocalService
) -> None:
    """An inner lifespan can evaluate before its yield and after it."""
    seen = []

    @contextlib.asynccontextmanager
    async def lifespan(app: Any) -> AsyncIterator[None]:
        seen.append(await shipsilently.client.aevaluate("new", {"userId": "a"}, False))
        assert await asyncio.to_thread(local.wait_for_streams)
        yield
        seen.append(await shipsilently.client.aevaluate("new", {"userId": "b"}, False))

    with serving(FastAPI(lifespan=shipsilently.lifespan(inner=lifespan))):
        pass
    assert seen == [True, True]
    assert not our_threads()


def test_a_shared_client_ends_with_the_last_lifespan(shipsilently: ShipSilently) -> None:
    """An app and a router with the same lifespan have one client, closed once."""
    app = FastAPI(lifespan=shipsilently.lifespan)
    app.include_router(APIRouter(lifespan=shipsilently.lifespan))
    add_endpoint(app)
    other = Starlette(lifespan=shipsilently.lifespan)
    with serving(app) as client:
        first = shipsilently.client
        with serving(other):
            assert shipsilently.client is first
        assert client.get("/").json() == [True, []]
        assert not first.evaluator.closed
    assert first.evaluator.closed


def test_a_failing_app_still_closes_the_client(shipsilently: ShipSilently) -> None:
    """Where the app's own lifespan raises at start or end, the client is closed all the same."""

    @contextlib.asynccontextmanager
    async def at_start(app: Any) -> AsyncIterator[None]:
        raise ZeroDivisionError
        yield

    @contextlib.asynccontextmanager
    async def at_end(app: Any) -> AsyncIterator[None]:
        yield
        raise ZeroDivisionError

    for inner in (at_start, at_end):
        first = shipsilently.client
        app = FastAPI(lifespan=shipsilently.lifespan(inner=inner))
        with pytest.raises(ZeroDivisionError), serving(app):
            pass
        assert first.evaluator.closed
    assert not our_threads()


def test_nothing_the_service_does_keeps_an_app_from_starting(
    free_port: int, local: LocalService
) -> None:
    """With no service, a silent one, a failing one or a wrong key, the app starts and serves."""
    local.fault("*", silence=True)
    with LocalService({}) as failing:
        failing.fault("*", status=500)
        for settings in (
            {"api_key": "k", "api_url": f"http://127.0.0.1:{free_port}"},
            {"api_key": local.key, "api_url": local.url, "timeout": 0.1},
            {"api_key": failing.key, "api_url": failing.url},
            {"api_key": "wrong", "api_url": failing.url},
        ):
            app = FastAPI(lifespan=ShipSilently(**settings).lifespan)
            add_endpoint(app)
            with serving(app) as client:
                assert client.get("/").json() == [False, []]
    assert not our_threads()


def test_a_client_that_cannot_start_does_not_keep_the_app_from_it(
    client: ShipSilentlyClient, caplog: pytest.LogCaptureFixture
) -> None:
    """A client that was closed before is reported, and the app serves what is known."""
    client.close()
    app = FastAPI(lifespan=ShipSilently(client=client).lifespan)
    add_endpoint(app)
    with serving(app) as test_client:
        assert test_client.get("/").json() == [False, []]
    assert sum("could not be started" in line for line in caplog.messages) == 1


async def test_the_end_delivers_what_was_counted() -> None:
    """What the flags of requests have counted has reached the service when the app has ended."""
    service = ScriptedService({"new": True})
    shipsilently = owned(service)
    app = FastAPI(lifespan=shipsilently.lifespan)
    add_endpoint(app)
    with serving(app) as client:
        for _ in range(3):
            assert client.get("/").json() == [True, []]
        assert service.events == []
    # The first was answered by the service, which has counted it itself.
    assert [event["flagKey"] for event in service.events] == ["new"] * 2


class SlowToClose(ScriptedService):
    """A transport that takes its time to close, and says when it has."""

    def __init__(self) -> None:
        super().__init__()
        self.closing = asyncio.Event()
        self.closed = False

    async def aclose(self) -> None:
        """Take a while."""
        self.closing.set()
        await asyncio.sleep(0.05)
        self.closed = True


class Brittle(ScriptedService):
    """A transport that cannot be closed."""

    async def aclose(self) -> None:
        """Fail."""
        raise OSError("no")


def owned(transport: ScriptedService) -> ShipSilently:
    """With a client of its own that uses this transport."""
    return ShipSilently(
        client=lambda: ShipSilentlyClient(api_key="k", transport=transport, background=False)
    )


@pytest.mark.parametrize("by", ["asyncio", "anyio"])
async def test_a_cancelled_shutdown_still_closes_the_client(by: str) -> None:
    """When the server cancels the shutdown meanwhile, the client is closed to the end."""
    transport = SlowToClose()
    lifespan = owned(transport).lifespan

    async def live() -> None:
        async with lifespan(FastAPI()):
            pass

    if by == "asyncio":
        task = asyncio.create_task(live())
        await transport.closing.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    else:
        async with anyio.create_task_group() as group:
            group.start_soon(live)
            await transport.closing.wait()
            group.cancel_scope.cancel()
    assert transport.closed


async def test_a_client_that_cannot_be_closed_does_not_break_the_end(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """What goes wrong while closing is logged, and the app ends as usual."""
    async with owned(Brittle()).lifespan(FastAPI()):
        pass
    assert sum("could not be closed" in line for line in caplog.messages) == 1


def test_a_lifespan_that_is_called_without_an_app_says_how_it_is_meant() -> None:
    """Handed over called, it would fail at the start of the app, with words of FastAPI's."""
    with pytest.raises(ConfigurationError, match=r"write lifespan=shipsilently\.lifespan$"):
        ShipSilently(api_key="k").lifespan()  # type: ignore[call-overload]  # the mistake


def test_an_event_loop_that_is_not_asyncio_s_is_refused_at_the_start() -> None:
    """As trio's, in which each request would fail; the client is not started."""
    shipsilently = ShipSilently(client=ShipSilentlyClient(api_key="k", background=False))
    entered = shipsilently.lifespan(FastAPI()).__aenter__()
    with pytest.raises(ConfigurationError, match="needs asyncio's event loop"):
        entered.send(None)
    assert not shipsilently.running


def test_the_lifespan_is_an_object() -> None:
    """`shipsilently.lifespan` is one object, by which an app's client can be found."""
    shipsilently = ShipSilently(api_key="k")
    assert isinstance(shipsilently.lifespan, Lifespan)
    assert shipsilently.lifespan(inner=own).shipsilently is shipsilently


def test_a_start_takes_no_time_however_slow_names_are_looked_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Starting and ending wait neither for a name server nor for a connection."""
    import threading
    import time

    release = threading.Event()

    def never(*args: Any, **kwargs: Any) -> Any:
        release.wait(20)
        raise socket.gaierror("no")

    monkeypatch.setattr(socket, "getaddrinfo", never)
    shipsilently = ShipSilently(api_key="k", api_url="http://slow.invalid")
    began = time.monotonic()
    try:
        with serving(FastAPI(lifespan=shipsilently.lifespan)):
            started = time.monotonic() - began
    finally:
        release.set()
    assert started < 1
    assert time.monotonic() - began < 5


def test_without_a_lifespan_the_client_can_be_closed_by_hand(
    shipsilently: ShipSilently, local: LocalService
) -> None:
    """`close` ends what requests have started, leaves no thread, and may be called twice."""
    app = FastAPI()
    shipsilently.install(app)
    add_endpoint(app)
    clients = []
    for _ in range(2):
        assert TestClient(app).get("/").json() == [True, []]
        assert local.wait_for_streams()
        clients.append(shipsilently.client)
        shipsilently.close()
        shipsilently.close()
        assert not our_threads()
    assert clients[0] is not clients[1]
    assert all(client.evaluator.closed for client in clients)
