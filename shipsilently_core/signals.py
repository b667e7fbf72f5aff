"""What the client tells the rest of the program, as blinker signals.

Receivers run one after the other, in the thread where the thing happened and
outside every lock of the client, so they may call it. One that raises is logged
and stops neither the others nor the client. A coroutine function is run on the
application's event loop, the one where the client was started or first awaited.

blinker holds receivers weakly: a lambda, or a function defined inside another, is
gone as soon as nothing else refers to it. `connect` holds them.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable
from typing import Any, TypeVar

from blinker import ANY, NamedSignal, Namespace

from ._log import say
from ._process import in_main_thread, is_time_limit, run_on

__all__ = [
    "connect",
    "connection_state_changed",
    "disconnect",
    "evaluation_failed",
    "events_dropped",
    "flag_changed",
    "flag_evaluated",
    "flags_updated",
]

Receiver = TypeVar("Receiver", bound=Callable[..., Any])

_namespace = Namespace()

#: For each receiver that `connect` holds, whom it is connected to.
_held: dict[tuple[str, object], set[object]] = {}

#: The connection to the service came up, was lost, or was given up for polling.
#: Sender: the client. Arguments: ``state`` and ``previous`` (`ConnectionState`).
connection_state_changed: NamedSignal = _namespace.signal("connection-state-changed")

#: A flag has another value than before, for the client's baseline context.
#: Sender: the flag's key. Arguments: ``client``, ``old`` and ``new`` (`EvaluationResult`,
#: or ``None`` for a flag that did not exist or does not any more).
flag_changed: NamedSignal = _namespace.signal("flag-changed")

#: A flag was read, by ``evaluate``, by ``get``, or for the first time by a request: what
#: exporters of traces and metrics listen to. Sent in the thread or task that reads, before
#: the value is handed to it, so receivers should be quick; what a receiver reads itself is
#: not told. Not sent for flags that a test has set.
#: Sender: the client. Arguments: ``result`` (`EvaluationResult`, not to be changed).
flag_evaluated: NamedSignal = _namespace.signal("flag-evaluated")

#: The flags have been evaluated anew for the baseline context, because the service
#: said that something changed, or because polling found a difference.
#: Sender: the client. Arguments: ``changed`` (`frozenset` of flag keys; empty where
#: only contexts with personal rules are concerned).
flags_updated: NamedSignal = _namespace.signal("flags-updated")

#: An attempt to evaluate failed, or a flag could not be served as asked.
#: Sender: the client. Arguments: ``failure`` (`Failure`), ``status`` (``int`` or
#: ``None``) and ``flag_key`` (``str``, or ``None`` for a batch).
evaluation_failed: NamedSignal = _namespace.signal("evaluation-failed")

#: Analytics events were lost; at most once per delivery.
#: Sender: the client. Arguments: ``count`` (``int``) and ``cause`` (``str``:
#: ``buffer_full``, ``refused``, or both).
events_dropped: NamedSignal = _namespace.signal("events-dropped")


def connect(signal: NamedSignal, receiver: Receiver, sender: Any = ANY) -> Receiver:
    """Connect a receiver and hold it, until `disconnect`.

    Args:
        signal: One of this module.
        receiver: Any callable or coroutine function; called with the sender and keywords.
        sender: Only what this sender sends: a client, or a flag's key.

    Returns:
        The receiver, so that it works with `functools.partial` as a decorator.
    """
    signal.connect(receiver, sender, weak=False)
    _held.setdefault((signal.name, _identity(receiver)), set()).add(_identity(sender))
    return receiver


def disconnect(signal: NamedSignal, receiver: Callable[..., Any], sender: Any = ANY) -> None:
    """Take a receiver away again."""
    signal.disconnect(receiver, sender)
    key = (signal.name, _identity(receiver))
    if key in _held:
        _held[key].discard(_identity(sender))
        if sender is ANY or not _held[key]:
            # Disconnected from its last sender; blinker would go on holding it.
            del _held[key]
            signal.disconnect(receiver)


def _identity(thing: Any) -> object:
    """What blinker knows a receiver or a sender by."""
    if inspect.ismethod(thing):
        return id(thing.__func__), id(thing.__self__)
    return thing if isinstance(thing, str) else id(thing)


class Emitter:
    """Sends the signals of one client.

    Args:
        warn: Logs a warning the first time that one of its kind comes.
    """

    def __init__(self, warn: Callable[..., None]) -> None:
        self._warn = warn
        #: The event loop that coroutine functions are run on.
        self.loop: Any = None

    def emit(self, signal: NamedSignal, sender: Any, **arguments: Any) -> None:
        """Call every receiver of `signal` for `sender`, whatever one of them does."""
        if not signal.receivers:
            return
        for receiver in signal.receivers_for(sender):
            self.call(f"a receiver of the signal {signal.name}", receiver, sender, **arguments)

    def call(self, what: str, function: Callable[..., Any], *args: Any, **arguments: Any) -> None:
        """Call a function of the user's, which may be a coroutine function and may raise."""

        def failed(error: BaseException) -> None:
            say(logging.ERROR, "%s raised", what, error=error)

        try:
            result = function(*args, **arguments)
        except Exception as error:
            if is_time_limit(error):
                raise
            failed(error)
            return
        except SystemExit as error:
            if in_main_thread():
                # Perhaps not the function's: servers end a worker so, in a handler of a signal.
                raise
            # In any other thread it ends that alone, and nobody is told.
            failed(error)
            return
        if inspect.iscoroutine(result) and not run_on(self.loop, result, failed):
            self._warn(
                f"no loop for {what}",
                "%s is a coroutine function, but the client was not started in an event loop: "
                "it was not run",
                what,
            )
