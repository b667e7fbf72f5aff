"""`FlagSet`: typed flags."""

import asyncio
import sys
import threading
from collections.abc import Callable
from typing import Annotated, Any, ClassVar, Literal

import pytest
from fastapi import Depends, FastAPI, Header, WebSocket
from shipsilently_fastapi import FlagKey, FlagSet, RequestFlags, ShipSilently, flags

from shipsilently_core import ConfigurationError, Failure, ShipSilentlyClient, signals
from shipsilently_core.testing import ScriptedService, override_flags
from tests.test_fastapi.apps import FREE, PRO, app_with, attempts, serving, socket_status

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


@pytest.mark.parametrize(
    ("served", "field", "expected"),
    [
        ({"checkout-v2": 1}, "checkout_v2", False),
        ({"checkout-v2": "true"}, "checkout_v2", False),
        ({"checkout-v2": None}, "checkout_v2", False),
        ({"banner": "red"}, "banner", "blue"),
        ({"banner": True}, "banner", "blue"),
        ({"limit": True}, "limit", 3),
        ({"limit": 3.5}, "limit", 3),
        ({"limit": "5"}, "limit", 3),
        ({"rate": True}, "rate", 0.5),
        ({"rate": "1.5"}, "rate", 0.5),
        ({"layout": {"columns": "two"}}, "layout", {"columns": 1}),
        ({"layout": []}, "layout", {"columns": 1}),
        ({"texts/title": {}}, "title", "Hello"),
    ],
)
async def test_a_value_of_another_type_gives_the_declared_default(
    client: ShipSilentlyClient,
    service: ScriptedService,
    caplog: pytest.LogCaptureFixture,
    served: dict[str, Any],
    field: str,
    expected: Any,
) -> None:
    """A value that the field does not take is not served: default, signal and one warning."""
    service.set(SERVED | served)
    told: list[tuple[Any, ...]] = []

    def receiver(sender: Any, failure: Failure, status: Any, flag_key: str) -> None:
        told.append((sender, failure, status, flag_key))

    signals.connect(signals.evaluation_failed, receiver, sender=client)
    try:
        given = client.flags()
        await given.aevaluate_all()
        for _ in range(2):
            checkout = Checkout.of(given)
            assert getattr(checkout, field) == expected
    finally:
        signals.disconnect(signals.evaluation_failed, receiver, sender=client)
    assert vars(Checkout.of(given)) == vars(AS_SERVED) | {field: expected}
    (key,) = served
    assert told == [(client, Failure.TYPE_MISMATCH, None, key)] * 2
    (line,) = caplog.messages
    assert line.startswith(f"flag {key!r} holds a ")
    assert "default is served" in line


async def test_whole_numbers_are_whole_however_they_are_written(
    client: ShipSilentlyClient, service: ScriptedService
) -> None:
    """An int takes 3.0 and a float takes 3, since both are one number in JSON."""
    service.set({"limit": 7.0, "rate": 2})
    given = client.flags()
    await given.aevaluate_all()
    checkout = Checkout.of(given)
    assert (checkout.limit, type(checkout.limit)) == (7, int)
    assert (checkout.rate, type(checkout.rate)) == (2.0, float)


async def test_a_flag_may_be_called_as_its_field_is(
    client: ShipSilentlyClient, service: ScriptedService
) -> None:
    """A field is the flag of its very name where there is one, else the one with hyphens."""
    service.set({"checkout_v2": True, "checkout-v2": False})
    given = client.flags()
    await given.aevaluate_all()
    assert Checkout.of(given).checkout_v2 is True
    with override_flags({"checkout-v2": True}):
        service.set({})
        other = client.flags({"userId": "u2"})
        await other.aevaluate_all()
        assert Checkout.of(other).checkout_v2 is True


async def test_defaults_are_not_shared_between_sets(
    client: ShipSilentlyClient, service: ScriptedService
) -> None:
    """Changing an object in one set changes no other set and no default."""
    service.set({})
    given = client.flags()
    await given.aevaluate_all()
    Checkout.of(given).layout["columns"] = 9
    assert Checkout.of(given).layout == {"columns": 1}


async def test_without_the_service_a_set_has_its_defaults(
    client: ShipSilentlyClient, service: ScriptedService
) -> None:
    """Where nothing was ever known, every field has its default."""
    service.fail(503)
    given = client.flags()
    await given.aevaluate_all()
    assert Checkout.of(given) == Checkout()


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


def test_a_set_is_a_plain_frozen_object() -> None:
    """A set made by hand has its fields, compares by them, and cannot be changed."""
    checkout = Checkout(checkout_v2=True)
    assert (checkout.checkout_v2, checkout.banner, checkout.family) == (True, "blue", "not a flag")
    assert checkout == Checkout(checkout_v2=True) != Checkout()
    assert repr(checkout).startswith("Checkout(checkout_v2=True, banner='blue'")
    with pytest.raises(AttributeError, match="read-only"):
        checkout.banner = "green"  # type: ignore[misc]
    with pytest.raises(AttributeError, match="read-only"):
        del checkout.banner
    with pytest.raises(TypeError, match="unhashable"):
        hash(checkout)
    with pytest.raises(TypeError, match="no field 'colour'"):
        Checkout(colour="red")  # type: ignore[call-arg]


def test_sets_inherit_fields() -> None:
    """A set made from another has the fields of both."""

    class More(Checkout):
        extra: bool = True

    assert (More(limit=4).limit, More().extra) == (4, True)


def test_a_field_without_a_default_is_an_error_at_once() -> None:
    """Every field needs a default, for the day on which the flag cannot be had."""
    with pytest.raises(ConfigurationError, match=r"Bad\.x: needs a default"):

        class Bad(FlagSet):
            x: bool


def test_a_field_cannot_be_called_like_a_method() -> None:
    """A field whose name a method has is an error at once, which says what to do."""
    with pytest.raises(ConfigurationError, match=r"Bad\.using: is taken"):

        class Bad(FlagSet):
            using: bool = False  # type: ignore[assignment]  # the mistake


def test_a_default_of_another_type_is_an_error_at_once() -> None:
    """A default that its own field would not take is found while the class is made."""
    with pytest.raises(ConfigurationError, match=r"Bad\.x: has a default that is not"):

        class Bad(FlagSet):
            x: bool = 1  # type: ignore[assignment]


def test_a_type_that_no_flag_can_have_is_an_error_at_once() -> None:
    """A field of a type that JSON has no form for is found while the class is made."""
    with pytest.raises(ConfigurationError, match=r"Bad\.x: has a type"):

        class Bad(FlagSet):
            x: threading.Thread = threading.current_thread()

    with pytest.raises(ConfigurationError, match=r"Ambiguous\.x: has a type"):

        class Ambiguous(FlagSet):
            x: dict[str, int] | dict[str, str] = {}  # noqa: RUF012  # a default


class Early(FlagSet):
    """A set with a type that is defined further down."""

    level: "Level" = "low"


Level = Literal["low", "high"]


async def test_types_may_be_defined_later(
    client: ShipSilentlyClient, service: ScriptedService
) -> None:
    """A field's type may be defined after the set."""
    service.set({"level": "high"})
    given = client.flags()
    await given.aevaluate_all()
    assert Early.of(given).level == "high"
