"""A page that tells how the client is, for load balancers, monitoring and people."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from .lookup import get_flags

__all__ = ["health", "health_router"]

#: The HTTP status where only defaults are left, unless another one is chosen.
UNAVAILABLE = 503


async def health(request: Request) -> Response:
    """The status of this process's client as JSON: an endpoint, for plain Starlette.

    It answers 200 while the service's values are served. That includes last known good
    ones during an outage, and a process that nobody has asked for a flag yet; 503 where
    only defaults are left. It holds no key, no context and no flag's value, asks the
    service nothing, and starts nothing.
    """
    return _page(request, UNAVAILABLE)


def health_router(path: str = "/health/flags", *, unavailable: int = UNAVAILABLE) -> APIRouter:
    """A router with that page, for ``app.include_router(health_router())``.

    Args:
        path: Where the page is. OpenAPI does not list it.
        unavailable: The HTTP status where only defaults are left; 200 for a site that is
            fine with them.
    """

    async def page(request: Request) -> Response:
        return _page(request, unavailable)

    router = APIRouter()
    # As Starlette's routes, to which GET alone gives HEAD as well.
    router.add_api_route(path, page, methods=["GET", "HEAD"], include_in_schema=False)
    return router


def _page(request: Request, unavailable: int) -> Response:
    # Here, since not every app has such a page.
    from shipsilently_core.contrib.health import health as answer

    status, body = answer(get_flags(request).client, unavailable=unavailable)
    headers = {"cache-control": "no-store"}
    return Response(body, status, media_type="application/json", headers=headers)
