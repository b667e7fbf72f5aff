"""A blueprint that tells how the client is, for load balancers, monitoring and people."""

from __future__ import annotations

from flask import Blueprint, Response, current_app

from shipsilently_core.contrib import health

from .state import state_of

__all__ = ["health_blueprint"]


def health_blueprint(
    path: str = "/health/flags",
    name: str = "shipsilently_health",
    *,
    unavailable: int = health.UNAVAILABLE,
) -> Blueprint:
    """A blueprint with one page: the client's status as JSON.

    It answers 200 while the service's values are served. That includes last known good
    ones during an outage, and a process that nobody has asked for a flag yet. It holds no
    key, no context and no flag's value, asks the service nothing, and starts nothing.

    Args:
        path: Where the page is.
        name: The blueprint's name.
        unavailable: The HTTP status where only defaults are left; 200 for a site that is
            fine with them.
    """
    blueprint = Blueprint(name, __name__)

    @blueprint.get(path, endpoint="health")
    def page() -> Response:
        status, body = health.health(state_of(current_app).client, unavailable=unavailable)
        response = Response(body, status, mimetype="application/json")
        response.cache_control.no_store = True
        return response

    return blueprint
