"""What the flags of a request have cost, for browsers' developer tools."""

from __future__ import annotations

from collections.abc import Awaitable
from time import perf_counter
from typing import TYPE_CHECKING

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from shipsilently_core import Context
from shipsilently_core._seen import NOTHING, Seen

from .connection import SCOPE_KEY, RequestFlags

if TYPE_CHECKING:
    from shipsilently_core._view import View

__all__ = ["TimedFlags", "timed"]


class TimedFlags(RequestFlags, eq=False, kw_only=True, weakref=True):
    """Flags that know how long their evaluation took; all others save the time to look."""

    @property
    def took(self) -> float | None:
        """Seconds that the latest evaluation has taken, finding out whom for included.

        ``None`` before the first.
        """
        return self._took

    def begin(self) -> Awaitable[object] | None:
        """See `RequestFlags.begin`."""
        before, began = self._short, perf_counter()
        rest = super().begin()
        if rest is not None:
            return self._rest(rest, began)
        if self._short is not before:
            self._took = perf_counter() - began
        return None

    async def _rest(self, rest: Awaitable[object], began: float) -> None:
        try:
            await rest
        finally:
            self._took = perf_counter() - began

    def _seen(self) -> Seen:
        if self._short is not NOTHING:
            return super()._seen()
        began = perf_counter()
        try:
            return super()._seen()
        finally:
            self._took = perf_counter() - began

    def _ask(self, *, anew: bool) -> tuple[Context, View, bool]:
        began = perf_counter()
        try:
            return super()._ask(anew=anew)
        finally:
            self._took = perf_counter() - began

    async def _aask(self, *, anew: bool) -> tuple[Context, View]:
        began = perf_counter()
        try:
            return await super()._aask(anew=anew)
        finally:
            self._took = perf_counter() - began


def timed(app: ASGIApp) -> ASGIApp:
    """The app, which tells browsers in each response what the flags have cost."""

    async def call(scope: Scope, receive: Receive, send: Send) -> None:
        await app(scope, receive, _telling(scope, send) if scope["type"] == "http" else send)

    return call


def _telling(scope: Scope, send: Send) -> Send:
    async def sent(message: Message) -> None:
        if message["type"] == "http.response.start":
            took = scope[SCOPE_KEY].took
            if took is not None:
                entry = b"server-timing", b"flags;dur=%.1f" % (took * 1_000)
                headers = list(message.get("headers", ()))
                # A mounted app may have told it already.
                if entry not in headers:
                    message = {**message, "headers": [*headers, entry]}
        await send(message)

    return sent
