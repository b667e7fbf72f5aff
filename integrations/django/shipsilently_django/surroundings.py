"""What stands around a view and matters to Django's cache of pages, as far as it can be seen."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

from django.middleware.cache import UpdateCacheMiddleware
from msgspec import Struct

__all__ = ["Surroundings", "class_of", "is_cache", "surroundings_of"]

_VARY = "django.views.decorators.vary"
_DECORATED = "django.utils.decorators"
#: The modules of this package that hold what is called where a gate stands.
_GATES = frozenset(f"{__package__}.{name}" for name in ("decorators", "gates", "views"))
#: More than this around a view is a circle.
_MOST_DECORATORS = 100


class Surroundings(Struct, frozen=True):
    """What stands around a view, as far as that can be seen.

    Attributes:
        cached: `cache_page`, or another decorator made from the cache's middleware.
        varied: Below it, or at all where it is not there, the headers that decorators of
            `django.views.decorators.vary` name.
        gated: So a gate.
        out_of_reach: Whether there is a cache without either around a method of Django REST
            framework's classes. It marks a request of the framework's, which flags do not know.
    """

    cached: bool = False
    varied: frozenset[str] = frozenset()
    gated: bool = False
    out_of_reach: bool = False


def surroundings_of(view: Any) -> Surroundings:
    """What is seen around a view, or nothing where it cannot be looked at."""
    try:
        return _surroundings_kept(view)
    except Exception:
        # It has no hash, or does not let itself be looked at.
        return Surroundings()


def _find_surroundings(view: Any) -> Surroundings:
    cls = class_of(view)
    kinds = list(_kinds_of_chain(view))
    for base in getattr(cls, "__mro__", ()):
        kinds += _kinds_of_chain(vars(base).get("dispatch"))
    if not hasattr(view, "cls"):
        return _read(kinds + list(_kinds_of_chain(getattr(cls, "get", None))))
    actions = getattr(view, "actions", None)
    # The framework's generic classes answer a GET by one of the others.
    methods = (actions.get("get", "get"),) if actions else ("get", "list", "retrieve")
    inner = [_read(list(_kinds_of_chain(getattr(cls, name, None)))) for name in methods]
    around = _read(kinds)
    return Surroundings(
        around.cached,
        around.varied,
        around.gated,
        out_of_reach=any(each.cached and not each.varied and not each.gated for each in inner),
    )


def class_of(view: Any) -> Any:
    """The class that a view was made from, by Django or by Django REST framework."""
    return getattr(view, "view_class", None) or getattr(view, "cls", None)


def _read(kinds: list[str]) -> Surroundings:
    """What stands around a view, from the outside in."""
    last = max((place for place, kind in enumerate(kinds) if kind == "cache"), default=-1)
    below = kinds[last + 1 :]
    varied = frozenset(kind.removeprefix(_VARY) for kind in below if kind.startswith(_VARY))
    return Surroundings(cached=last >= 0, varied=varied, gated="gate" in below)


#: A site has so many views at most; each is looked at once.
_surroundings_kept = functools.lru_cache(maxsize=4096)(_find_surroundings)


def _kinds_of_chain(function: Any) -> Iterator[str]:
    """What stands around a function and matters here, from the outside in."""
    for _ in range(_MOST_DECORATORS):
        if function is None:
            return
        yield from _kinds_of(function)
        function = getattr(function, "__wrapped__", None)


def _kinds_of(function: Any) -> Iterator[str]:
    """What a decorator is, or what its wrapper does."""
    module = getattr(function, "__globals__", {}).get("__name__")
    if module == _VARY:
        for headers in _held(function):
            if isinstance(headers, tuple):
                yield from (f"{_VARY}{str(name).lower()}" for name in headers)
    elif module in _GATES:
        yield "gate"
    elif module == _DECORATED:
        held = list(_held(function))
        if any(is_cache(one) for one in held):
            yield "cache"
        # The wrapper that `method_decorator` makes holds a list of decorators, the last outermost.
        for several in held:
            if isinstance(several, (list, tuple)):
                for decorator in reversed(several):
                    yield from _kinds_of(decorator)


def _held(function: Callable[..., Any], depth: int = 2) -> Iterator[Any]:
    """What a function's closure holds, and what the functions in it hold."""
    for cell in getattr(function, "__closure__", None) or ():
        try:
            content = cell.cell_contents
        except ValueError:
            # It is empty still.
            continue
        yield content
        # Not a view, which is looked at by itself.
        if depth > 1 and getattr(content, "__module__", None) == _DECORATED:
            yield from _held(content, depth - 1)


def is_cache(one: Any) -> bool:
    """Whether this is a middleware that keeps pages, or such a class."""
    return isinstance(one, UpdateCacheMiddleware) or (
        isinstance(one, type) and issubclass(one, UpdateCacheMiddleware)
    )
