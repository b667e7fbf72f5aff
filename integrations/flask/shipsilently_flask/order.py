"""Finds gates that were written above ``@app.route``, where they would guard nothing.

A gate in a view's own stack of decorators, above a route, is a mistake for certain where nothing
that is routed to uses what it made: requests are refused then. A gate that was put around a view by
a call may be meant in many ways; what looks wrong there is only told.
"""

from __future__ import annotations

import functools
import inspect
import sys
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator
from types import CodeType, FunctionType
from typing import Any

from flask import Blueprint, Flask
from msgspec import Struct

from shipsilently_core import ConfigurationError

__all__ = [
    "check_order",
    "is_gate",
    "remember_app",
    "remember_fallback",
    "remember_gate",
    "unused_gates",
]


class _Gate(Struct, frozen=True, eq=False):
    """One gate that was put around a view.

    Attributes:
        gated: What it made of the view, and what should be routed to. Not kept alive for this.
        written: Whether it stands in the view's own stack of decorators.
    """

    gated: weakref.ref[FunctionType]
    written: bool


# By view; no view is kept alive for this.
_gates: weakref.WeakKeyDictionary[FunctionType, tuple[_Gate, ...]] = weakref.WeakKeyDictionary()
# From what a gate made to the view that stands in.
_fallbacks: weakref.WeakKeyDictionary[FunctionType, weakref.ref[FunctionType]] = (
    weakref.WeakKeyDictionary()
)
_apps: weakref.WeakSet[Flask] = weakref.WeakSet()
_lock = threading.Lock()
#: What views are, as far as they are looked into.
_FUNCTIONS = (FunctionType, functools.partial)


def remember_app(app: Flask) -> None:
    """What a gate makes of a view may be routed to by this app."""
    with _lock:
        _apps.add(app)


def remember_gate(view: Callable[..., Any], gated: Callable[..., Any]) -> None:
    """A gate is being put around `view`; `gated` is what should be routed to."""
    if isinstance(view, FunctionType) and isinstance(gated, FunctionType):
        # Of what was made by calls and is gone, only the latest matters.
        others = [gate for gate in _gates.get(view, ()) if gate.written or gate.gated()]
        _gates[view] = (*others, _Gate(weakref.ref(gated), _is_written_above(view)))


def remember_fallback(gated: Callable[..., Any], fallback: Callable[..., Any] | None) -> None:
    """What a gate made serves `fallback` to those whom it refuses."""
    if isinstance(gated, FunctionType) and isinstance(fallback, FunctionType):
        _fallbacks[gated] = weakref.ref(fallback)


def is_gate(function: Any) -> bool:
    """Whether this is what a gate has made of a view, and not what was put around that."""
    view = getattr(function, "__wrapped__", None)
    if not isinstance(view, FunctionType):
        return False
    return any(gate.gated() is function for gate in _gates.get(view, ()))


def check_order(app: Flask) -> None:
    """Raises `ConfigurationError` where a gate stands above a route, and so does not guard it."""
    for endpoint, view in app.view_functions.items():
        for gate in _gates_of(view):
            if gate.written and not _is_used(gate.gated()):
                raise ConfigurationError(
                    "requires_flag",
                    f"stands above the route of the endpoint {endpoint!r}, where it guards "
                    "nothing: write @app.route first and @requires_flag below it",
                )


def unused_gates(app: Flask) -> Iterator[str]:
    """Endpoints that are open though their view has a gate, which may be meant so; in words.

    Nothing is told of a view that was gated by a call where something routed to uses that, or
    where a name in the view's module still means the view itself.
    """
    for endpoint, view in app.view_functions.items():
        if _is_doubtful(view, _gates_of(view)):
            yield (
                f"requires_flag was put around the view of the endpoint {endpoint!r}, and that "
                "endpoint is open all the same, as no route leads to what requires_flag returned: "
                "route to that; or, if this endpoint is meant to be open, give it a view of its "
                "own that calls the other"
            )


def _gates_of(view: Any) -> tuple[_Gate, ...]:
    return _gates.get(view, ()) if isinstance(view, FunctionType) else ()


def _is_doubtful(view: Any, gates: tuple[_Gate, ...]) -> bool:
    written = [gate.gated() for gate in gates if gate.written]
    called = [gate.gated() for gate in gates if not gate.written]
    # What is written above a route is perhaps only called, by another view.
    return not all(map(_is_routed, written)) or (
        bool(called) and not any(map(_is_used, called)) and not _is_named(view)
    )


def _is_routed(gated: Any) -> bool:
    """Whether something routes to it, or to what says that it is wrapped around it."""
    return any(layer is gated for routed in _routed_to() for layer in _layers(routed))


def _is_used(gated: Any) -> bool:
    """Whether anything that is routed to may call it, as far as can be seen."""
    return gated is not None and any(one is gated for one in _reached(_routed_to()))


def _is_named(view: FunctionType) -> bool:
    """Whether a name in the view's module means the view itself."""
    held = getattr(sys.modules.get(view.__module__), "__dict__", {})
    return any(each is view for each in list(held.values()))


def _routed_to() -> Iterator[Any]:
    """The views of all apps and blueprints, and what apps call before them."""
    with _lock:
        apps: list[Any] = list(_apps)
    # Those that this process does not set up or register are known to modules only.
    for held in (*apps, *_held_by_modules()):
        yield from list(held.view_functions.values())
        for functions in list(held.before_request_funcs.values()):
            yield from list(functions)
        # A blueprint has its routes in functions until it is registered.
        for deferred in list(getattr(held, "deferred_functions", ())):
            yield from (one for one in _closed_over(deferred) if type(one) in _FUNCTIONS)


def _held_by_modules() -> Iterator[Flask | Blueprint]:
    """The apps and blueprints that modules hold."""
    for module in list(sys.modules.values()):
        # A few put something else in their place.
        for held in list(getattr(module, "__dict__", {}).values()):
            # Not `isinstance`, which asks proxies what they stand for.
            if issubclass(type(held), (Flask, Blueprint)):
                yield held


def _layers(view: Any) -> list[Any]:
    """A view and what its decorators say they are wrapped around."""
    layers: list[Any] = []
    while view is not None and len(layers) < 100:
        layers.append(view)
        view = getattr(view, "__wrapped__", None)
    return layers


def _reached(functions: Iterable[Any]) -> list[FunctionType]:
    """These functions and those that they may call: wrapped, closed over, fallbacks, methods."""
    found: dict[int, FunctionType] = {}
    left = list(functions)
    while left:
        one = left.pop()
        if type(one) is functools.partial:
            left += [one.func, *one.args, *one.keywords.values()]
        # Not `isinstance`, which asks proxies what they stand for.
        if type(one) is not FunctionType or id(one) in found:
            continue
        found[id(one)] = one
        left.append(vars(one).get("__wrapped__"))
        left += _closed_over(one)
        fallback = _fallbacks.get(one)
        left.append(None if fallback is None else fallback())
        for kind in getattr(vars(one).get("view_class"), "__mro__", ()):
            left += vars(kind).values()
    return list(found.values())


def _closed_over(function: Any) -> Iterator[Any]:
    """What a function closes over."""
    for cell in getattr(function, "__closure__", None) or ():
        try:
            yield cell.cell_contents
        except ValueError:
            # It is not there yet.
            continue


def _is_written_above(view: FunctionType) -> bool:
    """Whether the decorators above the definition of `view` are being applied just now.

    They are called from the lines of the definition, in the code that holds it. Nothing else is:
    what stands there besides, as an argument, is read before there is such a function.
    """
    codes = {
        id(function.__code__)
        for function in _reached([view])
        if function.__code__.co_name != "<lambda>"
    }
    frame = inspect.currentframe()
    while frame is not None:
        for held in frame.f_code.co_consts:
            if id(held) in codes and (frame.f_lineno or 0) in _lines(held):
                return True
        frame = frame.f_back
    return False


def _lines(code: CodeType) -> range:
    """Those of a function, with its decorators."""
    last = max(line or 0 for _, _, line in code.co_lines())
    return range(code.co_firstlineno, last + 1)
