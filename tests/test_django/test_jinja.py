"""The tag in Django's Jinja2 backend."""

from collections.abc import Callable
from typing import Any

import pytest
from django.http import HttpRequest
from django.template.backends.jinja2 import Jinja2
from django.test import RequestFactory
from django.utils.translation import gettext_lazy
from jinja2 import TemplateSyntaxError
from shipsilently_django import get_client

from shipsilently_core.testing import ScriptedService

Configure = Callable[..., None]


@pytest.fixture
def backend(configure: Configure, service: ScriptedService) -> Jinja2:
    """Django's Jinja2 backend with the extension."""
    service.set({"x": True, "off": False, "colour": "blue", "limit": 3, "text": "<b>"})
    return Jinja2(
        {
            "NAME": "jinja",
            "DIRS": [],
            "APP_DIRS": False,
            "OPTIONS": {"extensions": ["shipsilently_django.jinja.FlagsExtension"]},
        }
    )


def rendered(
    backend: Jinja2, source: str, request: HttpRequest | None = None, **variables: Any
) -> str:
    """What the backend makes of a template."""
    text: str = backend.from_string(source).render(variables, request)
    return text


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ('{% flag "x" %}A{% endflag %}', "A"),
        ('{% flag "off" %}A{% endflag %}', ""),
        ('{% flag "off" %}A{% else %}B{% endflag %}', "B"),
        ("{% flag name %}A{% else %}B{% endflag %}", "A"),
        ('{% flag "X"|lower %}A{% else %}B{% endflag %}', "A"),
        ("{% flag missing %}A{% else %}B{% endflag %}", "B"),
        ('{% flag "off" %}A{% elflag "x" %}B{% else %}C{% endflag %}', "B"),
        ('{% flag "off" %}A{% elflag "off" %}B{% elflag "x" %}C{% endflag %}', "C"),
        ('{% flag "off" %}A{% elflag "off" %}B{% else %}C{% endflag %}', "C"),
        ('{% flag "colour" == "blue" %}A{% else %}B{% endflag %}', "A"),
        ('{% flag "colour" != "blue" %}A{% else %}B{% endflag %}', "B"),
        ('{% flag "x" %}{% flag "off" %}A{% else %}B{% endflag %}{% endflag %}', "B"),
        ('{% for n in ["x", "off"] %}{% flag n %}A{% else %}B{% endflag %}{% endfor %}', "AB"),
        ('{% flag "!x" %}A{% else %}B{% endflag %}', "B"),
        ('{% flag "!off" %}A{% else %}B{% endflag %}', "A"),
        ("{% flag opposite %}A{% else %}B{% endflag %}", "A"),
        ('{% flag "!colour" == "red" %}A{% else %}B{% endflag %}', "A"),
        ('{% if flag("!off") %}A{% endif %}', "A"),
        ('{% if flag("x") %}A{% endif %}', "A"),
        ('{% if flag("colour", "blue") %}A{% endif %}', "A"),
        ('{{ flag_value("limit") }}{{ flag_value("none", 7) }}', "37"),
        ('{{ flag_value("text") }}', "&lt;b&gt;"),
        ('{{ flag_value("colour", lazy) }}{{ flag_value("none", lazy) }}', "bluegrey"),
        ('{% set flag = 1 %}{% flag "x" %}A{% endflag %}', "A"),
    ],
)
def test_what_a_tag_renders(backend: Jinja2, source: str, text: str) -> None:
    """The tag is spelt as in Django's own templates; the functions take the same arguments."""
    variables = {"name": "x", "opposite": "!off", "lazy": gettext_lazy("grey")}
    assert rendered(backend, source, RequestFactory().get("/"), **variables) == text


@pytest.mark.parametrize(
    "source",
    [
        "{% flag %}{% endflag %}",
        '{% flag "x" "y" %}{% endflag %}',
        '{% flag "x" %}',
        '{% flag "x" == %}{% endflag %}',
        '{% flag "x" as y %}{% endflag %}',
    ],
)
def test_mistakes_are_found_when_a_template_is_compiled(backend: Jinja2, source: str) -> None:
    """A wrong tag is a syntax error."""
    with pytest.raises(TemplateSyntaxError):
        backend.from_string(source)


def test_a_tag_asks_for_its_flag_without_a_call_of_jinjas(backend: Jinja2) -> None:
    """What a tag compiles to does not go through `Context.call`, which costs more than the flag."""
    source = '{% flag "x" %}a{% elflag "y" != "blue" %}b{% endflag %}'
    assert "context.call" not in backend.env.compile(source, raw=True)


def test_without_a_request_the_default_branch_is_rendered(
    backend: Jinja2, service: ScriptedService
) -> None:
    """Mails are rendered without one; nothing raises and no service is asked."""
    source = '{% flag "x" %}A{% else %}B{% endflag %}'
    assert rendered(backend, source) == "B"
    assert not service.requests


def test_a_value_is_looked_up_at_each_rendering(backend: Jinja2, service: ScriptedService) -> None:
    """Nothing is frozen into the compiled template."""
    compiled = backend.from_string('{% flag "x" %}A{% else %}B{% endflag %}')
    assert compiled.render({}, RequestFactory().get("/")) == "A"
    service.set({"x": False})
    get_client().evaluate_all()
    assert compiled.render({}, RequestFactory().get("/")) == "B"
