"""ShipSilently for Flask.

    from shipsilently_flask import ShipSilently, flags, requires_flag

    shipsilently = ShipSilently(app)

The modules, in the order to read them:

- `extension`: `ShipSilently`, which sets up an app
- `settings`: what an app can be told; `state`: what it has then
- `people`: whom flags are for; `visitors`: those without an account
- `current`: this request's flags (`contexts`); `proxy`: `flags`, which stands for them
- `conditions`: what is asked of flags; `gates`: views that depend on it (`order`, `targets`)
- `templating`: flags in Jinja
- `signals`: what is told of requests
- `commands`: ``flask shipsilently`` (`doctor`: what it looks at; `lost`: gates that lead nowhere)
- `stores`: last known good values on Flask-Caching
- `health`: a page for monitoring; `debugtoolbar`: a panel for Flask-DebugToolbar
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from shipsilently_core._late import late_names as _late_names

from .extension import ShipSilently
from .gates import requires_flag
from .proxy import flags

__all__ = [
    "FlaskCachingStore",
    "ShipSilently",
    "flags",
    "health_blueprint",
    "override_flags",
    "requires_flag",
]


#: What few sites use, and where it is imported from when it is asked for.
_ASKED_FOR = {
    "FlaskCachingStore": "shipsilently_flask.stores",
    "health_blueprint": "shipsilently_flask.health",
    "override_flags": "shipsilently_core.testing",
}

if TYPE_CHECKING:
    from shipsilently_core.testing import override_flags

    from .health import health_blueprint
    from .stores import FlaskCachingStore
else:  # a type checker would take every other name to be there, too
    __getattr__, __dir__ = _late_names(globals(), _ASKED_FOR)
