"""Finds gates that send people to a URL that is not there, without a visit to their views."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from types import FunctionType
from typing import Any

from django.shortcuts import resolve_url
from django.urls import NoReverseMatch, get_resolver
from django.utils.functional import Promise

from .gates import Gate
from .urls import FlaggedResolver
from .views import RequiresFlagMixin

__all__ = ["wrong_targets"]

#: How many functions around one view are looked into.
_MOST_LAYERS = 200


def wrong_targets() -> list[str]:
    """What gates name as ``redirect_to`` and has no URL, as it is written, each once."""
    found = _targets(get_resolver())
    wrong = {_written(each) for each in found if each is not None and not _leads_somewhere(each)}
    return sorted(wrong)


def _leads_somewhere(target: Any) -> bool:
    try:
        resolve_url(target)
    except NoReverseMatch:
        return False
    except Exception:
        # What it says of its URL is the site's own.
        return True
    return True


def _written(target: Any) -> str:
    if isinstance(target, Promise):
        # To look at its text would look for the URL again.
        name, *_ = getattr(target, "_args", ()) or ("…",)
        return f"reverse_lazy({name!r})"
    if isinstance(target, str):
        return repr(target)
    named: str = getattr(getattr(target, "view_class", target), "__qualname__", "an object")
    return named


def _targets(resolver: Any) -> Iterator[Any]:
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


def _targets_of_view(view: Any) -> Iterator[Any]:
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
