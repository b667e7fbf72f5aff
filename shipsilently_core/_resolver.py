"""What a request gets to see: from the cache, or by an attempt that it leads or joins."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from ._evaluation import Attempt, Evaluator
from ._process import on_event_loop, spawn, this_thread
from ._view import View
from ._wire import Reply, Request
from .context import Context
from .values import Failure

if TYPE_CHECKING:
    from ._stream import StreamReader
    from ._transport import Transport

__all__ = ["Resolver", "Unready"]


class Resolver:
    """Waits for the network in the place of requests, one attempt for all of one context.

    Args:
        evaluator: Knows what is known, and draws the conclusions.
        transport: Gives the network when it is first needed.
        atransport: The same, in a task.
    """

    def __init__(
        self,
        evaluator: Evaluator,
        transport: Callable[[], Transport],
        atransport: Callable[[], Awaitable[Transport]],
    ) -> None:
        self.evaluator = evaluator
        self._transport = transport
        self._atransport = atransport

    def resolve(self, context: Context, *, may_block: bool) -> tuple[View, bool]:
        """What a request sees, and whether that is worth keeping for all of it.

        Args:
            context: Whom for.
            may_block: Whether to wait for the network inside an event loop too.

        Raises:
            EvaluationError: The attempt failed and the cache is switched off.
        """
        may_wait = may_block or not on_event_loop()
        view: View | None = None
        while view is None:
            step = self.evaluator.enter(context, may_wait=may_wait)
            if isinstance(step, View):
                view = step
            else:
                attempt, leads = step
                view = self._lead(attempt) if leads else self._follow(attempt)
        lasting = may_wait or view.failure is None
        if not lasting:
            self._tell_unawaited()
        self.evaluator.raise_if_strict(view, None)
        return view, lasting

    async def aresolve(self, context: Context) -> View:
        """`resolve`, waiting in a task."""
        view: View | None = None
        while view is None:
            step = self.evaluator.enter(context, may_wait=True)
            if isinstance(step, View):
                view = step
            else:
                attempt, leads = step
                if leads:
                    # A task of its own: the one that wanted it may be cancelled, others wait too.
                    attempt.work = spawn(self._alead(attempt))
                there = await attempt.await_(self.evaluator.patience(attempt))
                view = self._outcome(attempt, there, leads=leads)
                if leads and attempt.error is not None:
                    raise attempt.error
                left = self.evaluator.kept() if leads else None
                if left is not None:
                    await left.await_(0)
        self.evaluator.raise_if_strict(view, None)
        return view

    def _lead(self, attempt: Attempt) -> View | None:
        attempt.thread = this_thread()
        try:
            if attempt.consults:
                for latch, seconds in self.evaluator.consult(attempt):
                    latch.wait(seconds)
            reply = None
            if attempt.view is None:
                reply = self._transport().send(attempt.request)
        except BaseException:
            # The server interrupted this request, at its own time limit for instance.
            self.evaluator.abandon(attempt, cut_off=True)
            raise
        self.evaluator.finish(attempt, reply)
        left = self.evaluator.kept()
        if left is not None:
            left.wait(0)
        return attempt.result

    async def _alead(self, attempt: Attempt) -> None:
        try:
            if attempt.consults:
                for latch, seconds in self.evaluator.consult(attempt):
                    await latch.await_(seconds)
            reply = None
            if attempt.view is None:
                reply = await (await self._atransport()).asend(attempt.request)
            self.evaluator.finish(attempt, reply)
        except BaseException as error:
            if isinstance(error, Exception):
                # What nobody expected is its caller's to see, and not to be tried for ever.
                attempt.error = error
            self.evaluator.abandon(attempt)
            if attempt.error is None:
                raise

    def _follow(self, attempt: Attempt) -> View | None:
        # A handler of a signal may have come in the midst of its own thread's attempt.
        there = attempt.done or (
            attempt.thread != this_thread() and attempt.wait(self.evaluator.patience(attempt))
        )
        return self._outcome(attempt, there, leads=False)

    def _outcome(self, attempt: Attempt, there: bool, *, leads: bool) -> View | None:
        if there:
            view = attempt.result
            # The service has counted one request's checks, not those of all who waited.
            return view if view is None or leads else view.uncounted()
        return self.evaluator.known(attempt.call.context, Failure.TIMEOUT)

    def _tell_unawaited(self) -> None:
        self.evaluator.notices.warn(
            "unawaited",
            "a flag was read in a coroutine before the evaluation was awaited: what is known was "
            "served; write `await flags.aevaluate_all()` first",
        )


class Unready:
    """Stands in for a transport that cannot be made now: every call fails as without a network.

    Args:
        error: Why.
    """

    def __init__(self, error: Exception) -> None:
        # Its text may name anything.
        self._reply = Reply(failure=Failure.NETWORK, connected=False, cause=type(error).__name__)

    def send(self, request: Request) -> Reply:
        """See `Transport`, like the rest."""
        return self._reply

    async def asend(self, request: Request) -> Reply:
        return self._reply

    def close(self) -> None: ...

    async def aclose(self) -> None: ...

    def forget(self) -> None: ...

    def open_stream(self, ticket: str) -> StreamReader | Reply:
        return self._reply

    def interrupt(self) -> None: ...
