"""Routes that OpenAPI does not list while their gate is closed."""

from collections.abc import Callable
from typing import Annotated, Any

import pytest
from fastapi import APIRouter, Depends, FastAPI
from pydantic import BaseModel
from shipsilently_fastapi import FlaggedAPIRoute, ShipSilently, flags, requires_flag

from shipsilently_core import ShipSilentlyClient
from shipsilently_core.testing import ScriptedService, override_flags
from tests.test_fastapi.apps import PRO, app_with, from_headers, serving

Make = Callable[..., ShipSilently]


class Detail(BaseModel):
    """A part of a secret."""

    word: str


class Secret(BaseModel):
    """What only a gated route gives."""

    detail: Detail


class Public(BaseModel):
    """What every route gives."""

    name: str


async def secret() -> Secret:
    """A gated endpoint."""
    return Secret(detail=Detail(word="w"))


async def public() -> Public:
    """An open one."""
    return Public(name="n")


async def within(gate: Annotated[None, Depends(requires_flag("new"))]) -> Secret:
    """Gated by a parameter."""
    return await secret()


def build(make: Make) -> FastAPI:
    """An app with gated routes of each kind."""
    app = app_with(make())
    router = APIRouter(route_class=FlaggedAPIRoute)
    router.get("/a", **flags.gate("new"))(secret)
    router.post("/a")(public)
    router.get("/within")(within)
    inner = APIRouter(route_class=FlaggedAPIRoute)
    inner.get("/b")(secret)
    router.include_router(inner, prefix="/inner", dependencies=[Depends(requires_flag("new"))])
    app.include_router(router, prefix="/v1")
    app.get("/listed", dependencies=[Depends(requires_flag("new"))])(public)
    return app


ALWAYS = {("/v1/a", "post"), ("/listed", "get")}
GATED = {("/v1/a", "get"), ("/v1/within", "get"), ("/v1/inner/b", "get")}


def listed(schema: dict[str, Any]) -> set[tuple[str, str]]:
    """The operations of a schema."""
    return {(path, method) for path, item in schema["paths"].items() for method in item}


def test_closed_routes_are_not_listed(
    make: Make, service: ScriptedService, client: ShipSilentlyClient
) -> None:
    """The schema follows the baseline: closed routes and their models are left out."""
    app = build(make)
    baseline = dict(client.config.baseline_context)
    with serving(app) as test_client:
        for is_on, expected, models in (
            (False, ALWAYS, {"Public"}),
            (True, ALWAYS | GATED, {"Public", "Secret", "Detail"}),
            (False, ALWAYS, {"Public"}),
        ):
            service.set({"new": is_on})
            client.evaluate_all(baseline)
            schema = test_client.get("/openapi.json").json()
            assert listed(schema) == expected
            assert set(schema["components"]["schemas"]) == models


def test_without_a_baseline_gated_routes_are_not_listed(
    make: Make, service: ScriptedService
) -> None:
    """As long as nothing is known, nothing gated is shown, and the service is not asked."""
    with serving(build(make)) as test_client:
        assert listed(test_client.get("/openapi.json").json()) == ALWAYS
    assert service.requests == []


def test_overrides_of_a_test_show_routes(make: Make) -> None:
    """`override_flags` decides what the schema lists, too."""
    with serving(build(make)) as test_client, override_flags(new=True):
        assert listed(test_client.get("/openapi.json").json()) == ALWAYS | GATED


def test_a_schema_of_closed_routes_alone_is_empty(make: Make) -> None:
    """An app whose routes are all closed has a schema without paths."""
    app = app_with(make())
    app.router.route_class = FlaggedAPIRoute
    app.get("/a", dependencies=[Depends(requires_flag("new"))])(through)
    with serving(app) as test_client:
        assert test_client.get("/openapi.json").json()["paths"] == {}


async def through() -> str:
    """An endpoint without a model."""
    return "through"


@pytest.mark.parametrize("is_on", [True, False])
def test_routes_are_gated_whether_listed_or_not(
    make: Make, service: ScriptedService, is_on: bool
) -> None:
    """What a request may do depends on its own flags, not on the schema."""
    service.set({"new": is_on})
    with serving(build(make)) as test_client:
        for path in ("/v1/a", "/v1/within", "/v1/inner/b", "/listed"):
            assert test_client.get(path).status_code == (200 if is_on else 404)
        assert test_client.post("/v1/a").status_code == 200


@pytest.mark.parametrize("has_context", [True, False])
@pytest.mark.parametrize("joins", [True, False])
def test_a_mounted_apps_schema_follows_the_client_that_serves_it(
    service: ScriptedService, has_context: bool, joins: bool
) -> None:
    """With the key of the app around it is that one's client, in each life; else its own."""
    other = ScriptedService({"new": False})

    def of(key: str, asked: ScriptedService) -> ShipSilently:
        return ShipSilently(
            client=lambda: ShipSilentlyClient(api_key=key, transport=asked, background=False),
            context=from_headers if has_context else None,
        )

    of_outer, of_inner = of("sk_test", service), of("sk_test" if joins else "sk_other", other)
    outer, inner = app_with(of_outer), app_with(of_inner)
    router = APIRouter(route_class=FlaggedAPIRoute)
    router.get("/gated", **flags.gate("new"))(through)
    for app in (outer, inner):
        app.include_router(router)
    outer.mount("/inner", inner)
    service.set({"new": True})
    gated = {("/gated", "get")}
    for _ in range(2):
        with serving(outer) as client:
            baseline = dict(of_outer.client.config.baseline_context)
            assert listed(client.get("/inner/openapi.json").json()) == set()
            of_outer.client.evaluate_all(baseline)
            of_inner.client.evaluate_all(baseline)
            assert listed(client.get("/openapi.json").json()) == gated
            shown = listed(client.get("/inner/openapi.json").json())
            assert shown == (gated if joins else set())
            assert client.get("/inner/gated", headers=PRO).status_code == (200 if joins else 404)
        # What nobody serves is told by the app's own client.
        assert listed(inner.openapi()) == set()
        of_inner.close()


def test_two_that_are_nested_in_either_order_are_told_apart(service: ScriptedService) -> None:
    """Where each of two is once around the other, a schema follows the outermost one's client."""
    clients = [
        ShipSilentlyClient(api_key="sk_test", transport=asked, background=False)
        for asked in (service, ScriptedService({"new": False}))
    ]
    of_either = [ShipSilently(client=client) for client in clients]
    service.set({"new": True})
    for client in clients:
        client.evaluate_all(dict(client.config.baseline_context))
    for first in (0, 1, 0):
        second, expected = 1 - first, set() if first else {("/gated", "get")}
        outer, inner = app_with(of_either[first]), app_with(of_either[second])
        inner.router.route_class = FlaggedAPIRoute
        inner.get("/gated", **flags.gate("new"))(through)
        outer.mount("/inner", inner)
        with serving(outer) as browser:
            assert listed(browser.get("/inner/openapi.json").json()) == expected
    for client in clients:
        client.close()
