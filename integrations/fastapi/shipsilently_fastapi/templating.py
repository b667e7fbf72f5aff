"""Flags in Jinja templates: the function ``flag`` and the tag ``{% flag %}``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jinja2 import pass_context
from jinja2.runtime import Context as TemplateContext
from starlette.requests import HTTPConnection, Request
from starlette.templating import Jinja2Templates

from shipsilently_core._view import UNSET
from shipsilently_core.contrib.jinja import FlagTag as CoreFlagTag
from shipsilently_core.contrib.jinja import all_hold, part

from .connection import RequestFlags
from .gates import holds
from .lookup import defaults_only, flags_here, get_flags

__all__ = ["add_flags"]


def add_flags(templates: Jinja2Templates) -> None:
    """Give templates flags.

    ::

        {% flag "new-checkout" %}...{% elflag "banner" == "blue" %}...{% else %}...{% endflag %}
        {{ flag("banner", "blue") }}

    A template is rendered without ``await``: the endpoint takes `FlagsDep`, or awaits
    ``get_flags(request)``, before it.

    Args:
        templates: The app's. Its templates have the request as ``request``, as always.
            What is imported or included without context finds the flags by
            `FlagsMiddleware`; without that, it has defaults, and the log says so.
    """
    templates.env.add_extension(FlagTag)
    templates.env.globals["flag"] = _flag


@pass_context
def _flag(context: TemplateContext, key: str, default: Any = UNSET) -> Any:
    """The flag's value; without a default the declared one, else ``None``, which is off."""
    return _flags(context).get(key, default)


def _flags(context: TemplateContext) -> RequestFlags:
    # A template may have a variable of that name, and one that is imported has no variables.
    for request in (context.resolve_or_missing("request"), context.parent.get("request")):
        if isinstance(request, HTTPConnection):
            return get_flags(request)
    rendered = part.get()
    if rendered is not None:
        rendered.asked = True
    return flags_here() or _defaults()


def _defaults() -> RequestFlags:
    """Flags with their defaults, having said what is missing."""
    shipsilently = defaults_only()
    shipsilently.client.evaluator.notices.warn(
        "template without a request",
        "a template without the request has asked for a flag, and defaults were served: render "
        "with TemplateResponse, import or include `with context`, or call "
        "shipsilently.install(app), whose middleware finds the request",
    )
    flags = shipsilently.flags(HTTPConnection({"type": "http", "headers": []}))
    # There is nobody to wait for.
    flags._may_block = True
    return flags


@pass_context
def _is_on(context: TemplateContext, key: str) -> bool:
    # As `_flags`, without its calls.
    request: Any = context.parent.get("request")
    plain = type(request) is Request and not context.vars
    flags = get_flags(request) if plain else _flags(context)
    return flags.is_enabled(key)


@pass_context
def _hold(context: TemplateContext, keys: list[Any], value: Any) -> bool:
    flags = _flags(context)
    return all_hold(keys, lambda key: holds(flags, key, value))


class FlagTag(CoreFlagTag):
    """``{% flag "x" %}...{% else %}...{% endflag %}``: what is inside for those with the flag.

    Several keys, with commas between, must all be on; ``"!x"`` must be off.
    ``{% flag "x" == "blue" %}`` asks for a value, and ``{% elflag %}`` for another flag.
    """

    is_on: Callable[[Any, str], bool] = staticmethod(_is_on)
    hold: Callable[[Any, list[Any], Any], bool] = staticmethod(_hold)
