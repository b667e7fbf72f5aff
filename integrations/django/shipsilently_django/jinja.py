"""For Django's Jinja2 backend: the tag `flag`, and what it stands on.

"OPTIONS": {"extensions": ["shipsilently_django.jinja.FlagsExtension"]}
"""

from __future__ import annotations

from typing import Any, NoReturn

from jinja2 import Environment, nodes, pass_context
from jinja2.parser import Parser
from jinja2.runtime import Context
from jinja2.utils import missing

from shipsilently_core import Flags
from shipsilently_core.contrib.jinja import BranchTag, asked

from .flags import RequestFlags
from .macros import flags_of_page, know_pages
from .readable import ReadableFlags, is_on
from .rendering import flags_in, plain_value

__all__ = ["FlagsExtension"]

#: Jinja's names of the tests behind the tag; no template can spell them.
_IS_ON, _HOLDS = "flag is on", "flag holds"


class FlagsExtension(BranchTag):
    """``{% flag "x" %}…{% else %}…{% endflag %}``, and the functions `flag` and `flag_value`."""

    def __init__(self, environment: Environment) -> None:
        super().__init__(environment)
        environment.globals.setdefault("flag", flag)
        environment.globals.setdefault("flag_value", flag_value)
        environment.tests.update({_IS_ON: _is_on, _HOLDS: flag})
        know_pages(environment)

    def condition(self, parser: Parser, tag: str, lineno: int) -> nodes.Expr:
        """One flag, compared with a value or not."""
        key = self._operand(parser)
        expected: list[nodes.Expr] = []
        negated = False
        if parser.stream.current.type in ("eq", "ne"):
            negated = next(parser.stream).type == "ne"
            expected.append(self._operand(parser))
        if parser.stream.current.type != "block_end":
            self._complain(parser)
        # What most tags ask, whether one flag is on, is known but for the answer.
        known = key.value if isinstance(key, nodes.Const) and not expected else None
        is_plain = isinstance(known, str) and not known.startswith("!")
        question = asked(_IS_ON if is_plain else _HOLDS, key, *expected)
        return nodes.Not(question) if negated else question

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
def _is_on(context: Context, key: str) -> bool:
    # As `flags_in`, for a template that is rendered for a request.
    request = context.resolve_or_missing("request")
    flags = getattr(request, "flags", None)
    if isinstance(flags, RequestFlags) and flags._request is request:
        return flags.is_enabled(key)
    return _flags_in(context).is_enabled(key)


@pass_context
def flag(context: Context, key: object, expected: object = True) -> bool:
    """Whether a flag is on, or has a value; of ``"!x"`` whether it is not so."""
    return is_on(_flags_in(context), key, expected)


@pass_context
def flag_value(context: Context, key: object, default: Any = None) -> Any:
    """A flag's value."""
    return plain_value(_flags_in(context), key, default)


def _flags_in(context: Context) -> ReadableFlags:
    if context.resolve_or_missing("request") is missing:
        flags = context.resolve_or_missing("flags")
        return flags if isinstance(flags, (Flags, RequestFlags)) else flags_of_page()
    return flags_in(context)
