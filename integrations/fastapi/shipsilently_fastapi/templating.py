"""Flags in Jinja templates: the function ``flag`` and the tag ``{% flag %}``."""

from __future__ import annotations

from typing import Any

from jinja2 import TemplateRuntimeError, pass_context
from jinja2.runtime import Context as TemplateContext
from jinja2.utils import missing
from starlette.templating import Jinja2Templates

from shipsilently_core._view import UNSET
from shipsilently_core.contrib.jinja import FlagTag as CoreFlagTag
from shipsilently_core.contrib.jinja import all_hold

from .connection import RequestFlags
from .gates import holds
from .lookup import get_flags

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
    """
    templates.env.add_extension(FlagTag)
    templates.env.globals["flag"] = _flag


@pass_context
def _flag(context: TemplateContext, key: str, default: Any = UNSET) -> Any:
    """The flag's value; without a default the declared one, else ``None``, which is off."""
    return _flags(context).get(key, default)


def _flags(context: TemplateContext) -> RequestFlags:
    request = context.resolve_or_missing("request")
    if request is missing or request is None:
        raise TemplateRuntimeError(
            "flags need the request: render with TemplateResponse, and import or include "
            "with context"
        )
    return get_flags(request)


@pass_context
def _is_on(context: TemplateContext, key: str) -> bool:
    # As `_flags`, without its calls.
    request = context.parent.get("request")
    flags = _flags(context) if request is None or context.vars else get_flags(request)
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

    is_on = staticmethod(_is_on)
    hold = staticmethod(_hold)
