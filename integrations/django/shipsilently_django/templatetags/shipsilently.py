"""``{% load shipsilently %}``: the tags `flag`, `ifflag`, `flag_value`, `flags_json`; a filter.

Nodes hold what is written in the template and nothing of a rendering, so that threads can
share them.
"""

from __future__ import annotations

from typing import Any

from django import template
from django.template.base import FilterExpression, Node, NodeList, Parser, TextNode, Token
from django.template.context import Context as TemplateContext
from django.utils.html import json_script
from django.utils.safestring import SafeString

from shipsilently_django.readable import is_on, unmarked
from shipsilently_django.rendering import browser_values, flags_in, plain_value

__all__ = ["register"]

register: template.Library = template.Library()

_FORMS = '{%% %s "x" %%}, {%% %s "x" == "blue" %%} or {%% %s "x" != "blue" %%}'


class Condition:
    """``"x"``, ``"x" == "blue"`` or ``"x" != "blue"``, with variables and filters on both sides."""

    def __init__(
        self, key: FilterExpression, expected: FilterExpression | None, *, equal: bool
    ) -> None:
        self.key = key
        self.expected = expected
        self.equal = equal
        # What most tags ask, whether one flag is on, needs nothing resolved at each rendering.
        alone = expected is None and not key.is_var and not key.filters
        plain = unmarked(key.var) if alone and isinstance(key.var, str) else None
        self.only: str | None = None if plain is None or plain.startswith("!") else plain

    @classmethod
    def parse(cls, parser: Parser, name: str, bits: list[str]) -> Condition:
        """What stands in a tag after its name.

        Raises:
            TemplateSyntaxError: It is none of the three forms.
        """
        if len(bits) == 1:
            return cls(parser.compile_filter(bits[0]), None, equal=True)
        if len(bits) == 3 and bits[1] in ("==", "!="):
            key, operator, expected = bits
            return cls(
                parser.compile_filter(key), parser.compile_filter(expected), equal=operator == "=="
            )
        raise template.TemplateSyntaxError(
            f"{name!r} takes one flag: write {_FORMS % (name, name, name)}"
        )

    def holds(self, context: TemplateContext) -> bool:
        """Whether it is so for whom the template is rendered."""
        if self.only is not None:
            return flags_in(context).is_enabled(self.only)
        key = self.key.resolve(context, ignore_failures=True)
        if self.expected is None:
            return is_on(flags_in(context), key)
        expected = self.expected.resolve(context, ignore_failures=True)
        return is_on(flags_in(context), key, expected) is self.equal


class FlagNode(Node):
    """Branches: the first whose condition holds is rendered; one without a condition always.

    Args:
        branches: In their order.
        debug: Whether each text is to be rendered where it stands, so that tools see it.
    """

    def __init__(
        self, branches: list[tuple[Condition | None, NodeList]], *, debug: bool = False
    ) -> None:
        self.branches = branches
        self._ways = [
            (
                None if condition is None else condition.only,
                condition,
                nodes,
                None if debug else _text_of(nodes),
            )
            for condition, nodes in branches
        ]

    @property
    def nodelist(self) -> NodeList:
        """All nodes inside, for those who search a template."""
        return NodeList(node for _, nodes in self.branches for node in nodes)

    def render(self, context: TemplateContext) -> SafeString:
        """One branch."""
        for key, condition, nodes, text in self._ways:
            if key is not None:
                on = flags_in(context).is_enabled(key)
            else:
                on = condition is None or condition.holds(context)
            if on:
                return nodes.render(context) if text is None else text
        return SafeString("")


def _text_of(nodes: NodeList) -> SafeString | None:
    """What these nodes render, where they are nothing but text."""
    if not all(type(node) is TextNode for node in nodes):
        return None
    return SafeString("".join(node.s for node in nodes if isinstance(node, TextNode)))


class FlagAsNode(Node):
    """``{% flag "x" as on %}``."""

    def __init__(self, condition: Condition, variable: str) -> None:
        self.condition = condition
        self.variable = variable

    def render(self, context: TemplateContext) -> SafeString:
        """Nothing; the variable is set."""
        context[self.variable] = self.condition.holds(context)
        return SafeString("")


@register.tag
def flag(parser: Parser, token: Token) -> Node:
    """Whether a flag is on, or has a value.

    ::

        {% flag "x" %}…{% elflag "y" == "blue" %}…{% else %}…{% endflag %}
        {% flag "!x" %}…{% endflag %}
        {% flag "x" as on %}
    """
    name, *bits = token.split_contents()
    # Only where Django debugs templates do tokens know their place.
    debug = token.position is not None
    if len(bits) in (3, 5) and bits[-2] == "as":
        return FlagAsNode(Condition.parse(parser, name, bits[:-2]), bits[-1])
    # `ifflag` ends with `endifflag`: where another library's `flag` is loaded too.
    end = f"end{name}"
    branches: list[tuple[Condition | None, NodeList]] = []
    condition: Condition | None = Condition.parse(parser, name, bits)
    while True:
        nodes = parser.parse(("else", end) if condition is None else ("elflag", "else", end))
        branches.append((condition, nodes))
        name, *bits = parser.next_token().split_contents()
        if name == end:
            return FlagNode(branches, debug=debug)
        if condition is None:
            raise template.TemplateSyntaxError(f"{{% else %}} is the last branch before {end!r}")
        condition = None if name == "else" else Condition.parse(parser, name, bits)


register.tag("ifflag", flag)


@register.simple_tag(takes_context=True)
def flag_value(context: TemplateContext, key: object, default: object = None) -> Any:
    """A flag's value: ``{% flag_value "x" default=3 %}``, ``{% flag_value "x" as value %}``."""
    return plain_value(flags_in(context), key, default)


@register.filter("flag_value")
def flag_value_filter(request: object, key: object) -> Any:
    """A flag's value inside other tags: ``{% if request|flag_value:"x" == 3 %}``."""
    return plain_value(flags_in({"request": request}), key)


@register.simple_tag(takes_context=True)
def flags_json(context: TemplateContext, element_id: str, only: str | None = None) -> SafeString:
    """Values for scripts: ``{% flags_json "flags" only="a,b" %}``.

    Without ``only``: the flags that match ``CLIENT_FLAGS``, none by default. What is not named
    in either never reaches a browser.
    """
    return json_script(browser_values(flags_in(context), only), element_id)
