"""System checks: what `manage.py check` says of the settings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error
from django.core.checks import Warning as CheckWarning
from django.utils.module_loading import import_string

from .middleware import FlagsMiddleware
from .options import read_options

__all__ = ["check_middleware", "check_settings"]

_AUTHENTICATION = "django.contrib.auth.middleware.AuthenticationMiddleware"


def check_settings(app_configs: Any = None, **kwargs: Any) -> list[CheckMessage]:
    """The dictionary ``SHIPSILENTLY``."""
    return [
        Error(f"{problem.text}.", hint=problem.hint or None, id=f"shipsilently.{problem.code}")
        for problem in read_options(getattr(settings, "SHIPSILENTLY", {})).problems
    ]


def check_middleware(app_configs: Any = None, **kwargs: Any) -> list[CheckMessage]:
    """Whether `FlagsMiddleware` is there, once, and behind the user."""
    names: Sequence[str] = settings.MIDDLEWARE
    places = [place for place, name in enumerate(names) if _is_ours(name)]
    if not places:
        return [
            CheckWarning(
                "FlagsMiddleware is not in MIDDLEWARE: requests have no `flags`.",
                hint=f"Add 'shipsilently_django.FlagsMiddleware' after {_AUTHENTICATION!r}.",
                id="shipsilently.W001",
            )
        ]
    found: list[CheckMessage] = []
    if _AUTHENTICATION in names and places[0] < list(names).index(_AUTHENTICATION):
        found.append(
            CheckWarning(
                "FlagsMiddleware is placed before AuthenticationMiddleware: what reads flags in "
                "between sees an anonymous visitor.",
                hint="Move it below.",
                id="shipsilently.W002",
            )
        )
    if len(places) > 1:
        found.append(
            CheckWarning(
                f"FlagsMiddleware is in MIDDLEWARE {len(places)} times.",
                hint="Keep the one after AuthenticationMiddleware.",
                id="shipsilently.W003",
            )
        )
    return found


def _is_ours(name: str) -> bool:
    try:
        middleware = import_string(name)
    except ImportError:
        # Django itself will say so.
        return False
    return isinstance(middleware, type) and issubclass(middleware, FlagsMiddleware)
