"""Django's cache of pages: no page with one user's flags is kept for another.

`cache_page` keeps what a view hands back. `SessionMiddleware` and `FlagsMiddleware`, which add
``Vary: Cookie``, come later: the copy has none, and would be served to everybody. So a response
that passes a gate gets the header there, and where flags are read by the view itself, a page that
would be kept without it is not kept.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from django.conf import settings
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.utils.cache import patch_vary_headers
from django.utils.functional import LazyObject, empty
from django.utils.module_loading import import_string

from shipsilently_core import Context

from .setup import get_setup
from .surroundings import Surroundings, class_of, is_cache, surroundings_of
from .users import is_of_session
from .visitors import keeps_sessions, visitor_of

__all__ = [
    "MARK",
    "check_kept",
    "claim_mark",
    "is_site_cached",
    "settle",
    "settle_late",
    "vary",
]

#: On a request: whether Django's cache is going to keep the page. Missing before it was asked.
MARK = "_cache_update_cache"
#: What ``True`` becomes there once it is known who has set it: the whole site's cache, or one
#: around the view. Integers, since Django asks no more than whether the mark is true.
_SITES, _VIEWS = 1, 2
_KEPT_OUT = (
    "the page of %s was kept out of Django's cache, since flags of one user were read for it; "
    "write `vary_on_cookie` directly below `cache_page` (or `vary_on_headers`, where a header "
    "tells the user), or cache the whole site with UpdateCacheMiddleware in the first place"
)
_READ_BEFORE = (
    "Django's cache has kept a page of %s for everybody, and flags of one user had been read "
    "before; if the page shows what they said, write `vary_on_cookie` directly below `cache_page`, "
    "or put UpdateCacheMiddleware in the first place"
)
_READ_AFTER = (
    "the page of %s was kept out of Django's cache, since a middleware outside of FlagsMiddleware "
    "was the first to read flags, when the answer had its headers already; place that middleware "
    "below FlagsMiddleware, or read a flag in the view"
)
_UNREACHED = (
    "what a method of %s answers is kept by Django's cache for everybody; if it reads flags, write "
    "`vary_on_cookie` or `vary_on_headers` directly below `cache_page`"
)


def vary(request: Any, response: Any) -> Any:
    """The response of a gated view, told apart by the cookie that was looked at for its gate."""
    if isinstance(response, HttpResponseBase) and _has_looked_at_cookie(request):
        patch_vary_headers(response, ["Cookie"])
    return response


def settle(request: HttpRequest, context: Context, before: object = None) -> object:
    """Keep the page out of Django's cache, where others would be served these flags from it.

    Each cache on the way to the view marks the request anew with ``True``, which is replaced here:
    so a read after it shows whether there has been another.

    Args:
        request: The one whose flags are read.
        context: Whom they are for.
        before: The mark after the read before this one.

    Returns:
        The mark for which this holds; where the request bears another, it is to be settled anew.
    """
    held = request.__dict__
    mark = held.get(MARK)
    match = held.get("resolver_match")
    around = Surroundings() if match is None else surroundings_of(match.func)
    if around.out_of_reach and _is_personal(request, context):
        _warn(request, _UNREACHED)
    if not mark:
        return mark
    # Before the view is found, only the cache of the whole site has been asked.
    is_sites = mark == _SITES if mark is not True else match is None
    if _is_personal(request, context):
        # Of two caches around the view it is not known what stands below the second.
        is_second = mark is True and before == _VIEWS
        if _gets_cookie(request):
            # Whoever comes without one, as this visitor did, would be served this visitor's page.
            # The next page is kept by the cookie.
            held[MARK] = False
            return False
        if is_second or not _is_told_apart(request, around, is_sites=is_sites):
            held[MARK] = False
            _warn(request, _KEPT_OUT)
            return False
    settled = _SITES if is_sites else _VIEWS
    # Another thread may have kept it out meanwhile.
    if held.get(MARK) is mark:
        held[MARK] = settled
    return settled


def settle_late(request: HttpRequest, context: Context, *, looked: bool) -> None:
    """Keep a page out of the whole site's cache whose headers do not tell whom its flags are for.

    Args:
        request: One whose answer had left `FlagsMiddleware` when the first flag was read.
        context: Whom they are for.
        looked: Whether the session had been looked at until then, for which the headers do tell.
    """
    held = request.__dict__
    match = held.get("resolver_match")
    if not held.get(MARK) or match is None or not _is_personal(request, context):
        return
    if not surroundings_of(match.func).varied.isdisjoint(("cookie", "*")):
        return
    # The visitor's cookie is named by this app's middleware, the session's by Django's.
    is_named = visitor_of(request) is None and (
        looked
        or not _has_looked_at_cookie(request)
        or _is_read_below_sessions(tuple(settings.MIDDLEWARE))
    )
    if not is_named:
        held[MARK] = False
        _warn(request, _READ_AFTER)


def check_kept(request: HttpRequest, context: Context, before: object) -> None:
    """Tell of a page that is kept after flags had been read, and none since.

    Where the cache is that of the whole site and yet to keep the page, it does not.

    Args:
        request: One that flags were last read of before it had found its view.
        context: Whom they are for.
        before: The mark after that read.
    """
    held = request.__dict__
    match = held.get("resolver_match")
    if match is None or not _is_personal(request, context):
        return
    around = surroundings_of(match.func)
    if around.out_of_reach:
        _warn(request, _UNREACHED)
    mark = held.get(MARK)
    if not mark or mark is before or before not in (None, False, _SITES):
        return
    if not _is_told_apart(request, around, is_sites=mark is not True and mark == _SITES):
        held[MARK] = False
        _warn(request, _READ_BEFORE)


def is_site_cached() -> bool:
    """Whether the cache of the whole site is among the site's middleware."""
    return bool(_places(tuple(settings.MIDDLEWARE), is_cache))


def claim_mark(request: HttpRequest) -> None:
    """Say of a request that is about to meet its view who marked it: the whole site's cache."""
    held = request.__dict__
    if held.get(MARK) is True:
        held[MARK] = _SITES


def _is_told_apart(request: HttpRequest, around: Surroundings, *, is_sites: bool) -> bool:
    """Whether what the cache keeps is served to this user alone."""
    # What is seen around a view stands below the whole site's cache, and below a cache that is
    # seen itself.
    is_below = is_sites or around.cached
    varied = around.varied if is_below else frozenset()
    if not _is_told_by_cookie(request):
        # What tells the user is known to the site alone.
        return not varied <= {"cookie"}
    if (is_below and around.gated) or not varied.isdisjoint(("cookie", "*")):
        return True
    return is_sites and _is_cached_outside(tuple(settings.MIDDLEWARE))


def _warn(request: HttpRequest, message: str) -> None:
    """Once for each view."""
    view = getattr(request.__dict__.get("resolver_match"), "func", None)
    name = getattr(class_of(view) or view, "__qualname__", "a view")
    get_setup().client.evaluator.notices.once(f"django cached page {name}", message, name)


def _is_personal(request: HttpRequest, context: Context) -> bool:
    """Whether somebody was looked at to evaluate the flags, even if that was nobody known."""
    user = request.__dict__.get("user")
    if user is not None:
        if get_setup().options.context is None:
            return True
        # A hook has looked at the user, or may have.
        if not isinstance(user, LazyObject) or user._wrapped is not empty:
            return True
    return _has_looked_at_cookie(request) or b'"userId":' in context.body


def _has_looked_at_cookie(request: Any) -> bool:
    session = getattr(request, "session", None)
    return bool(getattr(session, "accessed", False)) or visitor_of(request) is not None


def _is_told_by_cookie(request: HttpRequest) -> bool:
    """Whether cookies tell whom the flags are for: no user was put here by the site itself."""
    user = request.__dict__.get("user")
    return _has_looked_at_cookie(request) and (
        user is None or (isinstance(user, LazyObject) and is_of_session(user))
    )


def _gets_cookie(request: HttpRequest) -> bool:
    """Whether the response will set a cookie by which the user is known from now on."""
    if get_setup().options.anonymous_id == "session":
        return bool(getattr(getattr(request, "session", None), "modified", False))
    visitor = visitor_of(request)
    return visitor is not None and visitor[1]


def _is_cached_outside(middleware: tuple[str, ...]) -> bool:
    """Whether the cache of the whole site keeps pages when all that adds to ``Vary`` has done so.

    The earlier in ``MIDDLEWARE``, the later a middleware gets to see a response.
    """
    caches = _places(middleware, is_cache)
    later = _places(middleware, keeps_sessions) + _places(middleware, _is_ours)
    return bool(caches) and max(caches) < min(later, default=len(middleware))


def _is_read_below_sessions(middleware: tuple[str, ...]) -> bool:
    """Whether nothing that may read flags sees a response after the sessions' middleware.

    Django's own reads none.
    """
    sessions = _places(middleware, keeps_sessions)
    return bool(sessions) and all(name.startswith("django.") for name in middleware[: sessions[0]])


@functools.lru_cache(maxsize=16)
def _places(middleware: tuple[str, ...], is_sought: Callable[[Any], bool]) -> tuple[int, ...]:
    """Where there is a middleware of a kind."""
    return tuple(place for place, name in enumerate(middleware) if is_sought(import_string(name)))


def _is_ours(middleware: Any) -> bool:
    from .middleware import FlagsMiddleware

    return isinstance(middleware, type) and issubclass(middleware, FlagsMiddleware)
