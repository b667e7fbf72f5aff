"""The ShipSilently client: evaluates flags remotely, and keeps what it was told for a bad day.

The modules, in the order to read them: `values` (what is handed out), `config`
(what can be set), `context` (whom for), `errors`, `signals`, `client` (the verbs),
`flags` (one request's view), `flagset` (the same, typed), `handles` (what is to be closed
again), `stores`, `stores_redis` (what outlives a process), `testing` (fakes), `pytest_plugin`
(what tests can say).

Behind them: `_resolver` (a request's wait), `_evaluation` (the failure matrix), `_knowledge`,
`_cache`, `_snapshot`, `_likeness`, `_form`, `_gate`, `_backoff` (what is known), `_notices`, `_log`
(what is told of it), `_view`, `_seen` (what a caller sees of it), `_keeper`, `_holdings`,
`_storecalls`, `_consult`, `_saved`, `_cachestore` (what other processes knew), `_shipped` (what
came with the app), `_analytics`, `_events`, `_tally` (what is counted), `_background`, `_stream`,
`_sse`, `_refresh`, `_watch` (what happens between requests), `_transport`, `_wire`, `_http`,
`_answers`, `_network`, `_connection`, `_tasks`, `_proxied` (what is said, and how), `_kinds`,
`_overrides`, `_clock`, `_process`, `_late`, `_settings`.
"""

from typing import TYPE_CHECKING

from ._late import late_names as _late_names
from ._version import __version__
from .client import ShipSilentlyClient
from .config import AnalyticsConfig, Config, RetryConfig
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
    Status,
    StoreStatus,
)

__all__ = [
    "AnalyticsConfig",
    "ClientClosedError",
    "Config",
    "ConfigurationError",
    "ConnectionState",
    "Context",
    "EvaluationError",
    "EvaluationResult",
    "Failure",
    "FailureReport",
    "FlagKey",
    "FlagSet",
    "FlagValue",
    "Flags",
    "Flushed",
    "Reason",
    "RetryConfig",
    "ShipSilentlyClient",
    "ShipSilentlyError",
    "Source",
    "Status",
    "StoreStatus",
    "Subscription",
    "__version__",
]

#: What not every app uses, and where it is imported from when it is asked for.
_ASKED_FOR = {
    "FlagKey": "shipsilently_core.flagset",
    "FlagSet": "shipsilently_core.flagset",
    "Flushed": "shipsilently_core.handles",
    "Subscription": "shipsilently_core.handles",
}

if TYPE_CHECKING:
    from .flagset import FlagKey, FlagSet
    from .handles import Flushed, Subscription
else:  # a type checker would take every other name to be there, too
    __getattr__, __dir__ = _late_names(globals(), _ASKED_FOR)
