"""The front door: reads each request, records it, turns strangers away, lets faults happen."""

from __future__ import annotations

import re

from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from .exchange import Exchange
from .faults import ENDPOINTS
from .sabotage import perform
from .state import RecordedRequest, ServiceState

__all__ = ["MAX_BODY", "FrontDoor", "is_local_host", "is_local_origin", "refusal"]

#: The largest request body, in bytes.
MAX_BODY = 1024 * 1024

_HOST = r"(?:127\.0\.0\.1|localhost|\[::1\])(?::[0-9]{1,5})?"
_LOCAL_HOST = re.compile(rf"{_HOST}\Z", re.IGNORECASE)
_LOCAL_ORIGIN = re.compile(rf"https?://{_HOST}\Z", re.IGNORECASE)


def is_local_host(host: str) -> bool:
    """Whether a ``Host`` header names this machine's own loopback address."""
    return _LOCAL_HOST.match(host) is not None


def is_local_origin(origin: str) -> bool:
    """Whether an ``Origin`` header names a page of this machine."""
    return _LOCAL_ORIGIN.match(origin) is not None


def refusal(status: int, error: str, message: str) -> JSONResponse:
    """The one form of every answer that is not a success."""
    return JSONResponse({"error": error, "message": message}, status)


class FrontDoor:
    """ASGI middleware in front of the endpoints.

    A page that a browser loaded from elsewhere can reach a loopback port, under a
    name of its own (DNS rebinding) or across origins; both are refused.
    """

    def __init__(self, app: ASGIApp, state: ServiceState) -> None:
        self._app = app
        self._state = state

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope)
        body = await _read(receive)
        endpoint = ENDPOINTS.get(scope["path"])
        if not scope["path"].startswith("/local/"):
            self._record(scope, headers, body or b"")
        if endpoint is not None:
            self._state.count_call(endpoint)
        exchange = Exchange(
            scope, receive, send, body or b"", scope["state"]["transport"], self._state.stopping
        )
        answer = _turn_away(headers, body)
        if answer is not None:
            await answer(scope, exchange.replay, send)
            return
        fault = None if endpoint is None else self._state.faults.take(endpoint)
        if fault is None:
            await self._app(scope, exchange.replay, send)
        else:
            await perform(fault, exchange, self._app)

    def _record(self, scope: Scope, headers: Headers, body: bytes) -> None:
        self._state.requests.append(
            RecordedRequest(
                method=scope["method"],
                path=scope["path"],
                query=scope["query_string"].decode("latin-1"),
                headers=dict(headers),
                body=body,
                at=self._state.clock(),
                client_port=scope["client"][1],
            )
        )


async def _read(receive: Receive) -> bytes | None:
    """The whole body; None when it is larger than `MAX_BODY`, or the client left."""
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        size += len(message["body"])
        # Read to the end, so that the client can read the refusal; keep nothing.
        parts = [] if size > MAX_BODY else [*parts, message["body"]]
        if not message["more_body"]:
            return None if size > MAX_BODY else b"".join(parts)


def _turn_away(headers: Headers, body: bytes | None) -> JSONResponse | None:
    hosts = headers.getlist("host")
    if len(hosts) != 1 or not is_local_host(hosts[0]):
        return refusal(
            403,
            "foreign_host",
            "the Host header must name 127.0.0.1, localhost or [::1]: "
            "this service answers only its own machine",
        )
    if not all(is_local_origin(origin) for origin in headers.getlist("origin")):
        return refusal(
            403,
            "foreign_origin",
            "the Origin header names another site: this service answers only its own machine",
        )
    if body is None:
        return refusal(413, "too_large", f"the body is larger than {MAX_BODY // 1024} KiB")
    return None
