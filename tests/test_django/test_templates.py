"""`{% load shipsilently %}`: the tags and the filter in Django's own templates."""

import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import django
import pytest
from django.http import HttpRequest, HttpResponse
from django.template import Context, Engine, RequestContext, Template, TemplateSyntaxError
from django.template.base import TextNode
from django.test import RequestFactory
from django.utils.translation import gettext_lazy
from pytest_django import Settings
from shipsilently_django import get_client
from shipsilently_django.flags import RequestFlags
from shipsilently_django.templatetags.shipsilently import FlagNode

from shipsilently_core import ShipSilentlyClient
from shipsilently_core.testing import ScriptedService, override_flags

from .site import Browser

Serve = Callable[..., None]
Configure = Callable[..., None]
TAG = '{% load shipsilently %}{% flag "x" %}A{% else %}B{% endflag %}'


@pytest.fixture
def request_(configure: Configure) -> HttpRequest:
    """A request of nobody, for whom `x` is on."""
    return RequestFactory().get("/")


def rendered(source: str, request: HttpRequest | None = None, /, **variables: Any) -> str:
    """What a template with the tags loaded makes of a request."""
    template = Template("{% load shipsilently %}" + source)
    return template.render(RequestContext(request, variables) if request else Context(variables))


@pytest.fixture
def flags(service: ScriptedService) -> ScriptedService:
    """More flags of more kinds."""
    service.set(
        {
            "x": True,
            "off": False,
            "colour": "blue",
            "limit": 3,
            "one": 1,
            "text": "<b>",
            "object": {"a": 1},
            "with space": True,
            "ünï/../?": True,
        }
    )
    return service


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ('{% flag "x" %}A{% endflag %}', "A"),
        ('{% flag "off" %}A{% endflag %}', ""),
        ('{% flag "off" %}A{% else %}B{% endflag %}', "B"),
        ("{% flag name %}A{% else %}B{% endflag %}", "A"),
        ("{% flag upper|lower %}A{% else %}B{% endflag %}", "A"),
        ("{% flag missing %}A{% else %}B{% endflag %}", "B"),
        ("{% flag number %}A{% else %}B{% endflag %}", "B"),
        ('{% flag "!x" %}A{% else %}B{% endflag %}', "B"),
        ('{% flag "!off" %}A{% else %}B{% endflag %}', "A"),
        ('{% flag "!nothing" %}A{% else %}B{% endflag %}', "A"),
        ('{% flag "!colour" == "red" %}A{% else %}B{% endflag %}', "A"),
        ('{% flag "!colour" != "red" %}A{% else %}B{% endflag %}', "B"),
        ('{% flag "x" %}A{% elflag "!off" %}B{% endflag %}', "A"),
        ('{% flag "off" %}A{% elflag "!off" %}B{% endflag %}', "B"),
        ('{% flag "!off" as on %}{{ on }}', "True"),
        ("{% flag opposite %}A{% else %}B{% endflag %}", "A"),
        ("{% flag mark %}A{% else %}B{% endflag %}", "B"),
        ('{% ifflag "!off" %}A{% endifflag %}', "A"),
        ('{% flag "colour" == _("blue") %}A{% else %}B{% endflag %}', "A"),
        ('{% flag _("colour") == "blue" %}A{% else %}B{% endflag %}', "A"),
        ('{% flag_value "colour" default=_("grey") %}', "blue"),
        ('{% flag_value "nothing" default=_("grey") %}', "grey"),
        ('{% flag_value _("colour") default=lazy %}', "blue"),
        ('{{ request|flag_value:_("colour") }}', "blue"),
        ('{% flag "with space" %}A{% else %}B{% endflag %}', "A"),
        ('{% flag "ünï/../?" %}A{% else %}B{% endflag %}', "A"),
        ('{% flag "x" as on %}{{ on }}', "True"),
        ('{% flag "off" as on %}{{ on }}', "False"),
        ('{% flag "colour" == "blue" as blue %}{{ blue }}', "True"),
        ('{% flag "colour" == "blue" %}A{% else %}B{% endflag %}', "A"),
        ('{% flag "colour" != "blue" %}A{% else %}B{% endflag %}', "B"),
        ('{% flag "colour" == wanted %}A{% else %}B{% endflag %}', "A"),
        ('{% flag "limit" == 3 %}A{% else %}B{% endflag %}', "A"),
        ('{% flag "off" %}A{% elflag "x" %}B{% else %}C{% endflag %}', "B"),
        ('{% flag "off" %}A{% elflag "colour" == "red" %}B{% else %}C{% endflag %}', "C"),
        ('{% flag "colour" %}A{% else %}B{% endflag %}', "B"),
        ('{% flag "x" %}{% flag "off" %}A{% else %}B{% endflag %}{% endflag %}', "B"),
        ('{% ifflag "x" %}A{% else %}B{% endifflag %}', "A"),
        ('{% ifflag "off" %}A{% elflag "x" %}B{% endifflag %}', "B"),
        ('{% flag_value "limit" %}', "3"),
        ('{% flag_value "limit" as limit %}[{{ limit }}]', "[3]"),
        ('{% flag_value "nothing" default=7 as limit %}[{{ limit }}]', "[7]"),
        ('{% flag_value "colour" default=7 %}', "7"),
        ('{% flag_value "text" %}', "&lt;b&gt;"),
        ('{{ request|flag_value:"limit" }}', "3"),
        ('{% if request|flag_value:"limit" == 3 %}A{% endif %}', "A"),
        ("{% flag_value number default=7 %}", "7"),
    ],
)
def test_what_a_tag_renders(
    request_: HttpRequest, flags: ScriptedService, source: str, text: str
) -> None:
    """Each form of each tag renders the branch, or the value, that its flag calls for."""
    variables = {
        "name": "x",
        "upper": "X",
        "number": 5,
        "wanted": "blue",
        "opposite": "!off",
        "mark": "!",
        "lazy": gettext_lazy("grey"),
        "request": request_,
    }
    assert rendered(source, request_, **variables) == text


@pytest.mark.parametrize(
    ("key", "expected", "holds"),
    [
        ("x", 1, False),
        ("one", True, False),
        ("one", 1, True),
        ("one", 1.0, True),
        ("limit", "3", False),
        ("off", 0, False),
        ("off", False, True),
        ("nothing", False, False),
        ("nothing", 0, False),
    ],
)
def test_a_boolean_is_no_number(
    request_: HttpRequest, flags: ScriptedService, key: str, expected: object, holds: bool
) -> None:
    """Comparing keeps JSON types apart: true is not 1, and 3 is not "3"."""
    source = "{% flag key == expected as holds %}{{ holds }}"
    assert rendered(source, request_, key=key, expected=expected) == str(holds)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("{% flag %}{% endflag %}", "'flag' takes one flag"),
        ('{% flag "x" "y" %}{% endflag %}', "'flag' takes one flag"),
        ('{% flag "x" = "y" %}{% endflag %}', "'flag' takes one flag"),
        ('{% flag "x" as %}{% endflag %}', "'flag' takes one flag"),
        ('{% ifflag "x" "y" %}{% endifflag %}', "'ifflag' takes one flag"),
        ('{% flag "x" %}{% elflag %}{% endflag %}', "'elflag' takes one flag"),
        ('{% flag "x" %}{% else %}{% else %}{% endflag %}', "last branch"),
        ('{% flag "x" %}', "endflag"),
        ('{% ifflag "x" %}{% endflag %}', "endifflag"),
    ],
)
def test_mistakes_are_found_when_a_template_is_compiled(source: str, message: str) -> None:
    """A wrong tag is a TemplateSyntaxError that shows the right form."""
    with pytest.raises(TemplateSyntaxError, match=message):
        Template("{% load shipsilently %}" + source)


class TestTheTagRendersWithoutARequest:
    """Mails and PDFs are rendered without one."""

    @pytest.mark.parametrize(
        "context",
        [
            pytest.param(Context({}), id="plain context"),
            pytest.param(Context({"request": None}), id="no request"),
            pytest.param(Context({"request": "GET /"}), id="something else"),
            pytest.param(Context({"flags": {"x": True}}), id="flags of somebody else"),
        ],
    )
    def test_by_the_default_branch(
        self, configure: Configure, service: ScriptedService, context: Context
    ) -> None:
        """Nothing is raised, the default branch is rendered, and no service is asked."""
        assert Template(TAG).render(context) == "B"
        assert not service.requests

    def test_by_the_declared_default(self, settings: Settings) -> None:
        """A default of the settings counts there too."""
        settings.SHIPSILENTLY = {"API_KEY": "sk_test", "DEFAULTS": {"x": True, "limit": 5}}
        assert Template(TAG).render(Context({})) == "A"
        assert rendered('{% flag_value "limit" %}') == "5"

    def test_by_what_is_known_of_everybody(self, configure: Configure) -> None:
        """A value that no personal rule made is known of everybody."""
        get_client().evaluate_all({"userId": "system"})
        assert Template(TAG).render(Context({})) == "A"

    def test_with_flags_handed_over(self, configure: Configure) -> None:
        """A mail for one user is rendered with that user's flags, as the variable `flags`."""
        flags = get_client().flags({"userId": "7"})
        assert Template(TAG).render(Context({"flags": flags})) == "A"

    def test_with_a_bare_request(self, configure: Configure) -> None:
        """A request that has passed no middleware is an anonymous visitor's."""
        request = RequestFactory().get("/")
        assert Template(TAG).render(Context({"request": request})) == "A"

    def test_inside_an_include_and_an_inclusion_tag(self, configure: Configure) -> None:
        """`{% include … only %}` and a tag's own template see the request of the page."""
        loader = (
            "django.template.loaders.locmem.Loader",
            {"inner": TAG, "outer": "{% include 'inner' only %}{% load inner %}{% inner_tag %}"},
        )
        engine = Engine(
            loaders=[loader],
            libraries={
                "shipsilently": "shipsilently_django.templatetags.shipsilently",
                "inner": "tests.test_django.inner_tags",
            },
        )
        outer = engine.get_template("outer")
        assert outer.render(Context({})) == "BB"
        assert outer.render(RequestContext(RequestFactory().get("/"), {})) == "AA"


def test_the_tag_works_in_loops_and_partials(request_: HttpRequest) -> None:
    """Inside a loop, and in a partial where Django has them, each use is one of its own."""
    loop = '{% for n in "ab" %}{% flag "x" as on %}{{ on|yesno:"1,0" }}{% endfor %}'
    assert rendered(loop, request_) == "11"
    if django.VERSION >= (6, 0):
        partial = '{% partialdef card %}{% flag "x" %}A{% else %}B{% endflag %}{% endpartialdef %}'
        assert rendered(partial + "{% partial card %}{% partial card %}", request_) == "AA"


def test_the_tag_works_inside_a_request(browser: Browser, serve: Serve) -> None:
    """A page that is rendered by a plain view shows the flag's branch under both servers."""

    def view(request: HttpRequest) -> HttpResponse:
        return HttpResponse(Template(TAG).render(RequestContext(request)))

    serve(view)
    assert browser.text() == "A"


def test_an_async_view_awaits_and_then_renders(serve: Serve) -> None:
    """After one await a template in an async view reads from memory."""

    async def view(request: HttpRequest) -> HttpResponse:
        flags: RequestFlags = request.flags  # type: ignore[attr-defined]
        await flags.aevaluate_all()
        return HttpResponse(Template(TAG).render(RequestContext(request)))

    serve(view)
    assert Browser("asgi").text() == "A"


def test_a_variable_named_flags_does_not_hide_the_request(request_: HttpRequest) -> None:
    """The request comes first."""
    assert Template(TAG).render(RequestContext(request_, {"flags": "mine"})) == "A"


def test_the_context_processor_names_the_flags(
    request_: HttpRequest, settings: Settings, service: ScriptedService
) -> None:
    """`flags` in a template is the request's, and a page that does not use it reads none."""
    processor = "shipsilently_django.context_processors.flags"
    engine = Engine(context_processors=[processor])
    context = RequestContext(request_)
    assert engine.from_string("nothing").render(context) == "nothing"
    assert not service.requests
    assert "RequestFlags" in engine.from_string("{{ flags }}").render(RequestContext(request_))


def test_keys_and_defaults_of_templates_can_be_counted(
    configure: Configure, flags: ScriptedService
) -> None:
    """Strings written in templates, which Django marks as safe, can be told to the service."""
    source = '{% flag "x" %}{% endflag %}{% flag_value "nothing" default="none" %}'
    for _ in range(2):
        rendered(source, RequestFactory().get("/"))
    get_client().flush()
    assert {event["flagKey"] for event in flags.events} == {"x", "nothing"}


def test_threads_share_one_compiled_template(
    configure: Configure, service: ScriptedService
) -> None:
    """Twenty threads and two users render one template; nothing of one shows in another's."""
    service.set(lambda context: {"a": context["userId"] == "1", "b": True, "c": False})
    template = Template(
        "{% load shipsilently %}{% for name in names %}"
        "{% flag name %}{{ name }}{% else %}-{% endflag %}{% flag name as on %}{{ on|yesno }} "
        "{% endfor %}"
    )
    nodes = template.nodelist.get_nodes_by_type(FlagNode)
    before = [vars(node).copy() for node in nodes]
    names = {"1": ["a", "b", "c"], "2": ["c", "a"]}
    right = {"1": "ayes byes -no ", "2": "-no -no "}
    wrong: list[str] = []

    def work(user: str) -> None:
        for _ in range(20):
            flags = get_client().flags({"userId": user})
            context = Context({"names": names[user], "flags": flags})
            text = template.render(context)
            if text != right[user]:
                wrong.append(text)

    threads = [threading.Thread(target=work, args=(str(1 + n % 2),)) for n in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert nodes
    assert [vars(node) for node in nodes] == before


@pytest.mark.parametrize("debug", [True, False])
def test_text_is_rendered_where_it_stands_while_debugging(
    request_: HttpRequest, monkeypatch: pytest.MonkeyPatch, debug: bool
) -> None:
    """Tools that watch the texts of templates see those in the branches of a flag, too."""
    engine = Engine(
        debug=debug, libraries={"shipsilently": "shipsilently_django.templatetags.shipsilently"}
    )
    template = engine.from_string(TAG + '{% flag "x" %}A{{ one }}{% endflag %}')
    seen: list[str] = []

    def watched(node: TextNode, context: Context) -> str:
        seen.append(node.s)
        return node.s

    monkeypatch.setattr(TextNode, "render_annotated", watched)
    assert template.render(RequestContext(request_, {"one": 1})) == "AA1"
    assert seen == (["A", "A"] if debug else ["A"])


def test_overrides_reach_templates(request_: HttpRequest) -> None:
    """A test's override wins in a template, and is gone after it, though values are remembered."""
    assert rendered(TAG, request_) == "A"
    with override_flags({"x": False}):
        assert rendered(TAG, request_) == "B"
    assert rendered(TAG, request_) == "A"


class TestFlagsForScripts:
    """`{% flags_json %}`."""

    def test_named_flags(self, request_: HttpRequest, flags: ScriptedService) -> None:
        """Exactly the named flags are written, safe inside HTML."""
        html = rendered('{% flags_json "flags" only="text, limit" %}', request_)
        assert html == (
            '<script id="flags" type="application/json">'
            '{"text": "\\u003Cb\\u003E", "limit": 3}</script>'
        )

    def test_none_by_accident(self, request_: HttpRequest, flags: ScriptedService) -> None:
        """Without names and without `CLIENT_FLAGS` nothing reaches the browser."""
        assert ">{}<" in rendered('{% flags_json "flags" %}', request_)

    def test_those_that_match(
        self, configure: Configure, request_: HttpRequest, flags: ScriptedService
    ) -> None:
        """`CLIENT_FLAGS` lists patterns of what may be written."""
        configure(CLIENT_FLAGS=["li*", "x"])
        assert '>{"limit": 3, "x": true}<' in rendered('{% flags_json "flags" %}', request_)

    def test_without_a_request(self, configure: Configure) -> None:
        """There it is what is known of everybody."""
        configure(CLIENT_FLAGS=["*"])
        assert ">{}<" in rendered('{% flags_json "flags" %}')
        get_client().evaluate_all({"userId": "system"})
        assert '>{"x": true}<' in rendered('{% flags_json "flags" %}')


def test_render_without_the_middleware(
    settings: Settings, serve: Serve, client_of_service: ShipSilentlyClient
) -> None:
    """Without the middleware templates still know the request's flags."""
    settings.MIDDLEWARE = []

    def view(request: HttpRequest) -> HttpResponse:
        assert not hasattr(request, "flags")
        return HttpResponse(Template(TAG).render(RequestContext(request)))

    serve(view)
    assert Browser("wsgi").text() == "A"


def test_a_request_of_another_framework_is_looked_into(request_: HttpRequest) -> None:
    """A wrapper around Django's request, as REST framework has one, leads to the same flags."""
    wrapper = SimpleNamespace(_request=request_)
    assert Template(TAG).render(Context({"request": wrapper})) == "A"
    assert isinstance(request_.flags, RequestFlags)  # type: ignore[attr-defined]
