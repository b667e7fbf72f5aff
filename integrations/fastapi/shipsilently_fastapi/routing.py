"""Routes that are left out of the OpenAPI schema while their gate is closed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute, iter_route_contexts

from shipsilently_core import Context, Flags
from shipsilently_core._seen import NOTHING

from .gates import Gate
from .lookup import flags_here

if TYPE_CHECKING:
    from shipsilently_core._snapshot import Snapshot
    from shipsilently_core._view import View

    from .extension import ShipSilently

__all__ = ["FlaggedAPIRoute"]


class FlaggedAPIRoute(APIRoute):
    """A route that OpenAPI does not list while one of its gates is closed.

    ``APIRouter(route_class=FlaggedAPIRoute)``, in an app that `ShipSilently.install`
    has joined. What counts is the client's baseline context: the schema is the same
    for everybody.
    """


def hide_closed_routes(app: FastAPI, shipsilently: ShipSilently) -> None:
    """Make the app's schema leave out what is closed at the time it is asked for."""
    whole_schema = app.openapi

    def openapi() -> dict[str, Any]:
        schema = whole_schema()
        flags = Flags(_Baseline(shipsilently), Context(), NOTHING)
        closed = {
            operation
            for operation, gates in _gated(app)
            if not all(gate.opens(flags) for gate in gates)
        }
        return _without(schema, closed) if closed else schema

    app.openapi = openapi  # type: ignore[method-assign]  # FastAPI's documented way


class _Baseline:
    """Sees what is known of the baseline context; never asks the service."""

    def __init__(self, shipsilently: ShipSilently) -> None:
        # In a mounted app, the client that runs is mostly the one of the app around it.
        here = flags_here()
        served = here is not None and shipsilently.joins(here.shipsilently)
        client = here.client if here is not None and served else shipsilently.client
        self.evaluator = client.evaluator

    def fresh(self, context: Context) -> Snapshot | None:
        """See `ShipSilentlyClient.fresh`: it always sees what is known."""
        return None

    afresh = fresh

    def resolve(self, context: Context, may_block: bool) -> tuple[View, bool]:
        """See `ShipSilentlyClient.resolve`."""
        return self.evaluator.known(self.evaluator.baseline), True

    async def aresolve(self, context: Context) -> View:
        """The same."""
        return self.resolve(context, may_block=False)[0]


def _gated(app: FastAPI) -> Iterator[tuple[tuple[str, str], list[Gate]]]:
    for context in iter_route_contexts(app.routes):
        if isinstance(context.original_route, FlaggedAPIRoute):
            gates = list(_gates(context.dependant))
            for method in context.methods or ():
                yield (str(context.path_format), method.lower()), gates


def _gates(dependant: Dependant) -> Iterator[Gate]:
    for inner in dependant.dependencies:
        if isinstance(inner.call, Gate):
            yield inner.call
        yield from _gates(inner)


def _without(schema: dict[str, Any], closed: set[tuple[str, str]]) -> dict[str, Any]:
    paths = {}
    for path, item in schema["paths"].items():
        kept = {method: found for method, found in item.items() if (path, method) not in closed}
        if kept:
            paths[path] = kept
    cut = schema | {"paths": paths}
    models = schema.get("components", {}).get("schemas")
    if models:
        # The names of closed routes' models would tell of them, too.
        needed = _referred(paths, models) | _referred(schema.get("webhooks", {}), models)
        left = {name: model for name, model in models.items() if name in needed}
        cut["components"] = schema["components"] | {"schemas": left}
    return cut


def _referred(part: Any, models: dict[str, Any]) -> set[str]:
    """The names of the models that a part of the schema refers to, also by way of others."""
    found: set[str] = set()
    waiting = [part]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            reference = part.get("$ref")
            if isinstance(reference, str):
                name = reference.rpartition("/")[2]
                if name not in found:
                    found.add(name)
                    waiting.append(models.get(name))
            waiting.extend(part.values())
        elif isinstance(part, list):
            waiting.extend(part)
    return found
