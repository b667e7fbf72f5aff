"""`FlagsMiddleware`: one class for WSGI and ASGI, free while no flag is read."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from asgiref.sync import iscoroutinefunction, markcoroutinefunction
from django.http import HttpRequest
from django.http.response import HttpResponseBase

from .current import get_request, set_request
from .flags import RequestFlags
from .setup import get_setup
from .streaming import bind_stream
from .visitors import keep_visitor

__all__ = ["FlagsMiddleware"]


class FlagsMiddleware:
    """Gives each request its ``flags``. Place it after ``AuthenticationMiddleware``."""

    sync_capable = True
    async_capable = True

    def __init__(self, get_response: Callable[..., Any]) -> None:
        self.get_response = get_response
        self._is_async = iscoroutinefunction(get_response)
        if self._is_async:
            markcoroutinefunction(self)

    def __call__(self, request: HttpRequest) -> HttpResponseBase | Awaitable[HttpResponseBase]:
        if self._is_async:
            return self.__acall__(request)
        # What is done here costs every request: no calls but those that have to be.
        before = get_request()
        flags = getattr(request, "flags", None)
        if not isinstance(flags, RequestFlags) or flags._request is not request:
            flags = request.flags = RequestFlags(request)  # type: ignore[attr-defined]  # our job
        set_request(request)
        try:
            response: HttpResponseBase = self.get_response(request)
        finally:
            set_request(before)
        if flags._seen is not None or response.streaming:
            finish(request, flags, response)
        return response

    async def __acall__(self, request: HttpRequest) -> HttpResponseBase:
        before = get_request()
        flags = getattr(request, "flags", None)
        if not isinstance(flags, RequestFlags) or flags._request is not request:
            flags = request.flags = RequestFlags(request)  # type: ignore[attr-defined]  # our job
        set_request(request)
        try:
            options = get_setup().options
            if options.prefetch and not request.path_info.startswith(options.exclude_paths):
                await flags.aload()
            response: HttpResponseBase = await self.get_response(request)
        finally:
            set_request(before)
        if flags._seen is not None or response.streaming:
            finish(request, flags, response)
        return response


def finish(request: HttpRequest, flags: RequestFlags, response: HttpResponseBase) -> None:
    """What a response needs whose flags were read, or may be read while it streams."""
    if flags.were_read:
        keep_visitor(request, response)
    if response.streaming:
        flags.streaming_since = getattr(getattr(request, "session", None), "accessed", False)
        bind_stream(request, response)
