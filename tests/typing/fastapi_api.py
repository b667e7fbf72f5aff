"""What type checkers see of shipsilently_fastapi. Checked, never run."""

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Annotated, Any, Literal, assert_type

import shipsilently_fastapi
from fastapi import APIRouter, Depends, FastAPI, Request, WebSocket
from shipsilently_fastapi import (
    FlagKey,
    FlagsDep,
    FlagsDependency,
    FlagSet,
    FlagsMiddleware,
    Gate,
    Lifespan,
    RequestFlags,
    ShipSilently,
    current_flags,
    flags,
    get_flags,
    requires_flag,
)
from shipsilently_fastapi.testing import fixed_flags
from starlette.applications import Starlette
from starlette.requests import HTTPConnection

from shipsilently_core import Config, EvaluationResult, Flags, FlagValue, ShipSilentlyClient
from shipsilently_core import FlagSet as CoreFlagSet


class Checkout(FlagSet):
    """Typed flags."""

    checkout_v2: bool = False
    banner: Literal["blue", "green"] = "blue"
    limit: Annotated[int, FlagKey("limits/basket")] = 3


class CoreCheckout(CoreFlagSet):
    """Typed flags that no framework owns."""

    checkout_v2: bool = False


def context(connection: HTTPConnection) -> Mapping[str, Any]:
    """A context function."""
    return {"userId": connection.headers.get("x-user")}


async def async_context(connection: HTTPConnection) -> dict[str, str]:
    """The same, awaitable."""
    return {"userId": "u1"}


def context_of_request(request: Request) -> dict[str, str]:
    """One for requests alone."""
    return {"userId": request.headers["x-user"]}


def current_context(request: Request) -> dict[str, str]:
    """A dependency of the app."""
    return {"userId": request.headers["x-user"]}


shipsilently = ShipSilently(Config(api_key="k"), context=context)
ShipSilently(api_key="k", timeout=1.0, context=async_context)
ShipSilently(context=context_of_request)
ShipSilently(client=ShipSilentlyClient(api_key="k"))
ShipSilently(client=lambda: ShipSilentlyClient(api_key="k"))
ShipSilently(timeout=0.5, defaults={"banner": "Hello"}, retry={"base_delay": 2})
ShipSilently(timout=0.5)  # type: ignore[call-arg]  # no such setting
assert_type(shipsilently.client, ShipSilentlyClient)
assert_type(shipsilently.lifespan, Lifespan)
assert_type(shipsilently.lifespan(inner=None), Lifespan)
assert_type(shipsilently.lifespan(FastAPI()), AbstractAsyncContextManager[Mapping[str, Any]])

app = FastAPI(lifespan=shipsilently.lifespan)
FastAPI(lifespan=shipsilently.lifespan(inner=shipsilently.lifespan))
APIRouter(lifespan=shipsilently.lifespan)
Starlette(lifespan=shipsilently.lifespan)
app.add_middleware(FlagsMiddleware, shipsilently=shipsilently, server_timing=True)
app.dependency_overrides[flags] = lambda: fixed_flags({"new-checkout": True})
app.dependency_overrides[requires_flag("beta")] = lambda: None
shipsilently.install(app)

user_flags = flags.using(current_context)
assert_type(user_flags, FlagsDependency)
assert_type(requires_flag("a", "!b", value="x", status=403, detail="no"), Gate)
router = APIRouter(prefix="/beta", **flags.gate("beta"))


@app.get("/", **user_flags.gate("new-checkout"))
async def home(
    flags: FlagsDep,
    plain: Annotated[Flags, Depends(user_flags)],
    checkout: Annotated[Checkout, Depends(Checkout)],
) -> str:
    """What an endpoint gets."""
    assert_type(flags, RequestFlags)
    assert_type(flags.get("x", False), bool)
    assert_type(flags.get("x", "a"), str)
    assert_type(flags.get("x", 1.5), float)
    assert_type(flags.get("x", 1), float)
    assert_type(await flags, RequestFlags)
    assert_type(flags.get("x", {}), dict[str, Any])
    assert_type(flags.get("x"), FlagValue)
    assert_type(flags.is_enabled("x"), bool)
    assert_type(flags.detail("x"), EvaluationResult)
    assert_type(await flags.aget("x", False), bool)
    assert_type(await flags.refresh(), RequestFlags)
    assert_type(await flags.arefresh(), RequestFlags)
    assert_type(plain, Flags)
    assert_type(checkout.checkout_v2, bool)
    assert_type(checkout.banner, Literal["blue", "green"])
    assert_type(checkout.limit, int)
    assert_type(flags.as_(Checkout), Checkout)
    return checkout.banner


@app.websocket("/socket", dependencies=[Depends(requires_flag("live"))])
async def socket(socket: WebSocket, flags: FlagsDep) -> None:
    """What a socket gets."""
    assert_type(flags, RequestFlags)
    assert_type(get_flags(socket), RequestFlags)
    assert_type(await get_flags(socket), RequestFlags)
    assert_type(await flags.refresh(), RequestFlags)
    assert_type(current_flags(), RequestFlags)


assert_type(Checkout.using(user_flags), Callable[..., Awaitable[Checkout]])
assert_type(user_flags.as_(Checkout), Callable[..., Awaitable[Checkout]])
assert_type(user_flags.as_(CoreCheckout), Callable[..., Awaitable[CoreCheckout]])
assert_type(Checkout(checkout_v2=True, banner="green"), Checkout)
Checkout(banner="red")  # type: ignore[arg-type]  # not one of the two
Checkout(colour="blue")  # type: ignore[call-arg]  # no such flag
Checkout().limit = 4  # type: ignore[misc]  # frozen


_ = shipsilently_fastapi.no_such_name  # type: ignore[attr-defined]  # though some are imported late
