"""`flags`: what people import."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from werkzeug.local import LocalProxy

from shipsilently_core import Flags
from shipsilently_core._view import UNSET

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
        """Stands for the current request's `Flags`, and knows `gate`, which needs no request.

        A proxy of Werkzeug's looks attributes up on a way that takes several times as long as
        reading a flag.
        """

        __slots__ = ()

        gate = staticmethod(put_gate)

        def get(self, key: str, default: Any = UNSET) -> Any:
            """See `Flags.get`."""
            return current_flags().get(key, default)

        def is_enabled(self, key: str, *, default: bool = UNSET) -> bool:
            """See `Flags.is_enabled`."""
            shown = current_flags()
            # Keywords make a call slow.
            if default is UNSET:
                return shown.is_enabled(key)
            return shown.is_enabled(key, default=default)

        def __getattr__(self, name: str) -> Any:
            return getattr(current_flags(), name)

    flags = FlagsProxy(current_flags)
