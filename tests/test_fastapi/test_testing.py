"""Flags that a test decides."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Annotated, Any

import pytest
from fastapi import Depends, Request, WebSocket
from jinja2 import Environment
from shipsilently_fastapi import (
    FlagsDep,
    FlagSet,
    ShipSilently,
    flags,
    get_flags,
    requires_flag,
)
from shipsilently_fastapi.templating import add_flags
from shipsilently_fastapi.testing import fixed_flags, override_flags
from starlette.templating import Jinja2Templates

import shipsilently_core.testing
from shipsilently_core.testing import ScriptedService
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


def current_context(request: Request) -> dict[str, str]:
    """The app's own user."""
    return {"userId": request.headers.get("x-user", "nobody")}


user_flags = flags.using(current_context)


def test_fixed_flags_replace_those_of_the_app(make: Make, service: ScriptedService) -> None:
    """Endpoints and gates get the test's own flags, and the service is not asked."""
    app = app_with(make(context=from_headers))

    @app.get("/", **flags.gate("new-checkout", "!missing"))
    async def home(flags: FlagsDep) -> list[object]:
        return [flags.get("banner", "blue"), flags.get("missing", 3), "new-checkout" in flags]

    with serving(app) as client:
        assert client.get("/", headers=FREE).status_code == 404
        asked = attempts(service)
        app.dependency_overrides[flags] = lambda: fixed_flags(
            {"new-checkout": True}, banner="green"
        )
        assert client.get("/", headers=FREE).json() == ["green", 3, True]
        app.dependency_overrides.clear()
        assert client.get("/", headers=FREE).status_code == 404
    assert attempts(service) == asked


async def test_fixed_flags_need_no_await() -> None:
    """They can be read at once, also in a coroutine, and refreshed."""
    fixed = fixed_flags(new=True)
    assert fixed.is_enabled("new")
    assert requires_flag("new").opens(fixed)
    assert (await fixed.refresh()).is_enabled("new")
    assert not fixed_flags().is_enabled("new")


def test_overrides_are_the_cores() -> None:
    """`override_flags` is the one of the core, so it works across frameworks."""
    assert override_flags is shipsilently_core.testing.override_flags


class Shop(FlagSet):
    """Typed flags."""

    new_checkout: bool = False
    limit: int = 3


@pytest.mark.parametrize("context", [from_headers, from_headers_async])
def test_overridden_flags_need_no_service(
    make: Make, service: ScriptedService, context: Any
) -> None:
    """While a test has set what a request reads, the service is not asked, in no kind of place."""
    service.fail()
    app = app_with(make(context=context))

    @app.get("/async", **flags.gate("new-checkout", "!old"))
    async def read_async(flags: FlagsDep, shop: Annotated[Shop, Depends(Shop)]) -> list[Any]:
        return [flags.get("limit", 0), shop.new_checkout, shop.limit]

    @app.get("/plain", **user_flags.gate("new-checkout", "!old"))
    def read_plain(flags: FlagsDep, shop: Annotated[Shop, Depends(Shop)]) -> list[Any]:
        return [flags.get("limit", 0), shop.new_checkout, shop.limit]

    @app.websocket("/socket", dependencies=[Depends(requires_flag("new-checkout", "!old"))])
    async def read_socket(socket: WebSocket, flags: FlagsDep) -> None:
        await socket.accept()
        await flags.refresh()
        await socket.send_json(flags.get("limit", 0))

    with serving(app) as client, override_flags({"new-checkout": True, "old": False}, limit=5):
        assert client.get("/async").json() == [5, True, 5]
        assert client.get("/plain").json() == [5, True, 5]
        assert socket_status(client, "/socket") == "5"
    assert attempts(service) == 0


@pytest.mark.parametrize("context", [from_headers, from_headers_async])
def test_other_flags_are_the_service_s(make: Make, service: ScriptedService, context: Any) -> None:
    """Beside what a test has set, reads have the service's values, for the request's own user."""
    app = app_with(make(context=context))

    @app.get("/async")
    async def read_async(flags: FlagsDep) -> list[Any]:
        return [flags.get("limit", 0), flags.get("who", "")]

    @app.get("/plain")
    def read_plain(flags: FlagsDep) -> list[Any]:
        return [flags.get("limit", 0), flags.get("who", "")]

    @app.websocket("/socket")
    async def read_socket(socket: WebSocket, flags: FlagsDep) -> None:
        await socket.accept()
        await flags.refresh()
        await socket.send_text(flags.get("who", ""))

    with serving(app) as client, override_flags(limit=5):
        for headers, user in ((PRO, "ada"), (FREE, "bob")):
            assert client.get("/async", headers=headers).json() == [5, user]
            assert client.get("/plain", headers=headers).json() == [5, user]
            assert socket_status(client, "/socket", headers=headers) == user
    assert attempts(service) == 2


def test_no_override_is_seen_by_the_next_test(make: Make, service: ScriptedService) -> None:
    """With a warm cache, an override that its body leaves by an error is gone in every place."""
    service.set({"new-checkout": False, "limit": 1})
    app = app_with(make())
    templates = Jinja2Templates(env=Environment(autoescape=True))
    add_flags(templates)
    page = templates.env.from_string("{% flag 'new-checkout' %}on{% else %}off{% endflag %}")

    @app.get("/")
    async def read(request: Request, flags: FlagsDep, shop: Annotated[Shop, Depends(Shop)]) -> Any:
        shown = page.render(request=request)
        thread = await asyncio.to_thread(flags.get, "limit", 0)
        return [shown, shop.limit, thread, get_flags(request).is_enabled("new-checkout")]

    @app.get("/gated", **flags.gate("new-checkout"))
    def gated() -> str:
        return "new"

    with serving(app) as client:
        assert client.get("/").json() == ["off", 1, 1, False]
        with suppress(LookupError), override_flags({"new-checkout": True}, limit=2):
            assert client.get("/").json() == ["on", 2, 2, True]
            assert client.get("/gated").json() == "new"
            raise LookupError
        assert client.get("/").json() == ["off", 1, 1, False]
        assert client.get("/gated").status_code == 404
