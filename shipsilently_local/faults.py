"""Faults on demand: what is to go wrong, where, and how often."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Mapping
from typing import Any, Never

import msgspec

from .document import kind_of
from .errors import FaultError, did_you_mean, quoted

__all__ = ["ENDPOINTS", "Fault", "FaultTable", "read_fault"]

#: The endpoints of the protocol by the names that faults and counters use.
ENDPOINTS = {
    "/v1/evaluate": "evaluate",
    "/v1/evaluate/batch": "batch",
    "/v1/stream/ticket": "ticket",
    "/v1/stream": "stream",
    "/v1/analytics/events": "analytics",
}

_NAMES = (*ENDPOINTS.values(), "*")
_ENDS = ("status", "drop", "garbage", "silence")
_MAX_SECONDS = 3_600.0
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+\Z")
_HEADER_VALUE = re.compile(r"[\t -~]*\Z")


class Fault(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One thing that goes wrong.

    ``delay`` (seconds) comes first, then at most one end: an answer of its own
    (``status`` with ``headers`` and ``body``), ``drop`` (the connection is
    closed), ``garbage`` (200 with an HTML page) or ``silence`` (never an
    answer); without an end the normal answer follows. ``drip`` sends an answer's
    body one byte per so many seconds, and with ``drip_headers`` its head too.
    ``times`` is the number of calls it applies to, None until it is cleared.
    ``live``: ``drop`` and ``silence`` apply to the open streams as well.
    """

    endpoint: str
    status: int | None = None
    headers: dict[str, str] = {}
    body: Any = None
    delay: float | None = None
    drop: bool = False
    garbage: bool = False
    silence: bool = False
    drip: float | None = None
    drip_headers: bool = False
    times: int | None = None
    live: bool = False


def read_fault(data: Mapping[str, Any]) -> Fault:
    """The fault that ``data`` describes. Raises `FaultError` with a plain reason."""
    known = [field.name for field in msgspec.structs.fields(Fault)]
    for name in data:
        if name not in known:
            hint = did_you_mean(name, known) or f"; known: {', '.join(known)}"
            _refuse(f"there is no field {quoted(name)}{hint}")
    endpoint = data.get("endpoint")
    if endpoint not in _NAMES:
        hint = did_you_mean(endpoint, _NAMES) if isinstance(endpoint, str) else ""
        _refuse(f'"endpoint" must be one of {", ".join(_NAMES)}{hint}')
    for name in ("drop", "garbage", "silence", "drip_headers", "live"):
        if not isinstance(data.get(name, False), bool):
            _refuse(f'"{name}" must be true or false')
    _whole(data, "status", 200, 599)
    _whole(data, "times", 0, 1_000_000)
    _seconds(data, "delay")
    _seconds(data, "drip")
    _headers(data.get("headers", {}))
    fault = Fault(**{name: value for name, value in data.items() if value is not None})
    _combination(fault)
    return fault


def _combination(fault: Fault) -> None:
    ends = [name for name in _ENDS if getattr(fault, name)]
    if len(ends) > 1:
        _refuse(f"only one of {', '.join(_ENDS)} can happen, got {' and '.join(ends)}")
    if not ends and fault.delay is None and fault.drip is None:
        _refuse(f"nothing would go wrong: give one of delay, drip, {', '.join(_ENDS)}")
    if fault.status is None and (fault.headers or fault.body is not None):
        _refuse('"headers" and "body" belong to an answer: give "status" too')
    if fault.drip is not None and (fault.drop or fault.silence):
        _refuse('"drip" needs an answer to send: it does not go with drop or silence')
    if fault.drip_headers and fault.drip is None:
        _refuse('"drip_headers" belongs to "drip": give the seconds per byte')
    if fault.live and (fault.endpoint not in ("stream", "*") or not (fault.drop or fault.silence)):
        _refuse('"live" is for open streams: endpoint "stream" (or "*") with drop or silence')
    if fault.times == 0 and not fault.live:
        _refuse('"times" must be 1 or more; 0 makes sense only with "live"')


def _whole(data: Mapping[str, Any], name: str, least: int, most: int) -> None:
    value = data.get(name)
    if value is None:
        return
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        _refuse(f'"{name}" must be a whole number from {least} to {most:,}')


def _seconds(data: Mapping[str, Any], name: str) -> None:
    value = data.get(name)
    if value is None:
        return
    if kind_of(value) != "number" or not math.isfinite(value) or not 0 <= value <= _MAX_SECONDS:
        _refuse(f'"{name}" must be a number of seconds from 0 to {_MAX_SECONDS:,.0f}')


def _headers(headers: object) -> None:
    if not isinstance(headers, dict):
        _refuse(f'"headers" must be an object of strings, got {kind_of(headers)}')
    for name, value in headers.items():
        if not isinstance(name, str) or not _HEADER_NAME.match(name):
            _refuse('"headers" holds a name that HTTP does not allow')
        if name.lower() in ("content-length", "transfer-encoding", "connection"):
            _refuse(f'"headers": {quoted(name)} is set by the service itself')
        if not isinstance(value, str) or not _HEADER_VALUE.match(value):
            _refuse(f'"headers": {quoted(name)} must be a string of printable ASCII')


def _refuse(problem: str) -> Never:
    raise FaultError(problem)


class FaultTable:
    """The faults in force, oldest first; the first that fits a call applies to it."""

    def __init__(self) -> None:
        self._ids = itertools.count(1)
        self._faults: dict[str, Fault] = {}
        self._left: dict[str, int | None] = {}

    def __iter__(self) -> Iterator[tuple[str, Fault, int | None]]:
        """Each fault's id, itself, and for how many calls more (None: until cleared)."""
        for fault_id, fault in self._faults.items():
            yield fault_id, fault, self._left[fault_id]

    def add(self, fault: Fault) -> str:
        """Put ``fault`` in force; returns its id."""
        fault_id = f"fault-{next(self._ids)}"
        self._faults[fault_id] = fault
        self._left[fault_id] = fault.times
        self._drop_used(fault_id)
        return fault_id

    def take(self, endpoint: str) -> Fault | None:
        """The fault for one call to ``endpoint``, which uses it up by one."""
        for fault_id, fault, left in self:
            if left != 0 and fault.endpoint in (endpoint, "*"):
                if left is not None:
                    self._left[fault_id] = left - 1
                    self._drop_used(fault_id)
                return fault
        return None

    def remove(self, fault_id: str) -> bool:
        """Clear one; False when there is no such fault (any more)."""
        self._left.pop(fault_id, None)
        return self._faults.pop(fault_id, None) is not None

    def clear(self) -> int:
        """Clear all; returns how many there were."""
        count = len(self._faults)
        self._faults.clear()
        self._left.clear()
        return count

    def _drop_used(self, fault_id: str) -> None:
        """Forget a used-up fault, unless it still keeps open streams silent."""
        fault = self._faults[fault_id]
        if self._left[fault_id] == 0 and not (fault.live and fault.silence):
            self.remove(fault_id)

    @property
    def mutes_streams(self) -> bool:
        """Whether a fault in force keeps the open streams silent."""
        return any(fault.live and fault.silence for fault in self._faults.values())
