"""Visits to a site under WSGI or ASGI, and the views they find there."""

from collections.abc import Callable
from typing import Any

from asgiref.sync import async_to_sync
from django.http import HttpRequest, HttpResponse
from django.test import AsyncClient, Client
from shipsilently_django import FlagsRequest

View = Callable[..., Any]


class Browser:
    """Sends requests through Django's whole stack, keeping cookies.

    Under ASGI the request runs in an event loop, and the database in this thread, where the
    test's transaction is.

    Args:
        server: ``"wsgi"`` or ``"asgi"``.
        options: Those of Django's test client.
    """

    def __init__(self, server: str, **options: Any) -> None:
        self.server = server
        self._client: Any = (Client if server == "wsgi" else AsyncClient)(**options)
        self.cookies = self._client.cookies

    def get(self, page: str = "/", **extra: Any) -> Any:
        """The response to a GET."""
        return self._send("get", page, **extra)

    def post(self, page: str, data: Any = None, **extra: Any) -> Any:
        """The response to a POST."""
        return self._send("post", page, data, **extra)

    def options(self, page: str = "/", **extra: Any) -> Any:
        """The response to what a browser asks before it sends something to another site."""
        asked = {"Origin": "https://example.com", "Access-Control-Request-Method": "POST"}
        return self._send("options", page, headers=asked, **extra)

    def text(self, page: str = "/", **extra: Any) -> str:
        """The body of the response to a GET."""
        text: str = self.get(page, **extra).content.decode()
        return text

    def login(self, user: Any) -> None:
        """Log in without a request."""
        self._client.force_login(user)

    def _send(self, verb: str, *args: Any, **extra: Any) -> Any:
        send = getattr(self._client, verb)
        return (send if self.server == "wsgi" else async_to_sync(send))(*args, **extra)


def request_of(response: Any) -> HttpRequest:
    """The request that a response answers."""
    request: HttpRequest = getattr(response, "wsgi_request", None) or response.asgi_request
    return request


class Urls:
    """A URLconf for one test: hand it over as ``settings.ROOT_URLCONF``."""

    def __init__(self, *patterns: Any) -> None:
        self.urlpatterns = list(patterns)


def sync_view(request: FlagsRequest) -> HttpResponse:
    """Say whether the flag is on."""
    return HttpResponse(str(request.flags.is_enabled("x")))


async def async_view(request: FlagsRequest) -> HttpResponse:
    """Say whether the flag is on."""
    return HttpResponse(str(await request.flags.ais_enabled("x")))


def silent_sync_view(request: HttpRequest) -> HttpResponse:
    """Read no flag."""
    return HttpResponse("fine")


async def silent_async_view(request: HttpRequest) -> HttpResponse:
    """Read no flag."""
    return HttpResponse("fine")


READING: dict[str, View] = {"sync": sync_view, "async": async_view}
SILENT: dict[str, View] = {"sync": silent_sync_view, "async": silent_async_view}
