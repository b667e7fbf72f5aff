"""An evaluation in two steps, prepare and conclude, with the exchange left to the caller.

This is the failure matrix of the protocol, written once for the blocking and the
awaitable verbs. Nothing here does I/O.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct

from ._analytics import Analytics
from ._cache import Cache, SharedBodies, Stamp
from ._clock import Clock
from ._gate import Gate
from ._kinds import fits, unshared
from ._notices import Notices
from ._overrides import overrides
from ._process import Latch, Lock
from ._tally import Tally
from ._view import UNSET, View, default_result, override_result
from ._wire import (
    Reply,
    Request,
    Snapshot,
    batch_request,
    evaluate_request,
    failure_of,
    parse_batch,
    parse_row,
    result_of,
    retry_after,
)
from .config import Config
from .context import Context
from .errors import EvaluationError
from .signals import flag_evaluated
from .values import EvaluationResult, Failure, FailureReport, Source

__all__ = ["UNSET", "Attempt", "Call", "Evaluator", "View"]


#: Seconds beyond its deadline after which an attempt is given up by those who wait for it.
_GRACE = 0.25


class Call(Struct, frozen=True):
    """One call to the service, prepared.

    Attributes:
        context: Whom for.
        stamp: When it began.
        flag_key: The one flag asked for; ``None`` for a batch.
        request: What to send; ``None`` where nothing may be sent.
        refused: Why nothing may be sent.
    """

    context: Context
    stamp: Stamp
    flag_key: str | None
    request: Request | None
    refused: Failure | None = None


class Attempt(Latch[View]):
    """One call for one context that every request for that context waits for together.

    Attributes:
        call: What it is.
        request: What is sent.
        deadline: Monotonic seconds; after it, waiting is pointless.
        work: Holds the task that carries it out, which nothing else would.
    """

    def __init__(self, call: Call, request: Request, deadline: float) -> None:
        super().__init__()
        self.call = call
        self.request = request
        self.deadline = deadline
        self.work: object = None


class Evaluator:
    """Prepares calls, and draws the conclusions from how they ended.

    Args:
        config: The client's settings.
        clock: Time.
        rng: Gives a number in ``[0, 1)``.
        report: Called with each failure, outside every lock.
        dropped: Called with how many analytics events were lost, and why.
        evaluated: Called with what was served for a flag, where anybody listens to that.
    """

    def __init__(
        self,
        config: Config,
        clock: Clock,
        rng: Callable[[], float],
        report: Callable[[FailureReport], None],
        dropped: Callable[[int, str], None] = lambda count, cause: None,
        evaluated: Callable[[EvaluationResult], None] = lambda result: None,
    ) -> None:
        self._config = config
        self._clock = clock
        self._report = report
        self._evaluated = evaluated
        self.baseline = Context(config.baseline_context)
        self.cache = Cache(
            clock,
            max_contexts=config.max_contexts,
            max_age=config.max_age,
            fresh_for=config.polling_interval,
            pinned=self.baseline.body,
        )
        self._bodies = SharedBodies()
        self.gate = Gate(
            clock,
            rng,
            base=config.retry.base_delay,
            ceiling=config.polling_interval,
            timeout=config.timeout,
            max_contexts=config.max_contexts,
        )
        self.notices = Notices(clock)
        self.analytics = Analytics(
            config.analytics,
            clock,
            rng,
            base_delay=config.retry.base_delay,
            notices=self.notices,
            dropped=dropped,
        )
        self.tally = Tally(clock)
        self._lock = Lock()
        self._in_flight: dict[bytes, Attempt] = {}
        #: Called when the gate closes, so that the background starts to probe.
        self.wake: Callable[[], object] = lambda: None
        #: Set once nothing may be sent any more.
        self.closed = False

    def renew(self) -> None:
        """In a forked child: new locks, no attempt in flight, and what is known kept."""
        self._lock = Lock()
        self._in_flight = {}
        for part in (self.cache, self._bodies, self.gate, self.notices, self.analytics, self.tally):
            part.renew()

    # What a caller gives.

    def context(self, given: Context | Mapping[str, Any] | None) -> Context:
        """A caller's context, telling once of each attribute that cannot be sent."""
        context = Context.of(given)
        for name in context.dropped:
            self.notices.once(
                f"context {name}",
                "context attribute %r was left out: it must be a string, a finite number or a "
                "boolean",
                name,
            )
        return context

    def default(self, key: str, given: Any, otherwise: Any = None) -> Any:
        """The caller's default, else the declared one, else `otherwise`."""
        return self._config.defaults.get(key, otherwise) if given is UNSET else given

    # One call.

    def prepare(self, context: Context, flag_key: str | None = None) -> Call:
        """A call for one flag, or for all where `flag_key` is ``None``."""
        stamp = self.cache.stamp()
        refused = None
        if self.closed:
            refused = Failure.NETWORK
        elif self.gate.held_for():
            refused = Failure.THROTTLED
        if refused is not None:
            return Call(context, stamp, flag_key, None, refused)
        if flag_key is None:
            return Call(context, stamp, None, batch_request(context))
        request = evaluate_request(flag_key, context)
        # A key that cannot be sent cannot exist either.
        return Call(context, stamp, flag_key, request, None if request else Failure.NOT_FOUND)

    def conclude(self, call: Call, reply: Reply | None) -> View:
        """Take in how a call ended.

        Args:
            call: From `prepare`.
            reply: ``None`` where nothing was sent.

        Returns:
            What the caller gets to see, its failure included.

        Raises:
            EvaluationError: The call failed and the cache is switched off.
        """
        view = self.settle(call, reply)
        if view.failure is not None and view.failure is not Failure.NOT_FOUND:
            self.raise_if_strict(view, call.flag_key)
        return view

    def raise_if_strict(self, view: View, flag_key: str | None) -> None:
        """With the cache switched off, a failure is an exception."""
        if self._config.disable_cache and view.failure is not None:
            raise EvaluationError(view.failure, view.status, flag_key)

    def settle(self, call: Call, reply: Reply | None) -> View:
        """As `conclude`, never raising."""
        if reply is None:
            return self.known(call.context, call.refused)
        failure = failure_of(reply)
        if failure is None:
            stored = self._store(call, reply)
            if stored is not None:
                self._worked(call)
                view = self._view(stored, Source.SERVER)
                view.counted = True
                return view
            failure = Failure.PROTOCOL
        if call.flag_key is not None and reply.status == 404 and reply.failure is None:
            self._worked(call)
            self._tell_missing(call.flag_key, reply.status)
            failure = Failure.NOT_FOUND
        else:
            self._failed(call, reply, failure)
        view = self.known(call.context, failure, reply.status)
        view.latency_ms = (self._clock.monotonic() - call.stamp.moment) * 1000.0
        return view

    def _store(self, call: Call, reply: Reply) -> Snapshot | None:
        key = call.context.body
        if call.flag_key is not None:
            row = parse_row(reply.body, call.flag_key)
            if row is None:
                return None
            self.cache.store_row(key, call.flag_key, row, call.stamp)
            return Snapshot({call.flag_key: row}, complete=False)
        malformed: list[str] = []
        snapshot = self._bodies.get(reply.body)
        if snapshot is None:
            parsed = parse_batch(reply.body)
            if parsed is None:
                return None
            rows, malformed = parsed
            snapshot = Snapshot(rows, complete=True)
            if malformed:
                self.notices.warn(
                    "malformed",
                    "the service sent %d malformed results, the first for flag %r; their last "
                    "known good values stay",
                    len(malformed),
                    malformed[0],
                )
            else:
                self._bodies.put(reply.body, snapshot)
        return self.cache.store_batch(key, snapshot, malformed, call.stamp).snapshot

    def _worked(self, call: Call) -> None:
        self.tally.succeeded()
        self.gate.succeeded(call.context.body)
        self.notices.working(lambda: len(self.cache))

    def _failed(self, call: Call, reply: Reply, failure: Failure) -> None:
        pause = retry_after(reply, now=self._clock.time(), base=self._config.retry.base_delay)
        if pause is not None:
            self.gate.hold(pause)
        if self.gate.failed(call.context.body, failure, connected=reply.connected):
            self.wake()
        self.notices.broken()
        message = _describe(failure, reply)
        self.notices.warn(f"failure {failure}", "%s; last known good values are served", message)
        report = FailureReport(failure, reply.status, call.flag_key, message)
        self.tally.failed(report)
        self._report(report)

    # One request.

    def enter(self, context: Context, *, may_wait: bool) -> View | tuple[Attempt, bool]:
        """What a request can use now, or the attempt that it leads or joins.

        Args:
            context: Whom for.
            may_wait: Whether the request may wait for the network here.

        Returns:
            A view; or an attempt and whether this caller has to carry it out.
        """
        key = context.body
        entry = self.cache.get(key)
        if entry is not None and self.cache.is_fresh(entry) and not self._config.disable_cache:
            return self._view(entry.snapshot, Source.CACHE)
        if self.closed:
            return self.known(context, Failure.NETWORK)
        if not may_wait:
            return self.known(context, Failure.TIMEOUT)
        now = self._clock.monotonic()
        with self._lock:
            running = self._in_flight.get(key)
            if running is not None and self._worth_joining(running, now):
                return running, False
            refused = self.gate.admit(key, known=entry is not None)
            if refused is None:
                request = batch_request(context)
                call = Call(context, self.cache.stamp(), None, request)
                attempt = Attempt(call, request, now + self._config.timeout)
                self._in_flight[key] = attempt
                self.gate.under_way(key)
                return attempt, True
        return self.known(context, refused)

    def _worth_joining(self, attempt: Attempt, now: float) -> bool:
        # One that began before the latest change would bring what was true before it.
        return (
            now < attempt.deadline + _GRACE
            and attempt.call.stamp.generation == self.cache.generation
        )

    def patience(self, attempt: Attempt) -> float:
        """Seconds for which it makes sense to wait for an attempt that another carries out."""
        return max(0.0, attempt.deadline + _GRACE - self._clock.monotonic())

    def finish(self, attempt: Attempt, reply: Reply) -> None:
        """The attempt that this caller carried out has ended: tell all who wait."""
        view: View | None = None
        try:
            view = self.settle(attempt.call, reply)
        finally:
            self._leave(attempt, view)

    def abandon(self, attempt: Attempt) -> None:
        """The caller was interrupted before its attempt ended: one of the others starts anew."""
        self._leave(attempt, None)

    def _leave(self, attempt: Attempt, view: View | None) -> None:
        key = attempt.call.context.body
        with self._lock:
            if self._in_flight.get(key) is attempt:
                del self._in_flight[key]
                self.gate.ended(key)
        attempt.set(view)

    # What is known, without the network.

    def known(
        self, context: Context, failure: Failure | None = None, status: int | None = None
    ) -> View:
        """The context's last known good values, and what stands in for them."""
        entry = self.cache.get(context.body)
        own = None if entry is None else entry.snapshot
        return self._view(own, Source.CACHE, failure, status)

    def _view(
        self,
        own: Snapshot | None,
        source: Source,
        failure: Failure | None = None,
        status: int | None = None,
    ) -> View:
        baseline = None
        if own is None or not own.complete or failure is not None:
            entry = self.cache.get(self.baseline.body)
            baseline = None if entry is None else entry.snapshot
        return View(own, baseline, self._config.defaults, source, failure, status)

    def detail(self, view: View, key: str, default: Any) -> EvaluationResult:
        """One flag of a view, as a result; the default where nothing better fits."""
        found = view.find(key)
        if found is None:
            if view.failure is not None:
                return default_result(key, default, view.failure)
            self._tell_missing(key, None, asked=view.own is not None and view.own.complete)
            return default_result(key, default, Failure.NOT_FOUND)
        row, source = found
        if not fits(row.value, default):
            return self._mismatch(key, row.value, default)
        result = result_of(key, row, source, fallback=view.failure is not None)
        if type(row.value) in (dict, list):
            return EvaluationResult(
                key, unshared(row.value), result.reason, row.ruleId, source, result.error
            )
        return result

    def overridden(self, key: str, default: Any) -> EvaluationResult:
        """What a test has set for this flag, held to the same types as any other value."""
        value, on_read = overrides.values[key], overrides.on_read
        if on_read is not None:
            on_read(key)
        if fits(value, default):
            return override_result(key, value)
        return self._mismatch(key, value, default)

    def concluded_detail(self, key: str, view: View, default: Any) -> EvaluationResult:
        """The result of `conclude` for the one flag that was asked for, counted."""
        if view.failure is Failure.NOT_FOUND:
            # Definitive: what the cache may hold of it is not looked at.
            result = default_result(key, default, Failure.NOT_FOUND)
        else:
            result = self.detail(view, key, default)
        self.count(view, result)
        return result

    def count(self, view: View, result: EvaluationResult) -> None:
        """Tell of the check of a flag that is about to be served, and count it here unless the
        service has.
        """
        if flag_evaluated.receivers:
            self._evaluated(result)
        if not view.is_counted(result.flag_key):
            self.analytics.record(
                result.flag_key, unshared(result.value), result.reason, view.latency_ms
            )

    def report_mismatch(self, key: str, value: object, why: str) -> None:
        """Tell that a flag's value was not served, since its type is not the expected one."""
        message = f"flag {key!r} holds a {type(value).__name__} {why}"
        self.notices.warn(f"type {key} {why}", "%s; the default is served", message)
        self._report(FailureReport(Failure.TYPE_MISMATCH, None, key, message))

    def _mismatch(self, key: str, value: Any, default: Any) -> EvaluationResult:
        expected = type(default).__name__
        self.report_mismatch(key, value, f"but is read with a default of type {expected}")
        return default_result(key, default, Failure.TYPE_MISMATCH)

    def _tell_missing(self, key: str, status: int | None, *, asked: bool = True) -> None:
        message = f"the service knows no flag {key!r}"
        if not asked:
            message = f"nothing is known of flag {key!r} yet"
        self.notices.once(f"missing {asked} {key}", "%s; the default is served", message)
        self._report(FailureReport(Failure.NOT_FOUND, status, key, message))


def _describe(failure: Failure, reply: Reply) -> str:
    """What went wrong, in one line without a secret: no body, no address with a query, no key."""
    if failure is Failure.TIMEOUT:
        return "the service did not answer in time"
    if failure is Failure.NETWORK:
        return f"the service could not be reached ({reply.cause})"
    if failure is Failure.AUTH:
        return f"the service refused the API key (HTTP {reply.status})"
    if failure is Failure.THROTTLED:
        return f"the service asked for a pause (HTTP {reply.status})"
    if failure is Failure.SERVER:
        return f"the service failed (HTTP {reply.status})"
    if reply.status is None:
        return f"the service's answer could not be read ({reply.cause})"
    kind = reply.headers.get("content-type", "no content type")[:100]
    what = f"; {reply.cause}" if reply.cause else ""
    return f"the service's answer is not the promised JSON (HTTP {reply.status}, {kind}{what})"
