"""Keeps the background's own contexts current: on a change, by polling, and as a probe."""

from __future__ import annotations

from collections.abc import Callable

from ._backoff import full_jitter
from ._clock import Clock
from ._evaluation import Evaluator
from ._process import Bell, Lock
from ._watch import Results, Watch
from ._wire import Reply, Request
from .context import Context

__all__ = ["Refresher"]


class Refresher:
    """Evaluates the watched contexts in one thread, each when it is time.

    Args:
        evaluator: Draws the conclusions.
        send: Carries out one call.
        clock: Time.
        rng: Gives a number in ``[0, 1)``.
        bell: Waited on between evaluations, rung when there may be something to do.
        base: Seconds; the base of the backoff after a failure.
        isolate: Calls a function of the user's, whatever it does.
    """

    def __init__(
        self,
        evaluator: Evaluator,
        send: Callable[[Request], Reply],
        clock: Clock,
        rng: Callable[[], float],
        *,
        bell: Bell,
        base: float,
        isolate: Callable[..., None],
    ) -> None:
        self._evaluator = evaluator
        self._send = send
        self._clock = clock
        self._rng = rng
        self._bell = bell
        self._base = base
        self._isolate = isolate
        self._lock = Lock()
        self._watches: tuple[Watch, ...] = ()
        #: Whether the service tells of changes by itself, so that nothing is polled.
        self.streaming = False

    def add(self, watch: Watch) -> None:
        """Evaluate this context too, at once and from now on."""
        with self._lock:
            if watch not in self._watches:
                self._watches = (*self._watches, watch)
        self._bell.ring()

    def remove(self, watch: Watch) -> None:
        """Do not evaluate this context any more."""
        with self._lock:
            self._watches = tuple(other for other in self._watches if other is not watch)

    def changed(self) -> None:
        """The service has said that something changed; any number of such words cost one round."""
        for watch in self._watches:
            watch.announced = watch.stale = True
        self._bell.ring()

    def missed(self) -> None:
        """Something may have changed without a word of the service."""
        for watch in self._watches:
            watch.stale = True
        self._bell.ring()

    def unwatched(self) -> None:
        """Nothing streams any more: poll soon, but not in step with every other process.

        Waiting for the whole interval would leave a change of these seconds unseen, and
        leave it to a request to find out that the service is gone.
        """
        now = self._clock.monotonic()
        for watch in self._watches:
            watch.due = now + full_jitter(0, self._base, watch.interval, self._rng)
        self._bell.ring()

    def run(self) -> None:
        """Evaluate until the bell is closed."""
        while not self._bell.wait(self.due_in()):
            self.round()

    def due_in(self) -> float | None:
        """Seconds until there is something to do; ``None`` for not until the bell rings."""
        now = self._clock.monotonic()
        held = self._evaluator.gate.held_for()
        probe = self._evaluator.gate.probe_in()
        if probe is not None:
            return max(probe, held)
        moments = [self._moment(watch) for watch in self._watches]
        first = min((moment for moment in moments if moment is not None), default=None)
        return None if first is None else max(0.0, first - now, held)

    def _moment(self, watch: Watch) -> float | None:
        if watch.failures:
            return watch.due
        if watch.stale:
            return 0.0
        return None if self.streaming else watch.due

    def round(self) -> None:
        """Evaluate every context whose time has come."""
        gate = self._evaluator.gate
        if gate.held_for():
            return
        probe = gate.probe_in()
        if probe is not None:
            if probe <= 0:
                for watch in self._watches[:1]:
                    self._refresh(watch)
            return
        for watch in self._watches:
            moment = self._moment(watch)
            if moment is not None and moment <= self._clock.monotonic():
                self._refresh(watch)
                if gate.closed is not None:
                    return

    def _refresh(self, watch: Watch) -> None:
        announced, watch.announced, watch.stale = watch.announced, False, False
        try:
            results = self._evaluate(watch.context)
        except Exception as error:
            # Whatever it is, it must stop neither the other contexts nor the next try.
            self._evaluator.notices.warn(
                f"background {type(error).__name__}",
                "the background evaluation raised %s; it goes on",
                type(error).__name__,
            )
            results = None
        if watch not in self._watches:
            # Nobody follows it any more.
            return
        now = self._clock.monotonic()
        if results is not None:
            watch.failures = 0
            watch.due = now + watch.interval
            self._isolate(watch.take, results, announced)
        else:
            # Not the request path: here trying again is the job.
            watch.announced |= announced
            watch.due = now + full_jitter(watch.failures, self._base, watch.interval, self._rng)
            watch.failures += 1

    def _evaluate(self, context: Context) -> Results | None:
        """The context's flags as they are now; ``None`` where that cannot be learnt."""
        evaluator = self._evaluator
        # Only where changes are told of: nobody wants to poll for what another polled a while ago.
        consultation = evaluator.consultation(context) if self.streaming else None
        if consultation is not None and evaluator.gate.closed is None:
            # After a change, every process of a fleet wants to know this.
            for latch, seconds in consultation.steps():
                if self._bell.closed:
                    return None
                latch.wait(seconds)
            if consultation.entry is not None:
                return evaluator.current(consultation.entry.snapshot).results()
        call = evaluator.prepare(context, kept=consultation.kept if consultation else None)
        reply = None if call.request is None else self._send(call.request)
        if self._bell.closed:
            # The client's own end is no failure of the service.
            return None
        view = evaluator.settle(call, reply)
        if view.failure is None:
            return view.results()
        if consultation is not None and consultation.leads:
            evaluator.release(context)
        return None
