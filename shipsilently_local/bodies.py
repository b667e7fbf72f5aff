"""Request bodies: decoded strictly, refused with a reason that a person can act on."""

from __future__ import annotations

import math
from typing import Any, Never

import msgspec

from .document import kind_of
from .errors import BadRequestError, quoted
from .evaluation import Context

__all__ = ["MAX_EVENTS", "Event", "read_batch", "read_evaluate", "read_events", "read_object"]

#: The most analytics events that one request may hold (protocol).
MAX_EVENTS = 1_000
#: The longest ``variationKey`` (protocol).
MAX_VARIATION_KEY = 200
#: Every reason that a client may report (protocol).
REASONS = (
    "default",
    "rule_match",
    "rollout",
    "flag_disabled",
    "flag_not_found",
    "error_fallback",
)


class Event(msgspec.Struct, frozen=True, rename="camel"):
    """One analytics event."""

    flag_key: str
    variation_key: str
    reason: str
    latency_ms: float
    timestamp: int


def read_evaluate(body: bytes) -> tuple[str, Context]:
    """The flag key and the context of ``POST /v1/evaluate``. Raises `BadRequestError`."""
    data = read_object(body)
    key = data.get("flagKey")
    if "flagKey" not in data:
        _refuse('"flagKey" is missing')
    if not isinstance(key, str):
        _refuse(f'"flagKey" must be a string, got {kind_of(key)}')
    return key, _context(data)


def read_batch(body: bytes) -> Context:
    """The context of ``POST /v1/evaluate/batch``. Raises `BadRequestError`."""
    return _context(read_object(body))


def read_events(body: bytes) -> list[Event]:
    """The events of ``POST /v1/analytics/events``: all of them or none.

    Raises `BadRequestError`.
    """
    data = read_object(body)
    events = data.get("events")
    if "events" not in data:
        _refuse('"events" is missing')
    if not isinstance(events, list):
        _refuse(f'"events" must be an array, got {kind_of(events)}')
    if len(events) > MAX_EVENTS:
        _refuse(f"at most {MAX_EVENTS} events in one request, got {len(events)}; none was taken")
    return [_event(event, number) for number, event in enumerate(events)]


def read_object(body: bytes) -> dict[str, Any]:
    """The JSON object in ``body``. Raises `BadRequestError`."""
    try:
        data = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError, UnicodeError) as error:
        _refuse(f"the body is not JSON: {error}")
    if not isinstance(data, dict):
        _refuse(f"the body must be a JSON object, got {kind_of(data)}")
    return data


def _context(data: dict[str, Any]) -> Context:
    context = data.get("context")
    if "context" not in data:
        _refuse('"context" is missing: send {} when nothing is known')
    if not isinstance(context, dict):
        _refuse(f'"context" must be an object, got {kind_of(context)}')
    for name, value in context.items():
        kind = kind_of(value)
        if kind == "null":
            _refuse(f"context attribute {quoted(name)} is null: leave an absent value out")
        if kind in ("object", "array"):
            _refuse(
                f"context attribute {quoted(name)} must be a string, a number or a boolean, "
                f"got {kind}: a context is flat"
            )
    return context


def _event(event: Any, number: int) -> Event:
    where = f"events[{number}]"
    if not isinstance(event, dict):
        _refuse(f"{where} must be an object, got {kind_of(event)}")
    for name, wanted in (
        ("flagKey", "string"),
        ("variationKey", "string"),
        ("reason", "string"),
        ("latencyMs", "number"),
        ("timestamp", "number"),
    ):
        if name not in event:
            _refuse(f'{where}: "{name}" is missing')
        if kind_of(event[name]) != wanted:
            _refuse(f'{where}: "{name}" must be a {wanted}, got {kind_of(event[name])}')
    if len(event["variationKey"]) > MAX_VARIATION_KEY:
        _refuse(f'{where}: "variationKey" has more than {MAX_VARIATION_KEY} characters')
    if event["reason"] not in REASONS:
        _refuse(f'{where}: "reason" must be one of {", ".join(REASONS)}')
    if event["latencyMs"] < 0 or not math.isfinite(event["latencyMs"]):
        _refuse(f'{where}: "latencyMs" must not be negative')
    if not isinstance(event["timestamp"], int) or event["timestamp"] < 0:
        _refuse(f'{where}: "timestamp" must be Unix time in whole seconds')
    return Event(
        event["flagKey"],
        event["variationKey"],
        event["reason"],
        event["latencyMs"],
        event["timestamp"],
    )


def _refuse(problem: str) -> Never:
    raise BadRequestError(problem)
