"""The names of settings as keywords, for editors and type checkers: no program imports this."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypedDict

from .config import AnalyticsConfig, RetryConfig
from .values import ConnectionState, FailureReport

__all__ = ["Settings", "StoreSettings"]


class Settings(TypedDict, total=False):
    """Those of `Config`, in the forms in which they may be given."""

    api_key: str | None
    api_url: str | None
    timeout: float
    polling_interval: float
    max_age: float | None
    max_contexts: int
    max_response_bytes: int
    stream: bool
    baseline_context: Mapping[str, Any]
    defaults: Mapping[str, Any]
    store: Any
    bootstrap: Any
    max_stale: float | None
    max_stale_per_flag: Mapping[str, float]
    disable_cache: bool
    background: bool
    retry: RetryConfig | Mapping[str, Any]
    analytics: AnalyticsConfig | Mapping[str, Any]
    http_client: Any
    on_error: Callable[[FailureReport], object] | None
    on_state_change: Callable[[ConnectionState], object] | None


class StoreSettings(TypedDict, total=False):
    """Those of `CacheStore`."""

    deadline: float
    time_to_live: float
    prefix: str
    max_bytes: int
