"""What the store in Redis says to its client, without a server."""

from __future__ import annotations

import math
from typing import Any

import pytest
import redis
from redis.exceptions import NoScriptError

from shipsilently_core.stores import Found, SharedStore
from shipsilently_core.stores_redis import RedisStore


class Recording:
    """A client that writes down what it is told, and answers as told.

    Args:
        knows: Whether it knows the scripts.
    """

    def __init__(self, *, knows: bool = True) -> None:
        self.knows = knows
        self.said: list[tuple[Any, ...]] = []
        self.answer: Any = None

    def get(self, key: str) -> Any:
        """GET."""
        self.said.append(("GET", key))
        return self.answer

    def set(self, key: str, value: bytes, *, px: int) -> None:
        """SET."""
        self.said.append(("SET", key, value, px))

    def evalsha(self, digest: str, *arguments: Any) -> Any:
        """EVALSHA."""
        assert len(digest) == 40
        if not self.knows:
            raise NoScriptError
        self.said.append(("EVALSHA", *arguments))
        return self.answer

    def eval(self, script: str, *arguments: Any) -> Any:
        """EVAL."""
        assert "redis.call" in script
        self.said.append(("EVAL", *arguments))
        return self.answer


LIFE = 604_800_000
KEYS = [f"shipsilently:{{env}}:{rest}" for rest in ("clock", "context:name", "lease:name")]


def test_a_client_of_another_make_is_used() -> None:
    """Whatever has the commands is a client, and the store is a shared one."""
    assert isinstance(RedisStore(Recording()), SharedStore)


def test_a_snapshot_is_one_key() -> None:
    """Saving sets one key with a time to live, and loading gets it."""
    client = Recording()
    store = RedisStore(client)
    client.answer = b"data"
    store.save("env", b"data")
    assert store.load("env") == b"data"
    key = "shipsilently:{env}:snapshot"
    assert client.said == [("SET", key, b"data", LIFE), ("GET", key)]


@pytest.mark.parametrize(
    ("newer_than", "younger_than", "lease", "sent"),
    [
        (None, math.inf, 0.0, ("", "", 0)),
        (-1.0, 30.0, 0.5, ("-1000000", "30000000", 500)),
        (1.8e9 + 0.25, 0.1, 0.0001, ("1800000000250000", "100000", 1)),
    ],
)
def test_a_look_is_one_command(
    newer_than: float | None, younger_than: float, lease: float, sent: tuple[object, ...]
) -> None:
    """Times are sent as whole microseconds, a lease in milliseconds, what is missing as nothing."""
    client = Recording()
    client.answer = [b"1800000000123456", b"data", 1]
    found = RedisStore(client).get(
        "env/name", newer_than=newer_than, younger_than=younger_than, lease=lease
    )
    assert found == Found(b"data", 1_800_000_000.123456, leads=True)
    assert client.said == [("EVALSHA", 3, *KEYS, LIFE, *sent)]


def test_an_answer_is_put_with_its_moment() -> None:
    """A stamp has sixteen digits, and nothing but the end of a lease is no data."""
    client = Recording()
    store = RedisStore(client)
    store.put("env/name", b"data", stamp=1.8e9)
    store.put("env/name", None, stamp=0.0)
    assert client.said == [
        ("EVALSHA", 3, *KEYS, LIFE, b"data", "1800000000000000"),
        ("EVALSHA", 3, *KEYS, LIFE, b"", "0000000000000000"),
    ]


def test_a_server_that_does_not_know_the_script_gets_it() -> None:
    """Where a script is unknown it is sent itself, with the same arguments."""
    client = Recording(knows=False)
    client.answer = b"1800000000123456"
    assert RedisStore(client).clock("env") == 1_800_000_000.123456
    assert client.said == [("EVAL", 1, KEYS[0], LIFE)]


def test_connections_to_an_address_are_let_go_of_and_a_given_client_is_left_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Closing ends what the store has opened itself, and touches nobody else's client."""
    ended: list[object] = []
    monkeypatch.setattr(redis.ConnectionPool, "disconnect", lambda pool: ended.append(pool))
    mine = RedisStore("redis://127.0.0.1:1/0")
    mine.close()
    assert ended == [mine._redis.connection_pool]
    RedisStore(Recording()).close()
    given = redis.Redis()
    theirs = RedisStore(given)
    theirs.close()
    assert given.connection_pool not in ended
