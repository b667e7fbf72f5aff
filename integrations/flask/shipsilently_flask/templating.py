"""Flags in Jinja templates: globals, a test, a filter and the tag, as one Jinja extension.

Nothing is decided while a template is compiled; see `shipsilently_core.contrib.jinja`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flask import current_app
from jinja2 import Environment, TemplateRuntimeError, pass_context
from jinja2.runtime import Context as TemplateContext
from jinja2.utils import htmlsafe_json_dumps
from markupsafe import Markup
from werkzeug.local import LocalProxy

from shipsilently_core import Flags
from shipsilently_core._view import UNSET
from shipsilently_core.contrib.browser import may_see, named
from shipsilently_core.contrib.jinja import FlagTag, all_hold, part

from .conditions import holds
from .current import current_flags
from .state import state_of

__all__ = ["FlagExtension"]


def _shown() -> Flags:
    """The flags that a template shows."""
    rendered = part.get()
    if rendered is not None:
        rendered.asked = True
    return current_flags()


def flag(key: str, default: Any = UNSET) -> Any:
    """The flag's value: ``{% if flag("x") %}``, ``{{ flag("banner", default="blue") }}``.

    Without a default, the one declared in the configuration, else ``None``, which
    counts as off.
    """
    return _shown().get(key, default)


class _TemplateFlags(LocalProxy[Flags]):
    """`flags` in a template."""

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        # Where the proxy looks it up takes several times as long.
        return getattr(_shown(), name)


def flags_json(*only: str) -> Markup:
    """The values of the flags that a browser may know, as JSON that is safe in a page.

    Those that ``SHIPSILENTLY_CLIENT_FLAGS`` lists, by key or pattern, or `only` some of them. A
    flag that the service does not know is left out.

    Raises:
        TemplateRuntimeError: A flag is asked for that is not listed.
    """
    listed = state_of(current_app).settings.client_flags
    for key in only:
        if not may_see(key, listed):
            raise TemplateRuntimeError(
                f"flags_json: {key!r} is not in SHIPSILENTLY_CLIENT_FLAGS, so no browser may see it"
            )
    shown = _shown()
    keys = only or named(listed, shown.evaluate_all)
    return htmlsafe_json_dumps({key: shown.get(key) for key in keys if key in shown})


@pass_context
def flag_filter(context: TemplateContext, key: str, default: Any = UNSET) -> Any:
    """``{{ "banner"|flag(default="blue") }}``."""
    return flag(key, default)


@pass_context
def active_flag(context: TemplateContext, key: str, value: Any = True) -> bool:
    """``{% if "x" is active_flag %}``, ``{% if "banner" is active_flag("blue") %}``.

    What is no key, as a variable may be none, is no active flag.
    """
    shown = _shown()
    if not isinstance(key, str):
        state_of(current_app).client.evaluator.notices.warn(
            "flask active_flag",
            "a template asks whether a %s is an active flag, which it is not: a flag key is a "
            "string; look at the variables and lists before `active_flag` in your templates",
            type(key).__name__,
        )
        return False
    return holds(shown, key, value)


@pass_context
def _is_on(context: TemplateContext, key: str) -> bool:
    return _shown().is_enabled(key)


@pass_context
def _hold(context: TemplateContext, keys: list[Any], value: Any) -> bool:
    shown = _shown()
    return all_hold(keys, lambda key: holds(shown, key, value))


class FlagExtension(FlagTag):
    """The tag ``{% flag "x" %}…{% elflag "y" %}…{% else %}…{% endflag %}``, and all the rest.

    A tag takes one key or several with commas between, which must all be on; ``"!x"``
    must be off. ``{% flag "x" == "blue" %}`` asks for a value.
    """

    is_on: Callable[[Any, str], bool] = staticmethod(_is_on)
    hold: Callable[[Any, list[Any], Any], bool] = staticmethod(_hold)

    def __init__(self, environment: Environment) -> None:
        super().__init__(environment)
        # What the app itself has put there under these names stays.
        environment.globals.setdefault("flag", flag)
        environment.globals.setdefault("flags", _TemplateFlags(_shown))
        environment.globals.setdefault("flags_json", flags_json)
        environment.tests.setdefault("active_flag", active_flag)
        environment.filters.setdefault("flag", flag_filter)
