"""What an app was made with, and the apps around a mounted one."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING, Any
from weakref import ref

from fastapi.routing import RouteContext, iter_route_contexts
from starlette.applications import Starlette
from starlette.routing import Host, Match, Mount, Router
from starlette.types import Scope

from shipsilently_core._log import say

from .behind import behind
from .lifespan import STATE, running

if TYPE_CHECKING:
    from .extension import ShipSilently

__all__ = ["between", "installed", "installed_on"]

#: How much of it may stand before one mounted app.
_MOST_MIDDLEWARE = 100

#: How many mounts are looked through for one app, and how deep a request is followed.
_MOST_MOUNTS = 1_000
_DEEPEST = 100

#: The outermost router and the apps between it and a mounted app, by the id of that, as long as
#: it lives; ``None`` for the apps where they are not the same on each way to it.
_known: dict[int, tuple[ref[Any], ref[Any], tuple[ref[Any], ...] | None]] = {}


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


def between(scope: Scope, last: Any) -> tuple[Any, ...]:
    """The apps that a mounted app is in, without the outermost; mostly there are none.

    Args:
        scope: Of a request or a socket that is in the mounted app.
        last: The latest of the apps around whose flags are known; only those after it count.
    """
    router, app = scope["router"], scope.get("app")
    known = _known.get(id(app))
    way = known[2] if known is not None and known[1]() is router else _find(router, app)
    if way is None:
        around = _followed(scope, last)
    else:
        around = way and tuple(held for kept in way if (held := kept()) is not None)
    return around[around.index(last) + 1 :] if last in around else around


def _find(router: Any, app: Any) -> tuple[ref[Any], ...] | None:
    if not isinstance(app, Starlette) or not isinstance(router, Router):
        return ()
    key, way = id(app), _only_way(router, app)
    around = None if way is None else tuple(map(ref, way))
    _known[key] = ref(app, lambda _: _known.pop(key, None)), ref(router), around
    return around


def _only_way(router: Router, app: Starlette) -> tuple[Any, ...] | None:
    """The apps from a router down to an app below it; ``None`` where there are several ways."""
    found: tuple[Any, ...] | None = None
    waiting: list[tuple[Any, tuple[Any, ...]]] = [(router, ())]
    met = set[tuple[int, ...]]()
    # It grows meanwhile.
    for holder, around in waiting:
        for _, mounted in _mounted(holder):
            if mounted is app:
                if found is not None and found != around:
                    return None
                found = around
            elif mounted is not None and mounted not in around:
                within = (*around, mounted) if isinstance(mounted, Starlette) else around
                key = (id(mounted), *map(id, within))
                if key not in met:
                    met.add(key)
                    waiting.append((mounted, within))
        if len(waiting) > _MOST_MOUNTS:
            return None
    return found or ()


def _followed(scope: Scope, last: Any) -> tuple[Any, ...]:
    """`between`, by the mounts that this request has come through."""
    outermost = scope["router"]
    start = scope.get("app_root_path", scope.get("root_path", ""))
    found = _follow(outermost, scope["app"], {**scope, "root_path": start})
    if found is not None:
        return found
    if last is None or getattr(last, "router", None) is outermost:
        _untold(type(scope["app"]).__name__)
    return ()


def _follow(router: Any, app: Any, scope: Scope) -> tuple[Any, ...] | None:
    """The apps from a router down to another app, as Starlette goes; ``None`` if none is there."""
    holder: Any = router
    around: tuple[Any, ...] = ()
    for _ in range(_DEEPEST):
        mounted, below = _step(holder, scope)
        if mounted is app:
            return around
        if mounted is None:
            return None
        if isinstance(mounted, Starlette):
            around = (*around, mounted)
        holder, scope = mounted, {**scope, **below}
    return None


def _step(holder: Any, scope: Scope) -> tuple[Any, Scope]:
    """What takes a request in an app or a router, and what its mount adds to the scope."""
    for context, mounted in _mounted(holder):
        match, below = context.matches(scope)
        if match is not Match.NONE:
            return mounted, below
    return None, {}


@cache
def _untold(app: str) -> None:
    """Say once that it cannot be told whose flags an app has."""
    say(
        logging.WARNING,
        "a %s is mounted in several apps, and it cannot be told by the path which of them a "
        "request has come through, so flags are for whom the outermost says: call "
        "shipsilently.install(app) on each app that it is mounted in",
        app,
    )


def _mounted(holder: Any) -> Iterator[tuple[RouteContext, Any]]:
    """The mounts in an app or a router, each with what is mounted there behind its middleware.

    That is an app or a router, or ``None`` where it is something else, or hidden.
    """
    for context in iter_route_contexts(holder.routes):
        if isinstance(context.original_route, Mount | Host):
            # Not the original's: a router that is included may have a prefix.
            mounted: Any = context.app
            for _ in range(_MOST_MIDDLEWARE):
                if mounted is None or isinstance(mounted, Starlette | Router):
                    break
                mounted = getattr(mounted, "app", None)
            yield context, mounted if isinstance(mounted, Starlette | Router) else None
