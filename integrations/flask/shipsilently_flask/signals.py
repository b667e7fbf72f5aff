"""What the integration tells of requests, as blinker signals whose sender is the app.

What the client itself tells is in `shipsilently_core.signals`; there the sender is
the client, ``app.extensions["shipsilently"].client``.
"""

from __future__ import annotations

from blinker import Namespace

__all__ = ["gate_refused"]

_namespace = Namespace()

#: A gate turned a request away. Sent before the answer is made. Sender: the app.
#: Argument: ``flag_key`` (``str``), the first flag that was not as the gate wants it,
#: with its ``!`` if the gate has one there.
gate_refused = _namespace.signal("gate-refused")
