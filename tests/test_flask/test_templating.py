"""Flags in Jinja: globals, test, filter and tag, in every place where a template can have them."""

import json
from pathlib import Path
from typing import Any

import pytest
from flask import Flask, render_template, render_template_string, request
from jinja2 import DictLoader, FileSystemBytecodeCache, TemplateRuntimeError, TemplateSyntaxError
from jinja2.environment import Environment
from shipsilently_flask import ShipSilently
from shipsilently_flask.templating import FlagExtension

from shipsilently_core.testing import ScriptedService

from .apps import bare_app, client_of, make_app

FLAGS = {"on": True, "off": False, "color": "blue", "limit": 3, "page": {"columns": 2}}


def render(source: str, app: Flask | None = None, **values: Any) -> str:
    """What a template makes of the flags above."""
    app = app or make_app(ScriptedService(FLAGS))
    with app.test_request_context():
        return render_template_string(source, **values)


def app_with(options: dict[str, Any] | None = None, **templates: str) -> Flask:
    """An app with these Jinja options and templates."""
    app = bare_app()
    if options is not None:
        app.jinja_options = options
    ShipSilently(app, client=client_of(ScriptedService(FLAGS)), client_flags=["on", "color"])
    if templates:
        app.jinja_env.loader = DictLoader(templates)
    return app


@pytest.mark.parametrize(
    ("source", "shown"),
    [
        ('{{ flag("color") }}', "blue"),
        ('{{ flag("color", default="red") }}', "blue"),
        ('{{ flag("color", default=1) }}', "1"),
        ('{{ flag("unknown", default="red") }}', "red"),
        ('{{ flag("unknown") }}', "None"),
        ('{{ flag("page").columns }}', "2"),
        ('{% if flag("on") %}a{% else %}b{% endif %}', "a"),
        ('{% if flag("off") %}a{% else %}b{% endif %}', "b"),
        ('{{ flags.get("limit", 1) }}', "3"),
        ('{{ flags.is_enabled("on") }}', "True"),
        ('{{ flags.detail("on").reason }}', "default"),
        ('{{ "on" in flags }}', "True"),
        ('{{ "on" is active_flag }}', "True"),
        ('{{ "off" is active_flag }}', "False"),
        ('{{ "!off" is active_flag }}', "True"),
        ('{{ "color" is active_flag }}', "False"),
        ('{{ "color" is active_flag("blue") }}', "True"),
        ('{{ "off" is not active_flag }}', "True"),
        ('{{ "color"|flag }}', "blue"),
        ('{{ "unknown"|flag(default="red") }}', "red"),
        ('{{ ["on", "off"]|select("active_flag")|join }}', "on"),
        ('{{ ["color", "limit"]|map("flag")|join(",") }}', "blue,3"),
    ],
)
def test_flags_are_read_in_expressions(source: str, shown: str) -> None:
    """The globals, the test and the filter give the request's values."""
    assert render(source) == shown


@pytest.mark.parametrize(
    ("source", "shown"),
    [
        ('{% flag "on" %}a{% endflag %}', "a"),
        ('{% flag "off" %}a{% endflag %}', ""),
        ('{% flag "on" %}a{% else %}b{% endflag %}', "a"),
        ('{% flag "off" %}a{% else %}b{% endflag %}', "b"),
        ('{% flag "unknown" %}a{% else %}b{% endflag %}', "b"),
        ('{% flag "!off" %}a{% else %}b{% endflag %}', "a"),
        ('{% flag "on", "!off" %}a{% else %}b{% endflag %}', "a"),
        ('{% flag "on", "off" %}a{% else %}b{% endflag %}', "b"),
        ('{% flag "off" %}a{% elflag "on" %}b{% else %}c{% endflag %}', "b"),
        ('{% flag "off" %}a{% elflag "off" %}b{% elflag "on" %}c{% endflag %}', "c"),
        ('{% flag "off" %}a{% elflag "off" %}b{% else %}c{% endflag %}', "c"),
        ('{% flag "on" %}a{% elflag "on" %}b{% endflag %}', "a"),
        ('{% flag "color" == "blue" %}a{% else %}b{% endflag %}', "a"),
        (
            '{% flag "color" == "red" %}r{% elflag "color" == "blue" %}b{% else %}?{% endflag %}',
            "b",
        ),
        ('{% flag "limit" == 3 %}a{% else %}b{% endflag %}', "a"),
        ('{% flag "on" == 1 %}a{% else %}b{% endflag %}', "b"),
        ('{% flag "off" == false %}a{% else %}b{% endflag %}', "a"),
        ("{% flag key %}a{% else %}b{% endflag %}", "a"),
        ('{% flag key ~ "" == wanted %}a{% else %}b{% endflag %}', "b"),
        ('{% flag ("color") == wanted %}a{% else %}b{% endflag %}', "a"),
        (
            "{% for k in keys %}{% flag k %}{{ k }}{% else %}-{% endflag %}{% endfor %}",
            "on-",
        ),
        ('{% flag "on" %}{% flag "off" %}a{% else %}b{% endflag %}{% else %}c{% endflag %}', "b"),
        ('{% flag "on" %}{% if false %}a{% else %}b{% endif %}{% endflag %}', "b"),
        ('{%- flag "on" -%} a {%- endflag -%}', "a"),
        ('{% flag "on" %}{% set v = 1 %}{% endflag %}{{ v }}', "1"),
    ],
)
def test_the_tag_chooses_a_branch(source: str, shown: str) -> None:
    """The tag takes keys, negations, several flags, values and variables, and nests."""
    assert render(source, key="on", keys=["on", "off"], wanted="blue") == shown


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ('{% flag "on" "off" %}a{% endflag %}', "put a comma between"),
        ("{% flag %}a{% endflag %}", r'flag needs the key of a flag: {% flag "x" %}'),
        ('{% flag "on", %}a{% endflag %}', "needs the key"),
        ('{% flag "off" %}a{% elflag %}b{% endflag %}', "elflag needs the key"),
        ('{% flag "on" as v %}a{% endflag %}', "expected a comma or the end of the tag"),
        ('{% flag "on" > 2 %}a{% endflag %}', "compares with == only"),
        ('{% flag "on" == 1 == 1 %}a{% endflag %}', "compares with == only"),
        ('{% flag "on", "color" == "blue" %}a{% endflag %}', "one flag at a time"),
        ('{% flag "color" == "blue", "on" %}a{% endflag %}', "one flag at a time"),
        ('{% flag "on" %}a', "endflag"),
        ('{% flag "on" %}a{% else %}b{% elflag "off" %}c{% endflag %}', "elflag"),
        ('{% flag "on" %}a{% endif %}', "endif"),
    ],
)
def test_mistakes_are_refused_with_their_line(source: str, message: str) -> None:
    """A tag that is written wrongly is a syntax error at its own line."""
    with pytest.raises(TemplateSyntaxError, match=message) as caught:
        render("first line\n" + source)
    assert caught.value.lineno == 2


@pytest.mark.parametrize("key", [None, 1, "", "!"])
def test_a_key_that_is_none_is_told(key: Any) -> None:
    """A variable that holds no key is an error of the template that says so."""
    with pytest.raises(TemplateRuntimeError, match="the tag flag: a flag key is"):
        render("{% flag key %}a{% endflag %}", key=key)


@pytest.mark.parametrize("key", [None, 1, ["on"]])
@pytest.mark.parametrize(
    ("source", "shown"),
    [
        ("{{ key is active_flag }}", "False"),
        ('{{ key is active_flag("blue") }}', "False"),
        ("{{ key is active_flag(none) }}", "False"),
        ("{{ nothing is active_flag }}", "False"),
        ('{{ ["on", key]|select("active_flag")|join }}', "on"),
    ],
)
def test_what_is_no_key_is_no_active_flag(
    source: str, shown: str, key: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """The test never raises for a variable that holds no key, and one line says what it held."""
    assert render(source, key=key) == shown
    (line,) = [record.getMessage() for record in caplog.records if record.name == "shipsilently"]
    held = "Undefined" if "nothing" in source else type(key).__name__
    assert f"whether a {held} is an active flag" in line


EVERYWHERE = (
    '{% flag "on" %}1{% endflag %}{{ "on" is active_flag }}{{ "color"|flag }}{{ flag("limit") }}'
)
SHOWN = "1Trueblue3"
PLACES = {
    "plain": EVERYWHERE,
    "include": '{% include "part" %}',
    "include without context": '{% include "part" without context %}',
    "import": '{% import "macros" as m %}{{ m.show() }}',
    "import with context": '{% import "macros" as m with context %}{{ m.show() }}',
    "from import": '{% from "macros" import show %}{{ show() }}',
    "macro": "{% macro show() %}" + EVERYWHERE + "{% endmacro %}{{ show() }}",
    "call": "{% macro box() %}{{ caller() }}{% endmacro %}{% call box() %}"
    + EVERYWHERE
    + "{% endcall %}",
    "block": '{% extends "base" %}{% block body %}' + EVERYWHERE + "{% endblock %}",
    "block inside": '{% flag "on" %}{% block x %}' + EVERYWHERE + "{% endblock %}{% endflag %}",
    "set": "{% set v %}" + EVERYWHERE + "{% endset %}{{ v }}",
    "filter": "{% filter trim %}" + EVERYWHERE + "{% endfilter %}",
}


@pytest.mark.parametrize("asynchronous", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize("place", PLACES)
def test_flags_work_everywhere_in_a_template(place: str, asynchronous: bool) -> None:
    """All four forms work in includes, imports, macros and blocks, in async environments, too."""
    app = app_with(
        {"enable_async": True} if asynchronous else None,
        page=PLACES[place],
        part=EVERYWHERE,
        base="{% block body %}{% endblock %}",
        macros="{% macro show() %}" + EVERYWHERE + "{% endmacro %}",
    )
    with app.test_request_context():
        assert render_template("page") == SHOWN


@pytest.mark.parametrize("asynchronous", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize(
    "page",
    [
        '{% include "part" without context %}',
        '{% include "around" without context %}',
        '{% from "variable" import shown %}{{ shown }}',
        '{% import "macros" as m %}{{ m.show() }}',
    ],
)
@pytest.mark.parametrize("asked", ['flag("who")', 'flags.get("who")', '"who"|flag'])
def test_no_part_of_a_template_is_kept_for_somebody_else(
    page: str, asked: str, asynchronous: bool
) -> None:
    """What Jinja renders once and keeps, without context, is rendered anew where it asks."""
    part = "{{ " + asked + " }}"
    templates = {
        "page": page,
        "part": part,
        "around": '<{% include "part" without context %}>',
        "variable": "{% set shown = " + asked + " %}",
        "macros": "{% macro show() %}" + part + "{% endmacro %}",
    }
    app = bare_app()
    app.jinja_options = {"enable_async": asynchronous, "loader": DictLoader(templates)}
    ShipSilently(
        app,
        client=client_of(ScriptedService(lambda context: {"who": context.get("userId")})),
        context_loader=lambda: {"userId": request.args["user"]},
    )
    for user in ("ada", "bob"):
        with app.test_request_context(f"/?user={user}"):
            assert render_template("page").strip("<>") == user


async def test_an_async_environment_renders_in_a_loop() -> None:
    """A template that is rendered inside an event loop reads flags as well."""
    app = app_with({"enable_async": True}, page=EVERYWHERE)
    with app.test_request_context():
        assert await app.jinja_env.get_template("page").render_async() == SHOWN


def test_custom_delimiters() -> None:
    """The tag follows the delimiters that the app has chosen."""
    app = app_with({"block_start_string": "<%", "block_end_string": "%>"})
    source = '<% flag "off" %>a<% elflag "on" %>b<% else %>c<% endflag %>{% flag %}'
    assert render(source, app) == "b{% flag %}"


def test_options_of_the_app_are_kept_and_not_shared() -> None:
    """The app's own extensions stay, and nothing is changed on Flask itself."""
    app = app_with({"extensions": ["jinja2.ext.do"], "trim_blocks": True})
    assert render('{% do [] %}{% flag "on" %}\na{% endflag %}', app) == "a"
    assert Flask.jinja_options == {}


def test_setting_up_does_not_make_the_environment() -> None:
    """The environment is made later, so that options set after `init_app` still count."""
    app = make_app(ScriptedService(FLAGS))
    assert "jinja_env" not in vars(app)
    app.jinja_options["block_start_string"] = "<%"
    app.jinja_options["block_end_string"] = "%>"
    assert render('<% flag "on" %>a<% endflag %>', app) == "a"


def test_an_environment_that_is_there_gets_the_extension() -> None:
    """An app whose environment was made before `init_app` has the tag as well."""
    app = bare_app()
    assert "flag" not in app.jinja_env.globals
    ShipSilently(app, client=client_of(ScriptedService(FLAGS)))
    assert render(EVERYWHERE, app) == SHOWN


def test_names_of_the_app_win() -> None:
    """What the app has put into its environment under our names before stays."""
    app = bare_app()
    app.jinja_env.globals["flag"] = lambda key: f"theirs {key}"
    ShipSilently(app, client=client_of(ScriptedService(FLAGS)))
    assert render('{{ flag("on") }} {% flag "on" %}ours{% endflag %}', app) == "theirs on ours"


def test_a_variable_named_flag_does_not_disturb_the_tag() -> None:
    """A page about flags of countries may call its variable `flag`."""
    assert render('{% flag "on" %}{{ flag }}{% endflag %}', flag="FR") == "FR"


def test_a_tag_asks_for_its_flag_without_a_call_of_jinjas() -> None:
    """What a tag compiles to does not go through `Context.call`, which costs more than the flag."""
    environment = Environment(extensions=[FlagExtension], autoescape=True)
    for asked in ('"x"', '"x", "!y"', '"x" == "blue"', "key"):
        source = f"{{% flag {asked} %}}a{{% elflag {asked} %}}b{{% endflag %}}"
        assert "context.call" not in environment.compile(source, raw=True)


def test_nothing_is_decided_while_compiling(tmp_path: Path) -> None:
    """A template that is compiled once, and kept on disk, follows the flags ever after."""
    source = '{{ "x" is active_flag }} {{ "x"|flag }} {% flag "x" %}on{% else %}off{% endflag %}'
    shown = []
    for value in (False, True):
        service = ScriptedService({"x": value})
        app = bare_app()
        ShipSilently(app, client=client_of(service, max_age=0))
        app.jinja_env.bytecode_cache = FileSystemBytecodeCache(str(tmp_path))
        app.jinja_env.loader = DictLoader({"page": source})
        app.jinja_env.get_template("page")
        assert service.requests == []
        for now in (value, not value):
            service.set({"x": now})
            with app.test_request_context():
                shown.append(render_template("page"))
    on, off = "True True on", "False False off"
    assert shown == [off, on, on, off]
    assert list(tmp_path.iterdir())


def test_a_template_is_one_evaluation() -> None:
    """All the flags of a page cost one evaluation, and a page without any costs none."""
    service = ScriptedService(FLAGS)
    app = make_app(service)
    assert render("no flags", app) == "no flags"
    assert service.requests == []
    assert render(EVERYWHERE * 3, app) == SHOWN * 3
    assert len(service.requests) == 1


def test_the_browser_gets_the_listed_flags_only() -> None:
    """`flags_json` shows the flags that the app lists, and no others."""
    shown = json.loads(render("{{ flags_json() }}", app_with()))
    assert shown == {"on": True, "color": "blue"}


def test_the_browser_gets_fewer_flags_on_demand() -> None:
    """A page may ask for some of the listed flags; one that is not listed is refused by name."""
    assert json.loads(render('{{ flags_json("color") }}', app_with())) == {"color": "blue"}
    with pytest.raises(TemplateRuntimeError, match=r"'limit' is not in SHIPSILENTLY_CLIENT_FLAGS"):
        render('{{ flags_json("limit") }}', app_with())


def test_the_browser_gets_the_flags_of_a_pattern() -> None:
    """A list may hold patterns, as in Django: what matches is shown, and nothing else."""
    app = bare_app()
    client = client_of(ScriptedService({"public-b": 2, "public-a": 1, "secret": 3, "on": True}))
    ShipSilently(app, client=client, client_flags=["on", "public-*", "unknown"])
    assert render("{{ flags_json() }}", app) == '{"on": true, "public-a": 1, "public-b": 2}'
    assert render('{{ flags_json("public-b") }}', app) == '{"public-b": 2}'
    with pytest.raises(TemplateRuntimeError, match=r"'secret' is not in SHIPSILENTLY_CLIENT_FLAGS"):
        render('{{ flags_json("secret") }}', app)


def test_json_for_the_browser_cannot_leave_its_element() -> None:
    """A value that holds markup is escaped, and a flag that is unknown is left out."""
    app = bare_app()
    client = client_of(ScriptedService({"html": "</script><b>&'"}))
    ShipSilently(app, client=client, client_flags=["html", "unknown"])
    shown = render('<script type="application/json">{{ flags_json() }}</script>', app)
    body = shown.removeprefix('<script type="application/json">').removesuffix("</script>")
    assert "<" not in body
    assert json.loads(body) == {"html": "</script><b>&'"}


def test_nothing_is_shown_without_a_list() -> None:
    """An app that lists no flags shows none."""
    assert render("{{ flags_json() }}") == "{}"


def test_an_outage_shows_the_branch_for_off() -> None:
    """With nothing known and the service down a page is rendered, with the flags off."""
    service = ScriptedService()
    service.fail(503)
    assert render('{% flag "on" %}a{% else %}b{% endflag %}', make_app(service)) == "b"


def test_the_extension_works_in_any_environment() -> None:
    """An environment of the app's own, for mails say, can have the same tag."""
    environment = Environment(extensions=[FlagExtension], autoescape=True)
    with make_app(ScriptedService(FLAGS)).app_context():
        assert environment.from_string(EVERYWHERE).render() == SHOWN
