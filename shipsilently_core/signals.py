"""What the client tells the rest of the program, as blinker signals.

Receivers run one after the other, outside every lock of the client. One that
raises is logged and stops neither the others nor the client.

blinker holds receivers weakly: a lambda, or a function defined inside another,
is gone as soon as nothing else refers to it.
"""

from __future__ import annotations

import logging
from typing import Any

from blinker import NamedSignal, Namespace

__all__ = ["evaluation_failed"]

_namespace = Namespace()
log = logging.getLogger("shipsilently")

#: An attempt to evaluate failed, or a flag could not be served as asked.
#: Sender: the client. Arguments: ``failure`` (`Failure`), ``status`` (``int`` or
#: ``None``) and ``flag_key`` (``str``, or ``None`` for a batch).
evaluation_failed = _namespace.signal("evaluation-failed")


def emit(signal: NamedSignal, sender: Any, **arguments: Any) -> None:
    """Call every receiver of `signal` for `sender`, whatever one of them does."""
    if not signal.receivers:
        return
    for receiver in signal.receivers_for(sender):
        try:
            receiver(sender, **arguments)
        except Exception:
            log.exception("a receiver of the signal %s raised", signal.name)
