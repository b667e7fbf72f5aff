"""Jinja's macros that are imported, and its includes ``without context``.

They see no variable of the page, so no request. What they ask of a flag is asked for whom the
page around them is rendered. Jinja keeps the body and the variables of such a template for
everybody: one that has asked for a flag is not kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any

from jinja2 import Environment, Template
from jinja2.environment import TemplateModule
from jinja2.runtime import Context

from .readable import KnownFlags, ReadableFlags
from .rendering import flags_in
from .setup import get_client

__all__ = ["PageTemplate", "flags_of_page", "know_pages"]


class Page:
    """What is rendered as a whole.

    Attributes:
        variables: The variables it is rendered with.
        asked: Another object each time that a part without context has asked for a flag.
    """

    __slots__ = ("asked", "variables")

    def __init__(self, variables: Mapping[str, Any]) -> None:
        self.variables = variables
        self.asked: object = None


#: Where nothing is rendered as a whole, as when a template is streamed.
_NO_PAGE = Page({})
_page: ContextVar[Page] = ContextVar("shipsilently_page", default=_NO_PAGE)


def flags_of_page() -> ReadableFlags:
    """The flags for a part of the page that is being rendered; never raises."""
    page = _page.get()
    page.asked = object()
    if page is not _NO_PAGE:
        return flags_in(page.variables)
    get_client().evaluator.notices.warn(
        "django jinja",
        "a Jinja template asked for a flag and had no request; what is known of everybody was "
        "served: import its macros, or include it, `with context`",
    )
    return KnownFlags()


class PageTemplate(Template):
    """A template that knows whom its parts are rendered for."""

    def render(self, *args: Any, **kwargs: Any) -> Any:
        """The page."""
        variables = dict(*args, **kwargs)
        token = _page.set(Page(variables))
        try:
            return super().render(variables)
        finally:
            _page.reset(token)

    def _get_default_module(self, ctx: Context | None = None) -> TemplateModule:
        if self.environment.is_async or self._is_kept_or_not_to_be(ctx):
            return super()._get_default_module(ctx)
        page = _page.get()
        before = page.asked
        module = self.make_module()
        if page.asked is before:
            self._module = module
        return module

    async def _get_default_module_async(self, ctx: Context | None = None) -> TemplateModule:
        if self._is_kept_or_not_to_be(ctx):
            return await super()._get_default_module_async(ctx)
        page = _page.get()
        before = page.asked
        module = await self.make_module_async()
        if page.asked is before:
            self._module = module
        return module

    def _is_kept_or_not_to_be(self, ctx: Context | None) -> bool:
        """Whether Jinja has kept this template's module, or makes one for this page only."""
        return self._module is not None or bool(ctx and ctx.globals_keys - self.globals.keys())


def know_pages(environment: Environment) -> None:
    """Let every template of an environment be a `PageTemplate`, beside what it is already."""
    base = environment.template_class
    if issubclass(PageTemplate, base):
        environment.template_class = PageTemplate
    elif not issubclass(base, PageTemplate):
        environment.template_class = type(base.__name__, (PageTemplate, base), {})
