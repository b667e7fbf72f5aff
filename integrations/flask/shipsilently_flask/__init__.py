"""ShipSilently for Flask.

    from shipsilently_flask import ShipSilently, flags, requires_flag

    shipsilently = ShipSilently(app)

The modules, in the order to read them:

- `extension`: `ShipSilently`, which sets up an app
- `settings`: what an app can be told; `state`: what it has then
- `people`: whom flags are for; `visitors`: those without an account
- `current`: this request's flags; `proxy`: `flags`, which stands for them
- `conditions`: what is asked of flags; `gates`: views that depend on it (`order`)
- `templating`: flags in Jinja
- `signals`: what is told of requests
- `commands`: ``flask shipsilently`` (`doctor`: what it looks at)
- `stores`: last known good values on Flask-Caching
- `health`: a page for monitoring; `debugtoolbar`: a panel for Flask-DebugToolbar
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .extension import ShipSilently
from .gates import requires_flag
from .health import health_blueprint
from .proxy import flags
from .stores import FlaskCachingStore

if TYPE_CHECKING:
    from shipsilently_core.testing import override_flags

__all__ = [
    "FlaskCachingStore",
    "ShipSilently",
    "flags",
    "health_blueprint",
    "override_flags",
    "requires_flag",
]


def __getattr__(name: str) -> Any:
    # For tests only, so no server imports it.
    if name == "override_flags":
        from shipsilently_core.testing import override_flags

        return override_flags
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
