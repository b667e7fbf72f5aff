"""The endpoints: the protocol's five, and the service's own under ``/local/``."""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from .bodies import read_batch, read_evaluate, read_events, read_object
from .errors import BadRequestError, FaultError, quoted
from .evaluation import evaluate
from .faults import read_fault
from .frontdoor import FrontDoor, refusal
from .state import ServiceState

__all__ = ["create_app"]

Endpoint = Callable[[Request], Awaitable[Response]]


def create_app(state: ServiceState) -> ASGIApp:
    """The whole service as an ASGI application around ``state``.

    It wants its server to put the connection's transport into the scope, as
    `shipsilently_local.runner` does, for faults need it.
    """
    endpoints = _Endpoints(state)
    keyed = endpoints.keyed
    app = Starlette(
        routes=[
            Route("/v1/evaluate", keyed(endpoints.evaluate), methods=["POST"]),
            Route("/v1/evaluate/batch", keyed(endpoints.batch), methods=["POST"]),
            Route("/v1/stream/ticket", keyed(endpoints.ticket), methods=["POST"]),
            Route("/v1/stream", endpoints.stream, methods=["GET"]),
            Route("/v1/analytics/events", keyed(endpoints.analytics), methods=["POST"]),
            Route("/local/state", keyed(endpoints.summary), methods=["GET"]),
            Route("/local/faults", keyed(endpoints.list_faults), methods=["GET"]),
            Route("/local/faults", keyed(endpoints.add_fault), methods=["POST"]),
            Route("/local/faults", keyed(endpoints.clear_faults), methods=["DELETE"]),
            Route("/local/faults/{id}", keyed(endpoints.clear_fault), methods=["DELETE"]),
        ],
        exception_handlers={
            404: _not_found,
            405: _wrong_method,
            BadRequestError: _bad_request,
            FaultError: _bad_request,
        },
    )
    app.router.redirect_slashes = False
    return FrontDoor(app, state)


class _Endpoints:
    def __init__(self, state: ServiceState) -> None:
        self._state = state

    def keyed(self, endpoint: Endpoint) -> Endpoint:
        """``endpoint`` for those who show the SDK key in ``X-API-Key``."""

        async def checked(request: Request) -> Response:
            shown = request.headers.get("x-api-key", "")
            if not hmac.compare_digest(shown.encode(), self._state.key.encode()):
                problem = "wrong" if shown else "missing"
                return refusal(401, "unauthorized", f"the X-API-Key header is {problem}")
            return await endpoint(request)

        return checked

    async def evaluate(self, request: Request) -> Response:
        key, context = read_evaluate(await request.body())
        flag = self._state.flags.get(key)
        if flag is None:
            return refusal(404, "flag_not_found", f"there is no flag {quoted(key)}")
        self._state.count_evaluations([key])
        return _json(evaluate(key, flag, context))

    async def batch(self, request: Request) -> Response:
        context = read_batch(await request.body())
        flags = self._state.flags
        self._state.count_evaluations(flags)
        return _json({"flags": {key: evaluate(key, flag, context) for key, flag in flags.items()}})

    async def ticket(self, request: Request) -> Response:
        tickets = self._state.tickets
        return _json({"ticket": tickets.issue(), "expiresIn": int(tickets.ttl)})

    async def stream(self, request: Request) -> Response:
        if not self._state.tickets.redeem(request.query_params.get("ticket", "")):
            return refusal(
                401, "unauthorized", "the ticket is missing, used or expired: ask for a new one"
            )
        return self._state.streams.open()

    async def analytics(self, request: Request) -> Response:
        events = read_events(await request.body())
        self._state.count_events(events)
        return _json({"accepted": len(events)})

    async def summary(self, request: Request) -> Response:
        return _json(self._state.summary())

    async def list_faults(self, request: Request) -> Response:
        return _json(
            {
                "faults": [
                    {"id": fault_id, "remaining": left, **msgspec.to_builtins(fault)}
                    for fault_id, fault, left in self._state.faults
                ]
            }
        )

    async def add_fault(self, request: Request) -> Response:
        fault = read_fault(read_object(await request.body()))
        return _json({"id": self._state.add_fault(fault), "remaining": fault.times}, 201)

    async def clear_faults(self, request: Request) -> Response:
        return _json({"cleared": self._state.clear_faults()})

    async def clear_fault(self, request: Request) -> Response:
        fault_id = request.path_params["id"]
        if not self._state.clear_faults(fault_id):
            return refusal(404, "not_found", f"there is no fault {quoted(fault_id)} in force")
        return _json({"cleared": 1})


def _json(data: Any, status: int = 200) -> Response:
    return Response(msgspec.json.encode(data), status, media_type="application/json")


async def _bad_request(request: Request, error: Exception) -> Response:
    return refusal(400, "bad_request", str(error))


async def _not_found(request: Request, error: Exception) -> Response:
    where = f"{request.method} {request.url.path}"
    return refusal(404, "not_found", f"{where}: there is nothing here")


async def _wrong_method(request: Request, error: Exception) -> Response:
    where = f"{request.method} {request.url.path}"
    answer = refusal(405, "method_not_allowed", f"{where}: this path takes another method")
    answer.headers.update(getattr(error, "headers", None) or {})
    return answer
