"""The ShipSilently client: evaluates flags remotely, and keeps what it was told for a bad day.

The modules, in the order to read them: `values` (what is handed out), `config`
(what can be set), `context` (whom for), `errors`, `signals`, `client` (the verbs),
`flags` (one request's view), `testing` (fakes). Behind them: `_evaluation` (the
failure matrix), `_cache`, `_gate`, `_backoff`, `_notices` (what is known),
`_background`, `_stream`, `_sse`, `_refresh` (what happens between requests),
`_wire`, `_http` (what is said, and how), `_kinds`, `_overrides`, `_clock`, `_process`.
"""

from ._version import __version__
from .client import ShipSilentlyClient, Subscription
from .config import Config, RetryConfig
from .context import Context
from .errors import ClientClosedError, ConfigurationError, EvaluationError, ShipSilentlyError
from .flags import Flags
from .values import (
    ConnectionState,
    EvaluationResult,
    Failure,
    FailureReport,
    FlagValue,
    Reason,
    Source,
)

__all__ = [
    "ClientClosedError",
    "Config",
    "ConfigurationError",
    "ConnectionState",
    "Context",
    "EvaluationError",
    "EvaluationResult",
    "Failure",
    "FailureReport",
    "FlagValue",
    "Flags",
    "Reason",
    "RetryConfig",
    "ShipSilentlyClient",
    "ShipSilentlyError",
    "Source",
    "Subscription",
    "__version__",
]
