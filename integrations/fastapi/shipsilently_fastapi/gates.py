"""Gates: dependencies that refuse a request or a socket while a flag is off."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from http import HTTPStatus
from typing import Annotated, Any, TypedDict

import msgspec
from fastapi import Depends, HTTPException, WebSocketException, params
from starlette.requests import HTTPConnection
from starlette.websockets import WebSocketState

from shipsilently_core import Flags

__all__ = ["Gate", "GateArguments"]

#: A socket is closed with this: what was asked for is against the rules (RFC 6455, 7.4.1).
_POLICY_VIOLATION = 1008


class GateArguments(TypedDict):
    """Arguments of a FastAPI route, router or app."""

    dependencies: list[params.Depends]
    responses: dict[int | str, dict[str, Any]]


class Gate:
    """Lets a request or a socket through while its flags hold. Made by `requires_flag`.

    Attributes:
        keys: The flags; with ``!`` before it, one that must not hold.
        value: What each flag must be.
        status: The HTTP status of the refusal.
        detail: The refusal's text.
    """

    def __init__(
        self,
        flags: Callable[..., Any],
        keys: tuple[str, ...],
        value: Any,
        status: int,
        detail: str | None,
    ) -> None:
        if not keys or not all(key.strip("!") for key in keys):
            raise ValueError("a gate needs the key of at least one flag")
        if not 400 <= status <= 599:
            raise ValueError(f"a refusal needs the status of an error, not {status}")
        self.keys = keys
        self.value = value
        self.status = status
        self.detail: str = _phrase(status) if detail is None else detail
        # FastAPI reads from the signature what to call first.
        self.__signature__: inspect.Signature = inspect.Signature(
            [
                inspect.Parameter(
                    "connection", inspect.Parameter.KEYWORD_ONLY, annotation=HTTPConnection
                ),
                inspect.Parameter(
                    "flags",
                    inspect.Parameter.KEYWORD_ONLY,
                    annotation=Annotated[Any, Depends(flags)],
                ),
            ]
        )

    def __repr__(self) -> str:
        return f"<Gate {' '.join(self.keys)}>"

    async def __call__(self, connection: HTTPConnection, flags: Flags) -> None:
        """For ``Depends``: refuses unless the flags hold."""
        if not self.opens(flags):
            raise self._refusal(connection)

    def opens(self, flags: Flags) -> bool:
        """Whether all its flags hold."""
        return all(holds(flags, key, self.value) for key in self.keys)

    def _refusal(self, connection: HTTPConnection) -> Exception:
        scope = connection.scope
        if scope["type"] == "websocket":
            state = getattr(connection, "application_state", WebSocketState.CONNECTING)
            answerable = "websocket.http.response" in (scope.get("extensions") or {})
            if state is not WebSocketState.CONNECTING or not answerable:
                return WebSocketException(_POLICY_VIOLATION, self.detail)
        return HTTPException(self.status, self.detail)


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        # One that nobody has registered, such as 499.
        return "Refused"


def holds(flags: Flags, key: str, value: Any = True) -> bool:
    """Whether a flag is `value`; with ``!`` before its key, whether it is not.

    With its JSON type: ``1`` is not ``True``.
    """
    if key.startswith("!"):
        return not holds(flags, key[1:], value)
    if value is True:
        return flags.is_enabled(key)
    # Without a default of the value's type: a flag of another type is only not it.
    found = flags.detail(key).value
    return bool(found == value) and isinstance(found, bool) is isinstance(value, bool)


def cached_gate(
    flags: Callable[..., Any],
    made: dict[object, Gate],
    keys: tuple[str, ...],
    value: Any,
    status: int,
    detail: str | None,
) -> Gate:
    """The one gate of these arguments."""
    # As JSON, in which 1 and True differ, and objects can be told apart.
    key = (keys, msgspec.json.encode(value, order="deterministic"), status, detail)
    found = made.get(key)
    if found is None:
        found = made.setdefault(key, Gate(flags, keys, value, status, detail))
    return found


def gate_arguments(gate: Gate) -> GateArguments:
    """What a route needs to have this gate and to say so in OpenAPI."""
    schema = {
        "type": "object",
        "title": "Refusal",
        "properties": {"detail": {"type": "string", "title": "Detail"}},
        "required": ["detail"],
    }
    response = {
        "description": gate.detail,
        "content": {"application/json": {"schema": schema}},
    }
    return {"dependencies": [Depends(gate)], "responses": {gate.status: response}}
