"""`flags`: what people import."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from werkzeug.local import LocalProxy

from shipsilently_core import Flags
from shipsilently_core._view import UNSET

from .contexts import app_context, request_context
from .current import KEY, current_flags
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
            # As `current_flags`, without its call in a request that has read a flag before.
            try:
                within, app = request_context(), app_context().app
                shown = within.request.__dict__.get(KEY) if within.app is app else None
            except (LookupError, RuntimeError):
                shown = None
            if shown is None:
                shown = current_flags()
            return shown.get(key, default)

        def is_enabled(self, key: str, *, default: bool = UNSET) -> bool:
            """See `Flags.is_enabled`."""
            # As `get`.
            try:
                within, app = request_context(), app_context().app
                shown = within.request.__dict__.get(KEY) if within.app is app else None
            except (LookupError, RuntimeError):
                shown = None
            if shown is None:
                shown = current_flags()
            # Keywords make a call slow.
            if default is UNSET:
                return shown.is_enabled(key)
            return shown.is_enabled(key, default=default)

        def __getattr__(self, name: str) -> Any:
            return getattr(current_flags(), name)

    flags = FlagsProxy(current_flags)
