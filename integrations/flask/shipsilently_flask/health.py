"""A blueprint that tells how the client is, for monitoring and for people."""

from __future__ import annotations

from typing import Any

import msgspec
from flask import Blueprint, Response, current_app, jsonify

from .state import state_of

__all__ = ["health_blueprint"]


def health_blueprint(path: str = "/health/flags", name: str = "shipsilently_health") -> Blueprint:
    """A blueprint with one page: the client's status as JSON.

    It always answers 200. A site goes on without the service, so nothing should stop
    sending people there on its account; ``ready`` and ``gate`` tell how things are.
    It holds no key, no context and no flag's value, and asks the service nothing.

    Args:
        path: Where the page is.
        name: The blueprint's name.
    """
    blueprint = Blueprint(name, __name__)

    @blueprint.get(path)
    def health() -> Response:
        status: dict[str, Any] = msgspec.to_builtins(
            state_of(current_app).client.status(), str_keys=True
        )
        response = jsonify(status)
        response.cache_control.no_store = True
        return response

    return blueprint
