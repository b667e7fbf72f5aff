"""A page that tells how the client is, for monitoring and for people."""

from __future__ import annotations

import msgspec
from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from .lookup import get_flags

__all__ = ["health", "health_router"]


async def health(request: Request) -> Response:
    """The status of this process's client as JSON: an endpoint, for plain Starlette.

    It always answers 200. A site goes on without the service, so nothing should stop
    sending people there on its account; ``ready`` and ``gate`` tell how things are.
    It holds no key, no context and no flag's value, and asks the service nothing.
    """
    status = msgspec.json.encode(get_flags(request).client.status())
    headers = {"cache-control": "no-store"}
    return Response(status, media_type="application/json", headers=headers)


def health_router(path: str = "/health/flags") -> APIRouter:
    """A router with that page, for ``app.include_router(health_router())``.

    Args:
        path: Where the page is. OpenAPI does not list it.
    """
    router = APIRouter()
    router.add_api_route(path, health, include_in_schema=False)
    return router
