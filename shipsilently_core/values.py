"""The values that the client hands out: all frozen, all safe to share between threads."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from msgspec import Struct

__all__ = [
    "ConnectionState",
    "EvaluationResult",
    "Failure",
    "FailureReport",
    "FlagValue",
    "Reason",
    "Source",
    "Status",
    "StoreStatus",
]

FlagValue = bool | str | int | float | dict[str, Any] | None
"""What a flag can hold: a boolean, a string, a number or a JSON object (``None`` for JSON null)."""


class Reason(StrEnum):
    """Why a flag has the value it has.

    All but the last come from the service; a reason that the service adds later
    is passed on as the plain string it is.
    """

    DEFAULT = "default"
    RULE_MATCH = "rule_match"
    ROLLOUT = "rollout"
    FLAG_DISABLED = "flag_disabled"
    FLAG_NOT_FOUND = "flag_not_found"
    #: The request did not succeed: the value is the last known good one, or a default.
    ERROR_FALLBACK = "error_fallback"


class Source(StrEnum):
    """Where a served value was taken from."""

    #: The service answered this very call.
    SERVER = "server"
    #: This context's cached evaluation, fresh or last known good.
    CACHE = "cache"
    #: The environment's baseline: what everybody gets whom no personal rule matched.
    BASELINE = "baseline"
    #: The results that were shipped with the app (``bootstrap=``).
    BOOTSTRAP = "bootstrap"
    #: The caller's default, or the one declared in the configuration.
    DEFAULT = "default"
    #: Set by a test.
    OVERRIDE = "override"


class ConnectionState(StrEnum):
    """The state of the client's one live connection to the service."""

    #: Not started in this process yet, or closed.
    IDLE = "idle"
    #: The stream is live; changes arrive as they happen.
    STREAMING = "streaming"
    #: The stream is lost or not up yet; polling keeps values fresh while it is retried.
    RECONNECTING = "reconnecting"
    #: For good: the plan has no streaming, or streaming or retrying is switched off.
    POLLING = "polling"


class Failure(StrEnum):
    """The classes of what can go wrong with an evaluation."""

    #: No connection, or it broke before the answer was complete.
    NETWORK = "network"
    #: The whole call took longer than ``timeout``.
    TIMEOUT = "timeout"
    #: 401 or 403: the key was refused.
    AUTH = "auth"
    #: 429, or the time that its ``Retry-After`` named has not passed.
    THROTTLED = "throttled"
    #: 5xx.
    SERVER = "server"
    #: An answer that the protocol does not know: another status, not JSON, too large.
    PROTOCOL = "protocol"
    #: The environment has no such flag.
    NOT_FOUND = "not_found"
    #: The flag's value is of another JSON type than the caller's default.
    TYPE_MISMATCH = "type_mismatch"
    #: No evaluation failed, but the store (``store=``) did.
    STORE = "store"


class EvaluationResult(Struct, frozen=True):
    """One flag, evaluated for one context.

    Attributes:
        flag_key: The flag's key.
        value: The value to use.
        reason: Why; compares equal to a member of `Reason`.
        rule_id: The rule that decided, where the service named one.
        source: Where the value was taken from.
        error: What went wrong, set only when nothing better than the default could be served.
        age: Seconds since the value was last known to be current, for one that stands in:
            after a failure, from a store, or read from memory alone. ``None`` for a current one,
            and where nobody knows.
    """

    flag_key: str
    value: Any
    reason: str
    rule_id: str | None = None
    source: Source = Source.SERVER
    error: Failure | None = None
    age: float | None = None


class FailureReport(Struct, frozen=True):
    """One failure, as `on_error` and the signal `evaluation_failed` tell it.

    It never holds a key, a context value or a body.

    Attributes:
        failure: Its class.
        status: The HTTP status, where there was an answer.
        flag_key: The flag that was asked for; ``None`` for a whole batch.
        message: One line for people.
    """

    failure: Failure
    status: int | None
    flag_key: str | None
    message: str


class StoreStatus(Struct, frozen=True):
    """How it goes with a client's store, in this process.

    Attributes:
        kind: The store's class.
        loaded: Whether it has been asked what earlier processes knew.
        contexts: How many contexts it knew then that have not been needed since.
        saved: Unix time in seconds of the last saving; ``None`` for never.
        error: The class of what it raised last; ``None`` while it works.
        cool_down: Seconds until it is tried again; 0 while it works.
    """

    kind: str
    loaded: bool
    contexts: int
    saved: float | None
    error: str | None
    cool_down: float


class Status(Struct, frozen=True):
    """What a client knows about itself, at one moment. Of this process only.

    Attributes:
        state: The connection to the service.
        since: Unix time in seconds since when; ``None`` before the first change.
        ready: Whether the baseline has been evaluated.
        last_success: Unix time in seconds of the last evaluation that succeeded.
        age: Seconds since then; ``None`` for never.
        contexts: How many contexts are held.
        attempts: How many calls for evaluations were carried out.
        failures: How many of them failed, by class.
        gate: The failure that keeps requests from asking; ``None`` while they may.
        cool_down: Seconds until the service is tried again while the gate is closed.
        retry_after: Seconds that the service has asked to be left alone for.
        buffered_events: Analytics events that wait for delivery.
        dropped_events: Analytics events that were lost.
        last_error: The last failure: its class and status, never what it was about.
        pid: The process.
        store: How it goes with the store; ``None`` without one.
    """

    state: ConnectionState
    since: float | None
    ready: bool
    last_success: float | None
    age: float | None
    contexts: int
    attempts: int
    failures: dict[Failure, int]
    gate: Failure | None
    cool_down: float
    retry_after: float
    buffered_events: int
    dropped_events: int
    last_error: FailureReport | None
    pid: int
    store: StoreStatus | None = None
