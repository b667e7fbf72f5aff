"""Flags in Jinja templates: globals, a test, a filter and the tag, as one Jinja extension.

Nothing is decided while a template is compiled: a test or a filter that did not ask
for the context would be evaluated there once, and its result kept in the bytecode.
"""

from __future__ import annotations

from typing import Any

from flask import Flask, current_app
from jinja2 import Environment, TemplateRuntimeError, nodes, pass_context
from jinja2.ext import Extension
from jinja2.parser import Parser
from jinja2.runtime import Context as TemplateContext
from jinja2.utils import htmlsafe_json_dumps
from markupsafe import Markup

from .conditions import checked_keys, holds
from .current import current_flags
from .proxy import flags
from .state import state_of

__all__ = ["FlagExtension", "install"]

_UNSET: Any = object()
#: Jinja's names of the tests behind the tag; no template can spell them.
_ON, _HOLD = "flag is on", "flags hold"


def install(app: Flask) -> None:
    """Add the extension to the app's Jinja environment, now or when that is made.

    The environment is not made for this: an app may still set its ``jinja_options``.
    """
    if "jinja_env" in vars(app):
        app.jinja_env.add_extension(FlagExtension)
        return
    options = dict(app.jinja_options)
    options["extensions"] = [*options.get("extensions", ()), FlagExtension]
    app.jinja_options = options


def flag(key: str, default: Any = _UNSET) -> Any:
    """The flag's value: ``{% if flag("x") %}``, ``{{ flag("banner", default="blue") }}``.

    Without a default, the one declared in the configuration, else ``None``, which
    counts as off.
    """
    return current_flags().get(key) if default is _UNSET else current_flags().get(key, default)


def flags_json(*only: str) -> Markup:
    """The values of the flags that a browser may know, as JSON that is safe in a page.

    Those that ``SHIPSILENTLY_CLIENT_FLAGS`` lists, or `only` some of them. A flag
    that the service does not know is left out.

    Raises:
        TemplateRuntimeError: A flag is asked for that is not listed.
    """
    listed = state_of(current_app).settings.client_flags
    for key in only:
        if key not in listed:
            raise TemplateRuntimeError(
                f"flags_json: {key!r} is not in SHIPSILENTLY_CLIENT_FLAGS, so no browser may see it"
            )
    shown = current_flags()
    return htmlsafe_json_dumps({key: shown.get(key) for key in only or listed if key in shown})


@pass_context
def flag_filter(context: TemplateContext, key: str, default: Any = _UNSET) -> Any:
    """``{{ "banner"|flag(default="blue") }}``."""
    return flag(key, default)


@pass_context
def active_flag(context: TemplateContext, key: str, value: Any = True) -> bool:
    """``{% if "x" is active_flag %}``, ``{% if "banner" is active_flag("blue") %}``."""
    return holds(current_flags(), key, value)


class FlagExtension(Extension):
    """The tag ``{% flag "x" %}…{% elflag "y" %}…{% else %}…{% endflag %}``, and all the rest.

    A tag takes one key or several with commas between, which must all be on; ``"!x"``
    must be off. ``{% flag "x" == "blue" %}`` asks for a value.
    """

    tags = {"flag"}  # noqa: RUF012  # so it is declared in Jinja

    def __init__(self, environment: Environment) -> None:
        super().__init__(environment)
        # What the app itself has put there under these names stays.
        environment.globals.setdefault("flag", flag)
        environment.globals.setdefault("flags", flags)
        environment.globals.setdefault("flags_json", flags_json)
        environment.tests.setdefault("active_flag", active_flag)
        environment.filters.setdefault("flag", flag_filter)
        environment.tests.update({_ON: _is_on, _HOLD: _hold})

    def parse(self, parser: Parser) -> nodes.Node:
        """Make an `If` of the tag, whose tests ask the flags when the template is rendered."""
        opening = next(parser.stream)
        name, first, elifs, otherwise = opening.value, None, [], []
        branch = self._branch(parser, opening.lineno, name)
        first = branch
        while True:
            branch.body = parser.parse_statements(("name:elflag", "name:else", "name:endflag"))
            token = next(parser.stream)
            if token.test("name:elflag"):
                branch = self._branch(parser, token.lineno, "elflag")
                elifs.append(branch)
                continue
            if token.test("name:else"):
                otherwise = parser.parse_statements(("name:endflag",), drop_needle=True)
            break
        first.elif_ = elifs
        first.else_ = otherwise
        return first

    def _branch(self, parser: Parser, lineno: int, tag: str) -> nodes.If:
        keys: list[nodes.Expr] = []
        value: nodes.Expr = nodes.Const(True)
        while True:
            if parser.stream.current.test("string") and parser.stream.look().test("string"):
                # Jinja would join them, and nobody has a flag of that name.
                parser.fail(f"{tag}: put a comma between the keys of two flags", lineno)
            if parser.stream.current.test("block_end"):
                parser.fail(f'{tag} needs the key of a flag: {{% {tag} "x" %}}', lineno)
            key = parser.parse_expression()
            if isinstance(key, nodes.Compare):
                key, value = self._comparison(parser, key, lineno, tag)
            keys.append(key)
            if not parser.stream.skip_if("comma"):
                break
        if not parser.stream.current.test("block_end"):
            parser.fail(f"{tag}: expected a comma or the end of the tag", lineno)
        if len(keys) > 1 and not (isinstance(value, nodes.Const) and value.value is True):
            parser.fail(f"{tag}: ask for the value of one flag at a time", lineno)
        return nodes.If(_question(keys, value, lineno), [], [], [], lineno=lineno)

    def _comparison(
        self, parser: Parser, node: nodes.Compare, lineno: int, tag: str
    ) -> tuple[nodes.Expr, nodes.Expr]:
        if len(node.ops) != 1 or node.ops[0].op != "eq":
            parser.fail(f'{tag} compares with == only: {{% {tag} "x" == "blue" %}}', lineno)
        return node.expr, node.ops[0].expr


def _question(keys: list[nodes.Expr], value: nodes.Expr, lineno: int) -> nodes.Expr:
    """What a tag asks, as a test of Jinja's, which costs a third of what a call does there.

    Its name is one that nothing else can have, so what the app defines cannot get in its way.
    """
    first = keys[0]
    if len(keys) == 1 and isinstance(first, nodes.Const) and isinstance(value, nodes.Const):
        key = first.value
        if value.value is True and checked_keys([key]) is None:
            plain = nodes.Const(key.removeprefix("!"), lineno=lineno)
            asked = nodes.Test(plain, _ON, [], [], None, None, lineno=lineno)
            return nodes.Not(asked, lineno=lineno) if key.startswith("!") else asked
    listed = nodes.List(keys, lineno=lineno)
    return nodes.Test(listed, _HOLD, [value], [], None, None, lineno=lineno)


@pass_context
def _is_on(context: TemplateContext, key: str) -> bool:
    return current_flags().is_enabled(key)


@pass_context
def _hold(context: TemplateContext, keys: list[Any], value: Any) -> bool:
    wrong = checked_keys(keys)
    if wrong is not None:
        raise TemplateRuntimeError(f"the tag flag: {wrong}")
    shown = current_flags()
    return all(holds(shown, key, value) for key in keys)
