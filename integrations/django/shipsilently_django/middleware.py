"""`FlagsMiddleware`: one class for WSGI and ASGI, free while no flag is read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from asgiref.sync import iscoroutinefunction, markcoroutinefunction
from django.http import HttpRequest
from django.http.response import HttpResponseBase

from .current import get_request, set_request
from .flags import Left, RequestFlags, flags_of
from .pagecache import check_kept, claim_mark, is_site_cached
from .setup import get_setup, in_use, settle_setup
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
        # Other sites do not pay for it.
        if is_site_cached():
            self.get_response = _anoted(get_response) if self._is_async else _noted(get_response)
            if not hasattr(self, "process_view"):
                self.process_view: Callable[..., Any] = _amark if self._is_async else _mark
        settle_setup()

    def __call__(self, request: HttpRequest) -> Any:
        """The response; in an async chain, what is to be awaited for it."""
        if self._is_async:
            return self.__acall__(request)
        # What is done here costs every request: no calls but those that have to be.
        before = get_request()
        flags = getattr(request, "flags", None)
        if flags is None or not _is_own(flags, request):
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
        if flags is None or not _is_own(flags, request):
            flags = request.flags = RequestFlags(request)  # type: ignore[attr-defined]  # our job
        set_request(request)
        try:
            # Most requests find it without a call.
            options = (in_use.get("setup") or get_setup()).options
            if options.prefetch and not request.path_info.startswith(options.exclude_paths):
                await flags._prefetch()
            response: HttpResponseBase = await self.get_response(request)
        finally:
            set_request(before)
        if flags._seen is not None or response.streaming:
            finish(request, flags, response)
        return response


def _is_own(flags: Any, request: HttpRequest) -> bool:
    """Whether these are the request's: a middleware around may be one of ours, too."""
    return isinstance(flags, RequestFlags) and flags._request is request


def finish(request: HttpRequest, flags: RequestFlags, response: HttpResponseBase) -> None:
    """What a response needs whose flags were read, or may be read while it streams."""
    seen = flags._seen
    if seen is not None:
        keep_visitor(request, response)
        if seen.early:
            check_kept(request, seen.flags.context, seen.mark)
    if response.streaming:
        flags.left = Left(streaming=True, looked=_has_looked(request))
        bind_stream(request, response)


def _has_looked(request: HttpRequest) -> bool:
    return bool(getattr(getattr(request, "session", None), "accessed", False))


def _noted(get_response: Callable[..., Any]) -> Callable[..., Any]:
    """As `get_response`, with a note on flags that are first read when the answer has left."""

    def noted(request: HttpRequest) -> HttpResponseBase:
        response: HttpResponseBase = get_response(request)
        _note(request)
        return response

    return noted


def _anoted(get_response: Callable[..., Any]) -> Callable[..., Any]:
    async def noted(request: HttpRequest) -> HttpResponseBase:
        response: HttpResponseBase = await get_response(request)
        _note(request)
        return response

    return noted


def _note(request: HttpRequest) -> None:
    flags = flags_of(request)
    if flags._seen is None:
        flags.left = Left(streaming=False, looked=_has_looked(request))


def _mark(request: HttpRequest, *view: Any) -> None:
    """Django's `process_view`: from here on only a cache around the view is still to come."""
    claim_mark(request)


async def _amark(request: HttpRequest, *view: Any) -> None:
    claim_mark(request)
