"""Where a template's flags come from."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest

from shipsilently_core import Flags

from .flags import KnownFlags, ReadableFlags, RequestFlags, flags_of

__all__ = ["flags_in"]


def flags_in(context: Any) -> ReadableFlags:
    """The flags for a template's context; never raises.

    Those of the request it is rendered for; without one, a variable ``flags`` that holds
    some; else what is known of everybody.
    """
    # The attribute is there without the context processor, and under `only` as well.
    request = getattr(context, "request", None) or context.get("request")
    if isinstance(request, HttpRequest) or isinstance(
        getattr(request, "_request", None), HttpRequest
    ):
        return flags_of(request)
    given = context.get("flags")
    if isinstance(given, (Flags, RequestFlags)):
        return given
    return KnownFlags()
