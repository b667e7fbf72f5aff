"""The flags of one context, as one request sees them."""

from __future__ import annotations

from collections.abc import Generator
from itertools import count
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeVar, overload

from msgspec import Struct

from ._kinds import FLAT, as_key, in_place_of
from ._overrides import overrides
from ._process import on_event_loop
from ._seen import LATER, NESTED, NO_ROWS, NOTHING, Apart, Seen
from ._snapshot import FROM_CACHE
from ._view import UNSET, View, overridden
from .context import Context
from .errors import EvaluationError
from .signals import flag_evaluated
from .values import EvaluationResult, FlagValue

if TYPE_CHECKING:
    from ._evaluation import Evaluator
    from ._snapshot import Snapshot
    from .flagset import FlagSet

__all__ = ["Flags"]

Kind = TypeVar("Kind", bound="FlagSet")


class Resolver(Protocol):
    """What a client does for the flags of a request."""

    @property
    def evaluator(self) -> Evaluator:
        """Knows what is known, and what is to be told of it."""
        ...

    def fresh(self, context: Context) -> Snapshot | None:
        """Flags that nobody has to be asked for; ``None`` where there are none."""
        ...

    def afresh(self, context: Context) -> Snapshot | None:
        """`fresh`, in a task."""
        ...

    def resolve(self, context: Context, may_block: bool) -> tuple[View, bool]:
        """A view, and whether it is worth keeping for the whole request."""
        ...

    async def aresolve(self, context: Context) -> View:
        """A view, waiting in a task."""
        ...


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


class Flags(Struct, eq=False):  # no other class is made as fast
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

    _client: Resolver
    _context: Context
    #: What is seen, unless a refresh is due: all that a read needs, and never a mixture of two.
    #: `NOTHING` at first, and `LATER` while there is nothing to read from but something to mind.
    _short: Seen
    _may_block: bool = False
    #: What is seen while `_short` has nothing to read from.
    _kept: Seen | None = None
    _due: _Refresh | None = None
    #: The keys that were asked for, so counted, before there was an evaluation to keep.
    _early: dict[str, Any] | None = None
    #: How often they have become another person's, so that what was asked before is not shown.
    _reloads: int = 0

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
        if not overrides.values or not self._left_to_reads():
            seen = self._seen()
            if not seen.listed:
                self._client.evaluator.analytics.enlist(seen)
        return self

    async def aload(self) -> Self:
        """`load`, waiting in a task: the plain verbs need no ``await`` afterwards."""
        if overrides.values and self._left_to_reads():
            return self
        if self._short is NOTHING:
            own = self._client.afresh(self._context)
            seen = await self._arrive() if own is None else self._show_fresh(own)
            if not seen.listed:
                self._client.evaluator.analytics.enlist(seen)
        elif self._short is LATER:
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
        seen = self._seen()
        known = seen.flags
        if overrides.values:
            return overridden(self._view(seen).results())
        if known is None:
            return self._view(seen).results()
        ready = known.ready
        return known.results(FROM_CACHE, False) if ready is None else ready.copy()

    async def aevaluate_all(self) -> dict[str, EvaluationResult]:
        """`evaluate_all`, waiting in a task."""
        results = self._view(await self._aseen()).results()
        return overridden(results) if overrides.values else results

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
        # Every read of every flag comes by here, so its steps are written out: a call would take
        # as long as three of them.
        try:
            if not overrides.values:
                seen = self._short
                counted = seen.counted
                if key in counted:
                    # Most flags are of the one type that can be told without a call.
                    value = counted[key]
                    if (value is True or value is False) and (default is False or default is True):
                        return value
                    if type(value) is type(default) and type(value) in FLAT:
                        return value
                else:
                    if seen is NOTHING:
                        seen = self._seen()
                        counted = seen.counted
                        if counted or seen is not self._short:
                            # Others were faster, or nothing is to be kept: `detail` minds that.
                            seen = LATER
                    rows = seen.own
                    if (
                        key in rows or key in (rows := seen.shared)
                    ) and not flag_evaluated.receivers:
                        value = rows[key].value
                        # However often one request asks for a flag, it is one check.
                        if (value is True or value is False) and (
                            default is False or default is True
                        ):
                            # Nothing is called from the look at what was counted to here.
                            counted[key] = value
                            # In this order: what has been taken meanwhile is listed again.
                            if not seen.listed:
                                self._client.evaluator.analytics.enlist(seen)
                            return value
                        if type(value) is type(default) and type(value) in FLAT:
                            # What another thread has put there meanwhile stays.
                            counted.setdefault(key, value)
                            if not seen.listed:
                                self._client.evaluator.analytics.enlist(seen)
                            return value
            return self._get_any(key) if default is UNSET else self.detail(key, default).value
        except TypeError as error:
            return self.get(in_place_of(key, error), default)

    def _get_any(self, key: str) -> Any:
        """`get` without a default of the caller's."""
        declared = self._client.evaluator.defaults.get(key)
        if declared is not None:
            return self.get(key, declared)
        value = self._short.counted.get(key, NESTED)
        if type(value) in FLAT and not overrides.values:
            return value
        return self.detail(key).value

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
        if not overrides.values or as_key(key) not in overrides.values:
            await self._aseen()
        return self.get(key, default)

    def is_enabled(self, key: str, *, default: bool = UNSET) -> bool:
        """Whether the flag is on: its value is ``True``, not merely truthy.

        Args:
            key: The flag.
            default: Left out, the one declared in the configuration, else ``False``.
        """
        try:
            if default is UNSET and (declared := self._client.evaluator.defaults):
                default = declared.get(key, False)
            # As `get`, for a flag that is of the type that this asks for.
            if not overrides.values and (default is UNSET or default is False or default is True):
                seen = self._short
                counted = seen.counted
                if key in counted:
                    value = counted[key]
                    if value is True or value is False:
                        return value
                else:
                    rows = seen.own
                    if key in rows or key in (rows := seen.shared):
                        value = rows[key].value
                        if (value is True or value is False) and not flag_evaluated.receivers:
                            counted[key] = value
                            if not seen.listed:
                                self._client.evaluator.analytics.enlist(seen)
                            return value
            return self.get(key, False if default is UNSET else default) is True
        except TypeError as error:
            return self.is_enabled(in_place_of(key, error), default=default)

    async def ais_enabled(self, key: str, *, default: bool = UNSET) -> bool:
        """`is_enabled`, waiting in a task."""
        if not overrides.values or as_key(key) not in overrides.values:
            await self._aseen()
        return self.is_enabled(key, default=default)

    def detail(self, key: str, default: FlagValue = UNSET) -> EvaluationResult:
        """The flag with the reason for its value, where that came from, and what went wrong."""
        key = as_key(key)
        # As `get`, and below for whatever is not plain.
        seen = self._short
        if seen is NOTHING and not overrides.values:
            seen = self._seen()
        row = seen.row(key)
        if row is not None and not overrides.values and not flag_evaluated.receivers:
            value = row.value
            kind = type(value)
            if kind is type(default) and kind in FLAT:
                if key not in seen.counted:
                    seen.counted[key] = value
                    if not seen.listed:
                        self._client.evaluator.analytics.enlist(seen)
                view = seen.view
                if view is None:
                    # As the one that it would be made.
                    return EvaluationResult(key, value, row.reason, row.ruleId, FROM_CACHE)
                return EvaluationResult(
                    key, value, row.reason, row.ruleId, view.source, None, view.age
                )
        evaluator = self._client.evaluator
        default = evaluator.default(key, default)
        # Looked at once: the test may end in this moment.
        values = overrides.values
        if key in values:
            return evaluator.overridden(key, values[key], default)
        seen = self._seen()
        result = evaluator.detail(self._view(seen), key, default)
        if key not in seen.counted:
            # However often one request asks for a flag, it is one check.
            self._note(seen, key, result)
        return result

    def _note(self, seen: Seen, key: str, result: EvaluationResult) -> None:
        """Count what is about to be served."""
        evaluator, row = self._client.evaluator, seen.row(key)
        if row is None or result.error is not None:
            mine = Apart()
            # Of several threads that read it for the first time, one counts it.
            if seen.counted.setdefault(key, mine) is mine:
                evaluator.count(self._view(seen), result)
            return
        evaluator.tell(result)
        value = row.value
        seen.counted.setdefault(key, value if type(value) in FLAT else NESTED)
        if not seen.listed:
            evaluator.analytics.enlist(seen)

    async def adetail(self, key: str, default: FlagValue = UNSET) -> EvaluationResult:
        """`detail`, waiting in a task."""
        if not overrides.values or as_key(key) not in overrides.values:
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
        return key in overrides.values or self._view(self._seen()).find(key) is not None

    def __repr__(self) -> str:
        seen = self._shown()
        if seen is None:
            return "<Flags: not evaluated yet>"
        own = self._view(seen).own
        return f"<Flags: {0 if own is None else len(own)} flags>"

    # For integrations, which may have to find out whom for.

    def _ask(self, *, anew: bool) -> tuple[Context, View, bool]:
        """Whom for, what is seen, and whether that is worth keeping.

        Args:
            anew: Whether it is for a refresh. Whom for may have changed then, and is kept
                only together with the new view.
        """
        view, lasting = self._client.resolve(self._context, self._may_block)
        return self._context, view, lasting

    async def _aask(self, *, anew: bool) -> tuple[Context, View]:
        """`_ask`, waiting in a task; what comes is always worth keeping."""
        return self._context, await self._client.aresolve(self._context)

    def _forget(self) -> None:
        """Be as if nothing had been read yet."""
        self._kept = self._due = self._early = None
        self._short = NOTHING

    def _left_to_reads(self) -> bool:
        """Whether a test has set flags, so that nothing is evaluated ahead."""
        if not overrides.values:
            return False
        # A test's coroutine that has awaited these flags may read them, at the price of a wait.
        self._may_block = True
        return True

    # What is seen.

    def _as_seen(self) -> Flags:
        """These as they are seen now, whoever refreshes them meanwhile, or logs in."""
        if overrides.values:
            # What the test has not set is evaluated when it is read, and not before.
            return self
        # With the sheet of these, so each flag counts once all the same.
        seen = self._seen()
        return Flags(self._client, self._context, seen)

    def _view(self, seen: Seen) -> View:
        """The evaluation that is seen."""
        view = seen.view
        if view is None:
            view = View(seen.flags, (), self._client.evaluator.defaults, FROM_CACHE)
            seen.view = view
        return view

    def _seen(self) -> Seen:
        if self._short is NOTHING:
            # Nearly every request finds what it needs here, on as few steps as can be.
            fresh = self._client.fresh
            own = fresh(self._context)
            if own is None:
                return self._first()
            # As `_show`, without its call.
            made = Seen(own, None, {}, own.own, own.shared, False)
            # Nothing is called from this look to the next line, so no other thread comes
            # between: the first one's is everybody's.
            if self._short is NOTHING:
                self._short = made
                return made
        return self._seen_later()

    def _shown(self) -> Seen | None:
        """What is seen; ``None`` where nothing was kept yet."""
        seen, kept = self._short, self._kept
        return kept if seen is NOTHING or seen is LATER else seen

    def _seen_later(self) -> Seen:
        """`_seen`, unless there is nothing to mind and nothing was looked for yet."""
        seen, due = self._shown(), self._due
        if seen is None and due is None:
            return self._first()
        if seen is not None and (due is None or due.taken):
            return seen
        mine = due is not None and self._may_wait()
        if due is not None and mine:
            due.taken = True
        reloads = self._reloads
        try:
            context, view, lasting = self._ask(anew=due is not None)
            shown = self._show(context, view, due, reloads) if lasting else seen
        except BaseException as error:
            if seen is not None and not mine and isinstance(error, EvaluationError):
                return seen
            # Also where a limit of time or a signal ends the wait.
            self._settle(due)
            raise
        if shown is not None:
            # Where nobody has awaited the refresh and this read cannot, it is what was seen before.
            return shown
        return self._seen() if lasting else self._for_now(view)

    def _show_fresh(self, own: Snapshot) -> Seen:
        """What `_seen` does with what is fresh, for those with whom no call matters."""
        made = Seen(own, None, {}, own.own, own.shared, False)
        if self._short is NOTHING:
            self._short = made
            return made
        # Others of this request have shown something meanwhile, or have begun to.
        return self._show(self._context, self._view(made), None, self._reloads) or made

    def _first(self) -> Seen:
        reloads = self._reloads
        context, view, lasting = self._ask(anew=False)
        if not lasting:
            return self._for_now(view)
        return self._show(context, view, None, reloads) or self._seen()

    def _for_now(self, view: View) -> Seen:
        """What a read sees that can neither wait nor is worth keeping."""
        made = Seen(None, view, {}, NO_ROWS, NO_ROWS)
        # Nothing is called from this look to the end, as in `_seen`.
        short, seen, early = self._short, self._kept, self._early
        if short is not NOTHING and short is not LATER:
            seen = short
        if seen is not None:
            # Another thread of this request could wait, or need not.
            return seen
        if early is None:
            self._early = made.counted
        else:
            made.counted = early
        if short is NOTHING:
            self._short = LATER
        return made

    async def _aseen(self) -> Seen:
        seen, due = self._shown(), self._due
        if seen is not None and (due is None or due.taken):
            return seen
        return await self._arrive()

    async def _arrive(self) -> Seen:
        due, reloads = self._due, self._reloads
        if due is None:
            context, view = await self._aask(anew=False)
        else:
            due.taken = True
            try:
                context, view = await self._aask(anew=True)
            finally:
                self._settle(due)
        return self._show(context, view, due, reloads) or await self._aseen()

    def _show(
        self, context: Context, view: View, due: _Refresh | None, reloads: int
    ) -> Seen | None:
        """Let this be what is seen; what is instead where others were faster.

        Args:
            context: Whom for.
            view: What was found for them.
            due: The refresh that it is for.
            reloads: How many there had been when it was asked for.

        Returns:
            ``None`` where it is another person's by now.
        """
        own, number = view.own, 0 if due is None else due.number
        if own is None or view.failure is not None:
            made = Seen(None, view, {}, NO_ROWS, NO_ROWS, number=number)
        else:
            # What the service has counted is on no list of ours.
            made = Seen(None, view, {}, own.own, own.shared, view.counted, number)
        # Nothing is called from this look to the end of the next lines, as in `_seen`.
        if reloads != self._reloads:
            return None
        short, seen, early = self._short, self._kept, self._early
        if short is not NOTHING and short is not LATER:
            seen = short
        if seen is not None and number <= seen.number:
            return self._show_as(seen, view, due)
        if early is not None:
            # What was asked for before is counted by whoever has asked.
            made.counted = early
        self._context, self._early = context, None
        if self._due is None or self._due is due:
            self._short, self._due, self._kept = made, None, None
        else:
            # Meanwhile, another refresh has been asked for.
            self._kept = made
        return made

    def _show_as(self, seen: Seen, view: View, due: _Refresh | None) -> Seen:
        """What others of this request have shown while this view was waited for.

        The first evaluation is everybody's, and of two refreshes the one that has begun later.
        """
        if due is None and view.counted and not seen.listed:
            # They waited for this very call, for which the service has counted each flag once.
            seen.listed = True
        self._settle(due)
        return seen

    def _make_due(self) -> bool:
        """Whether there is anything to evaluate before the next read."""
        if self._left_to_reads():
            self._forget()
            return False
        due = _Refresh()
        # Nothing is called from this look to the end, as in `_seen`.
        short = self._short
        if short is not NOTHING and short is not LATER:
            self._kept = short
        self._due, self._early, self._short = due, None, LATER
        return True

    def _settle(self, due: _Refresh | None) -> None:
        # Meanwhile, another one may have been asked for.
        if self._due is due:
            self._due = None
            if self._short is LATER:
                self._short = self._kept or (NOTHING if self._early is None else LATER)
                self._kept = None

    def _may_wait(self) -> bool:
        return self._may_block or not on_event_loop()
