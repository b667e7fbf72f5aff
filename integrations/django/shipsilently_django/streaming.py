"""Streaming responses: their body is made when the middleware has long returned."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

from django.http import FileResponse, HttpRequest, StreamingHttpResponse
from django.http.response import HttpResponseBase

from .current import get_request, set_request

__all__ = ["bind_stream"]


def bind_stream(request: HttpRequest, response: HttpResponseBase) -> None:
    """Let the code that makes the body see its request as the one being handled."""
    if not isinstance(response, StreamingHttpResponse) or isinstance(response, FileResponse):
        return
    content: Any = response.streaming_content
    response.streaming_content = (
        _abound(request, content) if response.is_async else _bound(request, content)
    )


def _bound(request: HttpRequest, content: Iterator[bytes]) -> Iterator[bytes]:
    while True:
        before = get_request()
        set_request(request)
        try:
            chunk = next(content, None)
        finally:
            set_request(before)
        if chunk is None:
            return
        yield chunk


async def _abound(request: HttpRequest, content: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    while True:
        before = get_request()
        set_request(request)
        try:
            chunk = await anext(content, None)
        finally:
            set_request(before)
        if chunk is None:
            return
        yield chunk
