"""Whom a flag is evaluated for: a caller's context, in the form the service takes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import date, time
from decimal import Decimal
from enum import Enum
from hashlib import sha256
from typing import Any
from uuid import UUID

from msgspec.json import Encoder, decode

from ._kinds import is_lazy_string

__all__ = ["Context"]

_encode = Encoder(order="deterministic").encode
_SIMPLE = frozenset((str, bool, int))
_NOTHING = object()
#: Bytes. Attributes may be what a browser says of itself, or what somebody searches for.
_LONGEST_KEY = 1_024
#: How the name begins, in `Context.dropped`, of what is no mapping at all; its type follows.
THE_WHOLE = "the whole context, a "


class Context:
    """A flat set of attributes: strings, numbers and booleans.

    ``userId``, ``email``, ``country`` and ``plan`` are the well-known ones; any
    other name is allowed. Give a mapping as the service spells it, or keywords as
    Python does (``user_id`` is sent as ``userId``), or both::

        Context({"userId": "u1", "plan": "pro"})
        Context(user_id="u1", plan="pro")

    UUIDs, decimals, dates, enums and lazy strings are sent in their plain form.
    ``None`` is left out. What the service has no form for (NaN, containers, other
    objects) is left out too and its name kept in `dropped`: nothing raises here,
    since a context is usually made on a request.

    Attributes:
        body: The attributes as JSON with sorted names. Equal contexts have equal bodies.
        dropped: The names of the attributes that could not be sent.
    """

    __slots__ = ("body", "dropped")

    body: bytes
    dropped: tuple[str, ...]

    def __init__(
        self, attributes: Context | Mapping[str, Any] | None = None, /, **named: Any
    ) -> None:
        if type(attributes) is dict and not named:
            body = _at_once(attributes)
            if body is not None:
                self.body, self.dropped = body, ()
                return
        given, lost = _attributes(attributes)
        self.body, dropped = _to_wire(given | named)
        self.dropped = lost + dropped

    @classmethod
    def of(cls, given: Context | Mapping[str, Any] | None) -> Context:
        """The context that a caller meant, whichever way it was given."""
        if type(given) is dict:
            return cls(given) if given else _EMPTY
        if given is None:
            return _EMPTY
        return given if isinstance(given, Context) else cls(given)

    @property
    def key(self) -> bytes:
        """What is known of it is held under this: the body, or of a long one its SHA-256.

        So what is remembered takes no more memory, however long attributes are.
        """
        body = self.body
        if len(body) <= _LONGEST_KEY:
            return body
        # No body begins like this.
        return b"sha256:" + sha256(body).digest()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Context) and self.body == other.body

    def __hash__(self) -> int:
        return hash(self.body)

    def __repr__(self) -> str:
        # Attribute values are people's data: they do not belong in a log or a traceback.
        return f"<Context of {len(self.body)} bytes>"


def _attributes(given: Any) -> tuple[dict[Any, Any], tuple[str, ...]]:
    """What was given, as a dictionary, and what could not be taken of it."""
    if given is None:
        return {}, ()
    if isinstance(given, Context):
        return decode(given.body), given.dropped
    if isinstance(given, Mapping):
        try:
            return dict(given), ()
        except Exception:
            # Somebody's own mapping raised: the context is lost, the request not.
            return {}, (f"{THE_WHOLE}{type(given).__name__}",)
    return {}, (f"{THE_WHOLE}{type(given).__name__}",)


def _at_once(given: dict[Any, Any]) -> bytes | None:
    """The wire form of attributes of which none needs another; ``None`` where one may."""
    for name, value in given.items():
        if type(name) is not str or type(value) not in _SIMPLE or name == "user_id":
            return None
    try:
        return _encode(given)
    except (UnicodeEncodeError, OverflowError):
        return None


def _to_wire(given: dict[Any, Any]) -> tuple[bytes, tuple[str, ...]]:
    plain: dict[str, Any] = {}
    dropped: list[str] = []
    for name, value in given.items():
        kept = value if type(value) in _SIMPLE else _plain(value)
        if kept is None:
            continue
        if kept is _NOTHING or not isinstance(name, str):
            dropped.append(str(name) if isinstance(name, str) else type(name).__name__)
        else:
            plain[name] = kept
    try:
        return _encode(_as_spelt_there(plain)), tuple(dropped)
    except (UnicodeEncodeError, OverflowError):
        return _without_unsendable(plain, dropped)


def _without_unsendable(plain: dict[str, Any], dropped: list[str]) -> tuple[bytes, tuple[str, ...]]:
    """Leave out the attributes that UTF-8 or JSON has no form for, one by one."""
    kept = {}
    for name, value in plain.items():
        try:
            _encode({name: value})
        except (UnicodeEncodeError, OverflowError):
            dropped.append(name.encode("ascii", "backslashreplace").decode("ascii"))
        else:
            kept[name] = value
    return _encode(_as_spelt_there(kept)), tuple(dropped)


def _as_spelt_there(plain: dict[str, Any]) -> dict[str, Any]:
    """With the service's `userId` for Python's `user_id`, unless both are there."""
    if "user_id" in plain and "userId" not in plain:
        return {"userId" if name == "user_id" else name: plain[name] for name in plain}
    return plain


def _plain(value: Any) -> Any:
    """The plain form of `value`; ``None`` to leave it out, `_NOTHING` where it has no form."""
    try:
        return _plain_or_raise(value)
    except Exception:
        # Somebody's __str__, __float__ or property raised: the attribute is lost, the request not.
        return _NOTHING


def _plain_or_raise(value: Any) -> Any:
    if value is None:
        return None
    if isinstance(value, Enum):
        inner = value.value
        return inner if type(inner) in _SIMPLE else _plain_or_raise(inner)
    if isinstance(value, str):
        # Of a subclass, or a proxy: what it gives may be of the subclass again.
        return str.__str__(str(value))
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else _NOTHING
    if isinstance(value, Decimal):
        return _plain_decimal(value)
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, (date, time)):
        return value.isoformat()
    if is_lazy_string(value):
        # What that gives may be a kind of string of the framework's own.
        return str.__str__(str(value))
    return _NOTHING


def _plain_decimal(value: Decimal) -> Any:
    if not value.is_finite():
        return _NOTHING
    number = float(value)
    if value == value.to_integral_value() and abs(number) < 2**63:
        return int(value)
    return number if math.isfinite(number) else _NOTHING


_EMPTY = Context()
