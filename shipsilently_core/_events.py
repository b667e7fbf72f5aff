"""Flag checks as the service wants to be told of them; nothing here does I/O."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec import MsgspecError, Struct
from msgspec.json import Decoder, Encoder

from ._kinds import as_key, plain
from ._snapshot import Row
from ._wire import UNREADABLE, Reply, failure_of

__all__ = ["Check", "accepted_of", "events_body", "variation_key"]

#: Characters; the protocol's bound.
_LONGEST_VARIATION = 200
#: From here on the other SDKs write whole numbers with an exponent.
_LONGEST_WHOLE = 1e21

_encode = Encoder(enc_hook=plain).encode


#: One check of a flag: its key, what was served, when (Unix time in seconds), and how many
#: milliseconds that took. Nothing is made as fast as a tuple, and all but the time is there anyway.
Check = tuple[str, Row, float, float]


class _Event(Struct, rename="camel", gc=False):
    flag_key: str
    variation_key: str
    reason: str
    latency_ms: float
    timestamp: int


class _Accepted(Struct):
    accepted: int


_accepted = Decoder(_Accepted)


def events_body(checks: Iterable[Check]) -> bytes:
    """The body of a request that tells of these checks."""
    return _encode({"events": [_event(*check) for check in checks]})


def _event(flag_key: str, row: Row, moment: float, latency_ms: float) -> _Event:
    return _Event(
        _sendable(flag_key),
        variation_key(row.value),
        row.reason,
        # Most come from memory, and rounding is the dearest step of all.
        round(latency_ms, 3) if latency_ms else 0.0,
        int(moment),
    )


def _sendable(flag_key: object) -> str:
    """The key, or what can be sent in its place: one check must not spoil all the others."""
    if type(flag_key) is str and flag_key.isascii():
        return flag_key
    return as_key(flag_key).encode("utf-8", "replace").decode("utf-8")


def variation_key(value: Any) -> str:
    """The value as compact JSON, cut to 200 characters: 197 and an ellipsis."""
    if value is True or value is False:
        # As nearly every flag.
        return "true" if value else "false"
    if type(value) is float and value.is_integer() and abs(value) < _LONGEST_WHOLE:
        # As the other SDKs write it: JSON has one type of number, and those have no fraction.
        value = int(value)
    try:
        text = _encode(value).decode("utf-8")
    except (MsgspecError, TypeError, ValueError, OverflowError, RecursionError):
        # A default of the caller's own that JSON has no form for.
        text = type(value).__name__
    return text if len(text) <= _LONGEST_VARIATION else f"{text[: _LONGEST_VARIATION - 3]}…"


def accepted_of(reply: Reply) -> int | None:
    """How many events the service says it took; ``None`` where it does not say so."""
    if failure_of(reply) is not None:
        return None
    try:
        return _accepted.decode(reply.body.removeprefix(b"\xef\xbb\xbf")).accepted
    except UNREADABLE:
        return None
