"""A FastAPI endpoint with ``Depends(flags)`` and one read."""

# Annotations of endpoints are looked at when they are added, so they are no strings here.

import time
from importlib import import_module
from typing import Annotated, Any

from fastapi import Depends, FastAPI
from fastapi.responses import PlainTextResponse
from shipsilently_fastapi import FlagsDep, flags
from shipsilently_fastapi.lifespan import STATE
from starlette.requests import HTTPConnection

from benchmarks.frameworks import AHEAD, CLIENT, EXTENSION, MOST, Run

from . import peers, sites
from .outcome import Figure, Goal, Outcome, Settings
from .timing import added, median, take_turns

EMPTY = "an empty async dependency"


def run(settings: Settings) -> Outcome:
    """Measure."""
    runs, missing = endpoints(settings)
    figures = sites.measure(runs, settings)
    bare = figures.pop(sites.BARE)
    rows = [Figure("bare", median(bare) * 1e6, "µs", None, "the whole")]
    ours = added(figures[sites.OURS], bare) * 1e6
    for name, took in figures.items():
        theirs = added(took, bare) * 1e6
        rows.append(Figure(name, theirs, "µs", ours / theirs, "added"))
    rows.extend(Figure(name, None, "µs", note=why) for name, why in missing.items())
    alone = take_turns({"alone": by_itself}, settings, most=MOST)["alone"]
    what = "the dependency and the read, in a loop of their own"
    rows.append(Figure(what, median(alone) * 1e6, "µs", None, "the whole, no framework"))
    return Outcome(rows, [Goal("Depends(flags) and one read ≤ 14 µs added", ours, 14.0)])


def by_itself(count: int) -> float:
    """Seconds of so many calls of the dependency, each for a request of its own, and a read."""
    took = 0.0
    scope = {"type": "http", "headers": [], "state": {STATE: EXTENSION}}
    for begun in range(0, count, AHEAD):
        connections = [HTTPConnection(dict(scope)) for _ in range(min(AHEAD, count - begun))]
        began = time.thread_time()
        for connection in connections:
            call = flags(connection)
            try:
                call.send(None)
            except StopIteration as end:
                end.value.is_enabled("flag-0")
        took += time.thread_time() - began
        CLIENT.flush()
    return took


def endpoints(settings: Settings) -> tuple[dict[str, Run], dict[str, str]]:
    """One endpoint with nothing, with an empty dependency, with ours, and with furagu's."""
    furagu, _, missing = sites.optional(settings)

    async def nothing() -> None:
        return None

    async def empty() -> PlainTextResponse:
        return PlainTextResponse("")

    async def dependent(found: Annotated[Any, Depends(nothing)]) -> PlainTextResponse:
        return PlainTextResponse("")

    async def ours(found: FlagsDep) -> PlainTextResponse:
        return PlainTextResponse("new" if found.is_enabled("flag-0") else "")

    apps = {sites.BARE: FastAPI(), EMPTY: FastAPI(), sites.OURS: FastAPI()}
    views: tuple[Any, ...] = (empty, dependent, ours)
    for app, view in zip(apps.values(), views, strict=True):
        app.get("/")(view)
    EXTENSION.install(apps[sites.OURS])
    if furagu is not None:
        contrib = import_module("furagu.contrib.fastapi")

        async def theirs(found: Annotated[Any, Depends(contrib.get_client)]) -> PlainTextResponse:
            return PlainTextResponse("new" if found.get_boolean_value("flag-0", False) else "")

        apps[sites.FURAGU] = FastAPI()
        apps[sites.FURAGU].get("/")(theirs)
        contrib.install(apps[sites.FURAGU], peers.furagu_provider(sites.FLAGS))
    return sites.asgi_runs(apps), missing
