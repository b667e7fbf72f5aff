"""`FlagsMiddleware`: one class for WSGI and ASGI, free while no flag is read."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from asgiref.sync import iscoroutinefunction, markcoroutinefunction
from django.http import HttpRequest
from django.http.response import HttpResponseBase

from .current import get_request, set_request
from .flags import RequestFlags

__all__ = ["FlagsMiddleware"]


class FlagsMiddleware:
    """Gives each request its ``flags``. Place it after ``AuthenticationMiddleware``."""

    sync_capable = True
    async_capable = True

    def __init__(self, get_response: Callable[[HttpRequest], Any]) -> None:
        self.get_response = get_response
        self._is_async = iscoroutinefunction(get_response)
        if self._is_async:
            markcoroutinefunction(self)

    def __call__(self, request: HttpRequest) -> HttpResponseBase | Awaitable[HttpResponseBase]:
        if self._is_async:
            return self.__acall__(request)
        before = get_request()
        attach(request)
        try:
            response: HttpResponseBase = self.get_response(request)
        finally:
            set_request(before)
        return response

    async def __acall__(self, request: HttpRequest) -> HttpResponseBase:
        before = get_request()
        attach(request)
        try:
            response: HttpResponseBase = await self.get_response(request)
        finally:
            set_request(before)
        return response


def attach(request: HttpRequest) -> None:
    """Give a request its flags, and make it the one being handled."""
    request.flags = RequestFlags(request)  # type: ignore[attr-defined]  # what this is for
    set_request(request)
