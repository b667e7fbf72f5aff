"""`flags`: what people import."""

from __future__ import annotations

from typing import TYPE_CHECKING

from werkzeug.local import LocalProxy

from shipsilently_core import Flags

from .current import current_flags
from .gates import gate as put_gate

__all__ = ["flags"]

if TYPE_CHECKING:

    class FlagsProxy(Flags):
        """For type checkers: a `Flags` that also has `gate`."""

        gate = staticmethod(put_gate)

    flags: FlagsProxy
else:

    class FlagsProxy(LocalProxy):
        """Stands for the current request's `Flags`, and knows `gate`, which needs no request."""

        __slots__ = ()

        gate = staticmethod(put_gate)

    flags = FlagsProxy(current_flags)
