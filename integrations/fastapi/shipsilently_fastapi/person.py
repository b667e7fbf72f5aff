"""Whoever is at the other end of a connection, found out when the first flag is needed."""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Awaitable
from time import perf_counter
from typing import TYPE_CHECKING, Any

import anyio.from_thread
from starlette.requests import HTTPConnection
from starlette.types import Scope

from shipsilently_core import Context, Failure, ShipSilentlyClient

if TYPE_CHECKING:
    from shipsilently_core._evaluation import Evaluator
    from shipsilently_core._view import View

    from .extension import ShipSilently

__all__ = ["UNKNOWN", "Person"]

#: Stands in while nobody knows whom to evaluate for. Never asked for, so never cached.
UNKNOWN = Context({"shipsilently": "context not known"})


class Person:
    """Whoever is at the other end of a connection, for the core to evaluate for.

    Attributes:
        shipsilently: The client and the context function.
        connection: The request or socket, or only its scope, from which it is made when it is
            needed; ``None`` for a request whose context is known.
        context: Whom for, once that is known.
        took: Seconds that the latest evaluation has taken, finding out whom for included.
    """

    __slots__ = ("_client", "_fixed", "connection", "context", "shipsilently", "took")

    def __init__(
        self,
        shipsilently: ShipSilently,
        connection: HTTPConnection | Scope | None,
        context: Context | None,
        client: ShipSilentlyClient | None,
    ) -> None:
        self.shipsilently = shipsilently
        self.connection: HTTPConnection | Scope | None = connection
        self.context = context
        self._fixed = context is not None
        self._client = client
        self.took: float | None = None

    @property
    def client(self) -> ShipSilentlyClient:
        """The client as of the first use, to the end of this request."""
        if self._client is None:
            self.shipsilently.tell_if_lazy()
            self._client = self.shipsilently.client
        return self._client

    @property
    def evaluator(self) -> Evaluator:
        """The client's."""
        return self.client.evaluator

    def fix(self, context: Context) -> None:
        """It is known from elsewhere."""
        self._fixed = True
        self._know(context)

    def forget(self) -> None:
        """A socket may have become another person's."""
        if not self._fixed and self.connection is not None:
            self.context = None

    def resolve(self, context: Context, *, may_block: bool) -> tuple[View, bool]:
        """See `ShipSilentlyClient.resolve`."""
        began = perf_counter()
        try:
            return self._resolve(may_block)
        finally:
            self.took = perf_counter() - began

    def _resolve(self, may_block: bool) -> tuple[View, bool]:
        known = self.known()
        if known is UNKNOWN:
            return self._unknown(), True
        if known is None:
            self.evaluator.notices.warn(
                "unawaited",
                "a flag was read before the context function could be awaited: what everybody "
                "gets was served; write `await flags.aload()` first",
            )
            return self._unknown(), False
        return self.client.resolve(known, may_block=may_block)

    async def aresolve(self, context: Context) -> View:
        """See `ShipSilentlyClient.aresolve`."""
        began = perf_counter()
        try:
            return await self._aresolve()
        finally:
            self.took = perf_counter() - began

    async def _aresolve(self) -> View:
        person = self.context
        if person is None:
            person = await self.find()
        if person is UNKNOWN:
            return self._unknown()
        return await self.client.aresolve(person)

    async def find(self) -> Context:
        """Whom for, found out in a task."""
        given = self._call() if self.context is None else self.context
        if inspect.isawaitable(given):
            given = await self._settled(given)
        return self._know(given)

    def known(self) -> Context | None:
        """Whom for; ``None`` where it has to be awaited and cannot be here."""
        if self.context is None:
            given = self._call()
            if inspect.isawaitable(given):
                try:
                    # In a thread of a plain endpoint, the event loop can be asked to.
                    given = anyio.from_thread.run(self._settled, given)
                except RuntimeError:
                    if inspect.iscoroutine(given):
                        given.close()
                    return None
            self._know(given)
        return self.context

    def _know(self, given: Any) -> Context:
        # Another task of this request may have been faster: the first one's is everybody's.
        if self.context is None:
            self.context = self.evaluator.context(given)
            connection = self.connection
            # Both are mappings with the scope's keys.
            if connection is not None and connection["type"] == "http":
                # The connection knows these flags: together they would be garbage to collect.
                self.connection = None
        return self.context

    def _unknown(self) -> View:
        # The client's words for what has not been evaluated.
        return self.evaluator.known(UNKNOWN, Failure.TIMEOUT)

    def _call(self) -> Any:
        function = self.shipsilently.context
        if function is None:
            return None
        connection = self.connection
        if connection is not None and not isinstance(connection, HTTPConnection):
            connection = self.connection = HTTPConnection(connection)
        try:
            return function(connection)
        except Exception as error:
            return self._failed(error)

    async def _settled(self, given: Awaitable[Any]) -> Any:
        try:
            return await given
        except Exception as error:
            return self._failed(error)

    def _failed(self, error: Exception) -> Context:
        # Where, and not what: the message may hold people's data.
        place = traceback.extract_tb(error.__traceback__)[-1]
        self.evaluator.notices.warn(
            "context function",
            "the context function raised %s (%s, line %s); what everybody gets is served",
            type(error).__name__,
            place.filename,
            place.lineno,
        )
        return UNKNOWN
