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
        before = get_request()
        flags = attach(request)
        try:
            response: HttpResponseBase = self.get_response(request)
        finally:
            set_request(before)
        if flags.were_read or response.streaming:
            finish(request, flags, response)
        return response

    async def __acall__(self, request: HttpRequest) -> HttpResponseBase:
        before = get_request()
        flags = attach(request)
        try:
            if wants_prefetch(request):
                await flags.aload()
            response: HttpResponseBase = await self.get_response(request)
        finally:
            set_request(before)
        if flags.were_read or response.streaming:
            finish(request, flags, response)
        return response


def attach(request: HttpRequest) -> RequestFlags:
    """Give a request its flags, if it has none, and make it the one being handled."""
    flags: RequestFlags | None = request.__dict__.get("flags")
    if not isinstance(flags, RequestFlags):
        flags = RequestFlags(request)
        request.flags = flags  # type: ignore[attr-defined]  # what this is for
    set_request(request)
    return flags


def wants_prefetch(request: HttpRequest) -> bool:
    """Whether this request's flags are to be there before its view runs."""
    options = get_setup().options
    return options.prefetch and not request.path_info.startswith(options.exclude_paths)


def finish(request: HttpRequest, flags: RequestFlags, response: HttpResponseBase) -> None:
    """What a response needs whose flags were read, or may be read while it streams."""
    if flags.were_read:
        keep_visitor(request, response)
    if response.streaming:
        flags.streaming_since = getattr(getattr(request, "session", None), "accessed", False)
        bind_stream(request, response)
