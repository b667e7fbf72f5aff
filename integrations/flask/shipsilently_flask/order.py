"""Finds gates that were written above ``@app.route``, where they would guard nothing."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable
from types import FunctionType
from typing import Any

from flask import Flask

from shipsilently_core import ConfigurationError

__all__ = ["check_order", "is_gate", "remember_gate"]

# From a view to what a gate made of it. Neither is kept alive for this.
_gates: weakref.WeakKeyDictionary[FunctionType, weakref.ref[Callable[..., Any]]] = (
    weakref.WeakKeyDictionary()
)


def remember_gate(view: Callable[..., Any], gated: Callable[..., Any]) -> None:
    """A gate was put around `view`; `gated` is what should be routed to."""
    if isinstance(view, FunctionType):
        _gates[view] = weakref.ref(gated)


def is_gate(function: Any) -> bool:
    """Whether this is what a gate has made of a view, and not what was put around that."""
    view = getattr(function, "__wrapped__", None)
    gated = _gates.get(view) if isinstance(view, FunctionType) else None
    return gated is not None and gated() is function


def check_order(app: Flask) -> None:
    """Raises `ConfigurationError` where a view is routed to and its gated form is not."""
    routed = [layer for view in app.view_functions.values() for layer in _layers(view)]
    for endpoint, view in app.view_functions.items():
        remembered = _gates.get(view) if isinstance(view, FunctionType) else None
        if remembered is None or _still_named(view):
            continue
        gated = remembered()
        if gated is None or not any(layer is gated for layer in routed):
            raise ConfigurationError(
                "requires_flag",
                f"stands above the route of the endpoint {endpoint!r}, where it guards "
                "nothing: write @app.route first and @requires_flag below it",
            )


def _still_named(view: Any) -> bool:
    """Whether the view's name means the view itself: then no decorator took its place."""
    module = sys.modules.get(view.__module__)
    return getattr(module, view.__qualname__, None) is view


def _layers(view: Any) -> list[Any]:
    """A view and what its decorators say they are wrapped around."""
    layers: list[Any] = []
    while view is not None and len(layers) < 100:
        layers.append(view)
        view = getattr(view, "__wrapped__", None)
    return layers
