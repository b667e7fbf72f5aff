"""Finds gates that send people to a URL that is not there, without a visit to their views."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from types import FunctionType
from typing import Any

from django.shortcuts import resolve_url
from django.urls import NoReverseMatch, get_resolver

from .gates import Gate
from .urls import FlaggedResolver
from .views import RequiresFlagMixin

__all__ = ["wrong_targets"]

#: How many functions around one view are looked into.
_MOST_LAYERS = 200


def wrong_targets() -> list[str]:
    """What gates name as ``redirect_to`` and has no URL, each once."""
    named = {target for target in _targets(get_resolver()) if target is not None}
    return sorted(target for target in named if not _leads_somewhere(target))


def _leads_somewhere(target: str) -> bool:
    try:
        resolve_url(target)
    except NoReverseMatch:
        return False
    return True


def _targets(resolver: Any) -> Iterator[str | None]:
    if isinstance(resolver, FlaggedResolver):
        yield resolver._gate._redirect_to
    for pattern in getattr(resolver, "url_patterns", ()):
        if hasattr(pattern, "url_patterns"):
            yield from _targets(pattern)
            continue
        kind = getattr(pattern.callback, "view_class", None)
        if kind is not None:
            if issubclass(kind, RequiresFlagMixin):
                given = getattr(pattern.callback, "view_initkwargs", {})
                yield given.get("flag_redirect_to", kind.flag_redirect_to)
            for name in ("dispatch", *kind.http_method_names):
                yield from _targets_of_view(getattr(kind, name, None))
        yield from _targets_of_view(pattern.callback)


def _targets_of_view(view: Any) -> Iterator[str | None]:
    """Those of the gates among what a view is wrapped in: each layer refers to what is inside."""
    seen: list[Any] = []
    waiting = [view]
    while waiting and len(seen) < _MOST_LAYERS:
        found = waiting.pop()
        if any(found is each for each in seen):
            continue
        seen.append(found)
        if isinstance(found, Gate):
            yield found._redirect_to
        elif isinstance(found, functools.partial):
            waiting.append(found.func)
        elif isinstance(found, (list, tuple)):
            # Where Django's `method_decorator` keeps its decorators.
            waiting += [each for each in found if isinstance(each, FunctionType)]
        elif isinstance(found, FunctionType):
            for cell in found.__closure__ or ():
                try:
                    waiting.append(cell.cell_contents)
                except ValueError:
                    # It was not filled.
                    continue
