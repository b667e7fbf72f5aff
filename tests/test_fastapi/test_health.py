"""The page for monitoring."""

from collections.abc import Callable
from typing import Any

from fastapi import FastAPI
from shipsilently_fastapi import FlagsDep, ShipSilently, health, health_router
from starlette.applications import Starlette
from starlette.routing import Route

from shipsilently_core.testing import ScriptedService
from tests.test_fastapi.apps import PRO, app_with, from_headers, serving

Make = Callable[..., ShipSilently]


def test_the_page_tells_how_the_client_is(make: Make, service: ScriptedService) -> None:
    """It answers 200 while values are known, says how things are, and gives nothing away."""
    app = app_with(make(context=from_headers))
    app.include_router(health_router())
    app.include_router(health_router("/other"), prefix="/internal")

    @app.get("/")
    async def home(flags: FlagsDep) -> str:
        return flags.get("who", "")

    with serving(app) as client:
        assert client.get("/health/flags").json()["attempts"] == 0
        assert service.requests == []
        client.get("/", headers=PRO)
        service.fail(connected=False)
        client.get("/", headers={"x-user": "mallory"})
        page = client.get("/health/flags")
        status = page.json()
        assert (page.status_code, page.headers["cache-control"]) == (200, "no-store")
        assert (status["attempts"], status["gate"], status["contexts"]) == (2, "network", 1)
        assert status["failures"] == {"network": 1}
        for secret in ("sk_test", "ada", "mallory", "pro"):
            assert secret not in page.text
        assert client.get("/internal/other").status_code == 200
        assert set(client.get("/openapi.json").json()["paths"]) == {"/"}


def test_the_page_is_unhealthy_while_only_defaults_are_left(
    make: Make, service: ScriptedService
) -> None:
    """A start in an outage is a 503, or what was chosen, until the service answers."""
    app = app_with(make(context=from_headers))
    app.include_router(health_router())
    app.include_router(health_router("/soft", unavailable=299))
    app.router.routes.append(Route("/plain", health))

    @app.get("/")
    async def home(flags: FlagsDep) -> str:
        return flags.get("who", "")

    with serving(app) as client:
        service.fail(503)
        client.get("/", headers=PRO)
        codes = [client.get(page).status_code for page in ("/health/flags", "/soft", "/plain")]
        assert codes == [503, 299, 503]
        service.recover()
        client.get("/", headers={"x-user": "mallory"})
        assert client.get("/health/flags").json()["serving"] == "values"


def test_the_page_works_in_starlette_and_with_the_lifespan_alone(make: Make) -> None:
    """Plain Starlette takes the endpoint; the middleware is not needed."""
    shipsilently = make()
    bare = FastAPI(lifespan=shipsilently.lifespan)
    bare.include_router(health_router())
    apps: list[Any] = [
        bare,
        Starlette(routes=[Route("/health/flags", health)], lifespan=shipsilently.lifespan),
    ]
    for app in apps:
        with serving(app) as client:
            assert client.get("/health/flags").json()["state"] == "idle"


def test_the_page_answers_head(make: Make) -> None:
    """A monitor that asks for the head alone gets the same status in FastAPI and Starlette."""
    app = app_with(make(context=from_headers))
    app.include_router(health_router())
    app.router.routes.append(Route("/plain", health))
    with serving(app) as client:
        for page in ("/health/flags", "/plain"):
            assert client.head(page).status_code == 200
            assert client.post(page).status_code == 405
        assert client.get("/openapi.json").json()["paths"] == {}
