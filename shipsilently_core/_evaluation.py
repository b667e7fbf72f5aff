"""An evaluation in two steps, prepare and conclude, with the exchange left to the caller.

This is the failure matrix of the protocol, written once for the blocking and the
awaitable verbs. Nothing here does I/O.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from ._cache import SharedBodies, Stamp
from ._clock import Clock
from ._gate import Gate
from ._knowledge import Knowledge
from ._likeness import Likeness
from ._process import Latch, Lock
from ._snapshot import Snapshot
from ._tally import Tally
from ._view import (
    UNSET,
    View,
    default_result,
)
from ._wire import (
    Reply,
    Request,
    batch_request,
    evaluate_request,
    failure_of,
    parse_row,
    retry_after,
)
from .config import Config
from .context import Context
from .errors import EvaluationError
from .values import EvaluationResult, Failure, FailureReport, Source

if TYPE_CHECKING:
    from ._consult import Consultation
    from ._keeper import Wait

__all__ = ["UNSET", "Attempt", "Call", "Evaluator", "View"]


#: Shares of the timeout: so long a call may take at least, whatever was waited for before it, and
#: so long other processes are waited for.
_LEAST, _PATIENCE = 0.25, 0.5
#: Seconds beyond its deadline after which an attempt is given up by those who wait for it.
_GRACE = 0.25
#: So many of those that will never end are forgotten whenever another begins.
_AT_A_TIME = 2


class Call(Struct, frozen=True):
    """One call to the service, prepared.

    Attributes:
        context: Whom for.
        stamp: When it began.
        flag_key: The one flag asked for; ``None`` for a batch.
        request: What to send; ``None`` where nothing may be sent.
        refused: Why nothing may be sent.
        kept: The moment by a shared store's clock, where one was asked just before.
    """

    context: Context
    stamp: Stamp
    flag_key: str | None
    request: Request | None
    refused: Failure | None = None
    kept: float | None = None

    def unsent(self) -> Call:
        """The same for a client that has no network."""
        return Call(self.context, self.stamp, self.flag_key, None, Failure.NETWORK)


class Attempt(Latch[View]):
    """One call for one context that every request for that context waits for together.

    Attributes:
        call: What it is.
        request: What is sent.
        deadline: Monotonic seconds; after it, waiting is pointless.
        consults: Whether a store is to be asked first; see `Evaluator.consult`.
        view: What it gave where the service need not, or must not, be asked.
        leads: Whether other processes leave it to this one to ask the service.
        work: Holds the task that carries it out, which nothing else would.
        thread: The thread that it blocks.
        error: What that raised and whoever wanted it is to see; a transport raises nothing.
    """

    def __init__(
        self, call: Call, request: Request, deadline: float, *, consults: bool = False
    ) -> None:
        super().__init__()
        self.call = call
        self.request = request
        self.deadline = deadline
        self.consults = consults
        self.view: View | None = None
        self.leads = False
        self.work: object = None
        self.thread: int | None = None
        self.error: Exception | None = None


class Evaluator(Knowledge):
    """Prepares calls, and draws the conclusions from how they ended.

    Args:
        config: As for `Knowledge`, like the rest.
        clock: The same.
        rng: The same.
        report: The same.
        dropped: The same.
        evaluated: The same.
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
        super().__init__(config, clock, rng, report, dropped, evaluated)
        self._bodies = SharedBodies()
        self._likeness = Likeness()
        self.gate: Gate = Gate(
            clock,
            rng,
            base=config.retry.base_delay,
            ceiling=config.polling_interval,
            timeout=config.timeout,
            max_contexts=config.max_contexts,
        )
        self.tally: Tally = Tally(clock)
        self._lock = Lock()
        self._in_flight: dict[bytes, Attempt] = {}
        #: Called when the gate closes, so that the background starts to probe.
        self.wake: Callable[[], object] = lambda: None
        #: Set once nothing may be sent any more.
        self.closed = False

    def renew(self) -> None:
        """In a forked child: new locks, no attempt in flight, and what is known kept."""
        super().renew()
        self._lock = Lock()
        self._in_flight = {}
        for part in (self._bodies, self.gate, self.tally):
            part.renew()

    # One call.

    def prepare(
        self, context: Context, flag_key: str | None = None, *, kept: float | None = None
    ) -> Call:
        """A call for one flag, or for all where `flag_key` is ``None``.

        Args:
            context: Whom for.
            flag_key: Which flag.
            kept: See `Call`.
        """
        stamp = self.cache.stamp()
        refused = None
        if self.closed:
            refused = Failure.NETWORK
        elif self.gate.held_for():
            refused = Failure.THROTTLED
        if refused is not None:
            return Call(context, stamp, flag_key, None, refused)
        if flag_key is None:
            return Call(context, stamp, None, batch_request(context), kept=kept)
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

    def concluded_detail(self, key: str, view: View, default: Any) -> EvaluationResult:
        """The result of `conclude` for the one flag that was asked for, counted."""
        if view.failure is Failure.NOT_FOUND:
            # Definitive: what the cache may hold of it is not looked at.
            result = default_result(key, default, Failure.NOT_FOUND)
        else:
            result = self.detail(view, key, default)
        self.count(view, result)
        return result

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
                view = View(stored, (), self.defaults, Source.SERVER)
                if call.flag_key is not None:
                    view.stand_ins = self.stand_ins()
                view.counted = True
                return view
            failure = Failure.PROTOCOL
        if call.flag_key is not None and reply.status == 404 and reply.failure is None:
            self._worked(call)
            self.tell_missing(call.flag_key, reply.status)
            failure = Failure.NOT_FOUND
        else:
            self._failed(call, reply, failure)
        view = self.known(call.context, failure, reply.status)
        view.latency_ms = (self._clock.monotonic() - call.stamp.moment) * 1000.0
        return view

    def _store(self, call: Call, reply: Reply) -> Snapshot | None:
        key = call.context.key
        if call.flag_key is not None:
            row = parse_row(reply.body, call.flag_key)
            if row is None:
                return None
            row = self.cache.store_row(key, call.flag_key, row, call.stamp)
            return Snapshot({call.flag_key: row}, complete=False)
        malformed: list[str] = []
        snapshot = self._bodies.get(reply.body)
        if snapshot is None:
            read = self._likeness.read(reply.body)
            if read is None:
                return None
            snapshot, malformed = read
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
        entry = self.cache.store_batch(key, snapshot, malformed, call.stamp, kept=call.kept)
        if self.keeper is not None:
            self.keeper.keep(key, entry.snapshot, call.kept)
        return entry.snapshot

    def _worked(self, call: Call) -> None:
        self.tally.succeeded()
        self.gate.succeeded(call.context.key)
        self.notices.working(lambda: len(self.cache))

    def _failed(self, call: Call, reply: Reply, failure: Failure) -> None:
        self._report(self._note_failure(call, reply, failure))

    def _note_failure(self, call: Call, reply: Reply, failure: Failure) -> FailureReport:
        pause = retry_after(reply, now=self._clock.time(), base=self._config.retry.base_delay)
        if pause is not None:
            self.gate.hold(pause)
        if self.gate.failed(call.context.key, failure, connected=reply.connected):
            self.wake()
        self.notices.broken()
        message = _describe(failure, reply)
        self.notices.warn(f"failure {failure}", "%s; %s", message, self._what_serves())
        report = FailureReport(failure, reply.status, call.flag_key, message)
        self.tally.failed(report)
        return report

    def _what_serves(self) -> str:
        """What requests get while the service gives nothing, in words for the log."""
        if len(self.cache):
            return "last known good values are served"
        if self._bootstrap:
            return "nothing is known yet, so the values that were shipped are served"
        return "nothing is known yet, so defaults are served"

    # One request.

    def enter(self, context: Context, *, may_wait: bool) -> View | tuple[Attempt, bool]:
        """What a request can use now, or the attempt that it leads or joins.

        Args:
            context: Whom for.
            may_wait: Whether the request may wait for the network here.

        Returns:
            A view; or an attempt and whether this caller has to carry it out.
        """
        key = context.key
        fresh = self.cache.fresh(context)
        if fresh is not None:
            return self.current(fresh)
        entry = self.cache.get(key)
        if self.closed:
            return self.known(context, Failure.NETWORK)
        if not may_wait:
            return self.known(context, Failure.TIMEOUT)
        now = self._clock.monotonic()
        with self._lock:
            running = self._in_flight.get(key)
            if running is not None and self._worth_joining(running, now):
                return running, False
            consults = self.keeper is not None and self.keeper.has_more(entry)
            refused = None if consults else self.gate.admit(key, known=entry is not None)
            if refused is None:
                request = batch_request(context)
                call = Call(context, self.cache.stamp(), None, request)
                attempt = Attempt(call, request, now + self._config.timeout, consults=consults)
                self._let_dead_go(now)
                # The oldest stays first.
                self._in_flight.pop(key, None)
                self._in_flight[key] = attempt
                if not consults:
                    self.gate.under_way(key)
                return attempt, True
        return self.known(context, refused)

    def _let_dead_go(self, now: float) -> None:
        """Forget attempts whose event loop was closed before they had ended."""
        for key, attempt in list(islice(self._in_flight.items(), _AT_A_TIME)):
            if now - attempt.deadline <= self._config.timeout:
                break
            del self._in_flight[key]

    def consult(self, attempt: Attempt) -> Iterator[Wait]:
        """Ask the store before the service.

        Afterwards either `Attempt.view` is there, or `Attempt.request` is to be sent.

        Yields:
            What to wait for, and for how many seconds at most, before going on.
        """
        keeper, context = self.keeper, attempt.call.context
        assert keeper is not None
        yield from keeper.loading()
        entry, kept = self.entry(context.key), None
        consultation = self.consultation(context)
        if consultation is not None:
            yield from consultation.steps()
            attempt.leads, kept = consultation.leads, consultation.kept
            if consultation.entry is not None:
                attempt.view = self.current(consultation.entry.snapshot)
                return
            entry = self.entry(context.key)
            if consultation.given_up and entry is not None:
                # As for one who waits for an attempt of this process that does not end.
                attempt.view = self.known(context, Failure.TIMEOUT)
                return
        refused = self.gate.admit(context.key, known=entry is not None)
        if refused is not None:
            attempt.view = self.known(context, refused)
            return
        # What was waited for is taken from the deadline; asked for is what is true now.
        left = max(attempt.deadline - self._clock.monotonic(), self._config.timeout * _LEAST)
        request = Request(attempt.request.path, attempt.request.body, left)
        attempt.request = request
        attempt.call = Call(context, self.cache.stamp(), None, request, kept=kept)
        self.gate.under_way(context.key)

    def consultation(self, context: Context) -> Consultation | None:
        """A look into the store that other processes use too; ``None`` where there is none."""
        keeper = self.keeper
        if keeper is None or not keeper.shared:
            return None
        return keeper.consultation(
            context.key,
            patience=self._config.timeout * _PATIENCE,
            may_ask=self.gate.closed is None and not self.gate.held_for(),
        )

    def _worth_joining(self, attempt: Attempt, now: float) -> bool:
        # One that began before the latest change would bring what was true before it.
        return (
            now < attempt.deadline + _GRACE
            and attempt.call.stamp.generation == self.cache.generation
        )

    def patience(self, attempt: Attempt) -> float:
        """Seconds for which it makes sense to wait for an attempt that another carries out."""
        return max(0.0, attempt.deadline + _GRACE - self._clock.monotonic())

    def finish(self, attempt: Attempt, reply: Reply | None) -> None:
        """The attempt that this caller carried out has ended: tell all who wait.

        Args:
            attempt: Which.
            reply: ``None`` where the store had the answer.
        """
        view: View | None = attempt.view
        try:
            if reply is not None:
                view = self.settle(attempt.call, reply)
        finally:
            self._leave(attempt, view)

    def abandon(self, attempt: Attempt, *, cut_off: bool = False) -> None:
        """The caller was interrupted before its attempt ended: one of the others starts anew.

        Args:
            attempt: Which did not end.
            cut_off: Whether a request's own time limit may have been what interrupted it.
        """
        call = attempt.call
        if cut_off and self.gate.has_waited(call.context.key):
            # Else every request would be cut off whose own limit is shorter than a call's deadline.
            # Its time is over, so nobody's receivers are called.
            self._note_failure(call, Reply(failure=Failure.TIMEOUT), Failure.TIMEOUT)
        self._leave(attempt, None)

    def release(self, context: Context) -> None:
        """Other processes are not to wait any longer for what this one was to ask for."""
        assert self.keeper is not None
        self.keeper.release(context.key)

    def kept(self) -> Latch[bool] | None:
        """What is left to do for a store after an attempt; to be waited for by who made it."""
        return None if self.keeper is None else self.keeper.deliver()

    def _leave(self, attempt: Attempt, view: View | None) -> None:
        key = attempt.call.context.key
        if attempt.leads and (view is None or view.failure is not None):
            self.release(attempt.call.context)
        with self._lock:
            if self._in_flight.get(key) is attempt:
                del self._in_flight[key]
                self.gate.ended(key)
        attempt.set(view)


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
