"""What comes in the midst of a first read: nobody is shown, or kept, the user before."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest
from asgiref.sync import async_to_sync, sync_to_async
from django.contrib.auth import alogin, login, logout
from django.contrib.auth.models import User
from django.contrib.auth.signals import user_logged_in, user_logged_out
from django.http import HttpRequest, HttpResponse
from django.test import RequestFactory
from pytest_django import Settings
from shipsilently_django import FlagsMiddleware, FlagsRequest, RequestFlags, requires_flag
from shipsilently_django import flags as flags_module
from shipsilently_django.flags import flags_of

from shipsilently_core import Context, ShipSilentlyClient
from shipsilently_core.testing import ScriptedService

from .site import Browser

Serve = Callable[..., None]
Configure = Callable[..., None]

AWAITED = pytest.mark.parametrize("awaited", [False, True], ids=["plain", "awaited"])


class Somebody:
    """A user."""

    is_authenticated = True

    def __init__(self, pk: str) -> None:
        self.pk = pk


@pytest.fixture(autouse=True)
def _flags(configure: Configure, service: ScriptedService) -> None:
    service.set(lambda context: {"who": context.get("userId", "nobody"), "x": True})


def request_of(user: str) -> HttpRequest:
    """A user's request."""
    request = RequestFactory().get("/")
    request.user = Somebody(user)  # type: ignore[assignment]  # all that is needed of one
    return request


def put(request: HttpRequest, user: str) -> None:
    """Put somebody into a request, as a login does."""
    request.user = Somebody(user)  # type: ignore[assignment]  # as above


def do_amid(monkeypatch: pytest.MonkeyPatch, place: Any, name: str, act: Any) -> None:
    """Let something happen right after a step, as by another thread, once."""
    step = getattr(place, name)

    def amid(*given: Any, **named: Any) -> Any:
        found = step(*given, **named)
        monkeypatch.setattr(place, name, step)
        act()
        return found

    async def aamid(*given: Any) -> Any:
        found = await step(*given)
        monkeypatch.setattr(place, name, step)
        act()
        return found

    monkeypatch.setattr(place, name, aamid if name in ("acontext_of", "asend") else amid)


def load(flags: RequestFlags, *, awaited: bool) -> None:
    """Read the first time."""
    if awaited:
        asyncio.run(flags.aload())
    else:
        flags.load()


@pytest.mark.parametrize("moment", ["context", "flags", "seen", "service"])
@AWAITED
def test_what_was_found_out_before_a_login_is_shown_to_nobody(
    monkeypatch: pytest.MonkeyPatch,
    client_of_service: ShipSilentlyClient,
    service: ScriptedService,
    moment: str,
    awaited: bool,
) -> None:
    """In whichever step of a first read somebody logs in, they get their own values at once."""
    request = request_of("ada")
    flags = flags_of(request)
    place, name = {
        "context": (flags_module, "acontext_of" if awaited else "context_of"),
        "flags": (client_of_service, "flags"),
        "seen": (flags_module, "_Seen"),
        "service": (service, "asend" if awaited else "send"),
    }[moment]
    do_amid(monkeypatch, place, name, lambda: put(request, "bob"))

    async def run() -> Any:
        await flags.aload()
        return flags.get("who", "")

    if awaited:
        assert asyncio.run(run()) == "bob"
    else:
        flags.load()
    assert flags.get("who", "") == "bob"
    assert flags.context == Context({"userId": "bob"})


@pytest.mark.parametrize("moment", ["context", "flags"])
@AWAITED
def test_a_read_with_a_login_in_its_midst_is_the_new_users(
    monkeypatch: pytest.MonkeyPatch,
    client_of_service: ShipSilentlyClient,
    moment: str,
    awaited: bool,
) -> None:
    """The read itself is for whoever it is that was put there while it found out for whom."""
    request = request_of("ada")
    flags = flags_of(request)
    context = (flags_module, "acontext_of" if awaited else "context_of")
    place, name = {"context": context, "flags": (client_of_service, "flags")}[moment]
    do_amid(monkeypatch, place, name, lambda: put(request, "bob"))
    read = asyncio.run(flags.aget("who", "")) if awaited else flags.get("who", "")
    assert read == "bob"


@pytest.mark.parametrize("moment", ["context", "flags", "seen"])
@AWAITED
def test_what_was_found_out_before_a_refresh_is_kept_for_nobody(
    configure: Configure,
    monkeypatch: pytest.MonkeyPatch,
    client_of_service: ShipSilentlyClient,
    moment: str,
    awaited: bool,
) -> None:
    """A hook knows the user by other means, and `refresh` says that it is another now."""
    request: Any = RequestFactory().get("/")
    request.account = "ada"
    configure(CONTEXT=lambda request: {"userId": request.account})
    flags = flags_of(request)
    place, name = {
        "context": (flags_module, "acontext_of" if awaited else "context_of"),
        "flags": (client_of_service, "flags"),
        "seen": (flags_module, "_Seen"),
    }[moment]

    def change() -> None:
        request.account = "bob"
        other = threading.Thread(target=flags.refresh)
        other.start()
        other.join()

    do_amid(monkeypatch, place, name, change)
    load(flags, awaited=awaited)
    assert flags.get("who", "") == "bob"
    assert flags.context == Context({"userId": "bob"})


@AWAITED
def test_what_was_seen_before_a_refresh_is_not_put_back(
    configure: Configure, monkeypatch: pytest.MonkeyPatch, awaited: bool
) -> None:
    """A read that settles anew what was seen, since a cache was met, keeps nothing after it."""
    request: Any = RequestFactory().get("/")
    request.account = "ada"
    configure(CONTEXT=lambda request: {"userId": request.account})
    flags = flags_of(request)
    assert flags.get("who", "") == "ada"
    request._cache_update_cache = True

    def change() -> None:
        request.account = "bob"
        other = threading.Thread(target=flags.refresh)
        other.start()
        other.join()

    do_amid(monkeypatch, flags_module, "settle", change)
    load(flags, awaited=awaited)
    assert flags.get("who", "") == "bob"


def test_what_was_prefetched_before_a_refresh_is_not_put_back(
    configure: Configure, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`PREFETCH` marks what it has evaluated, and not where it is another user's by then."""
    request: Any = RequestFactory().get("/")
    request.account = "ada"
    configure(CONTEXT=lambda request: {"userId": request.account}, PREFETCH=True)

    def change() -> None:
        request.account = "bob"
        other = threading.Thread(target=flags_of(request).refresh)
        other.start()
        other.join()

    async def view(request: HttpRequest) -> HttpResponse:
        return HttpResponse(flags_of(request).get("who", ""))

    do_amid(monkeypatch, flags_module, "replace", change)
    assert asyncio.run(FlagsMiddleware(view)(request)).content == b"bob"


@AWAITED
def test_a_user_who_is_there_only_amid_a_read_is_shown_to_nobody(
    monkeypatch: pytest.MonkeyPatch, awaited: bool
) -> None:
    """Another thread puts somebody into the request for a moment, as to look at their page."""
    request = request_of("ada")
    name = "acontext_of" if awaited else "context_of"
    step = getattr(flags_module, name)

    def amid(*given: Any) -> Any:
        put(request, "bob")
        try:
            return step(*given)
        finally:
            request.user = ada

    async def aamid(*given: Any) -> Any:
        put(request, "bob")
        try:
            return await step(*given)
        finally:
            request.user = ada

    ada = request.user
    monkeypatch.setattr(flags_module, name, aamid if awaited else amid)
    flags = flags_of(request)
    load(flags, awaited=awaited)
    assert flags.get("who", "") == "ada"


@pytest.mark.parametrize("kind", ["plain", "async"])
def test_a_hook_that_puts_a_user_there_is_followed_in_the_same_read(
    configure: Configure, settings: Settings, kind: str
) -> None:
    """After one await the plain verbs answer from memory, for that user."""

    def plain(request: Any) -> dict[str, Any]:
        if request.user.pk != "bob":
            put(request, "bob")
        return {"userId": request.user.pk}

    async def hook(request: HttpRequest) -> dict[str, Any]:
        await asyncio.sleep(0)
        return plain(request)

    configure(CONTEXT=plain if kind == "plain" else hook, RAISE_IN_DEBUG=True)
    settings.DEBUG = True
    flags = flags_of(request_of("ada"))

    async def run() -> Any:
        await flags.aload()
        return flags.get("who", "")

    assert asyncio.run(run()) == "bob"


@AWAITED
def test_a_hook_that_never_ends_to_put_users_there_ends(
    configure: Configure, awaited: bool
) -> None:
    """One that puts another object there each time it is asked costs no request."""

    def hook(request: HttpRequest) -> dict[str, Any]:
        put(request, "bob")
        return {"userId": request.user.pk}

    configure(CONTEXT=hook)
    flags = flags_of(request_of("ada"))
    load(flags, awaited=awaited)
    assert flags.get("who", "") == "bob"
    assert flags.were_read


@AWAITED
def test_a_hook_that_reads_flags_ends(configure: Configure, awaited: bool) -> None:
    """It gets those of nobody in particular, and what it makes of them counts."""

    def plain(request: HttpRequest) -> dict[str, Any]:
        flags_of(request).is_enabled("x")
        return {"userId": "ada"}

    async def hook(request: HttpRequest) -> dict[str, Any]:
        await flags_of(request).ais_enabled("x")
        return {"userId": "ada"}

    configure(CONTEXT=hook if awaited else plain)
    flags = flags_of(request_of("ada"))
    load(flags, awaited=awaited)
    assert flags.get("who", "") == "ada"


def test_a_hook_that_failed_in_a_coroutine_is_asked_again_once_awaited(
    configure: Configure,
) -> None:
    """What could not be found out there is found out by the first await."""

    async def find(request: HttpRequest) -> str:
        return str(request.user.pk)

    configure(CONTEXT=lambda request: {"userId": async_to_sync(find)(request)})
    flags = flags_of(request_of("ada"))

    async def run() -> list[Any]:
        return [flags.get("who", ""), await flags.aget("who", ""), flags.get("who", "")]

    assert asyncio.run(run())[1:] == ["ada", "ada"]


def test_a_gate_asks_for_whoever_has_logged_in_meanwhile(
    configure: Configure,
    settings: Settings,
    service: ScriptedService,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An async gate that waits for the service is not open for the user before."""
    configure(RAISE_IN_DEBUG=True)
    settings.DEBUG = True
    service.set(lambda context: {"x": context.get("userId") == "bob"})
    request = request_of("ada")
    do_amid(monkeypatch, service, "asend", lambda: put(request, "bob"))

    @requires_flag("x", status=403)
    async def view(request: HttpRequest) -> HttpResponse:
        return HttpResponse("open")

    assert asyncio.run(view(request)).content == b"open"


def test_receivers_read_for_whom_they_are_told_of(
    serve: Serve, browser: Browser, ada: User, bob: User
) -> None:
    """One of a login reads the new user's flags, one of a logout those of the user who goes."""
    heard: list[str] = []

    def receive(sender: Any, request: Any, user: User, **rest: Any) -> None:
        names = {str(ada.pk): "ada", str(bob.pk): "bob"}
        heard.append(names.get(request.flags.get("who", ""), "nobody"))

    def view(request: FlagsRequest) -> HttpResponse:
        seen = [request.flags.get("who", "")]
        for user in (ada, bob):
            login(request, user)
            seen.append(request.flags.get("who", ""))
        logout(request)
        seen.append(request.flags.get("who", ""))
        return HttpResponse(" ".join(seen))

    serve(view)
    user_logged_in.connect(receive)
    user_logged_out.connect(receive)
    try:
        assert browser.text() == f"nobody {ada.pk} {bob.pk} nobody"
    finally:
        user_logged_in.disconnect(receive)
        user_logged_out.disconnect(receive)
    assert heard == ["ada", "bob", "bob"]


def test_tasks_and_threads_of_a_request_follow_a_login(serve: Serve, ada: User, bob: User) -> None:
    """Whatever reads beside an awaited login, everybody reads the new user's value after it."""

    async def view(request: FlagsRequest) -> HttpResponse:
        def read() -> str:
            return request.flags.get("who", "")

        flags = request.flags
        await asyncio.gather(
            flags.aload(), alogin(request, bob), flags.aload(), sync_to_async(read)()
        )
        after = [await flags.aget("who", ""), await sync_to_async(read)(), read()]
        return HttpResponse(" ".join(after))

    serve(view)
    browser = Browser("asgi")
    browser.login(ada)
    assert browser.text() == " ".join([str(bob.pk)] * 3)
