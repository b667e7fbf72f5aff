"""The tag ``{% flag %}`` in Jinja templates, for the integrations' extensions.

A tag becomes an ``if`` that asks a test of Jinja's. A call would go through `Context.call`,
which takes several times as long as reading a flag; a test is looked up once in each
rendering and then called as it is. Its name is one that no template can spell, so that
nothing there can get in its way.

Nothing is decided while a template is compiled: a test that did not ask for the context
would be evaluated there once, and its result kept in the bytecode.

Jinja renders what is included or imported without context once, and keeps the body and the
variables of such a part for everybody. A part that has asked for a flag is not kept: it would
show one person's to the others (`AnewTemplate`).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from jinja2 import Environment, Template, TemplateRuntimeError, nodes
from jinja2.environment import TemplateModule
from jinja2.ext import Extension
from jinja2.parser import Parser
from jinja2.runtime import Context

__all__ = ["AnewTemplate", "BranchTag", "FlagTag", "Part", "all_hold", "asked", "part"]

#: The tests behind the tag: whether one flag is on, and whether several have a value.
_ON, _HOLD = "flag is on", "flags hold"


def asked(test: str, given: nodes.Expr, *arguments: nodes.Expr) -> nodes.Expr:
    """A test with this name, asked of what is given."""
    return nodes.Test(given, test, list(arguments), [], None, None, lineno=given.lineno)


class BranchTag(Extension):
    """``{% flag … %}…{% elflag … %}…{% else %}…{% endflag %}``, whatever the tag asks for."""

    tags: set[str] = {"flag"}  # noqa: RUF012  # so it is declared in Jinja

    def __init__(self, environment: Environment) -> None:
        super().__init__(environment)
        base = environment.template_class
        if issubclass(AnewTemplate, base):
            environment.template_class = AnewTemplate
        elif not issubclass(base, AnewTemplate):
            environment.template_class = type(base.__name__, (AnewTemplate, base), {})

    def parse(self, parser: Parser) -> nodes.Node:
        """Make an `If` of the tag, whose tests ask the flags when the template is rendered."""
        opening = next(parser.stream)
        root = branch = self._branch(parser, opening.value, opening.lineno)
        while True:
            branch.body = parser.parse_statements(("name:elflag", "name:else", "name:endflag"))
            token = next(parser.stream)
            if token.test("name:elflag"):
                branch = self._branch(parser, token.value, token.lineno)
                root.elif_.append(branch)
                continue
            if token.test("name:else"):
                root.else_ = parser.parse_statements(("name:endflag",), drop_needle=True)
            return root

    @abstractmethod
    def condition(self, parser: Parser, tag: str, lineno: int) -> nodes.Expr:
        """What a tag asks, read up to its end."""
        ...

    def _branch(self, parser: Parser, tag: str, lineno: int) -> nodes.If:
        return nodes.If(self.condition(parser, tag, lineno), [], [], [], lineno=lineno)


class FlagTag(BranchTag):
    """A tag that takes one key or several with commas between, which must all be on.

    ``"!x"`` must be off. ``{% flag "x" == "blue" %}`` asks for a value.
    """

    #: Whether one flag is on; takes Jinja's context and the key.
    is_on: Callable[[Any, str], bool]
    #: Whether all of the keys have the value; takes Jinja's context before them.
    hold: Callable[[Any, list[Any], Any], bool]

    def __init__(self, environment: Environment) -> None:
        super().__init__(environment)
        environment.tests.update({_ON: type(self).is_on, _HOLD: type(self).hold})

    def condition(self, parser: Parser, tag: str, lineno: int) -> nodes.Expr:
        """The keys and the value of a tag as a test."""
        keys: list[nodes.Expr] = []
        value: nodes.Expr = nodes.Const(True)
        while True:
            if parser.stream.current.test("string") and parser.stream.look().test("string"):
                # Jinja would join them, and nobody has a flag of that name.
                parser.fail(f"{tag}: put a comma between the keys of two flags", lineno)
            if parser.stream.current.test("block_end"):
                parser.fail(f'{tag} needs the key of a flag: {{% {tag} "x" %}}', lineno)
            given = parser.parse_expression()
            if isinstance(given, nodes.Compare):
                if len(given.ops) != 1 or given.ops[0].op != "eq":
                    parser.fail(f'{tag} compares with == only: {{% {tag} "x" == "blue" %}}', lineno)
                keys.append(given.expr)
                value = given.ops[0].expr
            else:
                keys.append(given)
            if not parser.stream.skip_if("comma"):
                break
        if not parser.stream.current.test("block_end"):
            parser.fail(f"{tag}: expected a comma or the end of the tag", lineno)
        is_plain = isinstance(value, nodes.Const) and value.value is True
        if len(keys) > 1 and not is_plain:
            parser.fail(f"{tag}: ask for the value of one flag at a time", lineno)
        only = keys[0].value if is_plain and isinstance(keys[0], nodes.Const) else None
        if len(keys) == 1 and only is not None and _wrong(only) is None:
            # What most tags ask is known but for the answer.
            question = asked(_ON, nodes.Const(only.removeprefix("!"), lineno=lineno))
            return nodes.Not(question, lineno=lineno) if only.startswith("!") else question
        return asked(_HOLD, nodes.List(keys, lineno=lineno), value)


class Part:
    """What is included or imported without context, while it is rendered.

    Attributes:
        asked: Whether it has asked for a flag. Whoever reads one in a template that may be such
            a part says so: ``part.get()`` is it.
    """

    __slots__ = ("asked",)

    def __init__(self) -> None:
        self.asked: bool = False


part: ContextVar[Part | None] = ContextVar("shipsilently_part", default=None)


class AnewTemplate(Template):
    """A template that is rendered anew for everybody where it is a part that asks for a flag."""

    def _get_default_module(self, ctx: Context | None = None) -> TemplateModule:
        if self.environment.is_async or self._is_settled(ctx):
            return super()._get_default_module(ctx)
        with _rendered() as rendered:
            module = self.make_module()
        if not rendered.asked:
            self._module = module
        return module

    async def _get_default_module_async(self, ctx: Context | None = None) -> TemplateModule:
        if self._is_settled(ctx):
            return await super()._get_default_module_async(ctx)
        with _rendered() as rendered:
            module = await self.make_module_async()
        if not rendered.asked:
            self._module = module
        return module

    def _is_settled(self, ctx: Context | None) -> bool:
        """Whether Jinja has kept this part, or keeps none of it anyway."""
        return self._module is not None or bool(ctx and ctx.globals_keys - self.globals.keys())


@contextmanager
def _rendered() -> Iterator[Part]:
    """While a part is rendered."""
    around, this = part.get(), Part()
    token = part.set(this)
    try:
        yield this
    finally:
        part.reset(token)
        if around is not None and this.asked:
            # It is in the body of that one.
            around.asked = True


def all_hold(keys: Iterable[Any], holds: Callable[[str], bool]) -> bool:
    """Whether all of the keys in a tag hold.

    Raises:
        TemplateRuntimeError: One of them, from a variable, is no key.
    """
    given = list(keys)
    for key in given:
        wrong = _wrong(key)
        if wrong is not None:
            raise TemplateRuntimeError(f"the tag flag: a flag key is {wrong}")
    return all(map(holds, given))


def _wrong(key: Any) -> str | None:
    """What is wrong with this key, in words; ``None`` if nothing is."""
    if not isinstance(key, str):
        return f"a string, not a {type(key).__name__}"
    return None if key.removeprefix("!") else "empty"
