"""ShipSilently for FastAPI and Starlette.

The modules, in the order to read them: `extension` (`ShipSilently`, the client in an
app), `lifespan` (its start and its end), `behind` (which finds it in an app's own lifespan),
`apps` (what an app was made with, and those around it), `connection` (`RequestFlags`, the flags
of one request or socket), `person` (whom they are for), `middleware` (which puts them there),
`lookup` (`get_flags`, `current_flags`, which find them), `dependencies` (``Depends(flags)``,
`requires_flag`), `gates` (what that gives), `flagset` (`FlagSet`), `routing` (what OpenAPI
shows), `settings` (fields for pydantic), `health` (a page for monitoring). Not imported
here: `templating`, which needs Jinja, and `testing`.
"""

from typing import TYPE_CHECKING

from shipsilently_core._late import late_names as _late_names

from .connection import RequestFlags
from .dependencies import FlagsDep, FlagsDependency, flags, requires_flag
from .extension import ShipSilently
from .flagset import FlagKey, FlagSet
from .gates import Gate, GateArguments
from .health import health, health_router
from .lifespan import Lifespan
from .lookup import current_flags, get_flags
from .middleware import FlagsMiddleware
from .routing import FlaggedAPIRoute

__all__ = [
    "FlagKey",
    "FlagSet",
    "FlaggedAPIRoute",
    "FlagsDep",
    "FlagsDependency",
    "FlagsMiddleware",
    "Gate",
    "GateArguments",
    "Lifespan",
    "RequestFlags",
    "ShipSilently",
    "ShipSilentlySettings",
    "current_flags",
    "flags",
    "get_flags",
    "health",
    "health_router",
    "requires_flag",
]

#: What not every app uses, and where it is imported from when it is asked for.
_ASKED_FOR = {"ShipSilentlySettings": "shipsilently_fastapi.settings"}

if TYPE_CHECKING:
    from .settings import ShipSilentlySettings
else:  # a type checker would take every other name to be there, too
    __getattr__, __dir__ = _late_names(globals(), _ASKED_FOR)
