"""Two views behind one URL: what Django grants to the one in front is not the other's by that.

Django's middleware and its `ATOMIC_REQUESTS` look at the view that a URL leads to. Where a gate
hands the request to another, that is looked at here, as if the URL led to it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from django.conf import settings
from django.core.exceptions import MiddlewareNotUsed
from django.db import connections, transaction
from django.http import HttpResponse
from django.utils.module_loading import import_string

from .options import is_async

__all__ = ["catch_up", "in_transactions", "limit_exemptions", "missed_checks", "unite_transactions"]

View = Callable[..., Any]
#: Django's middleware that reads an exemption from a view: its name, and what it is without a
#: check. By their names, since the second brings the models of accounts along.
_CHECKS = {
    "django.middleware.csrf.CsrfViewMiddleware": ("csrf_exempt", True),
    "django.contrib.auth.middleware.LoginRequiredMiddleware": ("login_required", False),
}
#: The aliases of the databases that `transaction.non_atomic_requests` has named.
_NON_ATOMIC = "_non_atomic_requests"


def limit_exemptions(wrapper: Any, find_other: Callable[[], View | None]) -> None:
    """Let a view be exempt from a check only where the other behind it is exempt as well.

    Args:
        wrapper: The view in front.
        find_other: Gives the other; ``None`` where that is not known yet.
    """
    for name, exempt in _CHECKS.values():
        if _is_exempt(wrapper, name, exempt):
            both = _is_exempt(find_other(), name, exempt)
            setattr(wrapper, name, exempt if both else not exempt)


def missed_checks(request: Any, view: View) -> frozenset[str]:
    """What Django has not checked, since the view in front is exempt, and `view` is not."""
    front = _front_of(request)
    return frozenset(
        check
        for check, (name, exempt) in _CHECKS.items()
        if _is_exempt(front, name, exempt) and not _is_exempt(view, name, exempt)
    )


def catch_up(
    missed: frozenset[str], request: Any, view: View, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Make up for these checks, by the site's own middleware; its answer where it refuses."""
    # Django REST framework hands its views a request around the request.
    inner = getattr(request, "_request", request)
    for check, middleware in _middleware_with_checks(tuple(settings.MIDDLEWARE)):
        if check not in missed:
            continue
        try:
            answer = middleware(_nothing).process_view(inner, view, args, kwargs)
        except MiddlewareNotUsed:
            continue
        if answer is not None:
            return answer
    return None


def unite_transactions(wrapper: Any, other: View | None) -> None:
    """Let Django open no transaction around an async view that one of two has not asked for.

    It refuses to. What the plain one is owed is opened by `in_transactions`.
    """
    both = {*getattr(wrapper, _NON_ATOMIC, ()), *getattr(other, _NON_ATOMIC, ())}
    if both:
        setattr(wrapper, _NON_ATOMIC, both)


def in_transactions(request: Any, view: View) -> View:
    """The view within the transactions of `ATOMIC_REQUESTS` that the one in front is exempt from.

    An async view is as it was: no transaction can be around it.
    """
    exempt = getattr(_front_of(request), _NON_ATOMIC, ())
    if not exempt or is_async(view):
        return view
    own = getattr(view, _NON_ATOMIC, ())
    for alias, options in connections.settings.items():
        if options["ATOMIC_REQUESTS"] and alias in exempt and alias not in own:
            view = transaction.atomic(using=alias)(view)
    return view


def _front_of(request: Any) -> Any:
    """The view that the request's URL leads to, which is the one that Django has looked at."""
    inner = getattr(request, "_request", request)
    return getattr(getattr(inner, "resolver_match", None), "func", None)


def _is_exempt(view: Any, name: str, exempt: bool) -> bool:
    return bool(getattr(view, name, not exempt)) is exempt


@functools.lru_cache(maxsize=16)
def _middleware_with_checks(middleware: tuple[str, ...]) -> tuple[tuple[str, Any], ...]:
    """The middleware that reads exemptions, in its order: Django's, or made from it."""
    found = []
    for made in map(import_string, middleware):
        for line in getattr(made, "__mro__", ()):
            if (name := f"{line.__module__}.{line.__qualname__}") in _CHECKS:
                found.append((name, made))
    return tuple(found)


def _nothing(request: Any) -> HttpResponse:
    """What a middleware is put around: only its look at the view is wanted."""
    return HttpResponse()
