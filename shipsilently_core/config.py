"""The client's settings, checked when they are made, so that no request meets a wrong one."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from msgspec import Struct, field
from msgspec.structs import force_setattr

from .context import Context
from .errors import ConfigurationError
from .values import ConnectionState, FailureReport

if TYPE_CHECKING:
    from typing import Unpack

    from ._settings import Settings

__all__ = ["AnalyticsConfig", "Config", "RetryConfig", "configured"]

DEFAULT_API_URL = "https://shipsilently-cf.workers.dev"
#: The environment variables in which a key is looked for, in this order.
KEY_VARIABLES = ("SHIPSILENTLY_API_KEY", "SHIPSILENTLY_KEY")
_URL_VARIABLE = "SHIPSILENTLY_API_URL"
_EDGES = " \t\r\n\v\f\ufeff\u00a0\u200b"
#: Settings that are not shown: the key, data of people, and what may hold either.
_HIDDEN = frozenset({"api_key", "baseline_context", "store", "bootstrap", "http_client"})
#: Seconds; longer than any wait, and short of what a lock or a socket takes.
_FOREVER = 1e9


class RetryConfig(Struct, frozen=True, kw_only=True):
    """How a client comes back after failures.

    Attributes:
        base_delay: Seconds; the bound of the first full-jitter delay.
        max_delay: Seconds; the bound that delays grow up to.
        heartbeat_timeout: Seconds without an event after which a stream counts as dead.
            The service sends a heartbeat every 30 s.
        enabled: Whether a lost stream is opened again; otherwise its end means polling
            for good.

    Raises:
        ConfigurationError: A value is not a positive number, or the two are in the wrong order.
    """

    base_delay: float = 1.0
    max_delay: float = 60.0
    heartbeat_timeout: float = 90.0
    enabled: bool = True

    def __post_init__(self) -> None:
        _check_bool("retry.enabled", self.enabled)
        for name in ("base_delay", "max_delay", "heartbeat_timeout"):
            force_setattr(self, name, checked_seconds(f"retry.{name}", getattr(self, name)))
        if self.max_delay < self.base_delay:
            raise ConfigurationError("retry.max_delay", "must not be less than retry.base_delay")


class AnalyticsConfig(Struct, frozen=True, kw_only=True):
    """How flag checks are counted.

    Attributes:
        enabled: Whether they are.
        flush_interval: Seconds between two deliveries; at least 1.
        max_batch_size: So many buffered events are delivered at once, up to eight times a second.
        max_buffer_size: So many events are kept at most; the oldest goes first.
        sampling_rate: The share of checks that is counted, from 0 to 1; what is beyond counts as
            the nearer of them.

    Raises:
        ConfigurationError: A value is of the wrong type or too small.
    """

    enabled: bool = True
    flush_interval: float = 30.0
    max_batch_size: int = 100
    max_buffer_size: int = 5_000
    sampling_rate: float = 1.0

    def __post_init__(self) -> None:
        _check_bool("analytics.enabled", self.enabled)
        interval = checked_seconds("analytics.flush_interval", self.flush_interval, least=1.0)
        force_setattr(self, "flush_interval", interval)
        for name in ("max_batch_size", "max_buffer_size"):
            _check_count(f"analytics.{name}", getattr(self, name))
        rate: Any = self.sampling_rate
        if isinstance(rate, bool) or not isinstance(rate, (int, float)) or rate != rate:
            raise ConfigurationError("analytics.sampling_rate", "must be a number from 0 to 1")
        force_setattr(self, "sampling_rate", min(1.0, max(0.0, float(rate))))


class Config(Struct, frozen=True, kw_only=True):
    """Everything that a client can be told.

    Attributes:
        api_key: The environment's SDK key. Left out, it is read from the environment
            variable ``SHIPSILENTLY_API_KEY``, or ``SHIPSILENTLY_KEY``.
        api_url: The service's address. Left out: ``SHIPSILENTLY_API_URL``, or the hosted service.
        timeout: Seconds; the deadline of one whole call to the service.
        polling_interval: Seconds between polls while there is no stream, and the
            ceiling of a context's cool-down after failures.
        max_age: Seconds for which a cached evaluation counts as fresh; 0 asks the
            service on every request. ``None``: until the service tells of a change
            while it streams, the polling interval while it does not.
        max_contexts: How many contexts are remembered; the least recently used goes first.
        max_response_bytes: The largest answer that is accepted, decompressed.
        stream: Whether changes are streamed; otherwise they are polled for.
        baseline_context: The client's own background context.
        defaults: A default for each flag, used where the caller gives none.
        store: Where this process leaves what it knows for the next one, and finds what others
            left: a store of `shipsilently_core.stores`, the path of a file, the address of
            a Redis server, or ``True`` for a file in the platform's folder for caches.
        bootstrap: Results that were shipped with the app, as a mapping or the path of a file that
            ``shipsilently snapshot`` wrote: served where nothing else is known, before defaults.
        max_stale: Seconds; last known good values that are older than this are not served any
            more. ``None``: of any age.
        max_stale_per_flag: The same for single flags, by key.
        disable_cache: Every failed call raises `EvaluationError` instead of serving
            a last known good value.
        background: Whether this process keeps values current by itself. Without, each
            request sees to its own: for processes that live for one request.
        retry: See `RetryConfig`.
        analytics: See `AnalyticsConfig`.
        http_client: An ``httpx.Client`` (or ``httpx2.Client``) of your own to send with, or
            a function that makes one, called once in each process; a server that forks
            workers after the client was made needs the latter.
        on_error: Called with a `FailureReport` after each failure.
        on_state_change: Called with the `ConnectionState` at each change of it.

    Raises:
        ConfigurationError: Naming the setting, never showing the key.
    """

    api_key: str = field(default=None)  # type: ignore[assignment]  # resolved below
    api_url: str = field(default=None)  # type: ignore[assignment]  # resolved below
    timeout: float = 2.0
    polling_interval: float = 30.0
    max_age: float | None = None
    max_contexts: int = 10_000
    max_response_bytes: int = 16 * 1024 * 1024
    stream: bool = True
    baseline_context: Mapping[str, Any] = field(default_factory=lambda: {"userId": "system"})
    defaults: Mapping[str, Any] = field(default_factory=dict)
    store: Any = None
    bootstrap: Any = None
    max_stale: float | None = None
    max_stale_per_flag: Mapping[str, float] = field(default_factory=dict)
    disable_cache: bool = False
    background: bool = True
    retry: RetryConfig = field(default_factory=RetryConfig)
    analytics: AnalyticsConfig = field(default_factory=AnalyticsConfig)
    http_client: Any = None
    on_error: Callable[[FailureReport], object] | None = None
    on_state_change: Callable[[ConnectionState], object] | None = None

    def __post_init__(self) -> None:
        def put(name: str, value: object) -> None:
            force_setattr(self, name, value)

        put("api_key", _checked_key(self.api_key))
        put("api_url", _checked_url(self.api_url))
        put("timeout", checked_seconds("timeout", self.timeout))
        put("polling_interval", checked_seconds("polling_interval", self.polling_interval))
        if self.max_age is not None:
            put("max_age", checked_seconds("max_age", self.max_age, least=0.0))
        for name in ("max_contexts", "max_response_bytes"):
            _check_count(name, getattr(self, name))
        _check_context(self.baseline_context)
        put("defaults", _checked_defaults(self.defaults))
        _check_bool("background", self.background)
        _check_bool("stream", self.stream)
        _check_bool("disable_cache", self.disable_cache)
        if self.store is not None or self.bootstrap is not None:
            # Here, since most clients have neither.
            from ._shipped import opened, shipped

            put("store", opened(self.store))
            if self.store is not None and self.disable_cache:
                raise ConfigurationError(
                    "store", "needs the cache, which disable_cache switches off"
                )
            put("bootstrap", shipped(self.bootstrap))
        if self.max_stale is not None:
            put("max_stale", checked_seconds("max_stale", self.max_stale, least=0.0))
        put("max_stale_per_flag", _checked_ages(self.max_stale_per_flag))
        put("retry", _nested("retry", RetryConfig, self.retry))
        put("analytics", _nested("analytics", AnalyticsConfig, self.analytics))
        _check_http_client(self.http_client)
        _check_callable("on_error", self.on_error, "a FailureReport")
        _check_callable("on_state_change", self.on_state_change, "a ConnectionState")

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={value!r}" for name, value in self.__rich_repr__())
        return f"Config({shown})"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        # What rich prints, in tracebacks for instance; a Struct's own would show all.
        names = (name for name in self.__struct_fields__ if name not in _HIDDEN)
        return [(name, getattr(self, name)) for name in names]

    @classmethod
    def from_env(cls, **settings: Unpack[Settings]) -> Config:
        """A configuration whose key and address come from the environment.

        Raises:
            ConfigurationError: No key is set, or another setting is wrong.
        """
        return cls(**settings)  # type: ignore[arg-type]  # brought into their form there

    @classmethod
    def from_mapping(cls, mapping: Mapping[str, Any]) -> Config:
        """A configuration from a framework's settings.

        Names may be in capitals, as Django and Flask spell them; nested settings
        are mappings themselves: ``{"API_KEY": "...", "RETRY": {"BASE_DELAY": 2}}``.

        Raises:
            ConfigurationError: A value is wrong, or a name unknown (the nearest is suggested).
        """
        return cls(**_known(cls, mapping, prefix=""))


def configured(given: Config | None, settings: Mapping[str, Any]) -> Config:
    """The configuration that a caller meant, who gives a whole one or settings by name.

    Raises:
        ConfigurationError: It is neither, both, or wrong.
    """
    if given is None:
        return Config.from_mapping(settings)
    if not isinstance(given, Config):
        raise ConfigurationError(
            "config", f"is a {type(given).__name__}, and must be a Config; a key goes to api_key="
        )
    if settings:
        raise ConfigurationError(
            next(iter(settings)), "is given beside a Config; put it into the Config"
        )
    return given


def _known(cls: type[Any], mapping: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    names: tuple[str, ...] = cls.__struct_fields__
    settings = {}
    for given, value in mapping.items():
        name = str(given).lower()
        if name not in names:
            import difflib

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
        for variable in KEY_VARIABLES:
            if variable in os.environ:
                given, setting = os.environ[variable], f"api_key (from {variable})"
                break
        else:
            raise ConfigurationError(
                setting, f"is missing; set it, or the environment variable {KEY_VARIABLES[0]}"
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


def checked_seconds(name: str, value: Any, *, least: float | None = None) -> float:
    """`value` as seconds.

    Args:
        name: The setting, for the error.
        value: What was given.
        least: The least that is allowed; left out, anything above 0.

    Raises:
        ConfigurationError: It is not a finite number, or too small.
    """
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not number or not abs(value) <= _FOREVER:
        raise ConfigurationError(name, "must be a number of seconds")
    if least is None and value <= 0:
        raise ConfigurationError(name, "must be more than 0 seconds")
    if least is not None and value < least:
        raise ConfigurationError(name, f"must be at least {least:g} seconds")
    return float(value)


def _check_count(name: str, value: Any) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ConfigurationError(name, "must be a whole number, at least 1")


def _check_bool(name: str, value: Any) -> None:
    if not isinstance(value, bool):
        raise ConfigurationError(name, "must be True or False")


def _check_callable(name: str, value: Any, argument: str) -> None:
    if value is not None and not callable(value):
        raise ConfigurationError(name, f"must be a callable that takes {argument}")


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


def _checked_ages(value: Any) -> Mapping[str, float]:
    if not isinstance(value, Mapping):
        raise ConfigurationError("max_stale_per_flag", "must be a mapping from flags to seconds")
    for key in value:
        if not isinstance(key, str):
            raise ConfigurationError("max_stale_per_flag", "flag keys must be strings")
    return {
        key: checked_seconds(f"max_stale_per_flag[{key!r}]", seconds, least=0.0)
        for key, seconds in value.items()
    }


def _check_http_client(client: Any) -> None:
    if client is None:
        return
    send, build = getattr(client, "send", None), getattr(client, "build_request", None)
    if inspect.isclass(client) or (send is None and callable(client)):
        # Something that makes one, in each process.
        return
    if not callable(send) or not callable(build):
        raise ConfigurationError(
            "http_client", "must be an httpx.Client, an httpx2.Client, or a function that makes one"
        )
    if inspect.iscoroutinefunction(send):
        raise ConfigurationError(
            "http_client",
            "must be a blocking client: the background needs one, and the awaitable verbs "
            "use it from a thread; give an httpx.Client instead of an AsyncClient",
        )
