"""Jinja's macros that are imported, and its includes ``without context``.

They see no variable of the page, so no request. What they ask of a flag is asked for whom the
page around them is rendered.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Mapping
from contextvars import ContextVar
from typing import Any

from jinja2 import Environment

from shipsilently_core.contrib.jinja import AnewTemplate, part

from .readable import KnownFlags, ReadableFlags
from .rendering import flags_in
from .setup import get_client

__all__ = ["PageTemplate", "flags_of_page", "know_pages"]

#: The variables of what is rendered as a whole; ``None`` where nothing is, as when a template is
#: streamed.
_page: ContextVar[Mapping[str, Any] | None] = ContextVar("shipsilently_page", default=None)
#: What no template renders.
_END = object()


def flags_of_page() -> ReadableFlags:
    """The flags for a part of the page that is being rendered; never raises."""
    rendered = part.get()
    if rendered is not None:
        rendered.asked = True
    page = _page.get()
    if page is not None:
        return flags_in(page)
    get_client().evaluator.notices.warn(
        "django jinja",
        "a Jinja template asked for a flag and had no request; what is known of everybody was "
        "served: import its macros, or include it, `with context`",
    )
    return KnownFlags()


class PageTemplate(AnewTemplate):
    """A template that knows whom its parts are rendered for."""

    def render(self, *args: Any, **kwargs: Any) -> Any:
        """The page."""
        variables = dict(*args, **kwargs)
        token = _page.set(variables)
        try:
            return super().render(variables)
        finally:
            _page.reset(token)

    async def render_async(self, *args: Any, **kwargs: Any) -> Any:
        """The page, awaited."""
        variables = dict(*args, **kwargs)
        token = _page.set(variables)
        try:
            return await super().render_async(variables)
        finally:
            _page.reset(token)

    # What is streamed inside of a page, a mail perhaps, is not for whom that page is.

    def generate(self, *args: Any, **kwargs: Any) -> Iterator[Any]:
        """The page in pieces, whose parts know no page."""
        pieces = super().generate(*args, **kwargs)
        while True:
            token = _page.set(None)
            try:
                piece = next(pieces, _END)
            finally:
                _page.reset(token)
            if piece is _END:
                return
            yield piece

    async def generate_async(self, *args: Any, **kwargs: Any) -> AsyncGenerator[Any, object]:
        """The same, awaited."""
        pieces = super().generate_async(*args, **kwargs)
        try:
            while True:
                token = _page.set(None)
                try:
                    piece = await anext(pieces, _END)
                finally:
                    _page.reset(token)
                if piece is _END:
                    return
                yield piece
        finally:
            await pieces.aclose()


def know_pages(environment: Environment) -> None:
    """Let every template of an environment be a `PageTemplate`, beside what it is already."""
    base = environment.template_class
    if issubclass(PageTemplate, base):
        environment.template_class = PageTemplate
    elif not issubclass(base, PageTemplate):
        environment.template_class = type(base.__name__, (PageTemplate, base), {})
