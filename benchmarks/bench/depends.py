"""A FastAPI endpoint with ``Depends(flags)`` and one read."""

# Annotations of endpoints are looked at when they are added, so they are no strings here.

from importlib import import_module
from typing import Annotated, Any

from fastapi import Depends, FastAPI
from fastapi.responses import PlainTextResponse
from shipsilently_fastapi import FlagsDep

from benchmarks.frameworks import EXTENSION, Run

from . import peers, sites
from .outcome import Figure, Goal, Outcome, Settings
from .timing import added, median

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
    return Outcome(rows, [Goal("Depends(flags) and one read ≤ 14 µs added", ours, 14.0)])


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
