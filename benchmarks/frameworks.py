"""What flags cost a request in Django, Flask and FastAPI, in microseconds.

    make bench-frameworks

Each framework handles requests in this process, without a server and without a network:
a bare app, the app with something of the same kind that does nothing, the app with flags
installed of which none is read, with one flag, and with a `FlagSet` of 20. The client
holds a fresh evaluation, as it does for nearly every request.

All variants of a framework take turns in short rounds; a figure is the median of the
rounds. What is added is the median of the differences to the bare app of the same round,
so a machine that is busy or changes its speed disturbs little. Time is this thread's
processor time.
"""

from __future__ import annotations

import asyncio
import gc
import os
import statistics
import sys
import time
from collections.abc import Callable, Coroutine
from itertools import count
from types import ModuleType
from typing import Annotated, Any, NamedTuple

import django
from django.conf import settings as django_settings
from django.core.handlers.asgi import ASGIHandler
from django.core.handlers.wsgi import WSGIHandler
from django.http import HttpRequest, HttpResponse
from django.test import AsyncRequestFactory, RequestFactory, override_settings
from django.urls import path
from django.utils.decorators import sync_and_async_middleware
from fastapi import Depends, FastAPI
from fastapi.responses import PlainTextResponse
from flask import Flask
from rich.console import Console
from rich.table import Table
from shipsilently_fastapi import FlagsDep, flags
from shipsilently_fastapi import ShipSilently as FastAPIShipSilently
from shipsilently_fastapi.lifespan import STATE
from shipsilently_flask import ShipSilently as FlaskShipSilently
from shipsilently_flask import flags as flask_flags
from starlette.requests import HTTPConnection

from benchmarks.normal import as_if_it_streams
from shipsilently_core import AnalyticsConfig, FlagSet, ShipSilentlyClient
from shipsilently_core.testing import ScriptedService

ROUNDS = int(os.environ.get("ROUNDS", "40"))
#: Seconds of one round of one variant.
ROUND = float(os.environ.get("ROUND", "0.03"))

#: Requests of one round at most.
MOST = 1_000

#: So many are there at once, as on a busy server, and so many are made ahead, outside of the
#: figures. Then they go, and what was counted is delivered, outside of the figures too.
AHEAD = 100

VARIANTS = ("bare", "no-op", "no flag read", "one flag", "FlagSet of 20")
#: FastAPI's alone: what any dependency costs there, before it does something.
EMPTY = "empty dependency"
#: Microseconds that installed flags may add to a request which reads none.
LIMITS = {"Django, sync": 1.0, "Django, async": 1.2, "Flask": 1.5, "FastAPI": 1.5}

FLAGS = {f"flag-{number}": number % 2 == 0 for number in range(20)}


class Service(ScriptedService):
    """A service that keeps nothing of what it is told."""

    def send(self, request: Any) -> Any:
        """Answer."""
        reply = super().send(request)
        self.events.clear()
        return reply


CLIENT = ShipSilentlyClient(
    api_key="bench",
    transport=Service(FLAGS),
    background=False,
    analytics=AnalyticsConfig(max_buffer_size=20 * MOST),
)
as_if_it_streams(CLIENT)
EXTENSION = FastAPIShipSilently(client=CLIENT)

Many: Any = type(
    "Many",
    (FlagSet,),
    {"__annotations__": dict.fromkeys((key.replace("-", "_") for key in FLAGS), bool)}
    | {key.replace("-", "_"): False for key in FLAGS},
)


class Run(NamedTuple):
    """Handles requests.

    Attributes:
        prepare: Makes a request, outside of the figures.
        handle: Handles these requests.
    """

    prepare: Callable[[], Any]
    handle: Callable[[list[Any]], object]


class Framework(NamedTuple):
    """One framework: what handles requests in each variant."""

    name: str
    runs: dict[str, Run]


def main() -> int:
    """Measure and print."""
    CLIENT.evaluate_all()
    # As the lifespan does.
    EXTENSION.start()
    table = Table(title="A request in this process, in µs of processor time")
    for heading in ("", *VARIANTS[1:]):
        table.add_column(heading, justify="right" if heading else "left")
    table.add_column("bare", justify="right")
    loop = asyncio.new_event_loop()
    notes = []
    for framework in (django_sync(), django_async(loop), flask(), fastapi(loop)):
        figures = measure(framework.runs)
        bare = statistics.median(figures["bare"])
        if EMPTY in figures:
            own, one = added_by(EMPTY, figures), added_by("one flag", figures)
            notes.append(
                f"{framework.name}'s own part of one flag, for an async dependency that does "
                f"nothing: +{own:.2f}; ours: +{one - own:.2f}."
            )
        cells = []
        for variant in VARIANTS[1:]:
            added = added_by(variant, figures)
            cells.append(f"+{added:.2f} ({1 + added / bare:.3f})".replace("+-", "-"))
            if variant == "no flag read":
                cells[-1] += f" ≤ {LIMITS[framework.name]}"
        table.add_row(framework.name, *cells, f"{bare:.1f}")
    loop.close()
    CLIENT.close()
    Console(width=None if sys.stdout.isatty() else 120).print(table)
    print(*notes, sep="\n")
    print("In brackets: times the bare app. ≤: the aim for a request that reads no flag.")
    return 0


def added_by(variant: str, figures: dict[str, list[float]]) -> float:
    """Microseconds that a variant adds to the bare app."""
    return statistics.median(
        one - base for one, base in zip(figures[variant], figures["bare"], strict=True)
    )


def measure(runs: dict[str, Run]) -> dict[str, list[float]]:
    """Microseconds per request of each variant, round by round."""
    counts = {}
    for variant, run in runs.items():
        timed(run, 50)
        counts[variant] = max(1, int(50 * ROUND / timed(run, 50)))
    count = min(MOST, *counts.values())
    figures: dict[str, list[float]] = {variant: [] for variant in runs}
    for number in range(ROUNDS):
        # Turn the order, so that no variant always follows the same one.
        order = list(runs) if number % 2 else list(reversed(runs))
        for variant in order:
            figures[variant].append(timed(runs[variant], count) / count * 1e6)
    return figures


def timed(run: Run, count: int) -> float:
    """Seconds of this thread for so many requests."""
    took = 0.0
    gc.disable()
    try:
        for begun in range(0, count, AHEAD):
            requests = [run.prepare() for _ in range(min(AHEAD, count - begun))]
            gc.collect()
            began = time.thread_time()
            run.handle(requests)
            took += time.thread_time() - began
            CLIENT.flush()
            requests.clear()
    finally:
        gc.enable()
    return took


def at_own_url(make: Callable[[str], Any], view: Any) -> Callable[[], Any]:
    """Makes requests of Django's to a view whose URL is the only one, so the first looked at.

    Args:
        make: A method of a request factory.
        view: Answers them.
    """
    urls: Any = ModuleType(f"bench_urls_{next(_numbers)}")
    urls.urlpatterns = [path("", view)]
    sys.modules[urls.__name__] = urls

    def prepare() -> Any:
        request = make("/")
        request.urlconf = urls.__name__
        return request

    return prepare


_numbers = count()


@sync_and_async_middleware
def django_noop(get_response: Callable[[HttpRequest], Any]) -> Callable[[HttpRequest], Any]:
    """A middleware of Django that does nothing, in both worlds."""
    if asyncio.iscoroutinefunction(get_response):

        async def middleware(request: HttpRequest) -> Any:
            return await get_response(request)

        return middleware

    def plain(request: HttpRequest) -> Any:
        return get_response(request)

    return plain


def django_views() -> dict[str, Any]:
    """The views of the Django site."""

    def none(request: Any) -> HttpResponse:
        return HttpResponse("")

    def one(request: Any) -> HttpResponse:
        return HttpResponse("new" if request.flags.is_enabled("flag-0") else "")

    def many(request: Any) -> HttpResponse:
        return HttpResponse("new" if request.flags.as_(Many).flag_0 else "")

    async def anone(request: Any) -> HttpResponse:
        return HttpResponse("")

    async def aone(request: Any) -> HttpResponse:
        return HttpResponse("new" if await request.flags.ais_enabled("flag-0") else "")

    async def amany(request: Any) -> HttpResponse:
        return HttpResponse("new" if (await request.flags.aload()).as_(Many).flag_0 else "")

    return {view.__name__: view for view in (none, one, many, anone, aone, amany)}


#: Looked at by Django's checks; each request names its own.
urlpatterns: list[Any] = []
VIEWS = django_views()

DJANGO = {
    "bare": ("none", []),
    "no-op": ("none", [f"{__name__}.django_noop"]),
    "no flag read": ("none", ["shipsilently_django.FlagsMiddleware"]),
    "one flag": ("one", ["shipsilently_django.FlagsMiddleware"]),
    "FlagSet of 20": ("many", ["shipsilently_django.FlagsMiddleware"]),
}


def set_up_django() -> None:
    """Configure Django once."""
    if not django_settings.configured:
        django_settings.configure(
            SECRET_KEY="bench",
            ALLOWED_HOSTS=["testserver"],
            ROOT_URLCONF=__name__,
            INSTALLED_APPS=["shipsilently_django"],
            SHIPSILENTLY={"CLIENT": CLIENT},
        )
        django.setup()


def django_sync() -> Framework:
    """Django as under WSGI."""
    set_up_django()
    runs: dict[str, Run] = {}
    for variant, (view, middleware) in DJANGO.items():
        with override_settings(MIDDLEWARE=middleware):
            handler = WSGIHandler()

        def run(requests: list[Any], handler: WSGIHandler = handler) -> None:
            for request in requests:
                handler.get_response(request)

        runs[variant] = Run(at_own_url(RequestFactory().get, VIEWS[view]), run)
    return Framework("Django, sync", runs)


def django_async(loop: asyncio.AbstractEventLoop) -> Framework:
    """Django as under ASGI, with async views."""
    set_up_django()
    runs: dict[str, Run] = {}
    for variant, (view, middleware) in DJANGO.items():
        with override_settings(MIDDLEWARE=middleware):
            handler = ASGIHandler()

        async def run(requests: list[Any], handler: ASGIHandler = handler) -> None:
            for request in requests:
                await handler.get_response_async(request)

        prepare = at_own_url(AsyncRequestFactory().get, VIEWS[f"a{view}"])
        runs[variant] = Run(prepare, in_loop(loop, run))
    return Framework("Django, async", runs)


def flask() -> Framework:
    """Flask, as a WSGI server calls it."""
    views = {
        "one flag": lambda: "new" if flask_flags.is_enabled("flag-0") else "",
        "FlagSet of 20": lambda: "new" if flask_flags.as_(Many).flag_0 else "",
    }
    apps = {variant: Flask(f"bench{number}") for number, variant in enumerate(VARIANTS)}
    apps["no-op"].before_request(lambda: None)
    apps["no-op"].teardown_request(lambda error: None)
    for variant, app in apps.items():
        if variant not in ("bare", "no-op"):
            FlaskShipSilently(app, client=CLIENT)
        app.add_url_rule("/", "home", views.get(variant, lambda: ""))

    environ = RequestFactory().get("/").environ

    def answer(status: str, headers: Any, error: Any = None) -> Any:
        assert status == "200 OK", status

    def runner(app: Flask) -> Run:
        def run(requests: list[Any]) -> None:
            for request in requests:
                app(request, answer).close()  # type: ignore[attr-defined]

        return Run(environ.copy, run)

    return Framework("Flask", {variant: runner(app) for variant, app in apps.items()})


class ASGINoop:
    """A middleware of ASGI that does nothing."""

    def __init__(self, app: Any) -> None:
        self.app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await self.app(scope, receive, send)


class Empty:
    """A dependency of the same kind as ``flags`` that does nothing."""

    async def __call__(self, connection: HTTPConnection) -> None:
        """Nothing."""


def fastapi(loop: asyncio.AbstractEventLoop) -> Framework:
    """FastAPI, as an ASGI server calls it."""

    async def none() -> PlainTextResponse:
        return PlainTextResponse("")

    async def one(flags: FlagsDep) -> PlainTextResponse:
        return PlainTextResponse("new" if flags.is_enabled("flag-0") else "")

    async def many(many: Annotated[Any, Depends(flags.as_(Many))]) -> PlainTextResponse:
        return PlainTextResponse("new" if many.flag_0 else "")

    async def empty(nothing: Annotated[None, Depends(Empty())]) -> PlainTextResponse:
        return PlainTextResponse("")

    views = {"one flag": one, "FlagSet of 20": many, EMPTY: empty}
    apps = {variant: FastAPI() for variant in (*VARIANTS, EMPTY)}
    apps["no-op"].add_middleware(ASGINoop)
    for variant, app in apps.items():
        if variant not in ("bare", "no-op", EMPTY):
            EXTENSION.install(app)
        app.get("/")(views.get(variant, none))
    scope: dict[str, Any] = {
        "type": "http",
        "method": "GET",
        "path": "/",
        "raw_path": b"/",
        "query_string": b"",
        "headers": [],
        "http_version": "1.1",
        "scheme": "http",
    }

    def runner(app: FastAPI) -> Run:
        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": b""}

        async def send(message: Any) -> None:
            assert message.get("status", 200) == 200, message

        async def run(requests: list[Any]) -> None:
            for request in requests:
                await app(request, receive, send)

        # A state of its own with what the lifespan has put there, as servers give it.
        return Run(lambda: scope | {"state": {STATE: EXTENSION}}, in_loop(loop, run))

    return Framework("FastAPI", {variant: runner(app) for variant, app in apps.items()})


def in_loop(
    loop: asyncio.AbstractEventLoop, run: Callable[[list[Any]], Coroutine[Any, Any, None]]
) -> Callable[[list[Any]], None]:
    """A coroutine function as a plain one."""
    return lambda requests: loop.run_until_complete(run(requests))


if __name__ == "__main__":
    sys.exit(main())
