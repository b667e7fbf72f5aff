"""Jinja's macros and includes that see nothing of the page around them."""

import threading
from collections.abc import Callable
from typing import Any

import pytest
from django.http import HttpRequest, HttpResponse
from django.template.backends.jinja2 import Jinja2
from django.test import RequestFactory
from jinja2 import DictLoader
from jinja2.nativetypes import NativeEnvironment
from shipsilently_django import get_client
from shipsilently_django.flags import flags_of

from shipsilently_core.testing import ScriptedService

from .site import Browser

Configure = Callable[..., None]
Serve = Callable[..., None]

TAG = "{% flag 'x' %}on{% else %}off{% endflag %}"
TEMPLATES = {
    "macro": "{% macro m() %}" + TAG + "{% endmacro %}",
    "functions": "{% macro m() %}{{ flag('x') }} {{ flag_value('who') }}{% endmacro %}",
    "part": TAG,
    "variable": "{% set who = flag_value('who') %}",
    "calling": "{% from 'macro' import m %}{% set shown = m() %}{{ shown }}",
    "plain": "{% macro m() %}plain{% endmacro %}{% set made = count() %}",
}


def made(**options: Any) -> Jinja2:
    """Django's Jinja2 backend with the extension and these templates."""
    return Jinja2(
        {
            "NAME": "jinja",
            "DIRS": [],
            "APP_DIRS": False,
            "OPTIONS": {
                "extensions": ["shipsilently_django.jinja.FlagsExtension"],
                "loader": DictLoader(TEMPLATES),
                **options,
            },
        }
    )


@pytest.fixture(autouse=True)
def _flags(configure: Configure, service: ScriptedService) -> None:
    service.set(
        lambda context: {"x": context.get("userId") == "7", "who": context.get("userId", "nobody")}
    )


@pytest.fixture
def backend() -> Jinja2:
    """The backend."""
    return made()


class Somebody:
    """A user."""

    is_authenticated = True

    def __init__(self, pk: str) -> None:
        self.pk = pk


def request_of(user: str) -> HttpRequest:
    """A user's request, with flags that are known: an async environment has an event loop."""
    request = RequestFactory().get("/")
    request.user = Somebody(user)  # type: ignore[assignment]  # all that is needed of one
    flags_of(request).load()
    return request


@pytest.mark.parametrize(
    ("source", "sevens", "eights"),
    [
        ("{% from 'macro' import m %}{{ m() }}", "on", "off"),
        ("{% from 'macro' import m with context %}{{ m() }}", "on", "off"),
        ("{% import 'macro' as k %}{{ k.m() }}", "on", "off"),
        ("{% from 'functions' import m %}{{ m() }}", "True 7", "False 8"),
        ("{% include 'part' %}", "on", "off"),
        ("{% include 'part' without context %}", "on", "off"),
        ("{% from 'variable' import who %}{{ who }}", "7", "8"),
        ("{% from 'calling' import shown %}{{ shown }}", "on", "off"),
        ("{% include 'calling' without context %}", "on", "off"),
    ],
)
@pytest.mark.parametrize("enable_async", [False, True], ids=["plain", "async"])
def test_a_part_without_context_is_for_whom_the_page_is(
    enable_async: bool, source: str, sevens: str, eights: str
) -> None:
    """It shows the flags of the page's user, and keeps nothing of them for the next."""
    page = made(enable_async=enable_async).from_string(source)
    users = ["7", "8", "8", "7"]
    seen = [page.render({}, request_of(user)) for user in users]
    assert seen == [sevens, eights, eights, sevens]


def test_a_part_without_context_of_a_mail_is_for_whom_the_mail_is(
    backend: Jinja2, serve: Serve
) -> None:
    """A mail that is rendered while somebody is served shows nothing of that user's flags."""
    mail = backend.from_string("{% from 'functions' import m %}{{ m() }}")

    def view(request: HttpRequest) -> HttpResponse:
        request.user = Somebody("7")  # type: ignore[assignment]  # as above
        assert flags_of(request).is_enabled("x")
        to_eight = get_client().flags({"userId": "8"})
        return HttpResponse(f"{mail.render({})}, {mail.render({'flags': to_eight})}")

    serve(view)
    assert Browser("wsgi").text() == "False None, False 8"


def test_a_mail_inside_of_a_page_leaves_the_page_as_it_was(backend: Jinja2) -> None:
    """What is rendered on the way does not change whom the page is for."""
    part = "{% from 'macro' import m %}{{ m() }}"
    inner = backend.from_string(part)
    page = backend.from_string(part + "{{ inner() }}" + part)
    shown = page.render({"inner": lambda: inner.render({}, request_of("8"))}, request_of("7"))
    assert shown == "onoffon"


def test_where_no_page_is_known_one_warning_says_so(caplog: pytest.LogCaptureFixture) -> None:
    """A template that is streamed by Jinja itself serves defaults in such parts, and says why."""
    template = made().env.from_string("{% from 'macro' import m %}{{ m() }}{{ m() }}")
    assert "".join(template.generate({"request": request_of("7")})) == "offoff"
    assert caplog.text.count("`with context`") == 1
    assert template.render({"request": request_of("7")}) == "onon"


@pytest.mark.parametrize("enable_async", [False, True], ids=["plain", "async"])
def test_a_mail_that_is_streamed_inside_of_a_page_shows_nothing_of_its_user(
    enable_async: bool,
) -> None:
    """Such a mail knows no page, nor does the page around it forget whom it is for."""
    backend = made(enable_async=enable_async)
    part = "{% from 'functions' import m %}{{ m() }}"
    mail = backend.env.from_string(part)

    async def pieces() -> str:
        return "".join([piece async for piece in mail.generate_async({})])

    async def awaited() -> str:
        return await mail.render_async({})

    def streamed() -> str:
        return "".join(mail.stream({}))

    ways: list[Any] = [pieces, awaited] if enable_async else [streamed]
    sources = [part, *(f"{{{{ way{n}() }}}}" for n in range(len(ways))), part]
    page = backend.from_string(", ".join(sources))
    shown = page.render({f"way{n}": way for n, way in enumerate(ways)}, request_of("7"))
    assert shown.split(", ") == ["True 7", *["False None"] * len(ways), "True 7"]


def test_what_asks_for_no_flag_is_kept_by_jinja(backend: Jinja2) -> None:
    """A part that reads no flag is made once, as ever."""
    calls: list[int] = []
    backend.env.globals["count"] = lambda: calls.append(1)
    page = backend.from_string("{% from 'plain' import m %}{{ m() }}")
    assert [page.render({}, request_of("7")) for _ in range(3)] == ["plain"] * 3
    assert calls == [1]


def test_an_environment_keeps_its_own_kind_of_template() -> None:
    """Templates of another class stay what they are, and know their page as well."""
    backend = made(environment="jinja2.nativetypes.NativeEnvironment")
    assert isinstance(backend.env, NativeEnvironment)
    page = backend.from_string("{% from 'functions' import m %}{{ [m(), 1] }}")
    shown: Any = page.render({}, request_of("7"))
    assert shown == ["True 7", 1]


def test_pages_of_several_threads_do_not_mix(backend: Jinja2) -> None:
    """Threads that make and call the same parts show their own user's flags."""
    page = backend.from_string(
        "{% from 'macro' import m %}{{ m() }} {% include 'part' without context %}"
    )
    right = {"7": "on on", "8": "off off"}
    wrong: list[str] = []

    def work(user: str) -> None:
        for _ in range(50):
            shown = page.render({}, request_of(user))
            if shown != right[user]:
                wrong.append(shown)

    threads = [threading.Thread(target=work, args=(str(7 + n % 2),)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
