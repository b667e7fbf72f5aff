"""Whom flags are evaluated for: the user, named attributes, a hook of the site's own."""

import json
import logging
from collections.abc import Callable
from functools import partial
from typing import Any, cast

import pytest
from asgiref.sync import SyncToAsync, iscoroutinefunction, markcoroutinefunction
from django.contrib.auth.models import Group, User
from django.http import HttpRequest, HttpResponse
from django.test import RequestFactory
from django.utils.functional import SimpleLazyObject
from pytest_django import Settings
from shipsilently_django import FlagsRequest, adefault_context, default_context
from shipsilently_django.options import is_async
from shipsilently_django.users import context_of_user, find_user

from shipsilently_core.testing import ScriptedService

from .site import READING, Browser, View

Serve = Callable[..., None]
Configure = Callable[..., None]


def contexts(service: ScriptedService) -> list[dict[str, Any]]:
    """What the service was told, call by call."""
    return [json.loads(request.body)["context"] for request in service.requests]


@pytest.mark.parametrize("view", READING.values(), ids=READING)
def test_named_attributes_are_sent(
    browser: Browser,
    serve: Serve,
    configure: Configure,
    service: ScriptedService,
    ada: User,
    view: View,
) -> None:
    """`ATTRIBUTES` adds fields, methods and what takes a query; what is missing is left out."""
    ada.groups.add(Group.objects.create(name="pro"))
    configure(ATTRIBUTES=["email", "name:get_username", "plan:groups.first.name", "gone:a.b"])
    serve(view)
    browser.login(ada)
    browser.get()
    assert contexts(service) == [
        {"userId": str(ada.pk), "email": "ada@example.com", "name": "ada", "plan": "pro"}
    ]


@pytest.mark.parametrize("view", READING.values(), ids=READING)
def test_a_user_without_a_key_has_no_id(
    browser: Browser,
    serve: Serve,
    configure: Configure,
    service: ScriptedService,
    settings: Settings,
    view: View,
) -> None:
    """Those who are in no database are not all one person; what is named of them is told."""
    settings.MIDDLEWARE = [f"{__name__}.OfService", "shipsilently_django.FlagsMiddleware"]
    configure(ATTRIBUTES=["email"])
    serve(view)
    browser.get()
    assert contexts(service) == [{"email": "robot@example.com"}]


class OfService:
    """A middleware that knows whoever asks as a service, which has no account."""

    sync_capable = async_capable = True

    def __init__(self, get_response: Any) -> None:
        self._get_response = get_response
        if iscoroutinefunction(get_response):
            markcoroutinefunction(self)

    def __call__(self, request: HttpRequest) -> Any:
        """The response."""
        request.user = User(username="robot", email="robot@example.com")
        return self._get_response(request)


def test_a_missing_relation_is_left_out(configure: Configure) -> None:
    """An attribute whose row does not exist is no error."""

    class WithoutProfile:
        pk = 7
        is_authenticated = True

        @property
        def profile(self) -> object:
            raise Group.DoesNotExist

    configure(ATTRIBUTES=["plan:profile.plan"])
    request = RequestFactory().get("/")
    request.user = WithoutProfile()  # type: ignore[assignment]  # all that is needed of one
    assert default_context(request) == {"userId": "7", "plan": None}


def test_an_attribute_that_raises_loses_itself_only(
    configure: Configure, caplog: pytest.LogCaptureFixture
) -> None:
    """The user stays known when one attribute fails, and what would change data is not called."""

    class Troubled:
        pk = 7
        is_authenticated = True
        deleted = False

        @property
        def plan(self) -> str:
            raise LookupError("secret of ada")

        def delete(self) -> None:
            self.deleted = True

        delete.alters_data = True  # type: ignore[attr-defined]  # as Django marks it

    configure(ATTRIBUTES=["plan", "delete"])
    request = RequestFactory().get("/")
    request.user = Troubled()  # type: ignore[assignment]  # all that is needed of one
    assert default_context(request) == {"userId": "7", "plan": None, "delete": None}
    assert not request.user.deleted  # type: ignore[union-attr]  # see above
    assert "attribute 'plan' of the user could not be read (LookupError)" in caplog.text
    assert "secret" not in caplog.text


async def test_a_user_put_into_the_request_counts_in_a_task(configure: Configure) -> None:
    """A token's owner, whom no session knows, is who is asked for."""
    request = RequestFactory().get("/")
    request.user = User(pk=7)
    assert await adefault_context(request) == {"userId": "7"}


class Tokens:
    """A middleware that puts the owner of a token into the request, to be found when needed.

    Attributes:
        auser: What it puts there to be awaited: nothing new, nothing at all, or its own.
    """

    sync_capable = async_capable = True
    auser = "untouched"

    def __init__(self, get_response: Any) -> None:
        self.get_response = get_response
        if iscoroutinefunction(get_response):
            markcoroutinefunction(self)

    def __call__(self, request: HttpRequest) -> Any:
        """Leave the session's user to those who have no token."""
        name = request.headers.get("X-Token")
        if name:
            request.user = cast(Any, SimpleLazyObject(lambda: User.objects.get(username=name)))
            if self.auser == "missing":
                del request.auser
            elif self.auser != "untouched":
                request.auser = partial(self._find, name, lazily=self.auser == "lazy")
        return self.get_response(request)

    async def _find(self, name: str, *, lazily: bool) -> Any:
        if lazily:
            return SimpleLazyObject(lambda: User.objects.get(username=name))
        return await User.objects.aget(username=name)


@pytest.mark.parametrize("auser", ["untouched", "missing", "own", "lazy"])
@pytest.mark.parametrize("view", READING.values(), ids=READING)
def test_a_user_whom_the_site_finds_itself_counts(
    browser: Browser,
    serve: Serve,
    settings: Settings,
    service: ScriptedService,
    monkeypatch: pytest.MonkeyPatch,
    ada: User,
    bob: User,
    view: View,
    auser: str,
) -> None:
    """A token's owner is who is asked for, whoever the session belongs to; else the session's."""
    monkeypatch.setattr(Tokens, "auser", auser)
    settings.MIDDLEWARE = [*settings.MIDDLEWARE[:2], f"{__name__}.Tokens", settings.MIDDLEWARE[-1]]
    serve(view)
    browser.get(headers={"X-Token": "bob"})
    browser.login(ada)
    service.set({"x": False})
    for headers in ({"X-Token": "bob"}, {}):
        browser.get(headers=headers)
    assert contexts(service) == [{"userId": str(bob.pk)}, {"userId": str(ada.pk)}]


def test_djangos_own_user_is_found_without_a_thread_of_ours(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, ada: User
) -> None:
    """Where Django finds the user, it is awaited, and nothing of ours goes through a thread."""
    hops: list[str] = []
    call = SyncToAsync.__call__

    async def counted(self: Any, *args: Any, **kwargs: Any) -> Any:
        hops.append(getattr(self.func, "__qualname__", ""))
        return await call(self, *args, **kwargs)

    monkeypatch.setattr(SyncToAsync, "__call__", counted)
    serve(READING["async"])
    browser = Browser("asgi")
    browser.login(ada)
    assert browser.text() == "True"
    assert not [name for name in hops if "LazyObject" in name or "shipsilently" in name]


async def test_a_request_without_a_user_is_nobody(configure: Configure) -> None:
    """Without `AuthenticationMiddleware` the context is empty."""
    request = RequestFactory().get("/")
    assert default_context(request) == await adefault_context(request) == {}


def plain_hook(request: HttpRequest) -> dict[str, Any]:
    """A hook that looks at the user."""
    return {"plan": "pro" if request.user.is_authenticated else "none", "path": request.path}


async def async_hook(request: HttpRequest) -> dict[str, Any]:
    """The same, async."""
    user = await request.auser()
    return {"plan": "pro" if user.is_authenticated else "none", "path": request.path}


class AsyncObject:
    """A hook that is an object."""

    async def __call__(self, request: HttpRequest) -> dict[str, Any]:
        """As `async_hook`."""
        return await async_hook(request)


@pytest.mark.parametrize(
    "hook",
    [
        plain_hook,
        async_hook,
        AsyncObject(),
        "tests.test_django.test_users.plain_hook",
        "tests.test_django.test_users.async_hook",
    ],
    ids=["plain", "async", "object", "path", "async path"],
)
@pytest.mark.parametrize("view", READING.values(), ids=READING)
def test_a_hook_makes_the_context(
    browser: Browser,
    serve: Serve,
    configure: Configure,
    service: ScriptedService,
    ada: User,
    hook: Any,
    view: View,
) -> None:
    """`CONTEXT`, plain or async, given or named, works in plain and async views of each server."""
    configure(CONTEXT=hook)
    serve(view)
    browser.login(ada)
    assert browser.text() == "True"
    assert contexts(service) == [{"plan": "pro", "path": "/"}]


def failing_hook(request: HttpRequest) -> dict[str, Any]:
    """A hook with a fault."""
    raise LookupError("secret of ada")


@pytest.mark.parametrize("view", READING.values(), ids=READING)
def test_a_hook_that_raises_costs_no_request(
    browser: Browser,
    serve: Serve,
    configure: Configure,
    service: ScriptedService,
    view: View,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The request goes on as for nobody in particular, with one line that tells no secret."""
    configure(CONTEXT=failing_hook)
    serve(view)
    with caplog.at_level(logging.INFO, "shipsilently"):
        assert [browser.text(), browser.text()] == ["True", "True"]
    assert contexts(service) == [{}]
    assert caplog.text.count("LookupError") == 1
    assert "secret" not in caplog.text


@pytest.mark.parametrize("view", READING.values(), ids=READING)
def test_a_hook_that_raises_is_loud_in_debug(
    browser: Browser, serve: Serve, configure: Configure, settings: Settings, view: View
) -> None:
    """With DEBUG and RAISE_IN_DEBUG the hook's own exception comes through."""
    configure(CONTEXT=failing_hook, RAISE_IN_DEBUG=True)
    settings.DEBUG = True
    serve(view)
    with pytest.raises(LookupError):
        browser.get()


def test_a_hook_that_cannot_be_imported_costs_no_request(
    browser: Browser, serve: Serve, configure: Configure, service: ScriptedService, ada: User
) -> None:
    """The flags are those of nobody in particular: the user's id is not sent in its place."""
    configure(CONTEXT="nowhere.at_all")
    serve(READING["async"])
    browser.login(ada)
    assert browser.text() == "True"
    assert contexts(service) == [{}]


@pytest.mark.parametrize("answer", [None, "ada", 7, ["a"]])
def test_a_hook_that_returns_something_else_is_nobody(
    browser: Browser,
    serve: Serve,
    configure: Configure,
    service: ScriptedService,
    answer: object,
) -> None:
    """What is no mapping makes an empty context, and no exception."""
    configure(CONTEXT=lambda request: answer)
    serve(READING["sync"])
    assert browser.text() == "True"
    assert contexts(service) == [{}]


def test_the_default_can_be_built_upon(
    browser: Browser, serve: Serve, configure: Configure, service: ScriptedService, ada: User
) -> None:
    """A hook may begin with what is sent without one."""
    configure(CONTEXT=lambda request: {**default_context(request), "plan": "pro"})
    serve(READING["sync"])
    browser.login(ada)
    browser.get()
    assert contexts(service) == [{"userId": str(ada.pk), "plan": "pro"}]


def test_the_hook_runs_once_per_request(serve: Serve, configure: Configure) -> None:
    """However many flags are read, the context is made once."""
    calls = []

    def hook(request: HttpRequest) -> dict[str, Any]:
        calls.append(request.path)
        return {}

    def view(request: FlagsRequest) -> HttpResponse:
        for _ in range(5):
            request.flags.is_enabled("x")
        return HttpResponse("")

    configure(CONTEXT=hook)
    serve(view)
    Browser("wsgi").get()
    assert calls == ["/"]


def test_without_accounts_nobody_is_anybody(settings: Settings, configure: Configure) -> None:
    """A site without `django.contrib.auth` has an empty context."""
    settings.INSTALLED_APPS = ["shipsilently_django"]
    assert context_of_user(find_user(None)).body == b"{}"


def test_what_is_async_is_recognised() -> None:
    """Functions and objects that give something to await are told from those that do not."""
    assert is_async(async_hook)
    assert is_async(AsyncObject())
    assert is_async(staticmethod(async_hook))
    assert not is_async(plain_hook)
    assert not is_async(staticmethod(plain_hook))
    assert not is_async(object())
