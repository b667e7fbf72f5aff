"""Apps for the tests: set up on a service without a network."""

import threading
from collections.abc import Callable, Mapping
from typing import Any

from flask import Flask, request
from shipsilently_flask import ShipSilently

from shipsilently_core import ShipSilentlyClient
from shipsilently_core.testing import ManualClock, ScriptedService

Flags = Mapping[str, Any] | Callable[[dict[str, Any]], Mapping[str, Any]]


def client_of(service: ScriptedService, **settings: Any) -> ShipSilentlyClient:
    """A client whose service is scripted and whose time stands still."""
    settings = {"api_key": "sk_test", **settings}
    return ShipSilentlyClient(transport=service, clock=ManualClock(), **settings)


def bare_app(name: str = "shop", **config: Any) -> Flask:
    """An app without the extension."""
    app = Flask(name)
    app.config.update(TESTING=True, SECRET_KEY="made up", **config)
    return app


def make_app(
    service: ScriptedService | None = None,
    *,
    name: str = "shop",
    client: ShipSilentlyClient | None = None,
    **settings: Any,
) -> Flask:
    """An app with the extension on a scripted service. The header `User` says who asks."""
    app = bare_app(name)
    ready = client or client_of(service or ScriptedService())
    ShipSilently(app, client=ready, context_loader=user_of_header, **settings)
    return app


def user_of_header() -> dict[str, str] | None:
    """Whom the request says it is from."""
    name = request.headers.get("User")
    return {"userId": name} if name else None


def for_user(context: dict[str, Any]) -> Mapping[str, Any]:
    """Flags of which each user has their own: `me` tells whose they are."""
    return {"me": context.get("userId", "nobody"), "on": True}


def in_thread(function: Callable[[], Any]) -> Any:
    """What `function` returns in a thread of its own."""
    results: list[Any] = []
    thread = threading.Thread(target=lambda: results.append(function()))
    thread.start()
    thread.join(10)
    (result,) = results
    return result
