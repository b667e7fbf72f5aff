"""`DjangoCacheStore`: last known good values in Django's caches."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
import threading
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.core.cache import caches
from django.core.cache.backends.base import BaseCache, memcache_key_warnings
from django.core.cache.backends.locmem import LocMemCache
from django.http import HttpResponse
from pytest_django import Settings
from shipsilently_django import DjangoCacheStore, FlagsRequest, get_client
from shipsilently_django.options import read_options

from shipsilently_core import ConfigurationError, ShipSilentlyClient, Source
from shipsilently_local import LocalService
from tests.core.running import eventually, running
from tests.core.support import KEY, setup
from tests.stores.redis_server import NO_PROGRAM, PROGRAM, RedisServer

from .site import Browser

ADA = {"userId": "ada-lovelace", "email": "ada@example.com"}
LOCMEM = "django.core.cache.backends.locmem.LocMemCache"
FLAGS = {"x": True, "long": {"words": ["recognisable"] * 200}}

#: Visits a site in a process of its own, and tells what it was served.
SITE = """
import asyncio, json, sys, threading
import django
from django.conf import settings
from django.core.management import call_command
from django.db import connections
from shipsilently_django import DjangoCacheStore, get_client

backend, location, folder, url, key = sys.argv[1:]
STORE = DjangoCacheStore("default", deadline=20)  # a busy machine is slow, not wrong
settings.configure(
    SECRET_KEY="made up",
    USE_TZ=True,
    DATABASES={
        "default": {"ENGINE": "django.db.backends.sqlite3", "NAME": folder + "/db.sqlite3"}
    },
    CACHES={
        "default": {
            "BACKEND": "django.core.cache.backends." + backend,
            "LOCATION": location,
            "KEY_PREFIX": "site",
        }
    },
    INSTALLED_APPS=["shipsilently_django"],
    SHIPSILENTLY={"API_KEY": key, "API_URL": url, "STORE": STORE},
)
django.setup()
call_command("createcachetable", verbosity=0)
flags = get_client().flags({"userId": "ada"})
aflags = get_client().flags({"userId": "ada"})
detail = flags.detail("x", None)
adetail = asyncio.run(aflags.adetail("x", None))
get_client().close()
opened = []

def look():
    DjangoCacheStore("default").read("nothing")
    opened.extend(c for c in connections.all(initialized_only=True) if c.connection is not None)

thread = threading.Thread(target=look)
thread.start()
thread.join()
print(json.dumps([[d.value, d.source, d.reason] for d in (detail, adetail)] + [len(opened)]))
connections.close_all()
"""


class BrokenCache(BaseCache):
    """A cache that raises, or answers when it is let go."""

    let_go = threading.Event()
    hangs = False

    def __init__(self, name: str, params: dict[str, Any]) -> None:
        super().__init__(params)

    def get(self, key: Any, default: Any = None, version: Any = None) -> Any:
        """Nothing."""
        if not self.hangs:
            raise ConnectionError("redis://user:recognisable@host")
        self.let_go.wait(20)

    def set(self, key: Any, value: Any, *more: Any, **named: Any) -> None:
        """Nothing."""
        self.get(key)

    def clear(self) -> None:
        """Nothing."""


@pytest.fixture
def use(settings: Settings) -> Callable[..., None]:
    """Makes a cache of some kind the site's default."""

    def use(backend: str = LOCMEM, **more: Any) -> None:
        settings.CACHES = {"default": {"BACKEND": backend, **more}}

    return use


@pytest.fixture(autouse=True)
def _empty(use: Callable[..., None]) -> Iterator[None]:
    """Each test finds an empty cache."""
    use()
    caches["default"].clear()
    yield
    caches["default"].clear()


def remember(**settings: Any) -> None:
    """Let a client learn what `ADA` gets, and end."""
    with running(FLAGS, store=DjangoCacheStore(), **settings) as run:
        assert run.client.flags(ADA).get("x") is True


def kept() -> dict[str, bytes]:
    """All that is in a cache in this process's memory."""
    cache = caches["default"]
    assert isinstance(cache, LocMemCache)
    return {key: pickle.loads(value) for key, value in cache._cache.items()}  # type: ignore[attr-defined]


@pytest.fixture(params=["filebased.FileBasedCache", "db.DatabaseCache", "redis.RedisCache"])
def cache_words(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[list[str]]:
    """A cache that outlives a process: its backend and its place."""
    match request.param:
        case "filebased.FileBasedCache":
            yield [request.param, str(tmp_path / "cache")]
        case "db.DatabaseCache":
            yield [request.param, "flags_cache"]
        case _:
            if not PROGRAM:
                pytest.skip(NO_PROGRAM)
            with RedisServer(tmp_path) as server:
                yield [request.param, server.url]


def test_the_next_process_serves_what_the_last_one_knew(
    cache_words: list[str], tmp_path: Path
) -> None:
    """With the service dead, in threads and in tasks; no database connection is left open."""

    def visit(service: LocalService) -> Any:
        words = [*cache_words, str(tmp_path), service.url, service.key]
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", SITE, *words],
            capture_output=True,
            text=True,
            timeout=50,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    with LocalService({"x": {"default": "kept"}}) as service:
        first = visit(service)
    second = visit(service)
    assert [first[0][0], first[1][0], first[2]] == ["kept", "kept", 0]
    assert second == [*[["kept", "cache", "error_fallback"]] * 2, 0]


def test_a_page_keeps_its_values(
    serve: Callable[..., None], settings: Settings, browser: Browser
) -> None:
    """A client that never reached the service serves this visitor's own value, with its age."""

    def view(request: FlagsRequest) -> HttpResponse:
        found = request.flags.detail("x", False)
        return HttpResponse(f"{found.value} {found.source} {found.age}")

    remember()
    made = setup(FLAGS, store=DjangoCacheStore())
    made.service.fail(503)
    made.clock.advance(60)
    serve(view)
    settings.SHIPSILENTLY = {"CLIENT": made.client, "CONTEXT": lambda request: ADA}
    assert browser.text() == "True cache 60.0"


def test_a_value_of_the_cache_is_never_taken_for_fresh() -> None:
    """While the service answers, it is asked, and what it says counts."""
    remember()
    made = setup({"x": False}, store=DjangoCacheStore())
    assert made.client.flags(ADA).get("x") is False
    assert len(made.service.requests) == 1


@pytest.mark.parametrize("how", ["raises", "hangs"])
def test_a_bad_cache_holds_nobody_up(
    how: str,
    use: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Requests get the service's answer; the state is told, and the log says one line of it."""
    monkeypatch.setattr(BrokenCache, "hangs", how == "hangs")
    monkeypatch.setattr(BrokenCache, "let_go", threading.Event())
    use(f"{__name__}.BrokenCache")
    try:
        with running(FLAGS, store=DjangoCacheStore(deadline=0.05)) as run:
            for number in range(20):
                found = run.client.flags({"userId": f"u{number}"}).detail("x", False)
                assert (found.value, found.source) == (True, Source.SERVER)
            store = run.client.status().store
            assert store is not None
            assert store.error is not None
            BrokenCache.let_go.set()
    finally:
        BrokenCache.let_go.set()
    told = [line for line in caplog.messages if "DjangoCacheStore could not be used" in line]
    assert len(told) == 1
    assert "recognisable" not in caplog.text


def test_nothing_readable_is_in_the_cache() -> None:
    """No user, no address and no key, also in what is compressed; of flags, what they hold."""
    remember()
    found = kept()
    assert len(found) == 3
    names = " ".join(found)
    for data in found.values():
        unfolded = zlib.decompress(data[38:])
        assert b"recognisable" in unfolded
        for secret in (KEY, *ADA.values()):
            assert secret not in names
            assert secret.encode() not in data + unfolded


def test_the_sites_own_prefix_and_version_count(use: Callable[..., None]) -> None:
    """Keys are made as for everything else in this cache, and memcached would take them."""
    use(KEY_PREFIX="a-site-with-a-long-name", VERSION=7)
    remember()
    assert {key.split(":shipsilently:")[0] for key in kept()} == {"a-site-with-a-long-name:7"}
    for key in kept():
        assert not list(memcache_key_warnings(key))


def test_somebody_elses_value_is_replaced(caplog: pytest.LogCaptureFixture) -> None:
    """What is no bytes of ours is told of, not used, and overwritten by what is known."""
    remember()
    first = kept()
    for key in first:
        caches["default"].set(key.removeprefix(":1:"), "somebody else's")
    with running(FLAGS, store=DjangoCacheStore()) as run:
        assert run.client.flags(ADA).detail("x", False).source is Source.SERVER
        eventually(lambda: all(isinstance(data, bytes) for data in kept().values()))
    assert "was not written by this library" in caplog.text


def test_a_store_in_settings_touches_no_cache() -> None:
    """It can be made before there are any settings, and nothing is looked up until it is used."""
    script = "from shipsilently_django import DjangoCacheStore; print(DjangoCacheStore('x'))"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script], capture_output=True, text=True, timeout=50
    )
    assert (done.stdout, done.stderr) == ("DjangoCacheStore('x')\n", "")


def test_a_setting_can_name_a_cache() -> None:
    """`django-cache:` and the cache's name is a store on it; other words are paths as ever."""
    reading = read_options({"API_KEY": "sk_test", "STORE": "django-cache:flags"})
    assert reading.config is not None
    assert isinstance(reading.config.store, DjangoCacheStore)
    assert reading.config.store.alias == "flags"
    assert not reading.problems
    (problem,) = read_options({"API_KEY": "sk_test", "STORE": "django-cache:"}).problems
    assert problem.text == "SHIPSILENTLY['STORE'] must name one of CACHES"


@pytest.mark.parametrize("alias", ["", None, 7])
def test_a_store_needs_the_name_of_a_cache(alias: Any) -> None:
    """Anything else is refused at once."""
    with pytest.raises(ConfigurationError, match="must name one of CACHES"):
        DjangoCacheStore(alias)


def test_a_cache_that_cannot_be_made_stops_nothing(settings: Settings) -> None:
    """A wrong backend, or a library that is missing, is a failure of the store and no more."""
    settings.CACHES = {"default": {"BACKEND": "tests.no_such_cache"}}
    settings.SHIPSILENTLY = {
        "API_KEY": "sk_test",
        "STORE": DjangoCacheStore(),
        "OFFLINE": False,
        "BACKGROUND": False,
        "API_URL": "http://127.0.0.1:9",
    }
    client = get_client()
    assert client.flags(ADA).get("x", False) is False
    store = client.status().store
    assert store is not None
    assert store.error == "InvalidCacheBackendError"
    settings.CACHES = {"default": {"BACKEND": LOCMEM}}


def test_offline_the_cache_is_left_alone(use: Callable[..., None], settings: Settings) -> None:
    """As in Django's tests: a site that asks no service looks into no cache either."""
    use(f"{__name__}.BrokenCache")
    settings.SHIPSILENTLY = {"API_KEY": "sk_test", "STORE": DjangoCacheStore(), "OFFLINE": True}
    client: ShipSilentlyClient = get_client()
    assert client.flags(ADA).get("x", False) is False
    client.close()
    store = client.status().store
    assert store is not None
    assert store.error is None


def test_what_was_shipped_is_served_offline(
    tmp_path: Path, serve: Callable[..., None], settings: Settings, browser: Browser
) -> None:
    """As in a build step: a site that asks no service serves the bootstrap before its defaults."""

    def view(request: FlagsRequest) -> HttpResponse:
        found = request.flags.detail("x", False)
        return HttpResponse(f"{found.value} {found.source} {request.flags.get('y', 0)}")

    path = tmp_path / "flags.json"
    path.write_text('{"flags": {"x": {"value": true, "reason": "default"}}}')
    serve(view)
    settings.SHIPSILENTLY = {"OFFLINE": True, "BOOTSTRAP": path, "DEFAULTS": {"x": False, "y": 2}}
    assert browser.text() == "True bootstrap 0"


def test_a_bootstrap_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    """By the name of the setting, as any other wrong value; the other settings count."""
    reading = read_options({"API_KEY": "sk_test", "BOOTSTRAP": tmp_path / "none.json"})
    (problem,) = reading.problems
    assert problem.code == "E003"
    assert problem.text.startswith("SHIPSILENTLY['BOOTSTRAP'] cannot be read from")
    assert reading.config is not None
