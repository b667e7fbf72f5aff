"""ShipSilently for FastAPI and Starlette.

The modules, in the order to read them: `extension` (`ShipSilently`, the client in an
app), `lifespan` (its start and its end), `connection` (`RequestFlags`, the flags of one
request or socket), `person` (whom they are for), `middleware` (which puts them there),
`lookup` (`get_flags`, `current_flags`, which find them), `dependencies` (``Depends(flags)``,
`requires_flag`), `gates` (what that gives), `flagset` (`FlagSet`), `routing` (what OpenAPI
shows), `settings` (fields for pydantic), `health` (a page for monitoring). Not imported
here: `templating`, which needs Jinja, and `testing`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

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

if TYPE_CHECKING:
    from .settings import ShipSilentlySettings

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


def __getattr__(name: str) -> Any:
    if name not in _ASKED_FOR:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_ASKED_FOR[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_ASKED_FOR})
