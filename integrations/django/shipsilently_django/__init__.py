"""ShipSilently for Django.

    INSTALLED_APPS = [..., "shipsilently_django"]
    MIDDLEWARE = [..., "shipsilently_django.FlagsMiddleware"]
    SHIPSILENTLY = {"API_KEY": "sk_live_…"}

The modules, in the order to read them: `options` (the settings, through one table),
`setup` (the process's client), `users` (whom for), `flags` (`request.flags`),
`current` (the request being handled), `middleware`, `decorators`, `rendering` and
`templatetags` (templates), `checks` and `apps`.
"""

from __future__ import annotations

from .current import aflag_enabled, flag_enabled
from .decorators import requires_flag
from .flags import FlagsRequest, RequestFlags, UnawaitedFlagsError
from .middleware import FlagsMiddleware
from .setup import get_client
from .users import adefault_context, default_context

__all__ = [
    "FlagsMiddleware",
    "FlagsRequest",
    "RequestFlags",
    "UnawaitedFlagsError",
    "adefault_context",
    "aflag_enabled",
    "default_context",
    "flag_enabled",
    "get_client",
    "requires_flag",
]
