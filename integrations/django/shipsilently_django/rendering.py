"""What templates get to see of the flags."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest

from shipsilently_core import Flags
from shipsilently_core.contrib.browser import may_see

from .flags import RequestFlags, flags_of
from .readable import KnownFlags, ReadableFlags, unmarked
from .setup import get_setup

__all__ = ["browser_values", "flags_in", "plain_value"]


def flags_in(context: Any) -> ReadableFlags:
    """The flags for a template's context; never raises.

    Those of the request it is rendered for; without one, a variable ``flags`` that holds
    some; else what is known of everybody.
    """
    # The attribute is there without the context processor, and under `only` as well.
    request = getattr(context, "request", None) or context.get("request")
    given = getattr(request, "flags", None)
    if isinstance(given, RequestFlags):
        return given if given._request is request else flags_of(request)
    if isinstance(getattr(request, "_request", request), HttpRequest):
        return flags_of(request)
    given = context.get("flags")
    if isinstance(given, (Flags, RequestFlags)):
        return given
    return KnownFlags()


def plain_value(flags: ReadableFlags, key: object, default: Any = None) -> Any:
    """A flag's value; the declared default where none is given here."""
    key = unmarked(key)
    if not isinstance(key, str):
        return default
    return flags.get(key) if default is None else flags.get(key, unmarked(default))


def browser_values(flags: ReadableFlags, only: str | None = None) -> dict[str, Any]:
    """The values that may reach a browser.

    Args:
        flags: Where to look.
        only: The flags, with commas between; left out, those that match ``CLIENT_FLAGS``.
    """
    if only is not None:
        keys = [key.strip() for key in only.split(",") if key.strip()]
        return {key: flags.get(key) for key in keys}
    patterns = get_setup().options.client_flags
    return {
        key: result.value
        for key, result in sorted(flags.evaluate_all().items())
        if may_see(key, patterns)
    }
