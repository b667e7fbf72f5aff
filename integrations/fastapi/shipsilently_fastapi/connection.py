"""The flags of one request or socket."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from starlette.requests import HTTPConnection
from starlette.types import Scope

from shipsilently_core import Context, Flags, ShipSilentlyClient

from .person import UNKNOWN, Person

if TYPE_CHECKING:
    from .extension import ShipSilently

__all__ = ["RequestFlags"]


class RequestFlags(Flags):
    """All flags of one request or socket: evaluated when the first is read, then the same.

    As the core's `Flags`, and in addition the context is found out as late as that.
    """

    __slots__ = ("_person",)

    def __init__(
        self,
        shipsilently: ShipSilently,
        connection: HTTPConnection | Scope | None,
        context: Context | None = None,
        client: ShipSilentlyClient | None = None,
    ) -> None:
        self._person = Person(shipsilently, connection, context, client)
        super().__init__(self._person, UNKNOWN)

    @property
    def context(self) -> Context:
        """Whom these flags are evaluated for."""
        return self._person.known() or UNKNOWN

    @property
    def client(self) -> ShipSilentlyClient:
        """The client that evaluates them."""
        return self._person.client

    @property
    def shipsilently(self) -> ShipSilently:
        """What they were made by."""
        return self._person.shipsilently

    @property
    def took(self) -> float | None:
        """Seconds that the latest evaluation has taken; ``None`` before the first."""
        return self._person.took

    async def aload(self) -> Self:
        """Evaluate, unless that is done already; afterwards every verb answers from memory."""
        return await self._known(await super().aload())

    def refresh(self) -> Self:
        """See what a new request would see now: for sockets, which live long.

        A socket's context is found out anew. Where the client holds a fresh evaluation of
        it, nothing is asked; so this may be called for every message. In a coroutine,
        write ``await flags.arefresh()``.
        """
        self._person.forget()
        return super().refresh()

    async def arefresh(self) -> Self:
        """`refresh`, waiting in a task."""
        self._person.forget()
        return await self._known(await super().arefresh())

    async def _known(self, flags: Self) -> Self:
        """These flags, read without ``await`` from now on, evaluated yet or not."""
        if self._view is None:
            # A test has set flags. Should it read another one, that must know whom for.
            await self._person.find()
        return flags

    def on(self, connection: HTTPConnection) -> Self:
        """The same flags, where a middleware may have given the connection a new scope."""
        if self._person.context is None:
            self._person.connection = connection
        return self

    def of(self, context: Context) -> RequestFlags:
        """The flags of the same request for this context: these, unless they are another's."""
        person = self._person
        if self._view is None and person.context is None:
            person.fix(context)
        if person.context == context:
            return self
        return RequestFlags(
            person.shipsilently, person.connection, context=context, client=person.client
        )
