"""Flags in Jinja templates: the function ``flag`` and the tag ``{% flag %}``."""

from __future__ import annotations

from typing import Any

from jinja2 import TemplateRuntimeError, nodes, pass_context
from jinja2.ext import Extension
from jinja2.parser import Parser
from jinja2.runtime import Context as TemplateContext
from starlette.templating import Jinja2Templates

from .connection import RequestFlags
from .gates import holds
from .lookup import get_flags

__all__ = ["add_flags"]


def add_flags(templates: Jinja2Templates) -> None:
    """Give templates flags.

    ::

        {% flag "new-checkout" %}...{% else %}...{% endflag %}
        {{ flag("banner", "blue") }}

    A template is rendered without ``await``: the endpoint takes `FlagsDep`, or awaits
    ``get_flags(request)``, before it.

    Args:
        templates: The app's. Its templates have the request as ``request``, as always.
    """
    templates.env.add_extension(FlagTag)
    templates.env.globals["flag"] = _flag


@pass_context
def _flag(context: TemplateContext, key: str, *default: Any, **named: Any) -> Any:
    """The flag's value; without a default the declared one, else ``None``, which is off."""
    return _flags(context).get(key, *default, **named)


def _flags(context: TemplateContext) -> RequestFlags:
    request = context.get("request")
    if request is None:
        raise TemplateRuntimeError(
            "flags need the request: render with TemplateResponse, and import or include "
            "with context"
        )
    return get_flags(request)


class FlagTag(Extension):
    """``{% flag "x" %}...{% else %}...{% endflag %}``: what is inside for those with the flag.

    Several keys, with commas between, must all be on; ``"!x"`` must be off.
    """

    tags = {"flag"}  # noqa: RUF012  # so it is declared in Jinja

    def parse(self, parser: Parser) -> nodes.Node:
        """Make the tag an ``if``."""
        line = next(parser.stream).lineno
        keys = self._keys(parser, line)
        # A method of this object: a template's own variable `flag` does not disturb it.
        test = self.call_method("_hold", [nodes.ContextReference(), nodes.List(keys)], lineno=line)
        body = parser.parse_statements(("name:else", "name:endflag"))
        otherwise: list[nodes.Node] = []
        if next(parser.stream).value == "else":
            otherwise = parser.parse_statements(("name:endflag",), drop_needle=True)
        return nodes.If(test, body, [], otherwise, lineno=line)

    def _keys(self, parser: Parser, line: int) -> list[nodes.Expr]:
        keys = []
        while True:
            if parser.stream.current.test("string") and parser.stream.look().test("string"):
                # Jinja would join them, and nobody has a flag of that name.
                parser.fail("flag: put a comma between the keys of two flags", line)
            if parser.stream.current.test("block_end"):
                parser.fail('flag needs the key of a flag: {% flag "x" %}', line)
            keys.append(parser.parse_expression())
            if not parser.stream.skip_if("comma"):
                break
        if not parser.stream.current.test("block_end"):
            parser.fail("flag: expected a comma or the end of the tag", line)
        return keys

    def _hold(self, context: TemplateContext, keys: list[str]) -> bool:
        flags = _flags(context)
        return all(holds(flags, key) for key in keys)
