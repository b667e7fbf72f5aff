"""``{% load shipsilently %}``."""

from __future__ import annotations

from django import template
from django.template.base import FilterExpression, Node, NodeList, Parser, Token
from django.template.context import Context as TemplateContext
from django.utils.safestring import SafeString

from shipsilently_django.flags import is_on
from shipsilently_django.rendering import flags_in

__all__ = ["register"]

register = template.Library()


class FlagNode(Node):
    """``{% flag "x" %}…{% else %}…{% endflag %}``; holds nothing of a rendering."""

    child_nodelists = ("on", "off")

    def __init__(self, key: FilterExpression, on: NodeList, off: NodeList) -> None:
        self.key = key
        self.on = on
        self.off = off

    def render(self, context: TemplateContext) -> SafeString:
        """One branch or the other."""
        key = self.key.resolve(context, ignore_failures=True)
        return (self.on if is_on(flags_in(context), key) else self.off).render(context)


class FlagAsNode(Node):
    """``{% flag "x" as on %}``."""

    def __init__(self, key: FilterExpression, variable: str) -> None:
        self.key = key
        self.variable = variable

    def render(self, context: TemplateContext) -> SafeString:
        """Nothing; the variable is set."""
        key = self.key.resolve(context, ignore_failures=True)
        context[self.variable] = is_on(flags_in(context), key)
        return SafeString("")


@register.tag
def flag(parser: Parser, token: Token) -> Node:
    """Whether a flag is on, as a block or as a variable."""
    bits = token.split_contents()
    if len(bits) == 4 and bits[2] == "as":
        return FlagAsNode(parser.compile_filter(bits[1]), bits[3])
    if len(bits) != 2:
        raise template.TemplateSyntaxError(
            f'{bits[0]!r} takes one flag, as in {{% flag "x" %}}…{{% endflag %}} or '
            '{% flag "x" as on %}'
        )
    key = parser.compile_filter(bits[1])
    on = parser.parse(("else", "endflag"))
    off = NodeList()
    if parser.next_token().contents == "else":
        off = parser.parse(("endflag",))
        parser.delete_first_token()
    return FlagNode(key, on, off)
