"""System checks: what `manage.py check` says of the settings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

from django.apps import apps
from django.conf import settings
from django.contrib.auth import get_user_model
from django.core.checks import CheckMessage, Error
from django.core.checks import Warning as CheckWarning
from django.core.exceptions import FieldDoesNotExist
from django.template import engines
from django.template.backends.django import DjangoTemplates
from django.utils.module_loading import import_string

from shipsilently_core.signals import connection_state_changed

from .middleware import FlagsMiddleware
from .options import Reading, read_options
from .setup import in_tests
from .stores import DjangoCacheStore
from .visitors import keeps_sessions

__all__ = [
    "check_attributes",
    "check_deployment",
    "check_middleware",
    "check_settings",
    "check_store",
    "check_targets",
    "check_templates",
    "check_visitors",
]

_TAGS = "shipsilently_django.templatetags.shipsilently"
_THIS_MACHINE = ("localhost", "127.0.0.1", "::1")
#: Caches that end with the process, or keep nothing.
_FLEETING = ("locmem.LocMemCache", "dummy.DummyCache")
_SESSIONS = "django.contrib.sessions.middleware.SessionMiddleware"
_AUTHENTICATION = "django.contrib.auth.middleware.AuthenticationMiddleware"


def check_settings(app_configs: Any = None, **kwargs: Any) -> list[CheckMessage]:
    """The dictionary ``SHIPSILENTLY``."""
    return [
        Error(f"{problem.text}.", hint=problem.hint or None, id=f"shipsilently.{problem.code}")
        for problem in _reading().problems
    ]


def check_middleware(app_configs: Any = None, **kwargs: Any) -> list[CheckMessage]:
    """Whether `FlagsMiddleware` is there, once, and behind the user."""
    names: Sequence[str] = settings.MIDDLEWARE
    places = [place for place, name in enumerate(names) if _is_ours(name)]
    if not places:
        return [
            CheckWarning(
                "FlagsMiddleware is not in MIDDLEWARE: a view that reads `request.flags` fails; "
                "tags and gates work without.",
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


def check_visitors(app_configs: Any = None, **kwargs: Any) -> list[CheckMessage]:
    """Whether there is what ``ANONYMOUS_ID`` keeps ids with."""
    match _reading().options.anonymous_id:
        case "session" if not any(
            keeps_sessions(_middleware(name)) for name in settings.MIDDLEWARE
        ):
            lacking, consequence = _SESSIONS, "visitors have none, and flags are for nobody"
        case "cookie" if not any(map(_is_ours, settings.MIDDLEWARE)):
            lacking = "shipsilently_django.FlagsMiddleware"
            consequence = "each request has a new one"
        case _:
            return []
    return [
        CheckWarning(
            f"SHIPSILENTLY['ANONYMOUS_ID'] needs {lacking.rpartition('.')[2]} to keep a visitor's "
            f"id: {consequence}.",
            hint=f"Add {lacking!r} to MIDDLEWARE.",
            id="shipsilently.W005",
        )
    ]


def check_attributes(app_configs: Any = None, **kwargs: Any) -> list[CheckMessage]:
    """Whether users have what ``ATTRIBUTES`` names."""
    options = _reading().options
    if options.context is not None or not apps.is_installed("django.contrib.auth"):
        return []
    return [
        CheckWarning(
            f"SHIPSILENTLY['ATTRIBUTES'] names {attribute.name!r}, and users have no "
            f"{missing!r}: it is left out.",
            hint="Correct its spelling. If each user gets it elsewhere, silence this check.",
            id="shipsilently.W006",
        )
        for attribute in options.attributes
        if (missing := _missing_on(get_user_model(), attribute.path)) is not None
    ]


def check_targets(app_configs: Any = None, **kwargs: Any) -> list[CheckMessage]:
    """Whether gates send people to URLs that are there."""
    # Here, since it imports what a site without gates never does.
    from .targets import wrong_targets

    try:
        wrong = wrong_targets()
    except Exception:
        # The site's URLs cannot be loaded; Django itself will say so.
        return []
    return [
        CheckWarning(
            f"A gate has redirect_to={target}, which is no URL's name, or one that needs "
            "arguments: whoever it refuses gets an error.",
            hint="Correct its spelling, or write a path or a URL.",
            id="shipsilently.W007",
        )
        for target in wrong
    ]


def check_templates(app_configs: Any = None, **kwargs: Any) -> list[CheckMessage]:
    """Whether ``{% load shipsilently %}`` gives these tags."""
    found: list[CheckMessage] = []
    for backend in engines.all():
        if not isinstance(backend, DjangoTemplates):
            continue
        module = backend.engine.libraries.get("shipsilently")
        if module != _TAGS:
            what = "finds no library" if module is None else f"loads {module}"
            found.append(
                CheckWarning(
                    f"{{% load shipsilently %}} {what} in the template engine {backend.name!r}.",
                    hint=f"Take 'shipsilently' out of its OPTIONS['libraries'], or name {_TAGS!r}.",
                    id="shipsilently.W004",
                )
            )
    return found


def check_store(app_configs: Any = None, **kwargs: Any) -> list[CheckMessage]:
    """Whether there is the cache that ``STORE`` names."""
    alias = _cache_of_store()
    if alias is None or alias in settings.CACHES:
        return []
    return [
        Error(
            f"SHIPSILENTLY['STORE'] names the cache {alias!r}, which is not in CACHES.",
            hint=f"Known are {', '.join(map(repr, sorted(settings.CACHES)))}.",
            id="shipsilently.E005",
        )
    ]


def check_deployment(app_configs: Any = None, **kwargs: Any) -> list[CheckMessage]:
    """For ``check --deploy``: what a site in production should not be without."""
    config = _reading().config
    if config is None:
        return []
    found: list[CheckMessage] = []
    if not config.defaults:
        found.append(
            CheckWarning(
                "SHIPSILENTLY['DEFAULTS'] declares no default: where nothing is known of a flag "
                "yet, it is off.",
                hint="Declare each flag with the value to serve until the service has answered.",
                id="shipsilently.W011",
            )
        )
    if config.on_state_change is None and not connection_state_changed.receivers:
        found.append(
            CheckWarning(
                "Nobody is told when the connection to the service is lost.",
                hint="Set SHIPSILENTLY['ON_STATE_CHANGE'], or connect a receiver to the signal "
                "connection_state_changed.",
                id="shipsilently.W012",
            )
        )
    host = urlsplit(config.api_url).hostname
    if not config.api_url.startswith("https://") or host in _THIS_MACHINE:
        found.append(
            CheckWarning(
                "SHIPSILENTLY['API_URL'] is the address of a service for development.",
                hint="Leave it out for the hosted service, or use https.",
                id="shipsilently.W013",
            )
        )
    backend = settings.CACHES.get(_cache_of_store() or "", {}).get("BACKEND", "")
    if backend.endswith(_FLEETING):
        found.append(
            CheckWarning(
                f"SHIPSILENTLY['STORE'] names a cache of {backend}, which keeps nothing for the "
                "next process.",
                hint="Name a cache in files, a database, memcached or Redis, or a file.",
                id="shipsilently.W014",
            )
        )
    return found


def _reading() -> Reading:
    return read_options(getattr(settings, "SHIPSILENTLY", {}), offline=in_tests())


def _cache_of_store() -> str | None:
    """The name of the cache that is the client's store, if one is."""
    config = _reading().config
    store = None if config is None else config.store
    return store.alias if isinstance(store, DjangoCacheStore) else None


def _is_ours(name: str) -> bool:
    middleware = _middleware(name)
    return isinstance(middleware, type) and issubclass(middleware, FlagsMiddleware)


def _middleware(name: str) -> Any:
    try:
        return import_string(name)
    except ImportError:
        # Django itself will say so.
        return None


def _missing_on(model: Any, path: tuple[str, ...]) -> str | None:
    """The first part of a path that a model does not have, as far as models tell."""
    for part in path:
        try:
            field = model._meta.get_field(part)
        except FieldDoesNotExist:
            # What a property or a method gives is not known.
            return None if hasattr(model, part) else part
        model = getattr(field, "related_model", None)
        # Behind a field of several there is a manager, whose methods are not looked at.
        if model is None or field.many_to_many or field.one_to_many:
            return None
    return None
