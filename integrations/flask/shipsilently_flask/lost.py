"""Finds gates that lead nowhere: with ``redirect_to``, to an endpoint that has no address."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from types import FunctionType
from typing import Any

from flask import Flask

from .order import _layers as layers_of

__all__ = ["remember_target", "wrong_targets"]

# From what a gate made to the endpoint that it sends people to.
_targets: weakref.WeakKeyDictionary[FunctionType, str] = weakref.WeakKeyDictionary()


def remember_target(gated: Callable[..., Any], target: str | None) -> None:
    """A gate in `gated` sends those whom it refuses to `target`: an endpoint, a path or a URL."""
    if target is not None and "/" not in target and isinstance(gated, FunctionType):
        _targets[gated] = target


def wrong_targets(app: Flask) -> Iterator[str]:
    """Gates that send people to an endpoint that has no address, which is seen only when they do.

    Nothing is told of an app that makes addresses of its own for unknown endpoints.
    """
    if app.url_build_error_handlers:
        return
    for endpoint, view in app.view_functions.items():
        for layer in _with_methods(layers_of(view)):
            yield from _wrong_target(app, layer, endpoint.rpartition(".")[0], endpoint)
    for blueprint, hooks in app.before_request_funcs.items():
        for hook in hooks:
            yield from _wrong_target(app, hook, blueprint or "", blueprint or app.name)


def _wrong_target(app: Flask, gated: Any, blueprint: str, where: str) -> Iterator[str]:
    target = _targets.get(gated) if isinstance(gated, FunctionType) else None
    if target is None:
        return
    meant = {target} if not target.startswith(".") else {*_from(blueprint, target)}
    rules = [rule for rule in app.url_map.iter_rules() if rule.endpoint in meant]
    if not rules:
        yield f"the gate of {where!r} has redirect_to={target!r}, and there is no such endpoint"
    elif not app.url_default_functions and all(
        rule.arguments - set(rule.defaults or ()) for rule in rules
    ):
        yield (
            f"the gate of {where!r} has redirect_to={target!r}, an endpoint whose address needs "
            "values"
        )


def _with_methods(layers: list[Any]) -> Iterator[Any]:
    """Layers of a view, and what a class among them has for each verb."""
    for layer in layers:
        yield layer
        kind = getattr(layer, "view_class", None)
        for verb in getattr(kind, "methods", None) or ():
            yield from layers_of(getattr(kind, verb.lower(), None))


def _from(blueprint: str, target: str) -> Iterator[str]:
    """What ``.target`` may mean in a blueprint: an endpoint there, or of those around it."""
    while blueprint:
        yield f"{blueprint}{target}"
        blueprint = blueprint.rpartition(".")[0]
    yield target.removeprefix(".")
