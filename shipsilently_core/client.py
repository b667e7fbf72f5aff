"""The client: one per process, shared by all its threads and tasks."""

from __future__ import annotations

import functools
import random
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, overload

from . import signals
from ._kinds import as_key
from ._overrides import overrides
from ._process import (
    UNMARKED,
    Lock,
    ProcessGuard,
    at_exit_and_fork,
    in_thread,
    is_time_limit,
    on_event_loop,
    running_loop,
)
from ._seen import NOTHING
from ._snapshot import FROM_CACHE
from ._view import UNSET, View, overridden
from .config import Config, checked_seconds, configured
from .context import Context
from .errors import ClientClosedError
from .flags import Flags
from .values import (
    ConnectionState,
    EvaluationResult,
    Failure,
    FailureReport,
    FlagValue,
    Status,
)

if TYPE_CHECKING:
    from typing import TypeVar, Unpack

    from ._background import Background
    from ._clock import Clock
    from ._evaluation import Call
    from ._settings import Settings
    from ._snapshot import Snapshot
    from ._transport import Transport
    from ._watch import Results, Watch
    from ._wire import Reply
    from .handles import Flushed, Subscription

    #: The type of a default that is given by its name, and so of what comes back.
    Value = TypeVar("Value", bool, str, float, dict[str, Any])

__all__ = ["ShipSilentlyClient"]

#: Whether this code runs in a receiver of `signals.flag_evaluated`.
_telling: ContextVar[bool] = ContextVar("shipsilently-telling", default=False)

#: Seconds that the end of a process may be held up at most.
_EXIT_TIMEOUT = 1.0


class ShipSilentlyClient:
    """Evaluates flags for any number of contexts, and remembers what it was told.

    Make one per process and keep it: what it remembers is what is served when the
    service has a bad day. Each blocking verb has an awaitable one with the prefix
    ``a``. Making a client opens nothing and starts nothing; the first `Flags` that is
    read, `start`, or a subscription starts the background, in the process it happens in.

    Args:
        config: The settings; or give them as keywords, as `Config` spells them.
        transport: For tests: what to send with instead of HTTP. The background then
            starts with `start` only.
        clock: For tests: what tells the time.
        rng: For tests: gives numbers in ``[0, 1)``.

    Raises:
        ConfigurationError: A setting is missing or wrong.
    """

    def __init__(
        self,
        config: Config | None = None,
        *,
        transport: Transport | None = None,
        clock: Clock | None = None,
        rng: Callable[[], float] = random.random,
        **settings: Unpack[Settings],
    ) -> None:
        # Here, not above: what only names the client, as any module of a site, needs none of it.
        from ._clock import SystemClock
        from ._evaluation import Evaluator
        from ._resolver import Resolver
        from ._watch import Watch

        self._config = configured(config, settings)
        self._transport: Transport | None = transport
        self._clock = clock or SystemClock()
        self._rng = rng
        self._guard = ProcessGuard()
        self._lock = Lock()
        self.evaluator: Evaluator = Evaluator(
            self._config, self._clock, rng, self._report, self._dropped, self._evaluated
        )
        cache = self.evaluator.cache
        cache.prepare = self._begin_request
        #: For integrations: what a request sees where nobody has to be asked, else ``None``. The
        #: cache's own, since every request comes by here and most go no further.
        self.fresh: Callable[[Context], Snapshot | None] = cache.fresh
        self._resolver = Resolver(self.evaluator, self._sender, self._asender)
        self._emitter = signals.Emitter(self.evaluator.notices.once)
        self._has_network = transport is None
        self._starts_itself = self._config.background and self._has_network
        self._background: Background | None = None
        #: Whether a parent of this process had started its background, and this one has not yet.
        self._left_behind = False
        #: Whether the connections have been closed, after everything that used them had ended.
        self._let_go = False
        self._on_state: tuple[Callable[[ConnectionState], object], ...] = ()
        if self._config.on_state_change is not None:
            self._on_state = (self._config.on_state_change,)
        self._baseline = Watch(
            self.evaluator.baseline, self._config.polling_interval, self._baseline_results
        )
        self._watches: tuple[Watch, ...] = (self._baseline,)
        self._state_since: float | None = None
        at_exit_and_fork(self)

    @property
    def config(self) -> Config:
        """The settings, as checked."""
        return self._config

    def __repr__(self) -> str:
        return f"<ShipSilentlyClient {self._config.api_url}>"

    # One flag, one call.

    @overload
    def evaluate(
        self, flag_key: str, context: Context | Mapping[str, Any] | None, default: bool
    ) -> bool: ...
    @overload
    def evaluate(
        self, flag_key: str, context: Context | Mapping[str, Any] | None, default: str
    ) -> str: ...
    @overload
    def evaluate(
        self, flag_key: str, context: Context | Mapping[str, Any] | None, default: float
    ) -> float: ...
    @overload
    def evaluate(
        self, flag_key: str, context: Context | Mapping[str, Any] | None, default: dict[str, Any]
    ) -> dict[str, Any]: ...
    @overload
    def evaluate(
        self,
        flag_key: str,
        context: Context | Mapping[str, Any] | None = None,
        default: None = None,
    ) -> FlagValue: ...
    @overload
    def evaluate(
        self, flag_key: str, context: Context | Mapping[str, Any] | None = None, *, default: Value
    ) -> Value: ...
    def evaluate(self, flag_key: str, context: Any = None, default: Any = UNSET) -> Any:
        """The flag's value for this context: one attempt, never a retry.

        After a failure it is the context's last known good value, else the baseline,
        else the default; an unknown flag gives the default at once.

        Args:
            flag_key: Any string.
            context: Whom for.
            default: Left out, the one declared in the configuration, else ``None``. A
                value of another JSON type than the default's is not served.

        Raises:
            EvaluationError: The call failed and the cache is switched off.
        """
        return self.evaluate_detail(flag_key, context, default).value

    @overload
    async def aevaluate(
        self, flag_key: str, context: Context | Mapping[str, Any] | None, default: bool
    ) -> bool: ...
    @overload
    async def aevaluate(
        self, flag_key: str, context: Context | Mapping[str, Any] | None, default: str
    ) -> str: ...
    @overload
    async def aevaluate(
        self, flag_key: str, context: Context | Mapping[str, Any] | None, default: float
    ) -> float: ...
    @overload
    async def aevaluate(
        self, flag_key: str, context: Context | Mapping[str, Any] | None, default: dict[str, Any]
    ) -> dict[str, Any]: ...
    @overload
    async def aevaluate(
        self,
        flag_key: str,
        context: Context | Mapping[str, Any] | None = None,
        default: None = None,
    ) -> FlagValue: ...
    @overload
    async def aevaluate(
        self, flag_key: str, context: Context | Mapping[str, Any] | None = None, *, default: Value
    ) -> Value: ...
    async def aevaluate(self, flag_key: str, context: Any = None, default: Any = UNSET) -> Any:
        """`evaluate`, waiting in a task."""
        return (await self.aevaluate_detail(flag_key, context, default)).value

    def evaluate_detail(
        self,
        flag_key: str,
        context: Context | Mapping[str, Any] | None = None,
        default: FlagValue = UNSET,
    ) -> EvaluationResult:
        """As `evaluate`, with the reason, the source, and what went wrong."""
        key = as_key(flag_key)
        default = self.evaluator.default(key, default)
        values = overrides.values
        if key in values:
            return self.evaluator.overridden(key, values[key], default)
        call = self._prepare(context, flag_key)
        view = self.evaluator.conclude(call, self._send(call))
        return self.evaluator.concluded_detail(key, view, default)

    async def aevaluate_detail(
        self,
        flag_key: str,
        context: Context | Mapping[str, Any] | None = None,
        default: FlagValue = UNSET,
    ) -> EvaluationResult:
        """`evaluate_detail`, waiting in a task."""
        key = as_key(flag_key)
        default = self.evaluator.default(key, default)
        values = overrides.values
        if key in values:
            return self.evaluator.overridden(key, values[key], default)
        call = self._prepare(context, flag_key)
        view = self.evaluator.conclude(call, await self._asend(call))
        return self.evaluator.concluded_detail(key, view, default)

    # All flags, one call.

    def evaluate_all(
        self, context: Context | Mapping[str, Any] | None = None
    ) -> dict[str, EvaluationResult]:
        """Every flag of the environment for this context, by key: one attempt, never a retry.

        After a failure: the last known good values, with the reason ``error_fallback``.

        Raises:
            EvaluationError: The call failed and the cache is switched off.
        """
        call = self._prepare(context)
        return overridden(self.evaluator.conclude(call, self._send(call)).results())

    async def aevaluate_all(
        self, context: Context | Mapping[str, Any] | None = None
    ) -> dict[str, EvaluationResult]:
        """`evaluate_all`, waiting in a task."""
        call = self._prepare(context)
        return overridden(self.evaluator.conclude(call, await self._asend(call)).results())

    # What is known, without the network.

    @overload
    def get(
        self, flag_key: str, default: bool, context: Context | Mapping[str, Any] | None = None
    ) -> bool: ...
    @overload
    def get(
        self, flag_key: str, default: str, context: Context | Mapping[str, Any] | None = None
    ) -> str: ...
    @overload
    def get(
        self, flag_key: str, default: float, context: Context | Mapping[str, Any] | None = None
    ) -> float: ...
    @overload
    def get(
        self,
        flag_key: str,
        default: dict[str, Any],
        context: Context | Mapping[str, Any] | None = None,
    ) -> dict[str, Any]: ...
    @overload
    def get(
        self,
        flag_key: str,
        default: None = None,
        context: Context | Mapping[str, Any] | None = None,
    ) -> FlagValue: ...
    def get(self, flag_key: str, default: Any = UNSET, context: Any = None) -> Any:
        """The flag's last known good value for this context; never asks the service."""
        flag_key = as_key(flag_key)
        default = self.evaluator.default(flag_key, default)
        values = overrides.values
        if flag_key in values:
            return self.evaluator.overridden(flag_key, values[flag_key], default).value
        view = self._remembered(context)
        result = self.evaluator.detail(view, flag_key, default)
        self.evaluator.count(view, result)
        return result.value

    def get_all(
        self, context: Context | Mapping[str, Any] | None = None
    ) -> dict[str, EvaluationResult]:
        """Every flag that is known for this context; never asks the service."""
        return overridden(self._remembered(context).results())

    def _remembered(self, context: Context | Mapping[str, Any] | None) -> View:
        self._check_process()
        if not on_event_loop():
            self._recall()
        return self.evaluator.known(self.evaluator.context(context))

    # A request.

    def flags(
        self,
        context: Context | Mapping[str, Any] | None = None,
        /,
        *,
        block_event_loop: bool = False,
        **attributes: Any,
    ) -> Flags:
        """The flags of one request: nothing happens until the first is read.

        Args:
            context: Whom for; or give the attributes as keywords (``user_id="u1"``).
            block_event_loop: Let a plain read inside an event loop wait for the service.
                For loops that serve one request only, as Flask's do.
            attributes: See `Context`.
        """
        # As integrations give it, once in each request.
        if type(context) is not Context or attributes:
            context = Context(context, **attributes) if attributes else Context.of(context)
        if context.dropped:
            self.evaluator.tell_dropped(context)
        return Flags(self, context, NOTHING, block_event_loop)

    def resolve(self, context: Context, may_block: bool) -> tuple[View, bool]:
        """For integrations: what a request sees, and whether that is worth keeping."""
        if overrides.refused is not None and self._is_offline():
            return self._unasked(context), True
        self._begin_request()
        return self._resolver.resolve(context, may_block=may_block)

    def afresh(self, context: Context) -> Snapshot | None:
        """For integrations: `fresh`, in a task."""
        self._see_loop()
        return self.fresh(context)

    async def aresolve(self, context: Context) -> View:
        """For integrations: what a request sees, waiting in a task."""
        own = self.afresh(context)
        if own is not None:
            return View(own, (), self.evaluator.defaults, FROM_CACHE)
        if self._is_offline():
            return self._unasked(context)
        return await self._resolver.aresolve(context)

    # The life of the client.

    def start(self) -> None:
        """Start the background: it follows the stream and keeps values current.

        Returns at once and opens nothing itself; does nothing the second time. Called
        in an event loop, it notes that loop for receivers that are coroutine functions.

        Raises:
            ClientClosedError: The client has been closed.
        """
        if self.evaluator.closed:
            raise ClientClosedError("this client has been closed; make a new one")
        self._see_loop()
        self._check_process()
        if self._config.background:
            self._start()

    def wait_ready(self, timeout: float) -> bool:
        """Wait until the baseline has been evaluated, starting the background if need be.

        Args:
            timeout: Seconds.

        Returns:
            Whether it has been. If not, `FailureReport`, the log and the signals tell why.

        Raises:
            ClientClosedError: The client has been closed.
        """
        self.start()
        return self._baseline.ready.wait(timeout)

    async def await_ready(self, timeout: float) -> bool:
        """`wait_ready`, waiting in a task."""
        self.start()
        return await self._baseline.ready.await_(timeout)

    @property
    def connection_state(self) -> ConnectionState:
        """The state of the connection to the service."""
        background = self._background
        return ConnectionState.IDLE if background is None else background.state

    def stream(
        self,
        context: Context | Mapping[str, Any] | None,
        on_change: Callable[[dict[str, EvaluationResult]], object],
        *,
        on_state_change: Callable[[ConnectionState], object] | None = None,
        polling_interval: float | None = None,
    ) -> Subscription:
        """Follow the flags of one context; every subscription shares the one connection.

        Args:
            context: Whom for.
            on_change: Called with every flag, first when they are known and then
                whenever one has changed. A plain or a coroutine function.
            on_state_change: Called with each new state of the connection.
            polling_interval: Seconds between polls while nothing streams; the
                client's own where left out.

        Raises:
            ClientClosedError: The client has been closed.
            ConfigurationError: The interval is not a positive number of seconds.
        """
        from ._watch import Watch, differing
        from .handles import Subscription

        interval = self._config.polling_interval
        if polling_interval is not None:
            interval = checked_seconds("polling_interval", polling_interval)

        if self.evaluator.closed:
            raise ClientClosedError("this client has been closed; make a new one")
        self._see_loop()
        self._check_process()

        def tell(last: Results | None, new: Results, _announced: bool) -> None:
            if last is None or differing(last, new):
                self._emitter.call("a subscription's on_change", on_change, dict(new))

        watch = Watch(self.evaluator.context(context), interval, tell)
        hook = None
        if on_state_change is not None:
            # Of this subscription alone: the same function may serve others, which stay.
            hook = functools.partial(on_state_change)
        with self._lock:
            self._watches = (*self._watches, watch)
            if hook is not None:
                self._on_state = (*self._on_state, hook)
        self._start()
        background = self._background
        if background is not None:
            background.refresher.add(watch)
        return Subscription(lambda: self._end_subscription(watch, hook))

    def _end_subscription(self, watch: Watch, on_state: object) -> None:
        with self._lock:
            self._watches = tuple(other for other in self._watches if other is not watch)
            self._on_state = tuple(other for other in self._on_state if other is not on_state)
        background = self._background
        if background is not None:
            background.refresher.remove(watch)

    # Analytics and state.

    def flush(self, timeout: float = 2.0) -> int:
        """Deliver the flag checks counted so far.

        Args:
            timeout: Seconds for all of it.

        Returns:
            How many the service accepted. What it could not take now is kept.
        """
        self._check_process()
        if self.evaluator.analytics.idle or self._is_offline():
            return 0
        return self.evaluator.analytics.flush(self._sender().send, timeout)

    async def aflush(self, timeout: float = 2.0) -> int:
        """`flush`, waiting in a task."""
        self._check_process()
        if self.evaluator.analytics.idle or self._is_offline():
            return 0
        return await self.evaluator.analytics.aflush((await self._asender()).asend, timeout)

    def flushed(self, timeout: float = 2.0) -> Flushed[ShipSilentlyClient]:
        """Deliver the checks before a block, or a function, is left.

        For handlers whose process may be frozen or gone the moment they return: a
        context manager, plain and asynchronous, and a decorator of plain and
        coroutine functions.
        """
        from .handles import Flushed

        return Flushed(self, timeout)

    def status(self) -> Status:
        """What this client knows about itself, at this moment, in this process."""
        self._check_process()
        evaluator, tally = self.evaluator, self.evaluator.tally
        now = self._clock.time()
        seen = tally.last_success
        return Status(
            state=self.connection_state,
            since=self._state_since,
            ready=bool(self._baseline.ready.result),
            last_success=seen,
            age=None if seen is None else max(0.0, now - seen),
            contexts=len(evaluator.cache),
            attempts=tally.attempts,
            failures=dict(tally.failures),
            gate=evaluator.gate.closed,
            cool_down=evaluator.gate.probe_in() or 0.0,
            retry_after=evaluator.gate.held_for(),
            buffered_events=len(evaluator.analytics),
            dropped_events=evaluator.analytics.dropped,
            last_error=tally.last_error,
            pid=self._guard.pid,
            store=None if evaluator.keeper is None else evaluator.keeper.status(),
        )

    def close(self, timeout: float = 2.0) -> None:
        """Deliver what was counted and let go of everything, within about `timeout` seconds.

        Idempotent. What was known is still served afterwards, and nothing is asked any
        more. Safe to call from a receiver of a signal, and in a forked child.
        """
        if not self._close(timeout) and not self._let_go:
            # Another thread sees to it, and may still be using the connections.
            return
        transport = self._transport
        if transport is not None:
            transport.close()
        self._let_go = True

    def _close(self, timeout: float) -> bool:
        """End what runs and deliver what was counted; whether this is the call that did."""
        end = self._clock.monotonic() + timeout
        first, self.evaluator.closed = not self.evaluator.closed, True
        # After that: a child that only closes its copy starts nothing for it.
        self._check_process()
        with self._lock:
            background, self._background = self._background, None
        if background is not None:
            background.stop(timeout)
        if first:
            self.flush(max(0.0, end - self._clock.monotonic()))
            if self.evaluator.keeper is not None and not self._is_offline():
                self.evaluator.keeper.finish(max(0.0, end - self._clock.monotonic()))
        return first

    async def aclose(self, timeout: float = 2.0) -> None:
        """`close`, without stopping the event loop meanwhile."""
        await in_thread(lambda: self.close(timeout))
        transport = self._transport
        if transport is not None:
            await transport.aclose()

    def at_exit(self) -> None:
        """For the interpreter's end: let go, never hold it up, and say nothing any more."""
        self.evaluator.notices.silence()
        self.close(_EXIT_TIMEOUT)

    def after_fork(self) -> None:
        """For a forked child: drop what belongs to the parent. Started again on first use."""
        self._guard.check(self._leave_parent)

    # Inside.

    def _prepare(self, context: Any, flag_key: str | None = None) -> Call:
        self._check_process()
        call = self.evaluator.prepare(self.evaluator.context(context), flag_key)
        if call.request is not None and self._is_offline():
            overrides.refuse(self)
            return call.unsent()
        return call

    def _is_offline(self) -> bool:
        """Whether this client would use the network in a test that has none."""
        return overrides.refused is not None and self._has_network

    def _unasked(self, context: Context) -> View:
        """What a request sees in a test without the network."""
        view = self.evaluator.enter(context, may_wait=False)
        assert isinstance(view, View)
        if view.failure is not None and not self.evaluator.closed:
            overrides.refuse(self)
        self.evaluator.raise_if_strict(view, None)
        return view

    def _recall(self) -> None:
        """See to it that what earlier processes knew is there."""
        keeper = self.evaluator.keeper
        if keeper is not None and not self._is_offline():
            for latch, seconds in keeper.loading():
                latch.wait(seconds)

    def _send(self, call: Call) -> Reply | None:
        self._recall()
        return None if call.request is None else self._sender().send(call.request)

    async def _asend(self, call: Call) -> Reply | None:
        self._see_loop()
        keeper = self.evaluator.keeper
        if keeper is not None and not self._is_offline():
            for latch, seconds in keeper.loading():
                await latch.await_(seconds)
        return None if call.request is None else await (await self._asender()).asend(call.request)

    def _sender(self) -> Transport:
        transport = self._transport
        if transport is not None:
            return transport
        with self._lock:
            if self._transport is None:
                try:
                    # Here, not above: httpx is slow to import, and many processes never send.
                    from ._http import HttpTransport

                    self._transport = HttpTransport(self._config)
                except Exception as error:
                    if is_time_limit(error):
                        raise
                    # For instance since the process may open no more files. The next call tries it
                    # again, and this one fails like any other; its module is there already.
                    from ._resolver import Unready

                    return Unready(error)
            return self._transport

    async def _asender(self) -> Transport:
        if self._transport is None:
            # That import would stop the event loop for longer than a request takes.
            await in_thread(self._sender)
        return self._sender()

    def _check_process(self) -> None:
        self._guard.check(self._leave_parent)
        if self._left_behind and not self.evaluator.closed:
            self._left_behind = False
            self._start()

    def _leave_parent(self) -> None:
        """Everything but what is known belongs to the parent: threads, sockets, locks, loops."""
        self._lock = Lock()
        self._emitter.loop = None
        self._state_since = None
        self.evaluator.renew()
        for watch in self._watches:
            watch.renew()
        transport = self._transport
        if transport is not None:
            transport.forget()
        self.evaluator.cache.steady = UNMARKED
        self._left_behind = self._left_behind or self._background is not None
        self._background = None

    def _begin_request(self) -> None:
        if self._left_behind or not self._guard.mark[0]:
            self._check_process()
        if self._starts_itself:
            background = self._background
            if (background is None or not background.complete) and not self.evaluator.closed:
                self._start()
                background = self._background
            if background is None or not background.complete:
                return
        self.evaluator.cache.steady = self._guard.mark

    def _start(self) -> None:
        try:
            # Here, not above: processes that only import an app, and there are many, have none.
            from ._background import Background
        except Exception as error:
            if is_time_limit(error):
                raise
            # As in `_sender`.
            self.evaluator.notices.warn(
                "no background",
                "the background cannot be started now (%s); each request tries it again",
                type(error).__name__,
            )
            return
        with self._lock:
            if self.evaluator.closed or self._is_offline():
                # What is closed stays so, also where a request had looked just before.
                return
            background = self._background
            if background is None:
                background = self._background = Background(
                    self._config,
                    self._clock,
                    self._rng,
                    evaluator=self.evaluator,
                    transport=self._sender,
                    watches=self._watches,
                    tell=self,
                )
            elif background.complete:
                return
        background.start()
        if self.evaluator.closed:
            # By a handler of a signal, in the midst of this, which found nothing to end.
            self._background = None
            background.stop(0.0)

    def _see_loop(self) -> None:
        loop = self._emitter.loop
        if loop is None or loop.is_closed():
            self._emitter.loop = running_loop()

    def state(self, state: ConnectionState, previous: ConnectionState) -> None:
        """For the background: tell of a change of the connection's state."""
        self._state_since = self._clock.time()
        self._emitter.emit(signals.connection_state_changed, self, state=state, previous=previous)
        for function in self._on_state:
            self._emitter.call("on_state_change", function, state)

    def call(self, what: str, function: Callable[..., Any], *args: Any) -> None:
        """For the background: call a function that may raise."""
        self._emitter.call(what, function, *args)

    def _baseline_results(self, last: Results | None, new: Results, announced: bool) -> None:
        from ._watch import differing

        changed = frozenset[str]() if last is None else differing(last, new)
        for key in sorted(changed):
            old = None if last is None else last.get(key)
            self._emitter.emit(signals.flag_changed, key, client=self, old=old, new=new.get(key))
        if changed or announced:
            self._emitter.emit(signals.flags_updated, self, changed=changed)

    def _report(self, report: FailureReport) -> None:
        if report.failure is not Failure.STORE:
            self._emitter.emit(
                signals.evaluation_failed,
                self,
                failure=report.failure,
                status=report.status,
                flag_key=report.flag_key,
            )
        if self._config.on_error is not None:
            self._emitter.call("on_error", self._config.on_error, report)

    def _evaluated(self, result: EvaluationResult) -> None:
        if _telling.get():
            # A receiver reads flags itself.
            return
        token = _telling.set(True)
        try:
            self._emitter.emit(signals.flag_evaluated, self, result=result)
        finally:
            _telling.reset(token)

    def _dropped(self, count: int, cause: str) -> None:
        self._emitter.emit(signals.events_dropped, self, count=count, cause=cause)
