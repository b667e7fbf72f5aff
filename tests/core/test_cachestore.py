"""What the stores on a framework's own cache have in common."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from shipsilently_core import ConfigurationError
from shipsilently_core._cachestore import CacheStore
from shipsilently_core.stores import Found, SharedStore
from tests.core.running import eventually, running

NAME = "0123456789abcdef0123/0123456789abcdef0123456789abcdef01234567"


class DictStore(CacheStore):
    """On a dictionary that counts no seconds."""

    def __init__(self, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.kept: dict[str, Any] = {}
        self.seconds: list[int] = []

    def read(self, key: str) -> Any:
        """What is there."""
        return self.kept.get(key)

    def write(self, key: str, data: bytes, seconds: int) -> None:
        """Put it there."""
        self.kept[key] = data
        self.seconds.append(seconds)


def look(store: SharedStore, name: str = NAME) -> Found:
    """What is known of one context."""
    return store.get(name, newer_than=1.0, younger_than=60.0, lease=1.0)


def test_what_was_kept_is_found() -> None:
    """A snapshot and a context come back as they were given, for a week unless told otherwise."""
    store = DictStore()
    store.save("env", b"all")
    store.put(NAME, b"one", stamp=0.0)
    assert store.load("env") == b"all"
    assert look(store) == Found(b"one", now=None, leads=True)
    assert store.load("other") is None
    assert store.seconds == [604_800, 604_800]
    brief = DictStore(time_to_live=0.1)
    brief.save("env", b"all")
    assert brief.seconds == [1]


def test_what_a_cache_silently_drops_is_told_of() -> None:
    """One that says nothing where it is full, or read-only, does not count as one that works."""

    class Full(DictStore):
        def write(self, key: str, data: bytes, seconds: int) -> None:
            pass

    with running({"a": 1}, store=Full()) as run:
        eventually(lambda: "OSError: the cache did not keep it" in str(run.client.status().store))
        store = run.client.status().store
        assert store is not None
        assert store.saved is None


def test_it_is_a_shared_store_without_a_clock() -> None:
    """So what it holds is last known good and never fresh, and nobody waits for anybody."""
    store: SharedStore = DictStore()
    assert isinstance(store, SharedStore)
    assert store.clock("env") is None
    store.put(NAME, None, stamp=0.0)
    assert look(store) == Found(None, now=None, leads=True)


def test_keys_are_such_that_every_cache_takes_them() -> None:
    """Printable ASCII without spaces or slashes, and short enough beside a site's own prefix."""
    store = DictStore(prefix="p" * 100)
    store.put(NAME, b"one", stamp=0.0)
    (key,) = store.kept
    assert key.isascii()
    assert key.isprintable()
    assert not set(" /") & set(key)
    assert len(key) <= 250 - 80


@pytest.mark.parametrize("foreign", ["text", 7, [b"bytes"], bytearray(b"bytes")])
def test_what_is_not_bytes_counts_as_damaged(foreign: object) -> None:
    """Somebody else's value under our key is none of ours, whatever it is."""
    store = DictStore()
    store.kept["shipsilently:env"] = foreign
    assert store.load("env") == b""
    assert look(store, "env").data == b""


def test_what_is_too_large_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    """What was there stays; the log says once how large it is and what would be taken."""
    store = DictStore(max_bytes=10)
    store.put(NAME, b"small", stamp=0.0)
    with caplog.at_level(logging.WARNING, "shipsilently"):
        for _ in range(2):
            store.put(NAME, b"x" * 11, stamp=1.0)
    assert look(store).data == b"small"
    (message,) = caplog.messages
    assert "11 bytes, more than the 10 that the DictStore takes" in message


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"deadline": 0}, "store deadline"),
        ({"deadline": "soon"}, "store deadline"),
        ({"time_to_live": -1}, "store time_to_live"),
        ({"prefix": ""}, "store prefix"),
        ({"prefix": None}, "store prefix"),
        ({"prefix": "two words"}, "store prefix"),
        ({"prefix": "größe"}, "store prefix"),
        ({"prefix": "line\n"}, "store prefix"),
        ({"prefix": "p" * 101}, "store prefix"),
        ({"max_bytes": 0}, "store max_bytes"),
        ({"max_bytes": True}, "store max_bytes"),
        ({"max_bytes": 1.5}, "store max_bytes"),
    ],
)
def test_wrong_arguments_are_named(wrong: dict[str, Any], named: str) -> None:
    """Each is refused when the store is made."""
    with pytest.raises(ConfigurationError) as caught:
        DictStore(**wrong)
    assert caught.value.setting == named
