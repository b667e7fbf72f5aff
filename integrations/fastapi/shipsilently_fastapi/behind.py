"""The `ShipSilently` behind a lifespan, whatever that was put into."""

from __future__ import annotations

import dis
from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache, partial
from itertools import islice, pairwise
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import TYPE_CHECKING, Any
from weakref import ref

from starlette.applications import Starlette
from starlette.routing import Router

from .lifespan import Lifespan

if TYPE_CHECKING:
    from .extension import ShipSilently

__all__ = ["behind"]

#: How many things are looked at for one lifespan. Each router that an app includes puts another
#: two around what was there.
_MOST = 10_000
_MOST_IN_LIST = 100

#: What was found, or that nothing was, by the lifespan's id, as long as that lives. It is not
#: held: it may hold the app, which holds the lifespan.
_known: dict[int, tuple[ref[Any], ref[ShipSilently] | None]] = {}


def behind(lifespan: Any) -> ShipSilently | None:
    """What a lifespan runs, as far as that can be seen without running it.

    ``include_router`` merges an app's lifespan with the router's, and an app's own may
    enter ours: in both, ours is inside of a function. The app's own comes before those
    of its routers, and what is entered first before the rest.

    Args:
        lifespan: What ``app.router.lifespan_context`` is.
    """
    if type(lifespan) is Lifespan:
        return lifespan.shipsilently
    known = _known.get(id(lifespan))
    if known is not None:
        held = known[1]
        if held is None:
            return None
        found = held()
        if found is not None:
            return found
    return _find(lifespan)


def _find(lifespan: Any) -> ShipSilently | None:
    key, found = id(lifespan), _search(lifespan)
    try:
        alive = ref(lifespan, lambda _: _known.pop(key, None))
    except TypeError:
        return found  # it is looked at each time
    _known[key] = alive, None if found is None else ref(found)
    return found


def _search(lifespan: Any) -> ShipSilently | None:
    # Here, since that imports this.
    from .extension import ShipSilently

    waiting, met = [lifespan], set[int]()
    while waiting and len(met) < _MOST:
        thing = waiting.pop()
        # Things are asked for their type alone, never themselves: they may be proxies that do as
        # they like.
        kind = type(thing)
        if issubclass(kind, ShipSilently):
            return thing  # type: ignore[no-any-return]  # what its type says
        if issubclass(kind, Lifespan):
            return thing.shipsilently  # type: ignore[no-any-return]  # the same
        if id(thing) not in met:
            met.add(id(thing))
            waiting.extend(reversed(list(islice(_within(thing, kind), _MOST))))
    return None


def _within(thing: Any, kind: type) -> Iterator[Any]:
    """What a thing that may be a lifespan is made of, in the order in which it is entered."""
    if kind is FunctionType:
        yield getattr(thing, "__wrapped__", None)
        yield from _asked_for(thing)
    elif kind is MethodType:
        yield thing.__func__
        yield from _attributes(thing.__self__)
    elif kind is partial:
        yield from (thing.func, *thing.args, *thing.keywords.values())
    elif kind is list or kind is tuple:
        # Something else is in a longer one.
        yield from thing[:_MOST_IN_LIST]
    elif callable(thing) and not issubclass(kind, type | Starlette | Router):
        yield from _attributes(thing)


def _attributes(thing: object) -> list[Any]:
    try:
        return list(object.__getattribute__(thing, "__dict__").values())
    except AttributeError:
        return []


def _asked_for(function: FunctionType) -> Iterator[Any]:
    """What a function takes from around it, in the order in which its code asks for it."""
    cells = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        with suppress(ValueError):  # nothing may be in it yet
            cells[name] = cell.cell_contents
    for name, attribute in _names(function.__code__):
        found = function.__globals__.get(name)
        if name in cells:
            yield cells[name]
        elif type(found) is ModuleType:
            yield from _ours(vars(found).get(attribute))
        else:
            yield from _ours(found)
    yield from cells.values()


def _ours(found: Any) -> Iterator[Any]:
    """What a module holds, where it is a lifespan: all else has little to do with this app."""
    from .extension import ShipSilently

    kind = type(found)
    if issubclass(kind, ShipSilently | Lifespan) or (
        kind is FunctionType and hasattr(found, "__wrapped__")
    ):
        yield found


@lru_cache
def _names(code: CodeType) -> list[tuple[str, str]]:
    """The names that code takes from around it, each with the attribute it may ask that for."""
    return [
        (str(step.argval), str(then.argval))
        for step, then in pairwise(dis.get_instructions(code))
        if step.opname in {"LOAD_GLOBAL", "LOAD_DEREF"}
    ]
