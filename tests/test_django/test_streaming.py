"""Streaming responses, whose body is made after the middleware has returned."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.contrib.auth.models import User
from django.core.handlers.asgi import ASGIHandler
from django.http import FileResponse, HttpRequest, StreamingHttpResponse
from django.test import RequestFactory
from pytest_django import Settings
from shipsilently_django import FlagsMiddleware, FlagsRequest, aflag_enabled, flag_enabled
from shipsilently_django.current import get_request

from .site import Browser

Serve = Callable[..., None]
Configure = Callable[..., None]
SYNC_ONLY = "tests.test_django.test_current.sync_only"
OURS = "shipsilently_django.FlagsMiddleware"


def plain(request: HttpRequest) -> StreamingHttpResponse:
    """Read a flag for each chunk."""

    def chunks() -> Iterator[str]:
        for _ in range(3):
            yield f"{flag_enabled('x')} "

    return StreamingHttpResponse(chunks())


async def awaited(request: HttpRequest) -> StreamingHttpResponse:
    """Read a flag for each chunk, in a task."""

    async def chunks() -> AsyncIterator[str]:
        for _ in range(3):
            yield f"{await aflag_enabled('x')} "
            await asyncio.sleep(0)

    return StreamingHttpResponse(chunks())


def body_of(browser: Browser) -> str:
    """The whole body of the front page."""
    response = browser.get()
    if not response.is_async:
        return b"".join(response.streaming_content).decode()

    async def collected() -> bytes:
        return b"".join([chunk async for chunk in response.streaming_content])

    return async_to_sync(collected)().decode()


@pytest.mark.parametrize(
    "middleware",
    [[OURS], [SYNC_ONLY, OURS], [OURS, SYNC_ONLY]],
    ids=["alone", "behind a plain one", "before a plain one"],
)
@pytest.mark.parametrize(
    ("server", "view"), [("wsgi", plain), ("asgi", awaited)], ids=["wsgi", "asgi"]
)
def test_a_body_sees_its_request(
    serve: Serve, settings: Settings, middleware: list[str], server: str, view: Any
) -> None:
    """What makes the chunks reads the flags of its request, and none is left afterwards."""
    settings.MIDDLEWARE = middleware
    serve(view)
    assert body_of(Browser(server)) == "True True True "
    assert get_request() is None


def test_a_visitor_who_leaves_early_disturbs_nobody(serve: Serve, configure: Configure) -> None:
    """After a disconnect in the middle of a stream the next request is clean; nothing raises."""
    errors: list[Any] = []

    async def visit(disconnects: bool) -> list[bytes]:
        asyncio.get_running_loop().set_exception_handler(lambda loop, what: errors.append(what))
        started, gone = asyncio.Event(), asyncio.Event()
        sent: list[bytes] = []

        async def receive() -> dict[str, Any]:
            if not started.is_set():
                started.set()
                return {"type": "http.request", "body": b"", "more_body": False}
            await (gone.wait() if disconnects else asyncio.Event().wait())
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            if message.get("body"):
                sent.append(message["body"])
                gone.set()
                await asyncio.sleep(0.005)

        scope = {
            "type": "http",
            "method": "GET",
            "path": "/",
            "headers": [(b"host", b"testserver")],
            "query_string": b"",
        }
        await ASGIHandler()(scope, receive, send)
        assert get_request() is None
        return sent

    serve(awaited)
    assert len(asyncio.run(visit(disconnects=True))) < 3
    assert asyncio.run(visit(disconnects=False)) == [b"True "] * 3
    assert not errors


@pytest.mark.parametrize(
    ("reads_first", "warned"), [(True, False), (False, True)], ids=["first", "late"]
)
def test_a_first_read_in_the_body_is_warned_of(
    serve: Serve,
    ada: User,
    caplog: pytest.LogCaptureFixture,
    reads_first: bool,
    warned: bool,
) -> None:
    """Headers that have left carry no Vary; a flag read in the view sets it in time."""

    def view(request: FlagsRequest) -> StreamingHttpResponse:
        if reads_first:
            request.flags.evaluate_all()
        return plain(request)

    serve(view)
    browser = Browser("wsgi")
    browser.login(ada)
    response = browser.get()
    assert ("Vary" in response) is reads_first
    assert b"".join(response.streaming_content) == b"True True True "
    assert ("in the body of a streaming response" in caplog.text) is warned


def test_a_late_read_that_needs_no_user_is_fine(
    serve: Serve, configure: Configure, caplog: pytest.LogCaptureFixture
) -> None:
    """A context that does not depend on the visitor needs no Vary, so there is no warning."""
    configure(CONTEXT=lambda request: {"country": "is"})
    serve(plain)
    assert body_of(Browser("wsgi")) == "True True True "
    assert not caplog.text


def test_files_are_left_alone(configure: Configure, tmp_path: Path) -> None:
    """The server's own way to send a file stays open."""
    file = tmp_path / "file"
    file.write_bytes(b"content")
    middleware = FlagsMiddleware(lambda request: FileResponse(file.open("rb")))
    response: Any = middleware(RequestFactory().get("/"))
    assert response.file_to_stream is not None
    with response.file_to_stream as sent:
        assert sent.read() == b"content"
