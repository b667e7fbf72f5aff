"""The process's one client: made when first used, remade when settings change."""

import logging
import os
import textwrap
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from django.test import override_settings
from pytest_django import Settings
from shipsilently_django import get_client
from shipsilently_django.setup import get_setup

from shipsilently_core import ShipSilentlyClient
from shipsilently_core.testing import ScriptedService

from .site import READING, Browser
from .test_apps import run


def make_client() -> ShipSilentlyClient:
    """A client that a setting names."""
    return ShipSilentlyClient(api_key="sk_test", transport=ScriptedService({"x": True}))


def test_there_is_one_client(settings: Settings) -> None:
    """Twenty threads that come first get the same client."""
    settings.SHIPSILENTLY = {"API_KEY": "sk_test"}
    clients: list[ShipSilentlyClient] = []
    threads = [threading.Thread(target=lambda: clients.append(get_client())) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(map(id, clients))) == 1


def test_a_function_is_asked_for_one_client_at_a_time(settings: Settings) -> None:
    """Threads that come first wait for the one that has come before them."""
    made: list[ShipSilentlyClient] = []
    together, first = threading.Barrier(8), threading.Barrier(2)

    def make() -> ShipSilentlyClient:
        # Somebody else in here, if they are let in, is here soon.
        with suppress(threading.BrokenBarrierError):
            first.wait(0.2)
        made.append(make_client())
        return made[-1]

    clients: list[ShipSilentlyClient] = []

    def ask() -> None:
        together.wait(10)
        clients.append(get_client())

    settings.SHIPSILENTLY = {"CLIENT": make}
    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 1
    assert clients == made * 8
    assert not made[0].evaluator.closed


def test_a_function_may_wait_for_somebody_who_wants_the_client(settings: Settings) -> None:
    """Nobody waits for ever: all have one client in the end, and any other is closed."""
    made: list[ShipSilentlyClient] = []
    seen: list[ShipSilentlyClient] = []

    def make() -> ShipSilentlyClient:
        made.append(make_client())
        client = made[-1]
        if len(made) == 1:
            other = threading.Thread(target=lambda: seen.append(get_client()))
            other.start()
            other.join()
        return client

    settings.SHIPSILENTLY = {"CLIENT": make}
    assert [get_client()] == seen
    assert [client.evaluator.closed for client in made] == [
        client is not seen[0] for client in made
    ]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="only where processes are forked")
def test_a_child_does_not_wait_for_a_thread_of_its_parent(tmp_path: Path) -> None:
    """A process that was forked while its parent made the client makes its own at once."""
    result = run(
        """
        import os, threading, time, warnings
        import django
        from django.conf import settings
        django.setup()
        from shipsilently_core import ShipSilentlyClient
        from shipsilently_django import get_client, setup

        begun, done = threading.Event(), threading.Event()

        def make():
            begun.set()
            done.wait(30)
            return ShipSilentlyClient(api_key="sk_test")

        settings.SHIPSILENTLY = {"CLIENT": make}
        # Nobody is waited for while somebody is, so that only a lock of one's own is of help.
        setup._PATIENCE = 30.0
        maker = threading.Thread(target=get_client)
        maker.start()
        begun.wait(30)
        with warnings.catch_warnings():
            # Of threads and forks; that is what this is about.
            warnings.simplefilter("ignore", DeprecationWarning)
            child = os.fork()
        if child == 0:
            done.set()
            get_client()
            os._exit(0)
        end = time.monotonic() + 20
        while (ended := os.waitpid(child, os.WNOHANG)) == (0, 0) and time.monotonic() < end:
            time.sleep(0.01)
        done.set()
        maker.join()
        assert ended == (child, 0), ended
        """,
        tmp_path,
    )
    assert result.returncode == 0, result.stderr


def test_changed_settings_make_a_new_client() -> None:
    """`override_settings` counts while it lasts, and the settings before it afterwards."""
    with override_settings(SHIPSILENTLY={"API_KEY": "sk_test", "DEFAULTS": {"x": 1}}):
        outer = get_client()
        with override_settings(SHIPSILENTLY={"API_KEY": "sk_test", "DEFAULTS": {"x": 2}}):
            assert get_client().get("x") == 2
        assert get_client() is not outer
        assert get_client().get("x") == 1
        with override_settings(TIME_ZONE="UTC"):
            assert get_client().get("x") == 1


def test_a_client_of_the_sites_own_is_used_and_not_closed(settings: Settings) -> None:
    """CLIENT may be an object: it is the site's to close."""
    client = make_client()
    settings.SHIPSILENTLY = {"CLIENT": client}
    assert get_client() is client
    settings.SHIPSILENTLY = {"API_KEY": "sk_test"}
    assert client.evaluate("x", None, False)


@pytest.mark.parametrize("given", [make_client, "tests.test_django.test_setup.make_client"])
def test_a_function_may_make_the_client(settings: Settings, given: Any) -> None:
    """CLIENT may be a function or its path: what it makes is closed when settings change."""
    settings.SHIPSILENTLY = {"CLIENT": given}
    client = get_client()
    assert client is get_client()
    assert client.evaluate("x", None, False)
    settings.SHIPSILENTLY = {"API_KEY": "sk_test"}
    assert client.evaluate_detail("x", {"userId": "new"}, False).error


@pytest.mark.parametrize(
    "given", [lambda: 1 / 0, lambda: "a client"], ids=["raises", "something else"]
)
def test_a_function_that_makes_no_client_costs_no_request(
    browser: Browser, settings: Settings, caplog: pytest.LogCaptureFixture, given: Any
) -> None:
    """Defaults are served, and the log says why."""
    settings.ROOT_URLCONF = __name__
    settings.SHIPSILENTLY = {"CLIENT": given}
    assert browser.text() == "False"
    assert "SHIPSILENTLY['CLIENT']" in caplog.text


urlpatterns: list[Any] = []


@pytest.fixture(autouse=True)
def _urls() -> None:
    from django.urls import path

    urlpatterns[:] = [path("", READING["sync"]), path("async/", READING["async"])]


@pytest.mark.parametrize("page", ["/", "/async/"])
@pytest.mark.parametrize(
    ("broken", "says"),
    [
        ({"API_KEY": ""}, "API_KEY"),
        ({"API_KEY": "sk_test", "API_URL": "nowhere"}, "API_URL"),
        ("sk_test", "must be a dictionary"),
    ],
    ids=["key", "address", "no dictionary"],
)
def test_a_broken_configuration_serves_defaults(
    browser: Browser,
    settings: Settings,
    caplog: pytest.LogCaptureFixture,
    page: str,
    broken: Any,
    says: str,
) -> None:
    """No request fails, nobody is asked, and one clear line says what to do."""
    settings.ROOT_URLCONF = __name__
    settings.SHIPSILENTLY = broken
    with caplog.at_level(logging.INFO, "shipsilently"):
        assert [browser.text(page), browser.text(page)] == ["False", "False"]
    lines = [record.getMessage() for record in caplog.records if record.name == "shipsilently"]
    assert len(lines) == 1
    assert says in lines[0]
    assert "manage.py check" in lines[0]


def test_declared_defaults_survive_a_broken_key(settings: Settings) -> None:
    """A site whose key is missing still has the defaults that it declares."""
    settings.SHIPSILENTLY = {"API_KEY": "", "DEFAULTS": {"x": True, "limit": 5}}
    flags = get_client().flags()
    assert flags.is_enabled("x")
    assert flags.get("limit", 0) == 0
    assert flags.get("limit") == 5


def test_wrong_defaults_and_a_broken_key_serve_nothing(settings: Settings) -> None:
    """Where both are wrong, nothing raises either."""
    settings.SHIPSILENTLY = {"API_KEY": "", "DEFAULTS": ["x"]}
    assert not get_client().flags().is_enabled("x")


def test_no_settings_at_all_are_no_exception(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """An app that was only just installed serves defaults, and its tests need no key."""
    monkeypatch.delenv("SHIPSILENTLY_API_KEY", raising=False)
    assert not hasattr(settings, "SHIPSILENTLY")
    assert not get_client().flags().is_enabled("x")
    assert not caplog.text


def test_tests_ask_no_service(settings: Settings) -> None:
    """While Django's tests run, the site's own client asks nobody, unless it is told to."""
    settings.SHIPSILENTLY = {"API_KEY": "sk_test", "API_URL": "http://127.0.0.1:9"}
    assert get_client().evaluator.closed
    settings.SHIPSILENTLY = {**settings.SHIPSILENTLY, "OFFLINE": False}
    assert not get_client().evaluator.closed
    settings.SHIPSILENTLY = {**settings.SHIPSILENTLY, "OFFLINE": True}
    assert get_client().evaluator.closed


def test_mails_that_are_caught_are_no_tests(tmp_path: Path) -> None:
    """A site whose mails are kept in memory, and that imports Django's test tools, asks on."""
    result = run(
        """
        import django
        from django.conf import settings
        django.setup()
        settings.SHIPSILENTLY = {"API_KEY": "sk_test", "API_URL": "http://127.0.0.1:9"}
        from django.core import mail
        from django.core.mail.backends.locmem import EmailBackend
        from django.test import RequestFactory
        from shipsilently_django import get_client
        message = mail.EmailMessage("welcome", "hello", "a@example.com", ["b@example.com"])
        EmailBackend().send_messages([message])
        assert len(mail.outbox) == 1
        assert not get_client().evaluator.closed
        """,
        tmp_path,
    )
    assert result.returncode == 0, result.stderr


def test_a_client_that_cannot_be_made_at_the_start_is_made_later(tmp_path: Path) -> None:
    """Where a process may open no more files as it starts, it starts all the same, and says so."""
    result = run(
        """
        import django
        django.setup()
        from django.core.handlers.wsgi import WSGIHandler
        from shipsilently_django import get_client, setup

        def refused():
            raise OSError(24, "Too many open files: secret")

        make, setup._make = setup._make, refused
        WSGIHandler()
        assert not setup.in_use
        setup._make = make
        assert get_client() is setup.in_use["setup"].client
        """,
        tmp_path,
    )
    assert result.returncode == 0, result.stderr
    assert "could not be made at the start of this process (OSError)" in result.stderr
    assert "secret" not in result.stderr


def run_early(folder: Path, program: str, given: str = "") -> None:
    """Run a program of a process whose apps have asked for the client, `early`, as it started."""
    before = f"""
        import django
        from django.conf import settings
        django.setup()
        address = "http://127.0.0.1:9"
        settings.SHIPSILENTLY = dict(API_KEY="sk_test", API_URL=address, {given})
        from django.core.handlers.wsgi import WSGIHandler
        from django.http import HttpResponse
        from django.test.utils import setup_test_environment
        from django.urls import path
        from shipsilently_django import flag_enabled, get_client
        from shipsilently_django.setup import reset_setup

        def view(request):
            return HttpResponse(str(request.flags.is_enabled("x")))

        class Urls:
            urlpatterns = [path("", view)]

        def visit():
            from django.test import Client
            settings.ROOT_URLCONF = Urls
            assert Client().get("/").content == b"False"

        early = get_client()
        assert get_client() is early and not early.evaluator.closed
        """
    result = run(textwrap.dedent(before) + textwrap.dedent(program), folder)
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize(
    "program",
    [
        """
        setup_test_environment()
        visit()
        """,
        """
        setup_test_environment()
        flag_enabled("x")
        """,
        """
        WSGIHandler()
        setup_test_environment()
        visit()
        """,
    ],
    ids=["visit", "no request", "application at import"],
)
def test_a_client_of_before_the_tests_asks_nobody_in_them(tmp_path: Path, program: str) -> None:
    """What an app's `ready` has asked for is closed when tests run, and another is in its place."""
    after = """
        assert early.evaluator.closed and early.status().attempts == 0
        assert get_client() is not early and get_client().evaluator.closed
        """
    run_early(tmp_path, textwrap.dedent(program) + textwrap.dedent(after))


@pytest.mark.parametrize(
    "program",
    [
        """
        WSGIHandler()
        assert get_client() is early
        """,
        """
        flag_enabled("x")
        assert get_client() is early
        """,
        """
        reset_setup()
        assert early.evaluator.closed
        assert get_client() is not early
        """,
    ],
    ids=["served", "no request", "reset"],
)
def test_a_client_of_before_the_middleware_is_the_processs(tmp_path: Path, program: str) -> None:
    """Outside of tests it stays, until it is closed."""
    run_early(tmp_path, textwrap.dedent(program) + "assert not get_client().evaluator.closed")


def test_tests_that_want_the_service_keep_the_client_of_before(tmp_path: Path) -> None:
    """With OFFLINE set to False, tests change nothing."""
    program = """
        setup_test_environment()
        assert get_client() is early and not early.evaluator.closed
        """
    run_early(tmp_path, program, "OFFLINE=False")


def test_it_is_loud_only_in_debug(settings: Settings) -> None:
    """RAISE_IN_DEBUG has no effect in production."""
    settings.SHIPSILENTLY = {"API_KEY": "sk_test", "RAISE_IN_DEBUG": True}
    assert not get_setup().loud
    settings.DEBUG = True
    assert get_setup().loud
    settings.SHIPSILENTLY = {"API_KEY": "sk_test"}
    assert not get_setup().loud
