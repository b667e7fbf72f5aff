"""What an app was made with, and the apps around a mounted one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any
from weakref import ref

from fastapi.routing import iter_route_contexts
from starlette.applications import Starlette
from starlette.routing import Host, Mount, Router

from .behind import behind
from .lifespan import STATE, running

if TYPE_CHECKING:
    from .extension import ShipSilently

__all__ = ["between", "installed", "installed_on"]

#: How much of it may stand before one mounted app.
_MOST_MIDDLEWARE = 100

#: The outermost router and the apps between it and a mounted app, by the id of that, as long as
#: it lives.
_known: dict[int, tuple[ref[Any], ref[Any], tuple[ref[Any], ...]]] = {}


def installed(app: Any) -> ShipSilently | None:
    """What an app was made with, or what runs for it now."""
    state = getattr(app, "state", None)
    # To ask a `State` for what is not there takes longer than all the rest, and to ask whether it
    # is there goes through all that is. Where it keeps that is Starlette's own affair.
    kept = getattr(state, "__dict__", {}).get("_state")
    if kept is None or STATE in kept:
        found: ShipSilently | None = getattr(state, STATE, None)
        if found is not None:
            return found
    return installed_on(getattr(app, "router", None))


def installed_on(router: Any) -> ShipSilently | None:
    """The same, by an app's router alone."""
    now = running.get(id(router))
    if now is not None:
        return now[0]
    lifespan = getattr(router, "lifespan_context", None)
    return None if lifespan is None else behind(lifespan)


def between(router: Any, app: Any) -> tuple[Any, ...]:
    """The apps that a mounted app is in, without the outermost; mostly there are none.

    Args:
        router: The outermost app's.
        app: The mounted one.
    """
    known = _known.get(id(app))
    around = known[2] if known is not None and known[1]() is router else _find(router, app)
    return around and tuple(held for kept in around if (held := kept()) is not None)


def _find(router: Any, app: Any) -> tuple[ref[Any], ...]:
    if not isinstance(app, Starlette) or not isinstance(router, Router):
        return ()
    key, around = id(app), tuple(map(ref, _path(router, app)))
    _known[key] = ref(app, lambda _: _known.pop(key, None)), ref(router), around
    return around


def _path(router: Router, app: Any) -> tuple[Any, ...]:
    """The apps from a router down to an app that is mounted somewhere below it."""
    waiting: list[tuple[Any, tuple[Any, ...]]] = [(router, ())]
    met = {id(router)}
    # It grows meanwhile, so what is mounted less deep comes first.
    for holder, around in waiting:
        for mounted in _mounted(holder):
            if mounted is app:
                return around
            if id(mounted) not in met:
                met.add(id(mounted))
                is_app = isinstance(mounted, Starlette)
                waiting.append((mounted, (*around, mounted) if is_app else around))
    return ()


def _mounted(holder: Any) -> Iterator[Any]:
    """The apps and routers that are mounted in one, without the middleware of each mount."""
    for context in iter_route_contexts(holder.routes):
        route = context.original_route
        if isinstance(route, Mount | Host):
            mounted: Any = route.app
            for _ in range(_MOST_MIDDLEWARE):
                if isinstance(mounted, Starlette | Router):
                    yield mounted
                    break
                mounted = getattr(mounted, "app", None)
