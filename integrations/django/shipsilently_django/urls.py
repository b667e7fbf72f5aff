"""URLs that exist only while a flag is on, for a view or for everything that is included."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from django.urls import URLPattern, URLResolver, path, re_path
from django.urls.resolvers import ResolverMatch

from .gates import Gate

__all__ = ["flagged_path", "flagged_re_path"]


class FlaggedResolver(URLResolver):
    """An ``include`` behind a gate: its URLs are found, and its views ask first."""

    def __init__(self, inner: URLResolver, gate: Gate) -> None:
        super().__init__(
            inner.pattern,
            inner.urlconf_name,
            inner.default_kwargs,
            inner.app_name,
            inner.namespace,
        )
        self._gate = gate
        self._gated: dict[Any, Any] = {}

    def resolve(self, path: str) -> ResolverMatch:
        """The match, its view wrapped once."""
        match = super().resolve(path)
        view = match.func
        if view not in self._gated:
            self._gated[view] = self._gate.wrap(view)
        match.func = self._gated[view]
        return match


def flagged_path(
    key: str | Sequence[str],
    route: str,
    view: Any,
    kwargs: Mapping[str, Any] | None = None,
    name: str | None = None,
    *,
    value: Any = True,
    status: int = 404,
    redirect_to: str | None = None,
    fallback: Callable[..., Any] | str | None = None,
) -> URLPattern | URLResolver:
    """`django.urls.path` behind a flag; `view` may be an ``include(...)``.

    The URL can be reversed whatever the flag is, and while it is off no later pattern is tried.
    The other arguments are those of `requires_flag`.
    """
    gate = Gate(_keys(key), value=value, status=status, redirect_to=redirect_to, fallback=fallback)
    return _flagged(path, gate, route, view, kwargs, name)


def flagged_re_path(
    key: str | Sequence[str],
    route: str,
    view: Any,
    kwargs: Mapping[str, Any] | None = None,
    name: str | None = None,
    *,
    value: Any = True,
    status: int = 404,
    redirect_to: str | None = None,
    fallback: Callable[..., Any] | str | None = None,
) -> URLPattern | URLResolver:
    """`flagged_path` for a regular expression."""
    gate = Gate(_keys(key), value=value, status=status, redirect_to=redirect_to, fallback=fallback)
    return _flagged(re_path, gate, route, view, kwargs, name)


def _keys(key: str | Sequence[str]) -> tuple[str, ...]:
    return (key,) if isinstance(key, str) else tuple(key)


def _flagged(
    make: Callable[..., Any],
    gate: Gate,
    route: str,
    view: Any,
    kwargs: Mapping[str, Any] | None,
    name: str | None,
) -> URLPattern | URLResolver:
    if callable(view):
        pattern: URLPattern = make(route, gate.wrap(view), kwargs, name)
        return pattern
    return FlaggedResolver(make(route, view, kwargs, name), gate)
