"""What is said to the service and what it answers, as values; nothing here does I/O."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Any

from msgspec import MsgspecError, Raw, Struct
from msgspec.json import Decoder, Encoder

from ._kinds import plain
from ._snapshot import Row
from .context import Context
from .values import Failure

__all__ = [
    "BATCH",
    "EVALUATE",
    "EVENTS",
    "STREAM",
    "TICKET",
    "UNREADABLE",
    "Reply",
    "Request",
    "batch_request",
    "evaluate_request",
    "failure_of",
    "parse_batch",
    "parse_row",
    "raw_rows",
    "read_row",
    "retry_after",
    "ticket_request",
    "without_mark",
]

EVALUATE = "/v1/evaluate"
BATCH = "/v1/evaluate/batch"
TICKET = "/v1/stream/ticket"
STREAM = "/v1/stream"
EVENTS = "/v1/analytics/events"

#: Longest time in seconds that a ``Retry-After`` is obeyed for.
RETRY_AFTER_CAP = 3600.0
_SECONDS = re.compile(r"\d+(?:\.\d+)?", re.ASCII)
_BOM = b"\xef\xbb\xbf"
#: Levels; a value nested deeper is no configuration, and to copy it could exhaust the stack.
_DEEPEST = 100

_encode = Encoder(enc_hook=plain).encode


class Request(Struct, frozen=True):
    """One call.

    Attributes:
        path: Below the service's address.
        body: JSON.
        timeout: Seconds; its own deadline where it is not the configured one.
    """

    path: str
    body: bytes
    timeout: float | None = None

    def __repr__(self) -> str:
        # The body holds people's data, and error trackers show local variables.
        return f"<Request {self.path} of {len(self.body)} bytes>"


class Reply(Struct, frozen=True):
    """How a call ended: an answer, or the class of failure that took its place.

    Attributes:
        status: The HTTP status; ``None`` without an answer.
        body: The answer, decompressed.
        headers: Those that matter, with names in lower case: ``content-type``, ``date``
            and ``retry-after``.
        failure: Set where there is no complete answer.
        connected: Whether the service could be reached at all.
        cause: The name of what went wrong below, for the log; never its text, which may
            hold secrets.
    """

    status: int | None = None
    body: bytes = b""
    headers: Mapping[str, str] = {}
    failure: Failure | None = None
    connected: bool = True
    cause: str = ""

    def __repr__(self) -> str:
        what = self.status if self.failure is None else f"{self.failure} {self.cause}".rstrip()
        return f"<Reply {what} of {len(self.body)} bytes>"


class _Batch(Struct):
    flags: dict[str, Row]


class _LooseBatch(Struct):
    flags: dict[str, Raw]


_batch = Decoder(_Batch)
_loose_batch = Decoder(_LooseBatch)
_row = Decoder(Row)
#: All that a decoder raises over bytes from outside. The recursion limit is met by deep nesting;
#: over what is not UTF-8 msgspec before 0.23 lets Python's own error out.
UNREADABLE = (MsgspecError, RecursionError, UnicodeDecodeError)


def evaluate_request(flag_key: object, context: Context) -> Request | None:
    """The call for one flag; ``None`` for a key that is no string, or has no form in UTF-8."""
    if not isinstance(flag_key, str):
        return None
    try:
        key = _encode(flag_key)
    except UnicodeEncodeError:
        return None
    return Request(EVALUATE, b'{"flagKey":' + key + b',"context":' + context.body + b"}")


def batch_request(context: Context) -> Request:
    """The call for every flag of the environment."""
    return Request(BATCH, b'{"context":' + context.body + b"}")


def ticket_request() -> Request:
    """The call for a ticket that opens the stream once."""
    return Request(TICKET, b"")


def failure_of(reply: Reply) -> Failure | None:
    """The class of failure of an answer, by its status alone; ``None`` for a 200."""
    status = reply.status
    if status is None:
        return reply.failure or Failure.NETWORK
    if reply.failure is not None:
        return reply.failure
    if status == 200:
        return None
    if status in (401, 403):
        return Failure.AUTH
    if status == 429:
        return Failure.THROTTLED
    return Failure.SERVER if status >= 500 else Failure.PROTOCOL


def without_mark(body: bytes) -> bytes:
    """An answer without the byte order mark that some put before JSON."""
    return body.removeprefix(_BOM)


def parse_row(body: bytes, flag_key: str) -> Row | None:
    """One flag's answer; ``None`` where it is not the promised JSON, or is another flag's."""
    return read_row(without_mark(body), flag_key)


def read_row(raw: bytes, key: str) -> Row | None:
    """One row; ``None`` where the bytes are no row, or are another flag's."""
    try:
        row = _row.decode(raw)
    except UNREADABLE:
        return None
    return row if _is_sound(row, key) else None


def parse_batch(body: bytes) -> tuple[dict[str, Row], list[str]] | None:
    """A batch's rows and the keys of malformed ones; ``None`` where it is not the promised JSON."""
    try:
        rows = _batch.decode(without_mark(body)).flags
    except UNREADABLE:
        return _parse_row_by_row(body)
    # As `_is_sound`, without a call for each of the many rows that are.
    malformed = [
        key
        for key, row in rows.items()
        if ((own := row.flagKey) is not None and own != key)
        or (type(row.value) in (dict, list) and _deeper(row.value, _DEEPEST))
    ]
    for key in malformed:
        del rows[key]
    return rows, malformed


def _is_sound(row: Row, key: str) -> bool:
    return (row.flagKey is None or row.flagKey == key) and not _deeper(row.value, _DEEPEST)


def _deeper(value: Any, levels: int) -> bool:
    if type(value) is dict:
        value = value.values()
    elif type(value) is not list:
        return False
    return levels == 0 or any(_deeper(inner, levels - 1) for inner in value)


def _parse_row_by_row(body: bytes) -> tuple[dict[str, Row], list[str]] | None:
    raws = raw_rows(body)
    if raws is None:
        return None
    rows: dict[str, Row] = {}
    malformed: list[str] = []
    for key, raw in raws.items():
        row = read_row(raw, key)
        if row is None:
            malformed.append(key)
        else:
            rows[key] = row
    return rows, malformed


def raw_rows(body: bytes) -> dict[str, bytes] | None:
    """The bytes of each of a batch's rows, which are JSON but need not be a row.

    Returns:
        ``None`` where it is not the promised JSON.
    """
    body = without_mark(body)
    try:
        # A `Raw` itself would keep the whole answer in memory.
        return {key: bytes(raw) for key, raw in _loose_batch.decode(body).flags.items()}
    except UNREADABLE:
        return _rows_beside_half_a_pair(body)


def _rows_beside_half_a_pair(body: bytes) -> dict[str, bytes] | None:
    """The rows of an answer in which a string holds half of a surrogate pair, as an escape.

    It costs the flag whose row it is in: services that cut texts by UTF-16 units send such, and
    msgspec refuses the whole document for it.
    """
    try:
        document = json.loads(body.decode(), parse_constant=_refuse_constant)
        flags = document["flags"]
        return {key: json.dumps(row).encode() for key, row in flags.items() if _encodable(key)}
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None


def _refuse_constant(name: str) -> Any:
    raise ValueError(name)


def _encodable(key: str) -> bool:
    # A key with half of a pair can be asked for by nobody.
    try:
        key.encode()
    except UnicodeEncodeError:
        return False
    return True


def retry_after(reply: Reply, *, now: float, base: float) -> float | None:
    """Seconds to leave the service alone, or ``None`` where it asked for nothing.

    A 429 always asks; a 503 does with a ``Retry-After`` header. That is a number
    of seconds or an HTTP date, reckoned from the answer's own ``Date`` where it
    has one, so that a wrong clock on either side does no harm. Anything else, and
    a date that has passed, counts as `base`. Never more than an hour.

    Args:
        reply: The answer.
        now: Unix time here, used where the answer is not dated.
        base: Seconds; the base of the backoff.
    """
    text = reply.headers.get("retry-after")
    if reply.status != 429 and not (reply.status == 503 and text is not None):
        return None
    text = (text or "").strip()
    if _SECONDS.fullmatch(text):
        return min(float(text), RETRY_AFTER_CAP)
    until = _unix_time(text)
    if until is None:
        return base
    dated = _unix_time(reply.headers.get("date", ""))
    left = until - (now if dated is None else dated)
    return base if left <= 0 else min(left, RETRY_AFTER_CAP)


def _unix_time(text: str) -> float | None:
    try:
        moment = parsedate_to_datetime(text)
        seconds = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (TypeError, ValueError, OverflowError, IndexError):
        return None
    return seconds if math.isfinite(seconds) else None
