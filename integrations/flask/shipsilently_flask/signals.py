"""What the integration tells of requests, as blinker signals whose sender is the app.

What the client itself tells is in `shipsilently_core.signals`; there the sender is
the client, ``app.extensions["shipsilently"].client``.
"""

from __future__ import annotations

import functools
import inspect
import logging
import threading
from collections.abc import Callable
from typing import Any

from blinker import NamedSignal, Namespace
from flask import Flask, current_app, has_app_context

from shipsilently_core import EvaluationResult, signals
from shipsilently_core._log import say

from .state import NAME, state_of

__all__ = ["atell", "flag_evaluated", "gate_refused", "tell"]

_namespace = Namespace()

#: A flag was read in a request to the app, or in its app context: by `flags` for the first
#: time there, or by the app's client. Sent before the value is handed over, in the thread
#: that reads. Receivers are plain functions; one that raises is logged and spoils no read.
#: Not sent for flags that a test has set. Sender: the app.
#: Argument: ``result`` (`EvaluationResult`, not to be changed).
flag_evaluated: NamedSignal = _namespace.signal("flag-evaluated")

#: A gate turned a request away. Sent before the answer is made. Receivers are plain or
#: coroutine functions; one that raises is logged and changes no answer. Sender: the app.
#: Argument: ``flag_key`` (``str``), the first flag that was not as the gate wants it,
#: with its ``!`` if the gate has one there.
gate_refused: NamedSignal = _namespace.signal("gate-refused")

_lock = threading.Lock()


def tell(app: Flask, signal: NamedSignal, **arguments: Any) -> None:
    """Call every receiver of `signal` for `app`, whatever one of them does.

    A coroutine function is run in an event loop of its own.
    """
    if not signal.receivers:
        return
    call = state_of(app).client.call
    for receiver in signal.receivers_for(app):
        call(_named(signal), functools.partial(_synchronously, app, receiver, arguments))


def _synchronously(app: Flask, receiver: Callable[..., Any], arguments: dict[str, Any]) -> Any:
    return app.ensure_sync(receiver)(app, **arguments)


async def atell(app: Flask, signal: NamedSignal, **arguments: Any) -> None:
    """`tell`, from a coroutine, which awaits those receivers that are coroutine functions."""
    if not signal.receivers:
        return
    for receiver in signal.receivers_for(app):
        try:
            result = receiver(app, **arguments)
            if inspect.isawaitable(result):
                await result
        except Exception as error:
            say(logging.ERROR, "%s raised", _named(signal), error=error)


def _named(signal: NamedSignal) -> str:
    return f"a receiver of the signal {signal.name}"


def _relay(client: object, *, result: EvaluationResult) -> None:
    """The client has told of a read: tell it with the app that is being served."""
    if not has_app_context():
        return
    app: Flask = current_app._get_current_object()  # type: ignore[attr-defined]  # of LocalProxy
    state = app.extensions.get(NAME)
    if state is not None and state.client is client:
        tell(app, flag_evaluated, result=result)


def _listen_while_needed() -> None:
    """Reads cost nothing more while nobody wants to know of them."""
    with _lock:
        if flag_evaluated.receivers:
            signals.flag_evaluated.connect(_relay)
        else:
            signals.flag_evaluated.disconnect(_relay)


def _on_connect(signal: object, *, receiver: Any, **_: object) -> None:
    if inspect.iscoroutinefunction(receiver):
        flag_evaluated.disconnect(receiver)
        raise TypeError(
            "flag_evaluated takes plain functions: it is sent inside every read, "
            "also where no event loop could be waited for"
        )
    _listen_while_needed()


def _on_disconnect(signal: object, **_: object) -> None:
    _listen_while_needed()


flag_evaluated.receiver_connected.connect(_on_connect)
flag_evaluated.receiver_disconnected.connect(_on_disconnect)
