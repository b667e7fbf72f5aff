"""Small apps of each framework in this process: with nothing, with ours, and with a peer.

They take turns as in ``benchmarks/frameworks.py``, whose runs these are. Where nothing is
installed the views answer without a flag.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any

from benchmarks import frameworks
from benchmarks.frameworks import CLIENT, EXTENSION, Run, at_own_url, in_loop

from . import peers
from .least import ASGILeast, Held, Noting
from .outcome import Settings
from .timing import Work, take_turns

__all__ = ["KEYS", "SITES", "asgi_runs", "measure", "optional"]

#: The flags that a view reads.
KEYS = [f"flag-{number}" for number in range(10)]
FLAGS = frameworks.FLAGS
Noting.users["somebody"] = (1, FLAGS)

BARE, OURS, ONE, TEN, FURAGU, FURAGU_TEN = (
    "bare",
    "shipsilently",
    "shipsilently, one read",
    "shipsilently, ten reads",
    "furagu",
    ("furagu, ten reads"),
)
#: What the same takes at least, in Python: where a limit is that is not ours.
LEAST, LEAST_TEN, NOTED_TEN = (
    "a middleware that sets a context variable and an attribute",
    "ten calls of a method that looks up a dictionary",
    "the same middleware, a user looked up, and ten reads noted with the time",
)
LAUNCHDARKLY_TEN, STATSIG_TEN = (
    "launchdarkly-server-sdk, ten reads",
    "statsig-python-core, ten reads",
)


def ten_of_held(request: object = None) -> None:
    """Ten reads of the least that flags can be."""
    held = Held(FLAGS)
    for key in KEYS:
        held.get(key, False)


def ten_noted(request: object = None) -> None:
    """Ten reads of that."""
    flags = Noting("somebody")
    for key in KEYS:
        flags.get(key, False)


def _furagu() -> Any:
    """furagu's client, installed as its integrations do it."""
    import_module("furagu.contrib._common").install_provider(peers.furagu_provider(FLAGS))
    return import_module("openfeature.api").get_client()


def _ten_by_peer(name: str) -> Callable[[], object]:
    """Ten reads by a peer that has no integration, as its manual says."""
    peer = peers.READERS[name](FLAGS, "http://127.0.0.1:9")
    names = {**peer.names, "held": peer.held(), "KEYS": KEYS}
    read: Callable[[], object] = eval(f"lambda: [{peer.read} for key in KEYS]", names)
    return read


def optional(settings: Settings) -> tuple[Any, dict[str, Callable[[], object]], dict[str, str]]:
    """What of the peers can be had: furagu's client, ten reads of others, and what is missing."""
    readers: dict[str, Callable[[], object]] = {}
    missing: dict[str, str] = {}
    furagu = None
    if settings.own:
        return furagu, readers, missing
    try:
        furagu = _furagu()
    except Exception as error:
        missing["furagu"] = f"{type(error).__name__}: {error}"
    for name in ("launchdarkly-server-sdk", "statsig-python-core"):
        try:
            readers[f"{name}, ten reads"] = _ten_by_peer(name)
        except Exception as error:
            missing[name] = f"{type(error).__name__}: {error}"
    return furagu, readers, missing


def _alone(read: Callable[[], object], request: object) -> None:
    read()


urlpatterns: list[Any] = []


def _django(settings: Settings, *, loop: asyncio.AbstractEventLoop | None) -> Any:
    import django
    from django.conf import settings as configured
    from django.core.handlers.asgi import ASGIHandler
    from django.core.handlers.wsgi import WSGIHandler
    from django.http import HttpResponse
    from django.test import AsyncRequestFactory, RequestFactory, override_settings

    furagu, readers, missing = optional(settings)
    ours = ["shipsilently_django.FlagsMiddleware"]
    theirs = ["furagu.contrib.django.FuraguMiddleware"]
    if not configured.configured:
        configured.configure(
            SECRET_KEY="bench",
            ALLOWED_HOSTS=["testserver"],
            ROOT_URLCONF=__name__,
            INSTALLED_APPS=["shipsilently_django"],
            SHIPSILENTLY={"CLIENT": CLIENT},
        )
        django.setup()

    def view(read: Callable[[Any], object]) -> Any:
        if loop is None:

            def plain(request: Any) -> HttpResponse:
                read(request)
                return HttpResponse("")

            return plain

        async def in_task(request: Any) -> HttpResponse:
            read(request)
            return HttpResponse("")

        return in_task

    def reading(keys: list[str]) -> Any:
        def read(request: Any) -> None:
            flags = request.flags
            for key in keys:
                flags.get(key, False)

        async def in_task(request: Any) -> HttpResponse:
            flags = await request.flags.aload()
            for key in keys:
                flags.get(key, False)
            return HttpResponse("")

        return view(read) if loop is None else in_task

    def furagu_ten(request: Any) -> None:
        for key in KEYS:
            furagu.get_boolean_value(key, False)

    async def ten_noted_in_task(request: Any) -> HttpResponse:
        flags = await Noting("somebody").aload()
        for key in KEYS:
            flags.get(key, False)
        return HttpResponse("")

    noted = view(ten_noted) if loop is None else ten_noted_in_task
    variants: dict[str, tuple[Any, list[str]]] = {
        BARE: (view(lambda request: None), []),
        OURS: (view(lambda request: None), ours),
        ONE: (reading(KEYS[:1]), ours),
        TEN: (reading(KEYS), ours),
        LEAST: (view(lambda request: None), ["benchmarks.bench.least.DjangoLeast"]),
        LEAST_TEN: (view(ten_of_held), []),
        NOTED_TEN: (noted, ["benchmarks.bench.least.DjangoLeast"]),
    }
    if furagu is not None:
        variants[FURAGU] = (view(lambda request: None), theirs)
        variants[FURAGU_TEN] = (view(furagu_ten), theirs)
    for name, read in readers.items():
        variants[name] = (view(partial(_alone, read)), [])
    runs: dict[str, Run] = {}
    for name, (each, middleware) in variants.items():
        with override_settings(MIDDLEWARE=middleware):
            if loop is None:
                handler = WSGIHandler()

                def run(requests: list[Any], handler: Any = handler) -> None:
                    for request in requests:
                        assert handler.get_response(request).status_code == 200

                runs[name] = Run(at_own_url(RequestFactory().get, each), run)
            else:
                ahandler = ASGIHandler()

                async def arun(requests: list[Any], handler: Any = ahandler) -> None:
                    for request in requests:
                        assert (await handler.get_response_async(request)).status_code == 200

                runs[name] = Run(at_own_url(AsyncRequestFactory().get, each), in_loop(loop, arun))
    return runs, missing


def django_sync(settings: Settings) -> tuple[dict[str, Run], dict[str, str]]:
    """Django as under WSGI."""
    return _django(settings, loop=None)  # type: ignore[no-any-return]


def django_async(settings: Settings) -> tuple[dict[str, Run], dict[str, str]]:
    """Django as under ASGI, with async views."""
    return _django(settings, loop=asyncio.new_event_loop())  # type: ignore[no-any-return]


def flask(settings: Settings) -> tuple[dict[str, Run], dict[str, str]]:
    """Flask, as a WSGI server calls it."""
    from flask import Flask
    from shipsilently_flask import ShipSilently, flags
    from shipsilently_flask.contexts import request_context
    from werkzeug.test import create_environ

    furagu, readers, missing = optional(settings)
    environ = create_environ()

    def app_of(name: str, view: Callable[[], str]) -> Flask:
        app = Flask(name)
        app.add_url_rule("/", "home", view)
        return app

    def empty() -> str:
        return ""

    def reading(keys: list[str]) -> Callable[[], str]:
        def read() -> str:
            for key in keys:
                flags.get(key, False)
            return ""

        return read

    def furagu_ten() -> str:
        for key in KEYS:
            furagu.get_boolean_value(key, False)
        return ""

    def least() -> str:
        ten_of_held()
        return ""

    class Proxy:
        """Stands for the current request's flags, so each read finds them."""

        def get(self, key: str, default: Any) -> Any:
            held = request_context().request.__dict__
            found: Noting | None = held.get("noting")
            if found is None:
                found = held["noting"] = Noting("somebody")
            return found.get(key, default)

    proxy = Proxy()

    def noted() -> str:
        for key in KEYS:
            proxy.get(key, False)
        return ""

    apps = {
        BARE: app_of("bare", empty),
        OURS: app_of("ours", empty),
        ONE: app_of("one", reading(KEYS[:1])),
        TEN: app_of("ten", reading(KEYS)),
        LEAST_TEN: app_of("least", least),
        NOTED_TEN: app_of("noted", noted),
    }
    for name in (OURS, ONE, TEN):
        ShipSilently(apps[name], client=CLIENT)
    if furagu is not None:
        extension = import_module("furagu.contrib.flask").Furagu
        for name, view in ((FURAGU, empty), (FURAGU_TEN, furagu_ten)):
            apps[name] = app_of(name.replace(", ", "_").replace(" ", "_"), view)
            extension(apps[name], provider=peers.furagu_provider(FLAGS))
        furagu = import_module("openfeature.api").get_client()
    for name, read in readers.items():

        def other(read: Callable[[], object] = read) -> str:
            read()
            return ""

        apps[name] = app_of(name.partition(",")[0].replace("-", "_"), other)

    def answer(status: str, headers: Any, error: Any = None) -> Any:
        assert status == "200 OK", status

    def runner(app: Flask) -> Run:
        def run(requests: list[Any]) -> None:
            for request in requests:
                app(request, answer).close()  # type: ignore[attr-defined]

        return Run(environ.copy, run)

    return {name: runner(app) for name, app in apps.items()}, missing


def fastapi(settings: Settings) -> tuple[dict[str, Run], dict[str, str]]:
    """FastAPI, as an ASGI server calls it; ten reads find their flags without a dependency."""
    from fastapi import FastAPI
    from fastapi.responses import PlainTextResponse
    from shipsilently_fastapi import current_flags

    furagu, readers, missing = optional(settings)

    async def empty() -> PlainTextResponse:
        return PlainTextResponse("")

    def reading(keys: list[str]) -> Any:
        async def view() -> PlainTextResponse:
            flags = current_flags()
            for key in keys:
                flags.get(key, False)
            return PlainTextResponse("")

        return view

    def calling(read: Callable[[], object]) -> Any:
        async def view() -> PlainTextResponse:
            read()
            return PlainTextResponse("")

        return view

    async def furagu_ten() -> PlainTextResponse:
        for key in KEYS:
            furagu.get_boolean_value(key, False)
        return PlainTextResponse("")

    views = {BARE: empty, OURS: empty, ONE: reading(KEYS[:1]), TEN: reading(KEYS), LEAST: empty}
    views |= {LEAST_TEN: calling(ten_of_held), NOTED_TEN: calling(ten_noted)}
    apps = {name: FastAPI() for name in views}
    for name, view in views.items():
        apps[name].get("/", response_model=None)(view)
    for name in (LEAST, NOTED_TEN):
        apps[name].add_middleware(ASGILeast)
    for name in (OURS, ONE, TEN):
        EXTENSION.install(apps[name])
    if furagu is not None:
        contrib = import_module("furagu.contrib.fastapi")
        for name, view in ((FURAGU, empty), (FURAGU_TEN, furagu_ten)):
            apps[name] = FastAPI()
            apps[name].get("/", response_model=None)(view)
            contrib.install(apps[name], peers.furagu_provider(FLAGS))
    for name, read in readers.items():
        apps[name] = FastAPI()
        apps[name].get("/")(calling(read))
    return asgi_runs(apps), missing


def asgi_runs(apps: dict[str, Any]) -> dict[str, Run]:
    from shipsilently_fastapi.lifespan import STATE

    EXTENSION.start()
    loop = asyncio.new_event_loop()
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

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b""}

    async def send(message: Any) -> None:
        assert message.get("status", 200) == 200, message

    def runner(app: Any) -> Run:
        async def run(requests: list[Any]) -> None:
            for request in requests:
                await app(request, receive, send)

        return Run(lambda: scope | {"state": {STATE: EXTENSION}}, in_loop(loop, run))

    return {name: runner(app) for name, app in apps.items()}


#: Each framework's runs by variant.
SITES = {
    "Django, sync": django_sync,
    "Django, async": django_async,
    "Flask": flask,
    "FastAPI": fastapi,
}


def measure(runs: dict[str, Run], settings: Settings) -> dict[str, list[float]]:
    """Seconds of one request in each variant, round by round."""
    CLIENT.evaluate_all()

    works: dict[str, Work] = {name: partial(frameworks.timed, run) for name, run in runs.items()}
    for each in works.values():
        each(20)
    return take_turns(works, settings, most=frameworks.MOST)
