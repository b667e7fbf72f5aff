"""ShipSilently for Django.

    INSTALLED_APPS = [..., "shipsilently_django"]
    MIDDLEWARE = [..., "shipsilently_django.FlagsMiddleware"]
    SHIPSILENTLY = {"API_KEY": "sk_live_…"}

The modules, in the order to read them:

- `options`: the settings, through one table; `setup`: the process's client
- `users`, `visitors`: whom flags are evaluated for
- `flags`: `request.flags`; `readable`: flags without a request; `current`: the request
  being handled
- `middleware`, `streaming`, `pagecache`: from a request to its response; `surroundings`: what
  stands around its view
- `gates`: what is answered while a flag is off; `decorators`, `views`, `urls`: where it stands
- `rendering`, `templatetags`, `context_processors`, `jinja`, `macros`: templates
- `asgi`: start and end with the server; `tasks`: from a request to a task
- `testing`: flags in tests
- `admin_page`, `management`, `health`: looking at flags, and at the client
- `recording`, `panel`: for Django Debug Toolbar; `drf`: for Django REST framework
- `stores`: last known good values in a cache of the site's
- `checks`, `apps`: the Django app; `answers`, `targets`: gates that say all is well or lead nowhere
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from shipsilently_core._late import late_names as _late_names

from .current import aflag_enabled, flag_enabled
from .flags import FlagsRequest, RequestFlags, UnawaitedFlagsError
from .middleware import FlagsMiddleware
from .setup import get_client
from .users import adefault_context, default_context

__all__ = [
    "DjangoCacheStore",
    "FlagsMiddleware",
    "FlagsRequest",
    "RequestFlags",
    "RequiresFlagMixin",
    "UnawaitedFlagsError",
    "adefault_context",
    "aflag_enabled",
    "default_context",
    "flag_enabled",
    "flag_switch",
    "flagged_path",
    "flagged_re_path",
    "get_client",
    "requires_flag",
]

#: What not every site uses, and where it is imported from when it is asked for.
_ASKED_FOR = {
    "DjangoCacheStore": "shipsilently_django.stores",
    "RequiresFlagMixin": "shipsilently_django.views",
    "flag_switch": "shipsilently_django.views",
    "flagged_path": "shipsilently_django.urls",
    "flagged_re_path": "shipsilently_django.urls",
    "requires_flag": "shipsilently_django.decorators",
}

if TYPE_CHECKING:
    from .decorators import requires_flag
    from .stores import DjangoCacheStore
    from .urls import flagged_path, flagged_re_path
    from .views import RequiresFlagMixin, flag_switch
else:  # a type checker would take every other name to be there, too
    __getattr__, __dir__ = _late_names(globals(), _ASKED_FOR)
