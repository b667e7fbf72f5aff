"""The flags of one context, as one request sees them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, Self, TypeVar, overload

from ._evaluation import Evaluator
from ._overrides import overrides
from ._view import UNSET, View, overridden
from ._wire import Row
from .context import Context
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


class Flags:
    """All flags of one context: evaluated when the first is read, then the same to the end.

    A fresh cached evaluation needs no network. Otherwise there is one attempt,
    shared with every other request for the same context, and after a failure the
    last known good values. Reading never raises (unless ``disable_cache=True``).

    In a coroutine, ``await`` one of the awaitable verbs first; after that the plain
    ones answer from memory. A plain verb that comes first serves what is known
    without asking the service, since waiting would stop the whole event loop.

    Made by `ShipSilentlyClient.flags`.
    """

    __slots__ = ("_asked", "_client", "_context", "_may_block", "_rows", "_view")

    def __init__(self, client: Resolver, context: Context, *, may_block: bool = False) -> None:
        self._client = client
        self._context = context
        self._may_block = may_block
        self._view: View | None = None
        #: What has been asked for, so has been counted, and can be had without further ado.
        self._rows: dict[str, Row] = {}
        self._asked: set[str] = set()

    @property
    def context(self) -> Context:
        """Whom these flags are evaluated for."""
        return self._context

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
        if not self._left_to_reads():
            await self._aseen()
        return self

    def refresh(self) -> Self:
        """See what a new request would see now: for whatever lives longer than a request.

        What was read is forgotten, and counts anew. Nothing is asked where the client
        holds a fresh evaluation, so this may be called often.

        Returns:
            These flags.

        Raises:
            EvaluationError: The attempt failed and the cache is switched off. What was
                seen before stays.
        """
        if self._left_to_reads():
            return self._begin_anew(None)
        view, lasting = self._client.resolve(self._context, may_block=self._may_block)
        return self._begin_anew(view if lasting else None)

    async def arefresh(self) -> Self:
        """`refresh`, waiting in a task."""
        if self._left_to_reads():
            return self._begin_anew(None)
        return self._begin_anew(await self._client.aresolve(self._context))

    def evaluate_all(self) -> dict[str, EvaluationResult]:
        """Every flag of the environment, by key; at most one attempt, then from memory.

        Raises:
            EvaluationError: The attempt failed and the cache is switched off.
        """
        return overridden(self._seen().results())

    async def aevaluate_all(self) -> dict[str, EvaluationResult]:
        """`evaluate_all`, waiting in a task."""
        return overridden((await self._aseen()).results())

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
        if row is not None and not overrides.values:
            value = row.value
            if type(value) is type(default) and type(value) not in (dict, list):
                return value
        return self.detail(key, default).value

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
        return (await self.adetail(key, default)).value

    def is_enabled(self, key: str, *, default: bool = UNSET) -> bool:
        """Whether the flag is on: its value is ``True``, not merely truthy.

        Args:
            key: The flag.
            default: Left out, the one declared in the configuration, else ``False``.
        """
        default = self._client.evaluator.default(key, default, False)
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
        view = self._seen()
        result = evaluator.detail(view, key, default)
        if key not in self._asked:
            # However often one request asks for a flag, it is one check.
            self._asked.add(key)
            evaluator.count(view, result)
            if view.failure is None and view.own is not None and key in view.own.rows:
                self._rows[key] = view.own.rows[key]
        return result

    async def adetail(self, key: str, default: FlagValue = UNSET) -> EvaluationResult:
        """`detail`, waiting in a task."""
        if key not in overrides.values:
            await self._aseen()
        return self.detail(key, default)

    def as_(self, kind: type[Kind]) -> Kind:
        """The flags as a `FlagSet`: ``flags.as_(Checkout).banner``.

        In a coroutine, ``await flags.aload()`` first.
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
        return key in overrides.values or self._seen().find(key) is not None

    def __repr__(self) -> str:
        if self._view is None:
            return "<Flags: not evaluated yet>"
        own = self._view.own
        return f"<Flags: {0 if own is None else len(own.rows)} flags>"

    def _seen(self) -> View:
        if self._view is not None:
            return self._view
        view, lasting = self._client.resolve(self._context, may_block=self._may_block)
        return self._keep(view) if lasting else view

    async def _aseen(self) -> View:
        if self._view is not None:
            return self._view
        return self._keep(await self._client.aresolve(self._context))

    def _keep(self, view: View) -> View:
        if self._view is not None:
            # Two threads or tasks of one request have waited: the first one's is everybody's.
            return self._view
        self._view = view
        return view

    def _left_to_reads(self) -> bool:
        if not overrides.values:
            return False
        # A test's coroutine that has awaited these flags may read them, at the price of a wait.
        self._may_block = True
        return True

    def _begin_anew(self, view: View | None) -> Self:
        self._rows, self._asked, self._view = {}, set(), view
        return self
