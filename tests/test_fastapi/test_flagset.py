"""`FlagSet`: typed flags."""

import asyncio
import sys
import threading
from collections.abc import Callable
from typing import Annotated, Any, ClassVar, Literal

import pytest
from fastapi import Depends, FastAPI, Header, WebSocket
from shipsilently_fastapi import FlagKey, FlagSet, RequestFlags, ShipSilently, flags

import shipsilently_core
from shipsilently_core import ConfigurationError, ShipSilentlyClient
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


class Checkout(FlagSet):
    """The flags of a checkout."""

    family: ClassVar[str] = "not a flag"
    checkout_v2: bool = False
    banner: Literal["blue", "green"] = "blue"
    limit: int = 3
    rate: float = 0.5
    layout: dict[str, int] = {"columns": 1}  # noqa: RUF012  # a default, copied for each set
    title: Annotated[str, "shown on top", FlagKey("texts/title")] = "Hello"


SERVED = {
    "checkout-v2": True,
    "banner": "green",
    "limit": 5,
    "rate": 1,
    "layout": {"columns": 2},
    "texts/title": "Bonjour",
}
AS_SERVED = Checkout(
    checkout_v2=True, banner="green", limit=5, rate=1.0, layout={"columns": 2}, title="Bonjour"
)


def readers(app: FastAPI, dependency: Any) -> None:
    """Endpoints of every kind that show their set."""

    @app.get("/async")
    async def read_async(checkout: dependency) -> str:
        return repr(checkout)

    @app.get("/plain")
    def read_plain(checkout: dependency) -> str:
        return repr(checkout)

    @app.websocket("/socket")
    async def read_socket(socket: WebSocket, checkout: dependency) -> None:
        await socket.accept()
        await socket.send_text(repr(checkout))


def test_a_set_is_a_dependency(make: Make, service: ScriptedService) -> None:
    """Plain and async endpoints and sockets get the set with what the service says."""
    service.set(SERVED)
    app = app_with(make())
    readers(app, Annotated[Checkout, Depends(Checkout)])
    with serving(app) as client:
        for path in ("/async", "/plain"):
            assert client.get(path).json() == repr(AS_SERVED)
        assert socket_status(client, "/socket") == repr(AS_SERVED)
        operation = client.get("/openapi.json").json()["paths"]["/async"]["get"]
    assert "parameters" not in operation
    assert attempts(service) == 1


@pytest.mark.parametrize("spelling", ["class", "using"])
def test_a_set_is_made_on_the_event_loop(make: Make, spelling: str) -> None:
    """Making a set costs no thread, except for the class alone from Python 3.13 on."""
    threads = []

    class Watching(FlagSet):
        new: bool = False

        @classmethod
        def of(cls, flags: Any) -> Any:
            threads.append(threading.current_thread())
            return super().of(flags)

    dependency: Any = Watching if spelling == "class" else Watching.using(flags)
    app = app_with(make())

    @app.get("/")
    async def home(watching: Annotated[Watching, Depends(dependency)]) -> bool:
        threads.append(threading.current_thread())
        return watching.new

    with serving(app) as client:
        assert client.get("/").json() is False
    on_the_loop = threads[0] is threads[1]
    assert on_the_loop is (spelling == "using" or sys.version_info < (3, 13))


async def test_a_set_is_made_in_a_thread_too(client: ShipSilentlyClient) -> None:
    """A framework that calls the class in a thread gets the set itself, not something to await."""
    given = client.flags()
    await given.aevaluate_all()
    made: Any = Checkout
    assert await asyncio.to_thread(lambda: made(shipsilently_flags=given)) == Checkout.of(given)


def test_a_set_can_be_read_for_the_apps_own_user(make: Make, service: ScriptedService) -> None:
    """`Checkout.using(user_flags)` reads the set from the flags of `flags.using(...)`."""
    service.set(lambda context: {"checkout-v2": context["userId"] == "ada"})

    def current_context(x_user: Annotated[str, Header()]) -> dict[str, str]:
        return {"userId": x_user}

    app = app_with(make())
    readers(app, Annotated[Checkout, Depends(Checkout.using(flags.using(current_context)))])
    with serving(app) as client:
        for path in ("/async", "/plain"):
            assert client.get(path, headers=PRO).json() == repr(Checkout(checkout_v2=True))
            assert client.get(path, headers=FREE).json() == repr(Checkout())
        assert socket_status(client, "/socket", headers=PRO) == repr(Checkout(checkout_v2=True))


def test_a_set_can_be_overridden(make: Make) -> None:
    """`app.dependency_overrides[Checkout]` gives endpoints a set of the test's own."""
    app = app_with(make())
    readers(app, Annotated[Checkout, Depends(Checkout)])
    app.dependency_overrides[Checkout] = lambda: Checkout(banner="green")
    with serving(app) as client:
        assert client.get("/async").json() == repr(Checkout(banner="green"))


def test_the_flags_of_a_request_can_be_read_as_a_set(make: Make, service: ScriptedService) -> None:
    """`flags.as_(Checkout)` reads a set from flags that are at hand."""
    service.set(SERVED)
    app = app_with(make())

    @app.get("/")
    async def home(flags: Annotated[RequestFlags, Depends(flags)]) -> str:
        return repr(flags.as_(Checkout))

    with serving(app) as client:
        assert client.get("/").json() == repr(AS_SERVED)


def test_a_field_cannot_be_called_like_a_method() -> None:
    """A field whose name a method has is an error at once, which says what to do."""
    with pytest.raises(ConfigurationError, match=r"Bad\.using: is taken"):

        class Bad(FlagSet):
            using: bool = False  # type: ignore[assignment]  # the mistake


class Plain(shipsilently_core.FlagSet):
    """A set that knows no framework."""

    checkout_v2: bool = False


def test_a_set_of_the_core_is_a_dependency_too(make: Make, service: ScriptedService) -> None:
    """`flags.as_(Plain)` reads a set that a program shares between frameworks."""
    service.set(lambda context: {"checkout-v2": context.get("userId") == "ada"})
    app = app_with(make(context=from_headers))
    readers(app, Annotated[Plain, Depends(flags.as_(Plain))])
    with serving(app) as client:
        for path in ("/async", "/plain"):
            assert client.get(path, headers=PRO).json() == repr(Plain(checkout_v2=True))
            assert client.get(path, headers=FREE).json() == repr(Plain())
        assert socket_status(client, "/socket", headers=PRO) == repr(Plain(checkout_v2=True))
        app.dependency_overrides[flags.as_(Plain)] = lambda: Plain(checkout_v2=True)
        assert client.get("/async", headers=FREE).json() == repr(Plain(checkout_v2=True))
    assert flags.as_(Plain) is flags.as_(Plain)


async def test_a_set_is_the_cores_too(client: ShipSilentlyClient, service: ScriptedService) -> None:
    """A set made here is read by the flags of any framework."""
    service.set(SERVED)
    assert issubclass(Checkout, shipsilently_core.FlagSet)
    assert (await client.flags().aload()).as_(Checkout) == AS_SERVED
    assert (Checkout(limit=9).limit, Checkout().limit) == (9, 3)
