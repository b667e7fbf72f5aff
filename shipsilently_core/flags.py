"""The flags of one context, as one request sees them."""

from __future__ import annotations

from collections.abc import Generator
from itertools import count
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeVar, overload

from ._evaluation import Evaluator
from ._overrides import overrides
from ._process import on_event_loop
from ._snapshot import Row
from ._view import UNSET, View, overridden
from .context import Context
from .errors import EvaluationError
from .signals import flag_evaluated
from .values import EvaluationResult, FlagValue

if TYPE_CHECKING:
    from .flagset import FlagSet

__all__ = ["Flags"]

Kind = TypeVar("Kind", bound="FlagSet")


class Resolver(Protocol):
    """What a client does for the flags of a request."""

    @property
    def evaluator(self) -> Evaluator:
        """Knows what is known, and what is to be told of it."""
        ...

    def resolve(self, context: Context, *, may_block: bool) -> tuple[View, bool]:
        """A view, and whether it is worth keeping for the whole request."""
        ...

    async def aresolve(self, context: Context) -> View:
        """A view, waiting in a task."""
        ...


#: Nothing is ever put into it.
NO_ROWS: dict[str, Row] = {}


class _Seen:
    """What is seen from one evaluation to the next.

    Attributes:
        view: The evaluation.
        number: Of the refresh that it came with; 0 for the first evaluation.
        asked: The keys that were asked for, so have been counted.
        rows: Others that were, too, and can be had again without further ado.
    """

    __slots__ = ("asked", "number", "rows", "view")

    def __init__(self, view: View, number: int, asked: set[str]) -> None:
        self.view = view
        self.number = number
        self.asked = asked
        self.rows: dict[str, Row] = {}


class _Refresh:
    """One that was asked for and is still to come.

    Attributes:
        number: Which of two has begun later.
        taken: Whether somebody waits for it. Until it is there, the others see what they saw.
    """

    __slots__ = ("number", "taken")

    numbers = count(1)

    def __init__(self) -> None:
        self.number = next(self.numbers)
        self.taken = False


class Flags:
    """All flags of one context: evaluated when the first is read, then the same to the end.

    A fresh cached evaluation needs no network. Otherwise there is one attempt,
    shared with every other request for the same context, and after a failure the
    last known good values. Reading never raises (unless ``disable_cache=True``).

    In a coroutine, ``await`` the flags themselves first, or one of the awaitable verbs;
    after that the plain ones answer from memory. A plain verb that comes first serves what
    is known without asking the service, since waiting would stop the whole event loop::

        flags = await client.flags(user_id="u1")
        if flags.is_enabled("new-checkout"): ...

    Made by `ShipSilentlyClient.flags`.
    """

    __slots__ = ("_client", "_context", "_due", "_early", "_may_block", "_now", "_rows")

    def __init__(self, client: Resolver, context: Context, *, may_block: bool = False) -> None:
        self._client = client
        self._context = context
        self._may_block = may_block
        self._now: _Seen | None = None
        self._due: _Refresh | None = None
        #: Those of what is seen, unless a refresh is due.
        self._rows: dict[str, Row] = NO_ROWS
        #: The keys that were asked for, so counted, before there was an evaluation to keep.
        self._early: set[str] | None = None

    @property
    def context(self) -> Context:
        """Whom these flags are evaluated for."""
        return self._context

    def __await__(self) -> Generator[Any, None, Self]:
        """Evaluate, as `aload`: ``await client.flags(...)``, ``await flags.refresh()``."""
        return self.aload().__await__()

    def load(self) -> Self:
        """Evaluate, unless that is done already; afterwards every verb answers from memory.

        While a test has set flags, nothing is evaluated before another flag is read: the
        service, which may not be there, is not asked for what the test does not use.

        Returns:
            These flags.

        Raises:
            EvaluationError: The attempt failed and the cache is switched off.
        """
        if not self._left_to_reads():
            self._seen()
        return self

    async def aload(self) -> Self:
        """`load`, waiting in a task: the plain verbs need no ``await`` afterwards."""
        if not self._left_to_reads() and (self._now is None or self._due is not None):
            await self._arrive()
        return self

    def refresh(self) -> Self:
        """See what a new request would see now: for whatever lives longer than a request.

        Afterwards each flag that is read counts anew. Nothing is asked where the client
        holds a fresh evaluation, so this may be called often.

        In a coroutine, write ``await flags.refresh()``: without the ``await`` it only says
        that the flags are to be refreshed by whoever awaits next. Until the new values are
        there, everybody sees what was seen before.

        Returns:
            These flags.

        Raises:
            EvaluationError: The attempt failed and the cache is switched off. What was
                seen before stays.
        """
        if self._make_due() and self._may_wait():
            self._seen()
        return self

    async def arefresh(self) -> Self:
        """The same as ``await flags.refresh()``."""
        self._make_due()
        return await self.aload()

    def evaluate_all(self) -> dict[str, EvaluationResult]:
        """Every flag of the environment, by key; at most one attempt, then from memory.

        Raises:
            EvaluationError: The attempt failed and the cache is switched off.
        """
        return overridden(self._seen().view.results())

    async def aevaluate_all(self) -> dict[str, EvaluationResult]:
        """`evaluate_all`, waiting in a task."""
        return overridden((await self._aseen()).view.results())

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
            default: Left out, the one declared in the configuration, else ``None``.
        """
        row = self._rows.get(key)
        if row is None:
            row = self._read_first(key, default)
        if row is not None and not overrides.values:
            value = row.value
            kind = type(value)
            if kind is type(default) and kind is not dict and kind is not list:
                return value
        return self.detail(key, default).value

    def _read_first(self, key: str, default: Any) -> Row | None:
        """Count a flag that is what it should be, on the shortest way; `detail` sees to others."""
        if overrides.values or flag_evaluated.receivers:
            return None
        seen = self._now
        if seen is None or self._due is not None:
            seen = self._seen()
            if seen is not self._now or self._due is not None:
                return None
        view = seen.view
        own = view.own
        if own is None or view.failure is not None or key in seen.asked:
            return None
        row = own.get(key)
        if row is None or type(row.value) is not type(default):
            return None
        seen.rows[key] = row
        if not view.counted:
            self._client.evaluator.analytics.record(key, row.value, row.reason, view.latency_ms)
        return row

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
    async def aget(self, key: str, default: Any = UNSET) -> Any:
        """`get`, waiting in a task."""
        if key not in overrides.values:
            await self._aseen()
        return self.get(key, default)

    def is_enabled(self, key: str, *, default: bool = UNSET) -> bool:
        """Whether the flag is on: its value is ``True``, not merely truthy.

        Args:
            key: The flag.
            default: Left out, the one declared in the configuration, else ``False``.
        """
        if default is UNSET:
            default = self._client.evaluator.default(key, UNSET, False)
        return self.get(key, default) is True

    async def ais_enabled(self, key: str, *, default: bool = UNSET) -> bool:
        """`is_enabled`, waiting in a task."""
        if key not in overrides.values:
            await self._aseen()
        return self.is_enabled(key, default=default)

    def detail(self, key: str, default: FlagValue = UNSET) -> EvaluationResult:
        """The flag with the reason for its value, where that came from, and what went wrong."""
        evaluator = self._client.evaluator
        default = evaluator.default(key, default)
        if key in overrides.values:
            return evaluator.overridden(key, default)
        seen = self._seen()
        view = seen.view
        result = evaluator.detail(view, key, default)
        if key not in seen.asked and key not in seen.rows:
            # However often one request asks for a flag, it is one check.
            evaluator.count(view, result)
            row = None if view.failure is not None or view.own is None else view.own.get(key)
            if row is None:
                seen.asked.add(key)
            else:
                seen.rows[key] = row
        return result

    async def adetail(self, key: str, default: FlagValue = UNSET) -> EvaluationResult:
        """`detail`, waiting in a task."""
        if key not in overrides.values:
            await self._aseen()
        return self.detail(key, default)

    def as_(self, kind: type[Kind]) -> Kind:
        """The flags as a `FlagSet`: ``flags.as_(Checkout).banner``.

        In a coroutine, ``await flags`` first.
        """
        return kind.of(self)

    def report_mismatch(self, key: str, value: object, reader: str) -> None:
        """Tell that a value was not served: one warning, and ``evaluation_failed``.

        For code that checks values by itself, as `FlagSet` does.

        Args:
            key: The flag.
            value: What it holds; its type is told, never itself.
            reader: Who does not take a value of this type, for people.
        """
        self._client.evaluator.report_mismatch(key, value, f"that {reader} does not take")

    def __contains__(self, key: object) -> bool:
        if not isinstance(key, str):
            return False
        return key in overrides.values or self._seen().view.find(key) is not None

    def __repr__(self) -> str:
        if self._now is None:
            return "<Flags: not evaluated yet>"
        own = self._now.view.own
        return f"<Flags: {0 if own is None else len(own)} flags>"

    # For integrations, which may have to find out whom for.

    def _ask(self, *, anew: bool) -> tuple[Context, View, bool]:
        """Whom for, what is seen, and whether that is worth keeping.

        Args:
            anew: Whether it is for a refresh. Whom for may have changed then, and is kept
                only together with the new view.
        """
        return self._context, *self._client.resolve(self._context, may_block=self._may_block)

    async def _aask(self, *, anew: bool) -> tuple[Context, View]:
        """`_ask`, waiting in a task; what comes is always worth keeping."""
        return self._context, await self._client.aresolve(self._context)

    def _forget(self) -> None:
        """Be as if nothing had been read yet."""
        self._now = self._due = self._early = None
        self._rows = NO_ROWS

    def _left_to_reads(self) -> bool:
        """Whether a test has set flags, so that nothing is evaluated ahead."""
        if not overrides.values:
            return False
        # A test's coroutine that has awaited these flags may read them, at the price of a wait.
        self._may_block = True
        return True

    # What is seen.

    def _seen(self) -> _Seen:
        seen, due = self._now, self._due
        if seen is not None and (due is None or due.taken):
            return seen
        mine = due is not None and self._may_wait()
        if due is not None and mine:
            due.taken = True
        try:
            context, view, lasting = self._ask(anew=due is not None)
        except EvaluationError:
            if seen is not None and not mine:
                return seen
            self._settle(due)
            raise
        if lasting:
            return self._show(context, view, due)
        if seen is not None:
            # Nobody has awaited the refresh, and this read cannot.
            return seen
        if self._early is None:
            self._early = set()
        return _Seen(view, 0, self._early)

    async def _aseen(self) -> _Seen:
        seen, due = self._now, self._due
        if seen is not None and (due is None or due.taken):
            return seen
        return await self._arrive()

    async def _arrive(self) -> _Seen:
        due = self._due
        if due is None:
            return self._show(*await self._aask(anew=False), None)
        due.taken = True
        try:
            context, view = await self._aask(anew=True)
        finally:
            self._settle(due)
        return self._show(context, view, due)

    def _show(self, context: Context, view: View, due: _Refresh | None) -> _Seen:
        self._settle(due)
        seen, number = self._now, 0 if due is None else due.number
        if seen is not None and number <= seen.number:
            # Others of this request have waited, too: the first evaluation is everybody's, and
            # of two refreshes the one that has begun later.
            return seen
        asked, self._early = self._early, None
        self._context = context
        self._now = seen = _Seen(view, number, set() if asked is None else asked)
        if self._due is None:
            self._rows = seen.rows
        return seen

    def _make_due(self) -> bool:
        """Whether there is anything to evaluate before the next read."""
        if self._left_to_reads():
            self._forget()
            return False
        self._due, self._early = _Refresh(), None
        self._rows = NO_ROWS
        return True

    def _settle(self, due: _Refresh | None) -> None:
        # Meanwhile, another one may have been asked for.
        if self._due is due:
            self._due = None
            self._rows = NO_ROWS if self._now is None else self._now.rows

    def _may_wait(self) -> bool:
        return self._may_block or not on_event_loop()
