"""`requires_flag`: views that exist only while a flag is on."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

from django.http import Http404

from .flags import flags_of, is_on
from .users import is_async

__all__ = ["requires_flag"]

V = TypeVar("V", bound=Callable[..., Any])


def requires_flag(key: str) -> Callable[[V], V]:
    """Answer 404 while the flag is off; for plain and async views."""

    def decorate(view: V) -> V:
        if is_async(view):

            @functools.wraps(view)
            async def gated_async(request: Any, *args: Any, **kwargs: Any) -> Any:
                flags = flags_of(request)
                await flags.aevaluate_all()
                if not is_on(flags, key):
                    raise Http404
                return await view(request, *args, **kwargs)

            return gated_async  # type: ignore[return-value]  # a view like the one it wraps

        @functools.wraps(view)
        def gated(request: Any, *args: Any, **kwargs: Any) -> Any:
            if not is_on(flags_of(request), key):
                raise Http404
            return view(request, *args, **kwargs)

        return gated  # type: ignore[return-value]  # a view like the one it wraps

    return decorate
