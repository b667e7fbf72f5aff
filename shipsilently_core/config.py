"""The client's settings, checked when they are made, so that no request meets a wrong one."""

from __future__ import annotations

import difflib
import inspect
import math
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any
from urllib.parse import urlsplit

from .context import Context
from .errors import ConfigurationError
from .values import FailureReport

__all__ = ["Config", "RetryConfig"]

DEFAULT_API_URL = "https://shipsilently-cf.workers.dev"
_KEY_VARIABLES = ("SHIPSILENTLY_API_KEY", "SHIPSILENTLY_KEY")
_URL_VARIABLE = "SHIPSILENTLY_API_URL"
_EDGES = " \t\r\n\v\f\ufeff\u00a0\u200b"


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryConfig:
    """How a client comes back after failures.

    Attributes:
        base_delay: Seconds; the bound of the first full-jitter delay.
        max_delay: Seconds; the bound that delays grow up to.

    Raises:
        ConfigurationError: A value is not a positive number, or the two are in the wrong order.
    """

    base_delay: float = 1.0
    max_delay: float = 60.0

    def __post_init__(self) -> None:
        for name in ("base_delay", "max_delay"):
            object.__setattr__(self, name, _seconds(f"retry.{name}", getattr(self, name)))
        if self.max_delay < self.base_delay:
            raise ConfigurationError("retry.max_delay", "must not be less than retry.base_delay")


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """Everything that a client can be told.

    Attributes:
        api_key: The environment's SDK key. Left out, it is read from the environment
            variable ``SHIPSILENTLY_API_KEY``, or ``SHIPSILENTLY_KEY``.
        api_url: The service's address. Left out: ``SHIPSILENTLY_API_URL``, or the hosted service.
        timeout: Seconds; the deadline of one whole call to the service.
        polling_interval: Seconds between polls while there is no stream, and the
            ceiling of a context's cool-down after failures.
        max_age: Seconds for which a cached evaluation counts as fresh; 0 asks the
            service on every request. ``None``: the polling interval.
        max_contexts: How many contexts are remembered; the least recently used goes first.
        max_response_bytes: The largest answer that is accepted, decompressed.
        baseline_context: The client's own background context.
        defaults: A default for each flag, used where the caller gives none.
        disable_cache: Every failed call raises `EvaluationError` instead of serving
            a last known good value.
        retry: See `RetryConfig`.
        http_client: An ``httpx.Client`` (or ``httpx2.Client``) of your own to send with.
        on_error: Called with a `FailureReport` after each failure.

    Raises:
        ConfigurationError: Naming the setting, never showing the key.
    """

    api_key: str = field(default=None, repr=False)  # type: ignore[assignment]  # resolved below
    api_url: str = field(default=None)  # type: ignore[assignment]  # resolved below
    timeout: float = 2.0
    polling_interval: float = 30.0
    max_age: float | None = None
    max_contexts: int = 10_000
    max_response_bytes: int = 16 * 1024 * 1024
    baseline_context: Mapping[str, Any] = field(
        default_factory=lambda: {"userId": "system"}, repr=False
    )
    defaults: Mapping[str, Any] = field(default_factory=dict)
    disable_cache: bool = False
    retry: RetryConfig = field(default_factory=RetryConfig)
    http_client: Any = field(default=None, repr=False)
    on_error: Callable[[FailureReport], object] | None = None

    def __post_init__(self) -> None:
        def put(name: str, value: object) -> None:
            object.__setattr__(self, name, value)

        put("api_key", _checked_key(self.api_key))
        put("api_url", _checked_url(self.api_url))
        put("timeout", _seconds("timeout", self.timeout))
        put("polling_interval", _seconds("polling_interval", self.polling_interval))
        if self.max_age is not None:
            put("max_age", _seconds("max_age", self.max_age, least=0.0))
        for name in ("max_contexts", "max_response_bytes"):
            _check_count(name, getattr(self, name))
        _check_context(self.baseline_context)
        put("defaults", _checked_defaults(self.defaults))
        if not isinstance(self.disable_cache, bool):
            raise ConfigurationError("disable_cache", "must be True or False")
        put("retry", _nested("retry", RetryConfig, self.retry))
        _check_http_client(self.http_client)
        if self.on_error is not None and not callable(self.on_error):
            raise ConfigurationError("on_error", "must be a callable that takes a FailureReport")

    @property
    def fresh_for(self) -> float:
        """Seconds for which a cached evaluation counts as fresh."""
        return self.polling_interval if self.max_age is None else self.max_age

    @classmethod
    def from_env(cls, **settings: Any) -> Config:
        """A configuration whose key and address come from the environment.

        Raises:
            ConfigurationError: No key is set, or another setting is wrong.
        """
        return cls(**settings)

    @classmethod
    def from_mapping(cls, mapping: Mapping[str, Any]) -> Config:
        """A configuration from a framework's settings.

        Names may be in capitals, as Django and Flask spell them; nested settings
        are mappings themselves: ``{"API_KEY": "...", "RETRY": {"BASE_DELAY": 2}}``.

        Raises:
            ConfigurationError: A value is wrong, or a name unknown (the nearest is suggested).
        """
        return cls(**_known(cls, mapping, prefix=""))


def _known(cls: type[Any], mapping: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    names = [item.name for item in fields(cls)]
    settings = {}
    for given, value in mapping.items():
        name = str(given).lower()
        if name not in names:
            near = difflib.get_close_matches(name, names, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"known are: {', '.join(names)}"
            raise ConfigurationError(f"{prefix}{given}", f"is not a setting; {hint}")
        settings[name] = value
    return settings


def _nested(name: str, cls: type[Any], value: Any) -> Any:
    if isinstance(value, cls):
        return value
    if isinstance(value, Mapping):
        return cls(**_known(cls, value, prefix=f"{name}."))
    raise ConfigurationError(name, f"must be a {cls.__name__} or a mapping")


def _checked_key(given: Any) -> str:
    setting = "api_key"
    if given is None:
        for variable in _KEY_VARIABLES:
            if variable in os.environ:
                given, setting = os.environ[variable], f"api_key (from {variable})"
                break
        else:
            raise ConfigurationError(
                setting, f"is missing; set it, or the environment variable {_KEY_VARIABLES[0]}"
            )
    if not isinstance(given, str):
        raise ConfigurationError(setting, f"must be a string, not {type(given).__name__}")
    # Keys come from files and dashboards, which add such edges.
    key = given.strip(_EDGES)
    if not key:
        raise ConfigurationError(setting, "is empty; it is the SDK key of one environment")
    if not key.isascii():
        raise ConfigurationError(setting, "has a character that is not ASCII; copy it again")
    if not key.isprintable() or " " in key:
        raise ConfigurationError(
            setting, "has a line break, a space or a control character inside; copy it again"
        )
    return key


def _checked_url(given: Any) -> str:
    if given is None:
        given = os.environ.get(_URL_VARIABLE) or DEFAULT_API_URL
    if not isinstance(given, str):
        raise ConfigurationError("api_url", f"must be a string, not {type(given).__name__}")
    url = given.strip(_EDGES).rstrip("/")
    try:
        parts = urlsplit(url)
        host = parts.hostname
        # Reading the port checks it.
        _ = parts.port
    except ValueError:
        raise ConfigurationError("api_url", "is not a URL; write https://host[:port]") from None
    if parts.scheme not in ("http", "https") or not host:
        raise ConfigurationError("api_url", "must start with https:// or http:// and name a host")
    if parts.username is not None or parts.query or parts.fragment:
        raise ConfigurationError("api_url", "must hold no user, query or fragment")
    if not url.isascii() or not url.isprintable() or " " in url:
        raise ConfigurationError("api_url", "has a space or a character that is not ASCII")
    return url


def _seconds(name: str, value: Any, *, least: float | None = None) -> float:
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not number or not math.isfinite(value):
        raise ConfigurationError(name, "must be a number of seconds")
    if least is None and value <= 0:
        raise ConfigurationError(name, "must be more than 0 seconds")
    if least is not None and value < least:
        raise ConfigurationError(name, f"must be at least {least:g} seconds")
    return float(value)


def _check_count(name: str, value: Any) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ConfigurationError(name, "must be a whole number, at least 1")


def _check_context(value: Any) -> None:
    if not isinstance(value, Mapping):
        raise ConfigurationError("baseline_context", "must be a mapping of attributes")
    dropped = Context(value).dropped
    if dropped:
        raise ConfigurationError(
            "baseline_context",
            f"attribute {dropped[0]!r} must be a string, a finite number or a boolean",
        )


def _checked_defaults(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise ConfigurationError("defaults", "must be a mapping from flag keys to values")
    for key, default in value.items():
        if not isinstance(key, str):
            raise ConfigurationError("defaults", "flag keys must be strings")
        if not isinstance(default, (bool, str, int, float, dict, list, type(None))):
            raise ConfigurationError(
                f"defaults[{key!r}]", "must be a boolean, string, number, dict or None"
            )
    return dict(value)


def _check_http_client(client: Any) -> None:
    if client is None:
        return
    if not callable(getattr(client, "send", None)) or not callable(
        getattr(client, "build_request", None)
    ):
        raise ConfigurationError("http_client", "must be an httpx.Client or an httpx2.Client")
    if inspect.iscoroutinefunction(client.send):
        raise ConfigurationError(
            "http_client",
            "must be a blocking client: the background needs one, and the awaitable verbs "
            "use it from a thread; give an httpx.Client instead of an AsyncClient",
        )
