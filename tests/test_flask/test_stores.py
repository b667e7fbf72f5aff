"""`FlaskCachingStore`: last known good values in the cache of Flask-Caching."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
import threading
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from flask_caching import Cache
from flask_caching.backends.base import BaseCache
from shipsilently_flask import FlaskCachingStore, ShipSilently, flags

from shipsilently_core import ConfigurationError, Source
from shipsilently_local import LocalService
from tests.core.running import eventually, running
from tests.core.support import KEY, setup
from tests.stores.redis_server import NO_PROGRAM, PROGRAM, RedisServer

from .apps import bare_app

ADA = {"userId": "ada-lovelace", "email": "ada@example.com"}
FLAGS = {"x": True, "long": {"words": ["recognisable"] * 200}}

#: Visits a site in a process of its own, and prints what it was served.
SITE = """
import json, sys
from flask import Flask
from flask_caching import Cache
from shipsilently_flask import FlaskCachingStore, ShipSilently, flags

kind, place, url, key = sys.argv[1:]
cache = Cache()
shipsilently = ShipSilently(context_loader=lambda: {"userId": "ada"})

def tell(found):
    return [found.value, found.source, found.reason]

def create_app():
    app = Flask("shop")
    app.config.update(
        SHIPSILENTLY_API_KEY=key,
        SHIPSILENTLY_API_URL=url,
        SHIPSILENTLY_STORE=FlaskCachingStore(cache, deadline=20),  # a busy machine is slow
        CACHE_TYPE=kind,
        CACHE_DIR=place,
        CACHE_REDIS_URL=place,
    )
    shipsilently.init_app(app)
    cache.init_app(app)

    @app.get("/")
    def page():
        return tell(flags.detail("x", None))

    @app.get("/async")
    async def async_page():
        return tell(await flags.adetail("x", None))

    return app

app = create_app()
pages = [app.test_client().get(path).json for path in ("/", "/async")]
app.extensions["shipsilently"].client.close()
print(json.dumps(pages))
"""


class BrokenCache(BaseCache):
    """A cache that raises, or answers when it is let go."""

    let_go = threading.Event()
    hangs = False

    def get(self, key: str) -> Any:
        """Nothing."""
        if not self.hangs:
            raise ConnectionError("redis://user:recognisable@host")
        self.let_go.wait(20)

    def set(self, key: str, value: Any, timeout: Any = None) -> bool | None:
        """Nothing."""
        self.get(key)
        return True


class RefusingCache(BaseCache):
    """A cache that has no room, and says so by what it returns."""

    def set(self, key: str, value: Any, timeout: Any = None) -> bool | None:
        """Nothing."""
        return False


def cache_of(kind: str = "SimpleCache", **more: Any) -> tuple[Cache, Flask]:
    """A cache, set up on an app."""
    cache, app = Cache(), bare_app()
    cache.init_app(app, {"CACHE_TYPE": kind, **more})
    return cache, app


def remember(cache: Cache) -> None:
    """Let a client learn what `ADA` gets, and end."""
    with running(FLAGS, store=FlaskCachingStore(cache)) as run:
        assert run.client.flags(ADA).get("x") is True


def kept(cache: Cache) -> dict[str, bytes]:
    """All that is in a cache in this process's memory."""
    backend: Any = cache.cache
    return {key: pickle.loads(value) for key, (_, value) in backend._cache.items()}


@pytest.fixture(params=["FileSystemCache", "RedisCache"])
def cache_words(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[list[str]]:
    """A cache that outlives a process: its type and its place."""
    if request.param == "FileSystemCache":
        yield [request.param, str(tmp_path)]
        return
    if not PROGRAM:
        pytest.skip(NO_PROGRAM)
    with RedisServer(tmp_path) as server:
        yield [request.param, server.url]


def test_the_next_process_serves_what_the_last_one_knew(cache_words: list[str]) -> None:
    """With the service dead, in views and in coroutine views; the cache is set up last of all."""

    def visit(service: LocalService) -> Any:
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", SITE, *cache_words, service.url, service.key],
            capture_output=True,
            text=True,
            timeout=50,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    with LocalService({"x": {"default": "kept"}}) as service:
        first = visit(service)
    second = visit(service)
    assert [page[0] for page in first] == ["kept", "kept"]
    assert second == [["kept", "cache", "error_fallback"]] * 2


def test_it_works_with_and_without_an_app_context() -> None:
    """In a request's thread it is that app's cache, and elsewhere that of the app set up last."""
    cache, first = cache_of()
    second = bare_app()
    cache.init_app(second, {"CACHE_TYPE": "SimpleCache"})
    store = FlaskCachingStore(cache)
    with first.app_context():
        store.save("env", b"first")
    store.save("env", b"second")
    with first.app_context():
        assert store.load("env") == b"first"
    assert store.load("env") == b"second"


def test_a_page_keeps_its_values() -> None:
    """A client that never reached the service serves this visitor's own value, with its age."""
    cache, app = cache_of()
    remember(cache)
    made = setup(FLAGS, store=FlaskCachingStore(cache))
    made.service.fail(503)
    made.clock.advance(60)
    ShipSilently(app, client=made.client, context_loader=lambda: ADA)

    @app.get("/")
    def page() -> str:
        found = flags.detail("x", False)
        return f"{found.value} {found.source} {found.age}"

    assert app.test_client().get("/").text == "True cache 60.0"


def test_a_value_of_the_cache_is_never_taken_for_fresh() -> None:
    """While the service answers, it is asked, and what it says counts."""
    cache, _ = cache_of()
    remember(cache)
    made = setup({"x": False}, store=FlaskCachingStore(cache))
    assert made.client.flags(ADA).get("x") is False
    assert len(made.service.requests) == 1


@pytest.mark.parametrize("how", ["raises", "hangs"])
def test_a_bad_cache_holds_nobody_up(
    how: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Requests get the service's answer; the state is told, and the log says one line of it."""
    monkeypatch.setattr(BrokenCache, "hangs", how == "hangs")
    monkeypatch.setattr(BrokenCache, "let_go", threading.Event())
    cache, _ = cache_of(f"{__name__}.BrokenCache")
    try:
        with running(FLAGS, store=FlaskCachingStore(cache, deadline=0.05)) as run:
            for number in range(20):
                found = run.client.flags({"userId": f"u{number}"}).detail("x", False)
                assert (found.value, found.source) == (True, Source.SERVER)
            store = run.client.status().store
            assert store is not None
            assert store.error is not None
            BrokenCache.let_go.set()
    finally:
        BrokenCache.let_go.set()
    told = [line for line in caplog.messages if "FlaskCachingStore could not be used" in line]
    assert len(told) == 1
    assert "recognisable" not in caplog.text


def test_what_a_cache_did_not_take_is_a_failure_of_the_store() -> None:
    """Flask-Caching's backends return that instead of raising."""
    cache, _ = cache_of(f"{__name__}.RefusingCache")
    with running(FLAGS, store=FlaskCachingStore(cache)) as run:

        def error() -> str | None:
            store = run.client.status().store
            return None if store is None else store.error

        eventually(error)
        assert error() == "OSError: the cache did not take it"


def test_a_cache_that_was_never_set_up_is_a_failure_of_the_store(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The log says what to call; flags are served all the same."""
    made = setup(FLAGS, store=FlaskCachingStore(Cache()))
    assert made.client.flags(ADA).get("x", False) is True
    assert "Cache.init_app has not been called" in caplog.text


def test_nothing_readable_is_in_the_cache() -> None:
    """No user, no address and no key, also in what is compressed; of flags, what they hold."""
    cache, _ = cache_of()
    remember(cache)
    found = kept(cache)
    assert len(found) == 3
    names = " ".join(found)
    for data in found.values():
        unfolded = zlib.decompress(data[38:])
        assert b"recognisable" in unfolded
        for secret in (KEY, *ADA.values()):
            assert secret not in names
            assert secret.encode() not in data + unfolded


@pytest.mark.parametrize("wrong", [None, "simple", Cache, {}])
def test_a_store_needs_the_cache(wrong: Any) -> None:
    """Anything else is refused at once, the class itself too."""
    with pytest.raises(ConfigurationError, match=r"needs the app's flask_caching\.Cache"):
        FlaskCachingStore(wrong)


def test_it_shows_no_more_than_its_prefix() -> None:
    """The cache may be one whose address holds a password."""
    assert repr(FlaskCachingStore(Cache())) == "<FlaskCachingStore 'shipsilently'>"
