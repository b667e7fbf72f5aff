"""OpenTelemetry: flags as events of the current span, and the client's state as metrics.

    from shipsilently_core import signals
    from shipsilently_core.contrib import opentelemetry

    signals.connect(signals.flag_evaluated, opentelemetry.add_span_event)
    opentelemetry.observe(client)

Names follow the semantic conventions for feature flags. Their ``feature_flag.context.id``
is left out on purpose, for it names a person, and so is the variant, for the service's
flags have values only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from opentelemetry import metrics, trace
from opentelemetry.metrics import CallbackOptions, MeterProvider, Observation

from shipsilently_core._version import __version__
from shipsilently_core.values import ConnectionState, EvaluationResult, Failure, Reason, Status

from ._shared import CALL_FAILURES, AnyClient, attribute, status_of

__all__ = ["add_span_event", "observe"]

_EVENT = "feature_flag.evaluation"
_PROVIDER = "shipsilently"

_REASONS = {
    Reason.DEFAULT: "default",
    Reason.RULE_MATCH: "targeting_match",
    Reason.ROLLOUT: "split",
    Reason.FLAG_DISABLED: "disabled",
    Reason.FLAG_NOT_FOUND: "error",
}
#: The conventions' words where they have one; otherwise our own class of failure.
_ERRORS = {Failure.NOT_FOUND: "flag_not_found"}


def add_span_event(sender: Any, *, result: EvaluationResult) -> None:
    """Add an event for a flag that was read to the current span; nothing where none records.

    A receiver of `shipsilently_core.signals.flag_evaluated`.
    """
    span = trace.get_current_span()
    if not span.is_recording():
        return
    attributes: dict[str, bool | int | float | str] = {
        "feature_flag.key": result.flag_key,
        "feature_flag.provider.name": _PROVIDER,
        "feature_flag.result.value": attribute(result.value),
        "feature_flag.result.reason": _reason(result),
    }
    if result.error is not None:
        attributes["error.type"] = _ERRORS.get(result.error, result.error.value)
    span.add_event(_EVENT, attributes)


def _reason(result: EvaluationResult) -> str:
    if result.error is not None:
        return "error"
    if result.reason == Reason.ERROR_FALLBACK:
        # The call failed, and a last known good value was served.
        return "stale"
    reason = _REASONS.get(result.reason)  # type: ignore[call-overload]  # a StrEnum is its string
    return reason or "unknown"


def observe(client: AnyClient, *, meter_provider: MeterProvider | None = None) -> None:
    """Show the client's state as metrics, read whenever they are collected. Once per process.

    Args:
        client: The client, or a function that gives the present one.
        meter_provider: Left out, the global one.
    """
    status = status_of(client)
    meter = metrics.get_meter(_PROVIDER, __version__, meter_provider)

    def callback(
        read: Callable[[Status], Iterable[Observation]],
    ) -> list[Callable[[CallbackOptions], Iterable[Observation]]]:
        return [lambda options: read(status())]

    meter.create_observable_counter(
        "shipsilently.client.attempts",
        callback(lambda now: [Observation(now.attempts)]),
        unit="{call}",
        description="Calls for evaluations that were carried out",
    )
    meter.create_observable_counter(
        "shipsilently.client.failures",
        callback(
            lambda now: [
                Observation(now.failures.get(failure, 0), {"error.type": failure.value})
                for failure in CALL_FAILURES
            ]
        ),
        unit="{call}",
        description="Calls for evaluations that failed, by class",
    )
    meter.create_observable_gauge(
        "shipsilently.client.state",
        callback(
            lambda now: [
                Observation(int(now.state is state), {"shipsilently.client.state": state.value})
                for state in ConnectionState
            ]
        ),
        description="1 for the state that the connection is in",
    )
    meter.create_observable_gauge(
        "shipsilently.client.age",
        callback(lambda now: [] if now.age is None else [Observation(now.age)]),
        unit="s",
        description="Time since the last evaluation that succeeded",
    )
    meter.create_observable_gauge(
        "shipsilently.store.up",
        callback(
            lambda now: (
                []
                if now.store is None
                else [
                    Observation(
                        int(now.store.error is None), {"shipsilently.store.kind": now.store.kind}
                    )
                ]
            )
        ),
        description="1 while the store of last known good values works",
    )
    meter.create_observable_gauge(
        "shipsilently.events.buffered",
        callback(lambda now: [Observation(now.buffered_events)]),
        unit="{event}",
        description="Analytics events that wait for delivery",
    )
    meter.create_observable_counter(
        "shipsilently.events.dropped",
        callback(lambda now: [Observation(now.dropped_events)]),
        unit="{event}",
        description="Analytics events that were lost",
    )
