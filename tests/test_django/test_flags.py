"""`request.flags`: read in time, late, in the wrong place, and by somebody who logs in."""

import asyncio
import copy
import logging
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from asgiref.sync import async_to_sync, sync_to_async
from django.contrib.auth import alogin, login, logout
from django.contrib.auth.models import AnonymousUser, User
from django.http import HttpRequest, HttpResponse
from django.template import RequestContext, Template
from django.test import AsyncClient, RequestFactory
from django.utils.functional import SimpleLazyObject
from django.utils.translation import gettext_lazy
from pytest_django import Settings
from shipsilently_django import (
    FlagsMiddleware,
    FlagsRequest,
    RequestFlags,
    UnawaitedFlagsError,
    flag_enabled,
)
from shipsilently_django.flags import flags_of
from shipsilently_django.readable import is_on
from shipsilently_django.setup import get_setup

from shipsilently_core import Flags, FlagSet
from shipsilently_core.testing import ScriptedService, override_flags
from tests.core.support import check_unknown

from .site import Browser

Serve = Callable[..., None]
Configure = Callable[..., None]


@pytest.fixture
def flags(configure: Configure) -> RequestFlags:
    """The flags of a request of nobody."""
    return RequestFlags(RequestFactory().get("/"))


def test_every_verb(flags: RequestFlags, service: ScriptedService) -> None:
    """The plain verbs are those of the core's flags."""
    service.set({"x": True, "limit": 3})
    assert repr(flags) == "<RequestFlags: not read yet>"
    assert not flags.were_read
    assert flags.get("limit") == 3
    assert flags.get("limit", 0) == 3
    assert flags.get("limit", "none") == "none"
    assert flags.get("nothing", default="none") == "none"
    assert flags.is_enabled("x")
    assert flags.is_enabled("nothing", default=True)
    assert flags.detail("limit", 0).value == 3
    assert flags.detail("nothing", default="none").value == "none"
    assert "x" in flags
    assert "nothing" not in flags
    assert set(flags.evaluate_all()) == {"x", "limit"}
    assert flags.context.body == b"{}"
    assert flags.were_read
    assert repr(flags).startswith("<RequestFlags: <Flags")
    assert len(service.requests) == 1


@pytest.mark.parametrize("sent", [["x"], {"x": 1}, None, 1], ids=str)
def test_what_somebody_sends_for_a_key_may_be_anything(
    flags: RequestFlags, service: ScriptedService, sent: Any
) -> None:
    """A key that is no string is read as an unknown flag, by each verb, and raises nothing."""
    service.set({"x": True})
    check_unknown(flags, sent)
    assert asyncio.run(flags.aget(sent, "mine")) == "mine"
    assert asyncio.run(flags.ais_enabled(sent)) is False
    assert flag_enabled(sent, RequestFactory().get("/")) is False
    assert flag_enabled(sent) is False
    assert flags.is_enabled("x")


class Limits(FlagSet):
    """Typed flags."""

    x: bool = False
    limit: int = 1


def test_flags_can_be_typed(flags: RequestFlags, service: ScriptedService) -> None:
    """`request.flags.as_` reads a set of typed flags from the request's evaluation."""
    service.set({"x": True, "limit": 3})
    assert flags.as_(Limits) == Limits(x=True, limit=3)
    assert len(service.requests) == 1


def test_flags_can_be_loaded_and_refreshed(flags: RequestFlags, service: ScriptedService) -> None:
    """`load` evaluates before the first read, and `refresh` sees what a new request would see."""
    service.set({"x": True})
    assert flags.load() is flags
    assert len(service.requests) == 1
    service.set({"x": False})
    get_setup().client.evaluate_all()
    assert flags.is_enabled("x")
    assert flags.refresh() is flags
    assert not flags.is_enabled("x")
    assert len(service.requests) == 2


async def test_flags_can_be_loaded_and_refreshed_in_a_task(
    flags: RequestFlags, service: ScriptedService
) -> None:
    """So do the awaitable forms, after which plain reads need no `await`."""
    service.set({"x": True})
    assert await flags.aload() is flags
    assert flags.is_enabled("x")
    service.set({"x": False})
    await get_setup().client.aevaluate_all()
    assert await flags.arefresh() is flags
    assert not flags.is_enabled("x")
    assert len(service.requests) == 2


def test_a_value_of_another_type_can_be_told_of(
    flags: RequestFlags, service: ScriptedService, caplog: pytest.LogCaptureFixture
) -> None:
    """Code that checks values itself can warn as the core does."""
    flags.report_mismatch("x", 3, "the checkout")
    assert "flag 'x' holds a int that the checkout does not take" in caplog.text


async def test_every_awaitable_verb(flags: RequestFlags, service: ScriptedService) -> None:
    """So are those that wait in a task."""
    service.set({"x": True, "limit": 3})
    assert await flags.aget("limit") == 3
    assert await flags.aget("limit", "none") == "none"
    assert await flags.ais_enabled("x")
    assert await flags.ais_enabled("nothing", default=True)
    assert (await flags.adetail("limit", 0)).value == 3
    assert (await flags.adetail("nothing", default="none")).value == "none"
    assert set(await flags.aevaluate_all()) == {"x", "limit"}
    assert (await flags.acontext()).body == b"{}"
    assert flags.is_enabled("x")
    assert len(service.requests) == 1


def test_a_login_is_followed(
    browser: Browser, serve: Serve, service: ScriptedService, ada: User
) -> None:
    """Flags read before and after a login are those of the visitor and those of the user."""
    service.set(lambda context: {"x": "userId" in context})

    def view(request: FlagsRequest) -> HttpResponse:
        seen = [request.flags.is_enabled("x")]
        login(request, ada)
        seen.append(request.flags.is_enabled("x"))
        logout(request)
        seen.append(request.flags.is_enabled("x"))
        return HttpResponse(str(seen))

    serve(view)
    assert browser.text() == "[False, True, False]"


def test_an_awaited_login_is_followed(serve: Serve, service: ScriptedService, ada: User) -> None:
    """The same in an async view."""
    service.set(lambda context: {"x": "userId" in context})

    async def view(request: FlagsRequest) -> HttpResponse:
        seen = [await request.flags.ais_enabled("x")]
        await alogin(request, ada)
        seen.append(await request.flags.ais_enabled("x"))
        return HttpResponse(str(seen))

    serve(view)
    assert Browser("asgi").text() == "[False, True]"


def test_a_token_of_the_same_user_asks_for_nothing_new(
    configure: Configure, service: ScriptedService
) -> None:
    """Another object for the same user keeps the values that the request has seen."""
    request = RequestFactory().get("/")
    request.user = User(pk=7)
    flags = flags_of(request)
    assert flags.is_enabled("x")
    service.set({"x": False})
    request.user = User(pk=7)
    assert flags.is_enabled("x")
    request.user = AnonymousUser()
    assert not flags.is_enabled("x")
    assert len(service.requests) == 2


def test_a_copy_for_another_user_has_flags_of_its_own(
    browser: Browser, serve: Serve, service: ScriptedService, ada: User, bob: User
) -> None:
    """What looks for a copy's flags finds those of the copy's user, before and after."""
    service.set(lambda context: {"x": context.get("userId") == str(ada.pk)})
    tag = '{% load shipsilently %}{% flag "x" %}True{% else %}False{% endflag %}'

    def seen_for(request: HttpRequest) -> list[bool]:
        return [
            flags_of(request).is_enabled("x"),
            flag_enabled("x", request),
            Template(tag).render(RequestContext(request)) == "True",
        ]

    def view(request: FlagsRequest) -> HttpResponse:
        seen = [request.flags.is_enabled("x")]
        preview = copy.copy(request)
        preview.user = bob
        seen += [*seen_for(preview), preview.flags.is_enabled("x"), *seen_for(request)]
        again = copy.copy(preview)
        again.user = ada
        FlagsMiddleware(lambda given: HttpResponse())(again)
        seen.append(getattr(again, "flags").is_enabled("x"))  # noqa: B009  # no attribute of theirs
        return HttpResponse(str(seen))

    serve(view)
    browser.login(ada)
    assert browser.text() == str([True, False, False, False, False, True, True, True, True])


def test_what_is_around_a_request_shows_its_flags(configure: Configure) -> None:
    """A wrapper, or a request that is looked up when needed, has no flags of its own."""
    request = RequestFactory().get("/")
    flags = flags_of(request)
    assert flags_of(SimpleLazyObject(lambda: request)) is flags
    assert flags_of(SimpleNamespace(flags=flags)) is flags
    assert flags_of(SimpleNamespace(_request=request)) is flags


class TestAReadThatWasNotAwaited:
    """A plain read in an async view."""

    @staticmethod
    async def view(request: FlagsRequest) -> HttpResponse:
        """Read without awaiting."""
        return HttpResponse(f"{request.flags.is_enabled('x')} {request.flags.is_enabled('x')}")

    def test_of_a_logged_in_user_serves_what_is_known(
        self,
        serve: Serve,
        service: ScriptedService,
        ada: User,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        """Nothing raises, nothing is asked, and one warning names the awaitable."""
        serve(self.view)
        browser = Browser("asgi")
        browser.login(ada)
        assert browser.text() == "False False"
        assert not service.requests
        warnings = [r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING]
        assert len([w for w in warnings if "`await request.flags.aevaluate_all()`" in w]) == 1

    def test_of_a_visitor_serves_what_is_known(
        self, serve: Serve, service: ScriptedService, caplog: pytest.LogCaptureFixture
    ) -> None:
        """Of a visitor it is known who that is, and still nothing waits."""
        serve(self.view)
        assert Browser("asgi").text() == "False False"
        assert not service.requests
        assert "aevaluate_all()" in caplog.text

    def test_of_known_values_is_right(self, serve: Serve, service: ScriptedService) -> None:
        """A visitor's values that are fresh in the cache are served."""

        async def view(request: FlagsRequest) -> HttpResponse:
            return HttpResponse(str(await request.flags.ais_enabled("x")))

        serve(view, late=self.view)
        browser = Browser("asgi")
        browser.get()
        assert browser.text("/late/") == "True True"

    def test_with_an_async_hook_serves_what_is_known(
        self, serve: Serve, configure: Configure, service: ScriptedService
    ) -> None:
        """An async context hook cannot be waited for either."""

        async def hook(request: HttpRequest) -> dict[str, Any]:
            return {"userId": "1"}

        configure(CONTEXT=hook)
        serve(self.view)
        assert Browser("asgi").text() == "False False"
        assert not service.requests

    def test_is_an_exception_in_debug(
        self, serve: Serve, configure: Configure, settings: Settings
    ) -> None:
        """With DEBUG and RAISE_IN_DEBUG it raises, naming the awaitable; in production never."""
        configure(RAISE_IN_DEBUG=True)
        serve(self.view)
        assert Browser("asgi").text() == "False False"
        settings.DEBUG = True
        with pytest.raises(UnawaitedFlagsError, match=r"await request\.flags\.aevaluate_all"):
            Browser("asgi").get()

    def test_after_one_await_is_right(self, serve: Serve, ada: User, configure: Configure) -> None:
        """After one await plain reads answer from memory, also in DEBUG."""
        configure(RAISE_IN_DEBUG=True)

        async def view(request: FlagsRequest) -> HttpResponse:
            await request.flags.aevaluate_all()
            return HttpResponse(str(request.flags.is_enabled("x")))

        serve(view)
        browser = Browser("asgi")
        browser.login(ada)
        assert browser.text() == "True"

    def test_becomes_right_once_awaited(self, serve: Serve) -> None:
        """An await after a read that came too early brings the values."""

        async def view(request: FlagsRequest) -> HttpResponse:
            early = request.flags.is_enabled("x")
            return HttpResponse(f"{early} {await request.flags.ais_enabled('x')}")

        serve(view)
        assert Browser("asgi").text() == "False True"

    def test_in_a_thread_of_the_view_is_right(self, serve: Serve, ada: User) -> None:
        """Plain code that an async view runs in a thread may read."""

        async def view(request: FlagsRequest) -> HttpResponse:
            return HttpResponse(str(await sync_to_async(request.flags.is_enabled)("x")))

        serve(view)
        browser = Browser("asgi")
        browser.login(ada)
        assert browser.text() == "True"


def test_the_event_loop_is_never_blocked(serve: Serve, service: ScriptedService) -> None:
    """While a view waits for a slow service, other tasks go on."""
    ticks = 0

    class SlowService(ScriptedService):
        async def asend(self, request: Any) -> Any:
            await asyncio.sleep(0.1)
            return await super().asend(request)

    async def run() -> int:
        nonlocal ticks

        async def tick() -> None:
            nonlocal ticks
            while True:
                ticks += 1
                await asyncio.sleep(0.005)

        ticker = asyncio.create_task(tick())
        await AsyncClient().get("/")
        ticker.cancel()
        return ticks

    async def view(request: FlagsRequest) -> HttpResponse:
        return HttpResponse(str(await request.flags.ais_enabled("x")))

    serve(view)
    service.__class__ = SlowService
    assert asyncio.run(run()) > 5


def test_tasks_of_one_request_share_one_attempt(
    configure: Configure, service: ScriptedService
) -> None:
    """Twenty tasks that read flags of one request make one call."""

    async def run() -> list[bool]:
        flags = RequestFlags(RequestFactory().get("/"))
        return await asyncio.gather(*(flags.ais_enabled("x") for _ in range(20)))

    assert async_to_sync(run)() == [True] * 20
    assert len(service.requests) == 1


def test_overrides_win_in_every_read(browser: Browser, serve: Serve) -> None:
    """A test's value is seen by plain and awaited reads of a whole site."""

    def plain(request: FlagsRequest) -> HttpResponse:
        return HttpResponse(f"{request.flags.is_enabled('x')} {request.flags.get('limit', 0)}")

    async def awaited(request: FlagsRequest) -> HttpResponse:
        on, limit = await request.flags.ais_enabled("x"), await request.flags.aget("limit", 0)
        return HttpResponse(f"{on} {limit}")

    serve(plain, awaited=awaited)
    for page in ("/", "/awaited/"):
        assert browser.text(page) == "True 0"
        with override_flags({"x": False, "limit": 5}):
            assert browser.text(page) == "False 5"
        assert browser.text(page) == "True 0"


@pytest.mark.parametrize(
    ("value", "expected", "holds"),
    [
        ("blue", "blue", True),
        ("blue", "red", False),
        (True, True, True),
        (True, 1, False),
        (1, True, False),
        (False, False, True),
        ("text", False, False),
        ({"a": 1}, {"a": 1}, True),
        (1, 1.0, True),
        (0, False, False),
        (None, False, False),
        ("blue", gettext_lazy("blue"), True),
    ],
)
def test_a_flag_is_what_is_expected(
    flags: RequestFlags,
    service: ScriptedService,
    value: object,
    expected: object,
    holds: bool,
) -> None:
    """A value counts as expected when it is equal and of the same JSON type."""
    service.set({} if value is None else {"x": value})
    assert is_on(flags, "x", expected) is holds
    assert is_on(flags, gettext_lazy("x"), expected) is holds
    assert is_on(flags, "!x", expected) is not holds
    assert is_on(flags, "!!x", expected) is holds
    for no_key in (7, "!", ""):
        assert not is_on(flags, no_key, expected)


def test_no_verb_of_the_core_is_missing() -> None:
    """Whatever the core's flags can do, a request's flags can do."""
    public = {name for name in vars(Flags) if not name.startswith("_")}
    assert public <= {name for name in dir(RequestFlags) if not name.startswith("_")}
