"""`override_flag`: in every door while it lasts, and gone after it."""

import threading
import unittest
from collections.abc import Callable
from urllib.request import urlopen

import pytest
from django.http import HttpRequest, HttpResponse
from django.template import RequestContext, Template
from django.test import LiveServerTestCase, SimpleTestCase, TestCase, override_settings
from django.urls import path
from shipsilently_django import FlagsRequest, flag_enabled, get_client, requires_flag
from shipsilently_django.testing import override_flag, override_flags

from shipsilently_core.testing import ScriptedService

from .site import Browser, Urls

Serve = Callable[..., None]


def doors(request: FlagsRequest) -> HttpResponse:
    """Read one flag in every way there is."""
    source = '{% load shipsilently %}{% flag "y" %}True{% else %}False{% endflag %}'

    @requires_flag("y", fallback=lambda request: HttpResponse("False"))
    def gated(request: HttpRequest) -> HttpResponse:
        return HttpResponse("True")

    seen = [
        request.flags.is_enabled("y"),
        request.flags.get("y", False),
        request.flags.detail("y", False).value,
        request.flags.evaluate_all()["y"].value,
        flag_enabled("y"),
        get_client().evaluate("y", None, False),
        get_client().get("y", False),
    ]
    seen += [
        Template(source).render(RequestContext(request)) == "True",
        gated(request).content == b"True",
    ]
    return HttpResponse(str(set(seen)))


@pytest.mark.parametrize("value", [True, False])
def test_an_override_wins_in_every_door(
    browser: Browser, serve: Serve, service: ScriptedService, value: bool
) -> None:
    """Requests, templates, gates and the client see it, though other values are remembered."""
    service.set({"y": not value})
    serve(doors)
    assert browser.text() == str({not value})
    with override_flag("y", value):
        assert browser.text() == str({value})
        with override_flags({"y": not value}):
            assert browser.text() == str({not value})
        assert browser.text() == str({value})
    assert browser.text() == str({not value})


def test_an_override_is_gone_after_an_exception(serve: Serve, service: ScriptedService) -> None:
    """A test that fails leaves nothing to the next."""
    service.set({"y": False})
    serve(doors)
    with pytest.raises(ZeroDivisionError), override_flag("y"):
        raise ZeroDivisionError
    assert Browser("wsgi").text() == "{False}"


@override_flag("y", "green")
def test_a_function_may_be_decorated() -> None:
    """The decorated test sees the value."""
    assert get_client().get("y") == "green"


@override_flag("y", "green")
async def test_an_async_function_may_be_decorated() -> None:
    """So does an async one."""
    assert await get_client().flags().aget("y") == "green"


def test_another_thread_sees_it() -> None:
    """A live server runs in a thread of its own."""
    seen: list[object] = []
    with override_flag("y", 7):
        thread = threading.Thread(target=lambda: seen.append(get_client().get("y")))
        thread.start()
        thread.join()
    assert seen == [7]


def show(request: HttpRequest) -> HttpResponse:
    """Say whether the flag is on."""
    return HttpResponse(str(flag_enabled("y")))


site = override_settings(ROOT_URLCONF=Urls(path("", show)))


@site
@override_flag("y", True)
class TestACase(TestCase):
    """Django's own test case, as a class."""

    def setUp(self) -> None:
        """See the value before the test does."""
        self.before = flag_enabled("y")

    def test_fixtures_and_views_see_it(self) -> None:
        """The value is there in `setUp` and in views."""
        assert self.before
        assert self.client.get("/").content == b"True"

    @override_flag("y", False)
    def test_a_method_wins_over_its_class(self) -> None:
        """The inner override wins."""
        assert self.client.get("/").content == b"False"

    async def test_async_methods_see_it(self) -> None:
        """An async test of the class as well."""
        response = await self.async_client.get("/")
        assert response.content == b"True"


@site
class TestALiveServer(LiveServerTestCase):
    """A server in another thread."""

    @override_flag("y", True)
    def test_the_live_server_sees_it(self) -> None:
        """The value reaches the server's thread."""
        with urlopen(self.live_server_url) as answer:
            assert answer.read() == b"True"


@site
class TestWithoutOverrides(SimpleTestCase):
    """What a site's tests see that set nothing."""

    def test_flags_are_off_and_nobody_is_asked(self) -> None:
        """Without an override every flag has its default, whatever ran before."""
        assert self.client.get("/").content == b"False"


def test_a_class_of_unittest_may_be_decorated() -> None:
    """A decorated class keeps its kind."""
    assert issubclass(TestACase, unittest.TestCase)
