"""Flags in Jinja templates."""

from collections.abc import Callable
from typing import Any

import pytest
from fastapi import FastAPI, Request
from fastapi.responses import HTMLResponse
from fastapi.templating import Jinja2Templates
from jinja2 import DictLoader, Environment, TemplateRuntimeError, TemplateSyntaxError
from shipsilently_fastapi import FlagsDep, ShipSilently, get_flags
from shipsilently_fastapi.lookup import defaults_only
from shipsilently_fastapi.templating import add_flags

from shipsilently_core.testing import override_flags
from tests.test_fastapi.apps import FREE, PRO, app_with, from_headers, serving

Make = Callable[..., ShipSilently]
Show = Callable[..., str]

PAGES = {
    "tag": '{% flag "new" %}on{% else %}off{% endflag %}',
    "short": '[{% flag "new" %}on{% endflag %}]',
    "several": '{% flag "new", "!missing" %}on{% else %}off{% endflag %}',
    "not": '{% flag "!new" %}off{% else %}on{% endflag %}',
    "variable": "{% flag key %}on{% else %}off{% endflag %}",
    "loop": '{% for k in ["new", "none"] %}{% flag k %}1{% else %}0{% endflag %}{% endfor %}',
    "shadowed": '{% set flag = 1 %}{% flag "new" %}on{% else %}off{% endflag %}',
    "call": '{{ flag("color", "blue") }} {{ flag("missing", default="blue") }} {{ flag("color") }}',
    "mismatch": '{{ flag("color", 3) }}',
    "if": '{% if flag("new") %}on{% else %}off{% endif %}',
    "text": '{% flag "color" %}on{% else %}off{% endflag %}',
    "value": '{% flag "color" == "red" %}red{% else %}other{% endflag %}',
    "branches": '{% flag "none" %}a{% elflag "!new" %}off{% elflag "new" %}on{% endflag %}',
    "imported": '{% from "macros" import shown %}{{ shown("new") }}',
    "included": '{% include "tag" without context %}',
    "called": '{% from "macros" import called %}{{ called() }}',
    "kept": '{% from "macros" import name, called %}{{ name }} {{ called() }}',
    "taken": '{% set request = 5 %}{% flag "new" %}on{% else %}off{% endflag %}{{ flag("who") }}',
    "macro": '{% from "macros" import shown with context %}{{ shown("new") }}',
    "macros": "{% macro shown(key) %}{% flag key %}on{% else %}off{% endflag %}{% endmacro %}"
    "{% macro called() %}{{ flag('who', 'default') }}{% endmacro %}{% set name = called() %}",
}


@pytest.fixture
def show(make: Make) -> Any:
    """Renders one of the pages for a user, in an async and in a plain endpoint."""
    templates = Jinja2Templates(env=Environment(loader=DictLoader(PAGES), autoescape=True))
    add_flags(templates)
    app = app_with(make(context=from_headers))
    add_pages(app, templates)
    with serving(app) as client:

        def show(page: str, headers: dict[str, str]) -> str:
            found = {
                client.get(f"/{kind}/{page}", headers=headers).text for kind in ("async", "plain")
            }
            (text,) = found
            return text

        yield show


def add_pages(app: FastAPI, templates: Jinja2Templates) -> None:
    """Endpoints that render a page."""

    @app.get("/async/{page}")
    async def show_async(request: Request, page: str, flags: FlagsDep) -> HTMLResponse:
        return templates.TemplateResponse(request, page, {"key": "new"})

    @app.get("/plain/{page}")
    def show_plain(request: Request, page: str) -> HTMLResponse:
        return templates.TemplateResponse(request, page, {"key": "new"})


@pytest.mark.parametrize(
    ("page", "pro", "free"),
    [
        ("tag", "on", "off"),
        ("short", "[on]", "[]"),
        ("several", "on", "off"),
        ("not", "on", "off"),
        ("variable", "on", "off"),
        ("loop", "10", "00"),
        ("shadowed", "on", "off"),
        ("call", "red blue red", "red blue red"),
        ("mismatch", "3", "3"),
        ("if", "on", "off"),
        ("text", "off", "off"),
        ("value", "red", "red"),
        ("branches", "on", "off"),
        ("macro", "on", "off"),
        ("imported", "on", "off"),
        ("called", "ada", "bob"),
        ("taken", "onada", "offbob"),
    ],
)
def test_templates_show_the_flags_of_the_request(
    show: Show, page: str, pro: str, free: str
) -> None:
    """The tag and the function have the flags of whoever asked, in every place of a template."""
    for _ in range(2):
        assert show(page, PRO) == pro
        assert show(page, FREE) == free


def test_templates_see_the_overrides_of_a_test(show: Show) -> None:
    """`override_flags` reaches the tag and the function, and ends with its block."""
    with override_flags(new=True, color="green"):
        assert show("tag", FREE) == "on"
        assert show("call", FREE) == "green blue green"
    assert show("tag", FREE) == "off"


def test_templates_that_are_rendered_in_tasks_show_flags(make: Make) -> None:
    """Where Jinja awaits what functions give, flags may be given too, and refreshed there."""
    environment = Environment(loader=DictLoader(PAGES), autoescape=True, enable_async=True)
    add_flags(Jinja2Templates(env=environment))
    environment.globals["get_flags"] = get_flags
    tag = environment.get_template("tag")
    given = environment.from_string(
        '{% set flags = get_flags(request) %}{{ flags.get("who", "") }} '
        '{{ flags.refresh().get("who", "") }} {{ flag("color") }}'
    )
    app = app_with(make(context=from_headers))

    @app.get("/")
    async def show(request: Request) -> list[str]:
        return [await page.render_async(request=request) for page in (given, tag)]

    with serving(app) as client:
        assert client.get("/", headers=PRO).json() == ["ada ada red", "on"]
        assert client.get("/", headers=FREE).json() == ["bob bob red", "off"]


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("{% flag %}on{% endflag %}", "needs the key"),
        ('{% flag "a" "b" %}on{% endflag %}', "comma between the keys"),
        ('{% flag "a" b %}on{% endflag %}', "expected a comma"),
        ('{% flag "a" != "b" %}on{% endflag %}', "compares with == only"),
        ('{% flag "a", "b" == "c" %}on{% endflag %}', "one flag at a time"),
        ('{% flag "a" %}on', "endflag"),
    ],
)
def test_a_wrong_tag_is_found_when_the_template_is_read(source: str, words: str) -> None:
    """Mistakes in the tag are syntax errors with a reason."""
    templates = Jinja2Templates(env=Environment(autoescape=True))
    add_flags(templates)
    with pytest.raises(TemplateSyntaxError, match=words):
        templates.env.from_string(source)


@pytest.mark.parametrize("waiting", [True, False])
def test_what_jinja_would_keep_is_for_whom_the_page_is(make: Make, waiting: bool) -> None:
    """A part without context that asks for a flag is rendered anew: nobody sees another's value."""
    environment = Environment(loader=DictLoader(PAGES), autoescape=True, enable_async=waiting)
    add_flags(Jinja2Templates(env=environment))
    app = app_with(make(context=from_headers))

    @app.get("/{page}")
    async def show(request: Request, page: str, flags: FlagsDep) -> str:
        template = environment.get_template(page)
        return await template.render_async() if waiting else template.render()

    with serving(app) as client:
        for headers, name, new in ((PRO, "ada", "on"), (FREE, "bob", "off")):
            assert client.get("/included", headers=headers).json() == new
            assert client.get("/kept", headers=headers).json() == f"{name} {name}"


def test_a_template_of_a_mounted_app_has_the_flags_of_that(make: Make) -> None:
    """A part without context finds them by the middleware of the app around, too."""
    templates = Jinja2Templates(env=Environment(loader=DictLoader(PAGES), autoescape=True))
    add_flags(templates)
    inner = FastAPI(lifespan=make(context=lambda connection: {"userId": "inner"}).lifespan)
    outer = app_with(make(context=from_headers))
    for app in (inner, outer):
        add_pages(app, templates)
    outer.mount("/inner", inner)
    with serving(outer) as client:
        for _ in range(2):
            for kind in ("async", "plain"):
                assert client.get(f"/inner/{kind}/kept", headers=PRO).text == "inner inner"
                assert client.get(f"/{kind}/kept", headers=PRO).text == "ada ada"


def test_without_request_and_middleware_a_template_serves_defaults(
    make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    """What is imported without context is no error: defaults, and one line that says what to do."""
    defaults_only.cache_clear()
    templates = Jinja2Templates(env=Environment(loader=DictLoader(PAGES), autoescape=True))
    add_flags(templates)
    app = FastAPI(lifespan=make(context=from_headers).lifespan)
    add_pages(app, templates)
    with serving(app) as client:
        for page, text in (("imported", "off"), ("included", "off"), ("called", "default")):
            assert client.get(f"/async/{page}", headers=PRO).text == text
            assert client.get(f"/plain/{page}", headers=PRO).text == text
        assert client.get("/async/macro", headers=PRO).text == "on"
    assert templates.env.from_string(PAGES["tag"]).render(request=None) == "off"
    (told,) = caplog.messages
    assert "`with context`" in told
    assert "shipsilently.install(app)" in told
    assert "TemplateResponse" in told


def test_a_tag_asks_for_its_flag_without_a_call_of_jinjas() -> None:
    """What a tag compiles to does not go through `Context.call`, which costs more than the flag."""
    templates = Jinja2Templates(env=Environment(autoescape=True))
    add_flags(templates)
    for page in ("tag", "several", "value", "branches"):
        assert "context.call" not in templates.env.compile(PAGES[page], raw=True)


def test_a_variable_that_is_no_key_is_told() -> None:
    """A tag whose variable holds no key is an error of the template that says so."""
    environment = Environment(autoescape=True)
    add_flags(Jinja2Templates(env=environment))
    request = Request({"type": "http", "headers": []})
    for wrong in (None, 3, ""):
        with pytest.raises(TemplateRuntimeError, match="the tag flag: a flag key is"):
            environment.from_string(PAGES["variable"]).render(request=request, key=wrong)
