"""The flags of one request or socket."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any, Self
from weakref import ref

from starlette.requests import HTTPConnection, Request, empty_receive, empty_send
from starlette.types import Scope
from starlette.websockets import WebSocket

from shipsilently_core import Context, Failure, Flags, ShipSilentlyClient
from shipsilently_core._overrides import overrides
from shipsilently_core._seen import LATER, NOTHING, Seen

from .person import UNASKED, UNKNOWN, ask, settled

if TYPE_CHECKING:
    from shipsilently_core._view import View

    from .extension import ShipSilently

__all__ = ["SCOPE_KEY", "RequestFlags"]

#: Where the flags of a request are kept in its ASGI scope.
SCOPE_KEY = "shipsilently.flags"

#: What nobody in particular is evaluated for.
NOBODY = Context()

#: Stands for what the context function will give.
_NOT_ASKED = object()

#: What a context function mostly gives; none of these has to be awaited.
_AT_ONCE = frozenset({dict, Context, type(None)})
#: How often the context function is asked anew where the flags became another person's meanwhile;
#: for one that reloads them itself, that would never come to an end.
_MOST_TURNS = 3


class RequestFlags(Flags, eq=False, kw_only=True, weakref=True):
    """All flags of one request or socket: evaluated when the first is read, then the same.

    As the core's `Flags`, and in addition the context is found out as late as that.
    """

    _shipsilently: ShipSilently
    #: The request or socket, or only its scope, until it is needed no more: where the context
    #: is fixed, or found out for a request.
    _connection: HTTPConnection | Scope | None
    #: The app that has looked them up last.
    app: Any = None
    #: Others of this request: those of the app around, and what `of` has made of these.
    _others: tuple[ref[RequestFlags], ...] = ()
    #: For how many reloads in a row an answer of the context function has come too late, and the
    #: number of the latest: several tasks may each have asked before it.
    _turns: int = 0
    _late: int = 0
    #: For `TimedFlags` alone. It stands here so that these can become those.
    _took: float | None = None

    @property
    def context(self) -> Context:
        """Whom these flags are evaluated for."""
        return self._whom(_NOT_ASKED, self._reloads, anew=False) or UNKNOWN

    @property
    def client(self) -> ShipSilentlyClient:
        """The client that evaluates them."""
        client: Any = self._client
        return client  # type: ignore[no-any-return]  # they are made with one

    @property
    def shipsilently(self) -> ShipSilently:
        """What they were made by."""
        return self._shipsilently

    @property
    def took(self) -> float | None:
        """Seconds that the latest evaluation has taken, finding out whom for included.

        ``None`` before the first, and where no middleware has ``server_timing``.
        """
        return None

    async def aload(self) -> Self:
        """Evaluate, unless that is done already; afterwards every verb answers from memory."""
        rest = self.begin()
        if rest is not None:
            await rest
        return self

    def begin(self) -> Awaitable[object] | None:
        """`aload`, as far as nothing has to be waited for: mostly all of it.

        Returns:
            What is left, to be awaited at once; mostly ``None``, which costs no coroutine.
        """
        if overrides.values and self._left_to_reads():
            # Should this test read another flag than it has set, that must know whom for.
            return self._awhom(anew=False) if self._shown() is None else None
        if self._short is NOTHING:
            reloads = self._reloads
            seen = self._at_once()
            if type(seen) is not Seen:
                return self._go_on(seen, reloads)
            if not seen.listed:
                self._client.evaluator.analytics.enlist(seen)
            return None
        return self._arrive() if self._short is LATER else None

    def _at_once(self) -> Any:
        """Evaluate for the first time, where nobody has to be waited for, as mostly.

        Every request whose flags are read comes by here, so it is done on few steps.

        Returns:
            What is seen. Otherwise, whom it is to be evaluated for; or what will give that, and
            has to be awaited.
        """
        shipsilently, reloads = self._shipsilently, self._reloads
        if shipsilently.unannounced:
            shipsilently.tell_if_lazy()
        context = self._context
        if context is UNASKED:
            if shipsilently.context is None:
                # Nobody need be asked, now or later.
                self._context, self._connection = NOBODY, None
                context = NOBODY
            else:
                given = self._given(anew=False)
                if type(given) not in _AT_ONCE and inspect.isawaitable(given):
                    return given
                found = self._found(given, reloads, anew=False)
                if found is None:
                    return self._at_once()
                context = found
        fresh = self._client.fresh
        own = fresh(context)
        if own is None:
            return context
        seen = Seen(own, None, {}, own.own, own.shared, False)
        # As in `Flags._seen`, nothing is called from here to the end.
        if reloads != self._reloads:
            return self._at_once()
        if self._short is NOTHING:
            self._short = seen
            return seen
        return self._shown() or context

    async def _go_on(self, given: Any, reloads: int) -> None:
        """What `begin` has left: for whom, where that has to be awaited, and the evaluation."""
        if not isinstance(given, Context):
            given = await settled(given, self._client.evaluator.notices)
            given = self._found(given, reloads, anew=False)
        view = self._unknown()
        if given is not None and given is not UNKNOWN:
            view = await self._client.aresolve(given)
        if given is None or self._show(given, view, None, reloads) is None:
            # For whoever they have become meanwhile.
            await self._aseen()

    def reload_context(self, connection: HTTPConnection) -> Self:
        """Somebody has logged in or out during this request: from now on, they are for them.

        ::

            request.session["user"] = user.id
            await flags.reload_context(request)

        The context function is asked anew, and nothing is served any more that was evaluated
        before. In a coroutine, write the ``await``: it evaluates. In a thread, the next read
        does. All other flags of this request follow, those of `FlagsDependency.using` too, which
        become those of the context function; without one, they stay whose they are.

        Args:
            connection: The request or socket, as the context function is to see it.

        Returns:
            These flags.
        """
        kept = connection.scope.get(SCOPE_KEY)
        following = [self] if kept is None or kept is self else [self, kept]
        for flags in following:
            flags._reload(connection)
            others = (held() for held in flags._others)
            # It grows meanwhile.
            following += [one for one in others if one is not None and one not in following]
        return self

    def _reload(self, connection: HTTPConnection) -> None:
        # In this order: whoever is in the midst of a first read has taken the old context and the
        # old number, or neither; and what such a one has shown until now is forgotten.
        if self._shipsilently.context is not None:
            self._context, self._connection = UNASKED, connection
        self._reloads += 1
        self._forget()

    def of(self, context: Context) -> RequestFlags:
        """The flags of the same request for this context: these, unless they are another's."""
        if self._context is UNASKED and self._shown() is None:
            self._context, self._connection = context, None
        if self._context == context:
            return self
        made = type(self)(
            self._client, context, NOTHING, _shipsilently=self._shipsilently, _connection=None
        )
        # They must follow a login, too, and are not to be held.
        self._others = (*(held for held in self._others if held() is not None), ref(made))
        return made

    def _forget(self) -> None:
        super()._forget()
        if self._connection is not None:
            # A socket may have become another person's.
            self._context = UNASKED

    def _seen(self) -> Seen:
        if self._short is not NOTHING:
            return self._seen_later()
        reloads = self._reloads
        seen = self._at_once()
        if type(seen) is Seen:
            return seen
        context, view, lasting = self._ask_since(seen, reloads, anew=False)
        if not lasting:
            return self._for_now(view)
        return self._show(context, view, None, reloads) or self._seen()

    def _ask(self, *, anew: bool) -> tuple[Context, View, bool]:
        shipsilently = self._shipsilently
        if shipsilently.unannounced:
            shipsilently.tell_if_lazy()
        return self._ask_since(_NOT_ASKED, self._reloads, anew=anew)

    def _ask_since(self, given: Any, reloads: int, *, anew: bool) -> tuple[Context, View, bool]:
        """`_ask`, with what has been given already, after so many reloads."""
        while True:
            asked = self._ask_once(given, reloads, anew=anew)
            if reloads == self._reloads or asked[0] is UNKNOWN:
                return asked
            given, reloads = _NOT_ASKED, self._reloads

    def _ask_once(self, given: Any, reloads: int, *, anew: bool) -> tuple[Context, View, bool]:
        context = self._whom(given, reloads, anew=anew)
        if context is None:
            self._client.evaluator.notices.warn(
                "unawaited",
                "a flag was read before the context function could be awaited: what everybody "
                "gets was served; write `await flags` first",
            )
            return UNKNOWN, self._unknown(), False
        if context is UNKNOWN:
            return UNKNOWN, self._unknown(), True
        own = self._client.fresh(context)
        if own is not None:
            return context, self._client.evaluator.current(own), True
        return context, *self._client.resolve(context, self._may_block)

    async def _aask(self, *, anew: bool) -> tuple[Context, View]:
        while True:
            reloads = self._reloads
            context = await self._awhom(anew=anew)
            if context is UNKNOWN:
                return context, self._unknown()
            view = await self._client.aresolve(context)
            if reloads == self._reloads:
                return context, view

    def _whom(self, given: Any, reloads: int, *, anew: bool) -> Context | None:
        """Whom for; ``None`` where it has to be awaited and cannot be here.

        Args:
            given: What the context function has given already.
            reloads: How many there had been before it was asked.
            anew: See `_ask`.
        """
        while True:
            if given is _NOT_ASKED:
                reloads = self._reloads
                given = self._given(anew=anew)
            if type(given) not in _AT_ONCE and inspect.isawaitable(given):
                try:
                    # Here, since it takes long to import, and few contexts have to be awaited.
                    from anyio import from_thread

                    # In a thread of a plain endpoint, the event loop can be asked to.
                    given = from_thread.run(settled, given, self._client.evaluator.notices)
                except (RuntimeError, ImportError, OSError):
                    # The latter where the process may open no more files, so that none is imported.
                    if inspect.iscoroutine(given):
                        given.close()
                    return None
            found = self._found(given, reloads, anew=anew)
            if found is not None:
                return found
            given, reloads = _NOT_ASKED, self._reloads

    async def _awhom(self, *, anew: bool) -> Context:
        """`_whom`, waiting in a task."""
        while True:
            reloads, given = self._reloads, self._given(anew=anew)
            if type(given) not in _AT_ONCE and inspect.isawaitable(given):
                given = await settled(given, self._client.evaluator.notices)
            found = self._found(given, reloads, anew=anew)
            if found is not None:
                return found

    def _given(self, *, anew: bool) -> Any:
        connection: Any = self._connection
        if connection is None or (self._context is not UNASKED and not anew):
            return self._context
        function = self._shipsilently.context
        if function is None:
            return None
        if type(connection) is not Request:
            given, connection = connection, _whole(connection)
            # A reload in another thread may have brought the connection as it is after a login.
            if self._connection is given:
                self._connection = connection
        return ask(function, connection, self._client.evaluator.notices)

    def _found(self, given: Any, reloads: int, *, anew: bool) -> Context | None:
        """Whom for, by what was given.

        Args:
            given: By the context function.
            reloads: How many there had been when it was asked.
            anew: See `_ask`.

        Returns:
            ``None`` where they have become another person's since.
        """
        found = NOBODY if given is None else self._client.evaluator.context(given)
        connection = self._connection
        # To ask whether something is an `HTTPConnection` takes as long as all the rest here.
        scope = getattr(connection, "scope", connection)
        is_request = scope is not None and scope["type"] == "http"
        # As in `Flags._seen`, nothing is called from here to the end.
        if reloads != self._reloads:
            if self._late != self._reloads:
                self._late = self._reloads
                self._turns += 1
            if self._turns < _MOST_TURNS:
                return None
            return self._in_circles()
        if self._context is UNASKED:
            self._context, self._turns = found, 0
            if is_request:
                # The connection knows these flags: together they would be garbage to collect.
                self._connection = None
        elif not anew:
            # Another task of this request has been faster: the first one's is everybody's.
            found = self._context
        return found

    def _in_circles(self) -> Context:
        """Nobody, where each time that the context function is asked, they become another's."""
        self._client.evaluator.notices.warn(
            "reload in circles",
            "the flags of a request became another person's each time that the context function "
            "was asked, and what everybody gets is served: call reload_context where somebody "
            "logs in, not in the context function",
        )
        self._context, self._turns = UNKNOWN, 0
        return UNKNOWN

    def _unknown(self) -> View:
        # The client's words for what has not been evaluated.
        return self._client.evaluator.known(UNKNOWN, Failure.TIMEOUT)


def _whole(connection: Any) -> Any:
    """The request or the socket, where only its scope is at hand or what both have in common."""
    scope = connection
    if type(connection) is HTTPConnection:
        scope = connection.scope
    elif type(connection) is not dict and hasattr(connection, "scope"):
        return connection
    if scope["type"] == "http":
        return Request(scope)
    return WebSocket(scope, empty_receive, empty_send)
