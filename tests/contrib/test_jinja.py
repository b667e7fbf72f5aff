"""What the frameworks' Jinja extensions stand on, by itself."""

from __future__ import annotations

import asyncio
import itertools
from functools import partial
from typing import Any

import pytest
from jinja2 import DictLoader, Environment, Template, nodes, pass_context
from jinja2.parser import Parser

from shipsilently_core.contrib.jinja import AnewTemplate, BranchTag, asked, part


class Tag(BranchTag):
    """A tag whose flag is on for whoever the test says."""

    def condition(self, parser: Parser, tag: str, lineno: int) -> nodes.Expr:
        return asked("is on", parser.parse_expression())


def made(templates: dict[str, str], **options: Any) -> tuple[Environment, list[str]]:
    """An environment, and the list whose last name is that of whom a page is for."""
    environment = Environment(
        loader=DictLoader(templates), autoescape=True, extensions=[Tag], **options
    )
    people: list[str] = []

    @pass_context
    def is_on(context: Any, key: str) -> bool:
        rendered = part.get()
        if rendered is not None:
            rendered.asked = True
        return people[-1] == "ada"

    environment.tests["is on"] = is_on
    environment.globals["count"] = partial(next, itertools.count(1))
    return environment, people


TAG = '{% flag "x" %}on{% else %}off{% endflag %}'


@pytest.mark.parametrize("waiting", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize(
    "page",
    ["{% include 'asks' without context %}", "{% include 'around' without context %}"],
)
def test_a_part_that_asks_for_a_flag_is_rendered_for_each(page: str, waiting: bool) -> None:
    """Also where it is within another part, which would be kept with it."""
    environment, people = made(
        {"asks": TAG, "around": "{% include 'asks' without context %}", "page": page},
        enable_async=waiting,
    )
    shown = []
    for name in ("ada", "bob", "ada"):
        people.append(name)
        template = environment.get_template("page")
        shown.append(asyncio.run(template.render_async()) if waiting else template.render())
    assert shown == ["on", "off", "on"]
    assert part.get() is None


@pytest.mark.parametrize("waiting", [False, True], ids=["sync", "async"])
def test_a_part_that_asks_for_none_is_kept_as_ever(waiting: bool) -> None:
    """What Jinja saves by keeping parts stays saved, also beside a part that asks."""
    environment, people = made(
        {
            "counts": "{{ count() }}",
            "asks": TAG,
            "page": "{% include 'counts' without context %}{% include 'asks' without context %}",
        },
        enable_async=waiting,
    )
    people.append("bob")
    for _ in range(3):
        template = environment.get_template("page")
        shown = asyncio.run(template.render_async()) if waiting else template.render()
        assert shown == "1off"


def test_a_part_sees_what_the_page_was_loaded_with() -> None:
    """Globals of one page are handed to its parts, which are then not kept: as ever."""
    environment, _ = made(
        {
            "part": "{% set shown = name %}",
            "page": "{% from 'part' import shown %}{{ shown }}",
        }
    )
    shown = [environment.get_template("page", globals={"name": n}).render() for n in ("a", "b")]
    assert shown == ["a", "b"]


def test_a_part_that_raises_leaves_nothing_behind() -> None:
    """The next page is rendered as if there had been none."""
    environment, _ = made({"part": "{{ 1 / 0 }}", "page": "{% include 'part' without context %}"})
    with pytest.raises(ZeroDivisionError):
        environment.get_template("page").render()
    assert part.get() is None


def test_an_environment_keeps_its_own_kind_of_template() -> None:
    """What a project has made of templates stays, and the extension may come twice."""

    class Own(Template):
        pass

    class OwnEnvironment(Environment):
        template_class = Own

    for kind in (OwnEnvironment, Environment):
        environment = kind(extensions=[Tag])
        environment.add_extension(Tag)
        template = environment.from_string("x")
        assert isinstance(template, kind.template_class)
        assert isinstance(template, AnewTemplate)
    assert Environment.template_class is Template
