"""For Django's Jinja2 backend: the tag `flag`, and what it stands on.

"OPTIONS": {"extensions": ["shipsilently_django.jinja.FlagsExtension"]}
"""

from __future__ import annotations

from typing import Any, NoReturn

from jinja2 import Environment, nodes, pass_context
from jinja2.ext import Extension
from jinja2.parser import Parser
from jinja2.runtime import Context

from .readable import is_on
from .rendering import flags_in, plain_value

__all__ = ["FlagsExtension"]

#: Jinja's name of the test behind the tag; no template can spell it.
_IS_ON = "flag is on"


class FlagsExtension(Extension):
    """``{% flag "x" %}…{% else %}…{% endflag %}``, and the functions `flag` and `flag_value`."""

    tags = {"flag"}  # noqa: RUF012  # as Jinja's own extensions have it

    def __init__(self, environment: Environment) -> None:
        super().__init__(environment)
        environment.globals.setdefault("flag", flag)
        environment.globals.setdefault("flag_value", flag_value)
        environment.tests[_IS_ON] = flag

    def parse(self, parser: Parser) -> nodes.Node:
        """An ``if`` whose condition asks for the flag."""
        line = next(parser.stream).lineno
        branch = root = nodes.If(lineno=line)
        root.test = self._condition(parser)
        while True:
            branch.body = parser.parse_statements(
                ("name:elflag", "name:else", "name:endflag"), drop_needle=False
            )
            branch.elif_, branch.else_ = [], []
            token = next(parser.stream)
            if token.test("name:elflag"):
                branch = nodes.If(lineno=token.lineno)
                branch.test = self._condition(parser)
                root.elif_.append(branch)
                continue
            if token.test("name:else"):
                root.else_ = parser.parse_statements(("name:endflag",), drop_needle=True)
            return root

    def _condition(self, parser: Parser) -> nodes.Expr:
        key = self._operand(parser)
        expected: list[nodes.Expr] = []
        negated = False
        if parser.stream.current.type in ("eq", "ne"):
            negated = next(parser.stream).type == "ne"
            expected.append(self._operand(parser))
        if parser.stream.current.type != "block_end":
            self._complain(parser)
        # A test costs a third of what a call does in Jinja, and no variable can stand in its way.
        asked = nodes.Test(key, _IS_ON, expected, [], None, None)
        return nodes.Not(asked) if negated else asked

    def _operand(self, parser: Parser) -> nodes.Expr:
        stream = parser.stream
        if stream.current.type == stream.look().type == "string":
            # Jinja itself would take the two for one.
            self._complain(parser)
        # No more than this: comparing is the tag's own.
        return parser.parse_unary()

    def _complain(self, parser: Parser) -> NoReturn:
        parser.fail(
            'a flag tag takes one flag: {% flag "x" %} or {% flag "x" == "blue" %}',
            parser.stream.current.lineno,
        )


@pass_context
def flag(context: Context, key: object, expected: object = True) -> bool:
    """Whether a flag is on, or has a value."""
    return is_on(flags_in(context), key, expected)


@pass_context
def flag_value(context: Context, key: object, default: Any = None) -> Any:
    """A flag's value."""
    return plain_value(flags_in(context), key, default)
