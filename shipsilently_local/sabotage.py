"""Carries a fault out on one request."""

from __future__ import annotations

import msgspec
from starlette.responses import Response
from starlette.types import ASGIApp, Send

from .exchange import Exchange, RawAnswer
from .faults import Fault

__all__ = ["perform"]

_PAGE = (
    b"<!doctype html>\n<html><head><title>Sign in</title></head>"
    b"<body><h1>Welcome to the network</h1></body></html>\n"
)


async def perform(fault: Fault, exchange: Exchange, app: ASGIApp) -> None:
    """Let ``fault`` happen to ``exchange``; ``app`` gives the normal answer, if any."""
    left = bool(fault.delay) and not await exchange.pause(fault.delay)
    if left or fault.drop:
        await exchange.abort()
    elif fault.silence:
        await exchange.pause(None)
        await exchange.abort()
    elif fault.drip is not None:
        raw = RawAnswer(exchange, fault.drip, fault.drip_headers)
        await _answer(fault, exchange, app, raw.send)
        await raw.close()
    else:
        await _answer(fault, exchange, app, exchange.send)


async def _answer(fault: Fault, exchange: Exchange, app: ASGIApp, send: Send) -> None:
    if fault.garbage:
        answer = Response(_PAGE, media_type="text/html")
    elif fault.status is not None:
        answer = _scripted(fault, fault.status)
    else:
        await app(exchange.scope, exchange.replay, send)
        return
    await answer(exchange.scope, exchange.replay, send)


def _scripted(fault: Fault, status: int) -> Response:
    body: object = fault.body
    if body is None:
        body = {"error": "fault", "message": f"a fault was asked for: {status}"}
    content = body.encode() if isinstance(body, str) else msgspec.json.encode(body)
    if status in (204, 304):
        content = b""
    answer = Response(content, status)
    if content:
        answer.headers["content-type"] = "application/json"
    for name, value in fault.headers.items():
        answer.headers[name] = value
    return answer
