"""`request.flags`: the flags of one request, for whoever is logged in when they are read."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Self, TypeVar, overload

from django.core.exceptions import SynchronousOnlyOperation
from django.http import HttpRequest
from msgspec import Struct
from msgspec.structs import replace

from shipsilently_core import (
    Context,
    EvaluationResult,
    Flags,
    FlagValue,
    ShipSilentlyError,
)
from shipsilently_core._view import UNSET

from .pagecache import MARK, settle, settle_late
from .setup import Setup, get_setup, in_use
from .surroundings import surroundings_of
from .users import acontext_of, context_of, on_event_loop

if TYPE_CHECKING:
    from shipsilently_core import FlagSet

__all__ = [
    "FlagsRequest",
    "RequestFlags",
    "UnawaitedFlagsError",
    "flags_of",
]

log: logging.Logger = logging.getLogger("shipsilently")

Kind = TypeVar("Kind", bound="FlagSet")

_NOBODY = Context()
#: What no request is marked with, so that the next read looks again.
_NOT_SETTLED = object()
#: How often a read finds out for whom, where another user came into the request meanwhile. A hook
#: that puts one there each time it is asked is asked so often, and would never come to an end.
_MOST_TURNS = 2
_UNAWAITED = (
    "a flag was read in a coroutine before it was known for whom; write `await "
    "request.flags.aevaluate_all()` first, or set PREFETCH"
)


class UnawaitedFlagsError(ShipSilentlyError):
    """In DEBUG with ``RAISE_IN_DEBUG``: a plain read in a coroutine, with nothing awaited before.

    In production what is best known is served, with a warning.
    """


class _Seen(Struct, frozen=True):
    """The core's flags, and the user they are for.

    Attributes:
        user: The request's, which may have changed since.
        flags: For that user.
        known: Whether it is known whom they are for.
        mark: The mark of Django's cache on the request, when it was last settled what these flags
            mean for a page. A cache that comes later changes it, and then the next read asks again.
        early: Whether that was before the request had found its view.
        held: The request's own attributes: each read looks there whether these still hold.
    """

    user: Any
    flags: Flags
    known: bool
    mark: object
    early: bool
    held: dict[str, Any]


class Left(Struct, frozen=True):
    """How a request's answer left `FlagsMiddleware`.

    Attributes:
        streaming: Whether its body is made after its headers have left.
        looked: Whether the session had been looked at until then.
    """

    streaming: bool
    looked: bool


class RequestFlags(Struct, eq=False):  # each request has one, and no other class is made as fast
    """All flags of one request; nothing happens until the first is read.

    The context is made at the first read, so a view without flags costs no query, no
    session access and no ``Vary``. When another user is put into the request, by a
    login or by a token, the flags follow.

    In async views ``await`` one of the verbs with the prefix ``a`` first; after that the
    plain ones, and templates, answer from memory.
    """

    _request: HttpRequest
    _seen: _Seen | None = None
    #: Set by the middleware where flags may still be read when the answer has left it.
    left: Left | None = None
    #: Another object after each refresh, so that what was found out before it is not kept.
    _turn: object = None

    @property
    def were_read(self) -> bool:
        """Whether any flag has been read yet."""
        return self._seen is not None

    @property
    def context(self) -> Context:
        """Whom these flags are evaluated for."""
        return self._now().context

    async def acontext(self) -> Context:
        """`context`, waiting in a task."""
        return (await self._there()).context

    def load(self) -> Self:
        """Evaluate, unless that is done already; afterwards every verb answers from memory."""
        self._now().load()
        return self

    async def aload(self) -> Self:
        """`load`, waiting in a task: the plain verbs need no ``await`` afterwards."""
        await (await self._there()).aload()
        seen = self._seen
        if seen is None or seen.user is not self._request.__dict__.get("user"):
            # Somebody has logged in meanwhile, for whom they would need one.
            await (await self._there()).aload()
        return self

    async def _prefetch(self) -> None:
        """`aload`, before anything is read."""
        await self.aload()
        if (seen := self._seen) is not None:
            unsettled = replace(seen, mark=_NOT_SETTLED)
            # As in `_keep`.
            if seen is self._seen:
                self._seen = unsettled

    def refresh(self) -> Self:
        """See what a new request would see now, the context made anew: for long responses."""
        self._forget()
        return self.load()

    async def arefresh(self) -> Self:
        """`refresh`, waiting in a task."""
        self._forget()
        return await self.aload()

    def evaluate_all(self) -> dict[str, EvaluationResult]:
        """Every flag of the environment, by key; at most one attempt, then from memory."""
        return self._now().evaluate_all()

    async def aevaluate_all(self) -> dict[str, EvaluationResult]:
        """`evaluate_all`, waiting in a task."""
        return await (await self._there()).aevaluate_all()

    @overload
    def get(self, key: str, default: bool) -> bool: ...
    @overload
    def get(self, key: str, default: str) -> str: ...
    @overload
    def get(self, key: str, default: float) -> float: ...
    @overload
    def get(self, key: str, default: dict[str, Any]) -> dict[str, Any]: ...
    @overload
    def get(self, key: str, default: None = None) -> FlagValue: ...
    def get(self, key: str, default: Any = UNSET) -> Any:
        """The flag's value, or the default where there is none of the default's JSON type.

        Args:
            key: The flag.
            default: Left out, the one declared in ``DEFAULTS``, else ``None``.
        """
        # As `_now`, without its call.
        seen = self._seen
        if (
            seen is not None
            and seen.mark is (held := seen.held).get(MARK)
            and seen.user is held.get("user")
        ):
            return seen.flags.get(key, default)
        return self._resolve().get(key, default)

    @overload
    async def aget(self, key: str, default: bool) -> bool: ...
    @overload
    async def aget(self, key: str, default: str) -> str: ...
    @overload
    async def aget(self, key: str, default: float) -> float: ...
    @overload
    async def aget(self, key: str, default: dict[str, Any]) -> dict[str, Any]: ...
    @overload
    async def aget(self, key: str, default: None = None) -> FlagValue: ...
    async def aget(self, key: str, *args: Any, **kwargs: Any) -> Any:
        """`get`, waiting in a task."""
        return await (await self._there()).aget(key, *args, **kwargs)

    @overload
    def is_enabled(self, key: str) -> bool: ...
    @overload
    def is_enabled(self, key: str, *, default: bool) -> bool: ...
    def is_enabled(self, key: str, *, default: bool = UNSET) -> bool:
        """Whether the flag is on: its value is ``True``, not merely truthy.

        Args:
            key: The flag.
            default: Left out, the one declared in ``DEFAULTS``, else ``False``.
        """
        # As `_now`, without its call.
        seen = self._seen
        if (
            seen is not None
            and seen.mark is (held := seen.held).get(MARK)
            and seen.user is held.get("user")
        ):
            flags = seen.flags
        else:
            flags = self._resolve()
        # Keywords make a call slow.
        return flags.is_enabled(key) if default is UNSET else flags.is_enabled(key, default=default)

    @overload
    async def ais_enabled(self, key: str) -> bool: ...
    @overload
    async def ais_enabled(self, key: str, *, default: bool) -> bool: ...
    async def ais_enabled(self, key: str, **default: bool) -> bool:
        """`is_enabled`, waiting in a task."""
        return await (await self._there()).ais_enabled(key, **default)

    def detail(self, key: str, default: FlagValue = UNSET) -> EvaluationResult:
        """The flag with the reason for its value, where that came from, and what went wrong."""
        return self._now().detail(key, default)

    async def adetail(self, key: str, default: FlagValue = UNSET) -> EvaluationResult:
        """`detail`, waiting in a task."""
        return await (await self._there()).adetail(key, default)

    def as_(self, kind: type[Kind]) -> Kind:
        """The flags as a `FlagSet`: ``request.flags.as_(Checkout).banner``."""
        return self._now().as_(kind)

    def report_mismatch(self, key: str, value: object, reader: str) -> None:
        """Tell that a value was not served, since `reader` does not take its type."""
        self._now().report_mismatch(key, value, reader)

    def __contains__(self, key: object) -> bool:
        return key in self._now()

    def __repr__(self) -> str:
        return f"<RequestFlags: {self._seen.flags if self._seen else 'not read yet'}>"

    def _now(self) -> Flags:
        seen = self._seen
        if (
            seen is not None
            and seen.mark is (held := seen.held).get(MARK)
            and seen.user is held.get("user")
        ):
            return seen.flags
        return self._resolve()

    def _forget(self) -> None:
        # In this order: whoever is in the midst of a first read keeps nothing from here on.
        self._turn = object()
        self._seen = None

    def _resolve(self) -> Flags:
        # Of the user the attribute alone: to ask who it is would cost what is to be saved.
        kept: Flags | None = None
        request, turns = self._request, 0
        while kept is None:
            turns += 1
            turn, seen, user = self._turn, self._seen, request.__dict__.get("user")
            if seen is not None and seen.known and seen.user is user:
                kept = self._keep(user, seen.flags, turn, True, turns)
                continue
            setup = in_use.get("setup") or get_setup()
            in_coroutine = on_event_loop()
            if in_coroutine and setup.loud:
                raise UnawaitedFlagsError(_UNAWAITED)
            try:
                flags = setup.client.flags(context_of(request, setup.options, user))
            except SynchronousOnlyOperation:
                settle(request, _NOBODY)
                _warn(setup, "unawaited", "%s; what is known was served", _UNAWAITED)
                return setup.client.flags(_NOBODY)
            except Exception as error:
                flags = _without_hook(setup, error)
            kept = self._keep(user, flags, turn, not in_coroutine, turns)
        return kept

    async def _there(self) -> Flags:
        kept: Flags | None = None
        request, turns = self._request, 0
        while kept is None:
            turns += 1
            turn, seen, user = self._turn, self._seen, request.__dict__.get("user")
            if seen is not None and seen.known and seen.user is user:
                if seen.mark is request.__dict__.get(MARK):
                    return seen.flags
                kept = self._keep(user, seen.flags, turn, True, turns)
                continue
            setup = in_use.get("setup") or get_setup()
            try:
                flags = setup.client.flags(await acontext_of(request, setup.options, user))
            except Exception as error:
                flags = _without_hook(setup, error)
            kept = self._keep(user, flags, turn, True, turns)
        return kept

    def _keep(self, user: Any, flags: Flags, turn: object, known: bool, turns: int) -> Flags | None:
        """Let these be the request's flags.

        Args:
            user: Who was in the request before it was found out for whom.
            flags: For that user.
            turn: The request's before that.
            known: Whether it is known whom they are for.
            turns: How often this read has found out for whom. The last time they are served in any
                case, if only to this read.

        Returns:
            The request's flags; ``None`` where they may be another user's by now.
        """
        held = self._request.__dict__
        if held.get("user") is not user and turns < _MOST_TURNS:
            return None
        seen, context = self._seen, flags.context
        if seen is not None and seen.flags.context == context:
            # Another thread or task of this request was first, or a new user is the same one.
            flags, known = seen.flags, known or seen.known
        elif self.left is not None:
            self._check_headers(self.left, context)
        match, mark = held.get("resolver_match"), held.get(MARK)
        # Most requests have met no cache of pages, so there is nothing to settle.
        if mark is not None or (match is not None and surroundings_of(match.func).out_of_reach):
            mark = settle(self._request, context, None if seen is None else seen.mark)
        made = _Seen(user, flags, known, mark if known else _NOT_SETTLED, match is None, held)
        # Nothing is called from this look to the next line, so no refresh comes between.
        if turn is self._turn:
            self._seen = made
        elif turns < _MOST_TURNS:
            return None
        return flags

    def _check_headers(self, left: Left, context: Context) -> None:
        if not left.streaming:
            settle_late(self._request, context, looked=left.looked)
            return
        session = getattr(self._request, "session", None)
        if not left.looked and getattr(session, "accessed", False):
            _warn(
                get_setup(),
                "late",
                "the first flag of a request was read in the body of a streaming response: its "
                "headers had left, without Vary: Cookie; read a flag in the view before",
            )


class FlagsRequest(HttpRequest):
    """For annotations: a request that has passed `FlagsMiddleware`."""

    flags: RequestFlags


def flags_of(request: Any) -> RequestFlags:
    """The request's flags, attached here where no middleware has done it.

    A copy of a request, which may be for somebody else, gets flags of its own.
    """
    flags = getattr(request, "flags", None)
    if isinstance(flags, RequestFlags) and flags._request is request:
        return flags
    # Django REST framework hands its views a request around the request.
    inner = getattr(request, "_request", request)
    flags = getattr(inner, "flags", None)
    # What is put around a request, by its own class no request, shows the flags of what is inside.
    if isinstance(flags, RequestFlags) and (
        flags._request is inner or not issubclass(type(inner), HttpRequest)
    ):
        return flags
    inner.flags = flags = RequestFlags(inner)
    return flags


def _without_hook(setup: Setup, error: Exception) -> Flags:
    """The flags of nobody in particular, after the context hook has raised."""
    if setup.loud:
        raise error
    log.debug("the context hook raised", exc_info=error)
    _warn(
        setup,
        "context hook",
        "the request's context could not be made (%s); flags are served as for nobody in "
        "particular",
        type(error).__name__,
    )
    return setup.client.flags(_NOBODY)


def _warn(setup: Setup, kind: str, message: str, *values: object) -> None:
    setup.client.evaluator.notices.warn(f"django {kind}", message, *values)
