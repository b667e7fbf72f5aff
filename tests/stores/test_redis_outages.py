"""A client whose Redis is killed, hangs, comes back or is emptied; and what is left in Redis."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import itertools
import logging
import time
import urllib.parse
import zlib
from collections.abc import Iterator
from typing import Any

import pytest

from shipsilently_core import (
    EvaluationResult,
    Failure,
    FailureReport,
    ShipSilentlyClient,
    StoreStatus,
)
from shipsilently_core.stores import Found
from shipsilently_core.stores_redis import RedisStore
from shipsilently_local import LocalService
from tests.servers.harness import eventually
from tests.stores.redis_server import RedisServer, needs_redis

pytestmark = needs_redis

#: Seconds that a request may be held up by a Redis that is gone; it is 0.05 on an idle machine.
HELD_UP = 1.0
users = (f"visitor-{number}" for number in itertools.count())


class Counting(RedisStore):
    """Counts the looks that requests wait for."""

    looks = 0

    def get(
        self, name: str, *, newer_than: float | None, younger_than: float, lease: float
    ) -> Found:
        """See `RedisStore`."""
        self.looks += 1
        return super().get(name, newer_than=newer_than, younger_than=younger_than, lease=lease)


class Site:
    """A client with a store in Redis, and all that it told.

    Args:
        service: Its service.
        url: The address of its Redis.
        cool_down: The share of its longest that each cool-down takes.
    """

    def __init__(self, service: LocalService, url: str, cool_down: float = 0.1) -> None:
        self.reports: list[FailureReport] = []
        self.store = Counting(url, deadline=0.2)
        self.client = ShipSilentlyClient(
            api_key=service.key,
            api_url=service.url,
            store=self.store,
            on_error=self.reports.append,
            rng=lambda: cool_down,
        )

    def ask(self, user: str | None = None) -> EvaluationResult:
        """A flag of one user, of one who is new where it is not said."""
        return self.client.flags({"userId": user or next(users)}).detail("version", 0)

    def timed(self) -> float:
        """The seconds that a new user's request takes, which the service answers."""
        begin = time.monotonic()
        result = self.ask()
        assert (result.value, result.error) == (1, None)
        return time.monotonic() - begin

    @property
    def status(self) -> StoreStatus:
        """How it goes with the store."""
        status = self.client.status().store
        assert status is not None
        return status

    def is_used(self) -> bool:
        """Whether a new user's request has looked into the store, and found it working."""
        before = self.store.looks
        self.ask()
        return self.store.looks > before and self.status.error is None


@pytest.fixture
def site(
    service: LocalService, redis_server: RedisServer, caplog: pytest.LogCaptureFixture
) -> Iterator[Site]:
    """A site that uses its Redis."""
    caplog.set_level(logging.INFO, "shipsilently")
    site = Site(service, redis_server.url)
    with contextlib.closing(site.client):
        assert site.client.wait_ready(10)
        eventually(site.is_used, "the store is used")
        site.reports.clear()
        caplog.clear()
        yield site


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What the log says of the store."""
    return [
        f"{record.levelname} {record.getMessage()}"
        for record in caplog.records
        if "Counting" in record.getMessage()
    ]


def assert_it_pays_once(site: Site, caplog: pytest.LogCaptureFixture, why: set[str]) -> None:
    """One request waits for the deadline at most, no other touches the store, and all is told."""
    # The client may have found it out by itself before anybody asked.
    assert site.timed() < HELD_UP
    eventually(lambda: site.status.error, "the failure is noticed")
    before = site.store.looks
    assert all(site.timed() < HELD_UP for _ in range(30))
    assert site.store.looks == before
    assert site.status.kind == "Counting"
    assert site.status.error in why
    assert {report.failure for report in site.reports} == {Failure.STORE}
    assert all("Counting could not be used" in report.message for report in site.reports)
    lines = told(caplog)
    assert len(lines) == 1
    assert lines[0].startswith("WARNING the Counting could not be used (to ")


def test_a_killed_redis_costs_one_request_its_deadline(
    site: Site, redis_server: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    """When Redis is gone one request finds that out; when it is back, empty, it is used again."""
    redis_server.kill()
    assert_it_pays_once(site, caplog, {"ConnectionError", "TimeoutError"})
    redis_server.start()
    eventually(site.is_used, "the store is used again")
    assert told(caplog)[1:] == ["INFO the Counting works again"]
    assert site.status.cool_down == 0
    # All of it was empty: the scripts, the answers and the clock.
    user = next(users)
    site.ask(user)
    eventually(lambda: any(b":context:" in key for key in redis_server.dump()), "it is kept again")


def test_a_hung_redis_costs_one_request_its_deadline(
    site: Site, redis_server: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    """When Redis accepts and answers nothing it is the same, and afterwards it is used again."""
    redis_server.hang()
    assert_it_pays_once(site, caplog, {"TimeoutError", "no answer in time"})
    redis_server.go_on()
    eventually(site.is_used, "the store is used again")
    assert told(caplog)[1:] == ["INFO the Counting works again"]


def test_a_change_arrives_while_redis_hangs(
    site: Site, redis_server: RedisServer, service: LocalService
) -> None:
    """Values follow the service while Redis hangs, and no page is held up by it for long."""
    user = next(users)
    assert site.ask(user).value == 1
    redis_server.hang()
    longest = 0.0
    for version in (2, 3):
        service.set_flag("version", default=version)

        def arrived(version: int = version) -> bool:
            nonlocal longest
            begin = time.monotonic()
            there = bool(site.ask(user).value == version)
            longest = max(longest, time.monotonic() - begin)
            return there

        eventually(arrived, "the change arrives")
    assert longest < HELD_UP
    redis_server.go_on()


def test_a_restart_of_redis_is_survived(
    site: Site, redis_server: RedisServer, service: LocalService
) -> None:
    """A Redis that was restarted without its data and its scripts serves changes as before."""
    user = next(users)
    assert site.ask(user).value == 1
    redis_server.kill()
    redis_server.start()
    service.set_flag("version", default=2)
    eventually(lambda: site.ask(user).value == 2, "the change arrives")
    eventually(site.is_used, "the store is used again")
    with contextlib.closing(Site(service, redis_server.url).client) as other:
        assert other.wait_ready(10)
        assert other.flags({"userId": user}).get("version", 0) == 2


def test_a_redis_that_is_not_there_at_the_start(
    service: LocalService, redis_server: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    """A client that starts while Redis is away serves what the service says, and uses Redis when
    it comes."""
    caplog.set_level(logging.INFO, "shipsilently")
    redis_server.kill()
    site = Site(service, redis_server.url)
    with contextlib.closing(site.client):
        assert site.timed() < HELD_UP
        assert all(site.timed() < HELD_UP for _ in range(10))
        eventually(lambda: site.status.error == "ConnectionError", "the failure is noticed")
        redis_server.start()
        eventually(site.is_used, "the store is used")


def test_the_end_is_not_held_up_by_a_hung_redis(site: Site, redis_server: RedisServer) -> None:
    """Closing a client whose Redis hangs takes no longer than it is given, about."""
    site.ask()
    redis_server.hang()
    begin = time.monotonic()
    site.client.close(1.0)
    assert time.monotonic() - begin < 4.0
    redis_server.go_on()


def test_what_one_process_has_asked_another_takes_from_redis(
    service: LocalService, redis_server: RedisServer
) -> None:
    """Two clients that stream evaluate a context once, also after a change."""
    with (
        contextlib.closing(Site(service, redis_server.url).client) as one,
        contextlib.closing(Site(service, redis_server.url).client) as other,
    ):
        assert one.wait_ready(10)
        assert other.wait_ready(10)
        assert service.wait_for_streams(2, 10)
        for version in (2, 3, 4):
            service.set_flag("version", default=version)
            eventually(lambda v=version: value(one) == v, "the change arrives")  # type: ignore[misc]
            eventually(lambda v=version: value(other) == v, "and there")  # type: ignore[misc]
    batches = [r for r in service.requests if r.path.endswith("batch") and b"guest" in r.body]
    # Each may also have asked before the change had reached it.
    assert len(batches) <= 8


def value(client: ShipSilentlyClient) -> Any:
    """The flag of one user."""
    return client.flags({"userId": "guest"}).get("version", 0)


def test_the_service_is_down_and_a_new_process_comes(
    service: LocalService, redis_server: RedisServer
) -> None:
    """What an old process knew, a new one serves from its first request on."""
    old = Site(service, redis_server.url)
    with contextlib.closing(old.client):
        assert old.client.flags({"userId": "user-7"}).get("who", "nobody") == "user-7"
        eventually(lambda: any(b":context:" in key for key in redis_server.dump()), "it is kept")
        eventually(lambda: old.status.saved, "the baseline is kept")
    service.stop()
    new = Site(service, redis_server.url)
    with contextlib.closing(new.client):
        result = new.client.flags({"userId": "user-7"}).detail("who", "nobody")
        assert (result.value, str(result.source)) == ("user-7", "cache")
        stranger = new.client.flags({"userId": "stranger"}).detail("version", 0)
        assert (stranger.value, str(stranger.source)) == (1, "baseline")


# What is left in Redis.

KEY = "sk_live_a1b2c3d4e5f6g7h8"
SECRETS = [KEY, "ada.lovelace", "ada.lovelace@example.com", "example.com", "Countess-5", "system"]
SHOWN = b"this-is-seen-by-everybody"


def forms(secret: str) -> Iterator[bytes]:
    """A secret as it might be written, also as a hash without a key."""
    for text in {secret, secret.lower(), secret.upper(), secret[::-1], urllib.parse.quote(secret)}:
        yield text.encode()
        yield text.encode("utf-16-le")
        yield text.encode().hex().encode()
        # Whatever comes before it in the encoded text.
        for before in range(3):
            encoded = base64.b64encode(b"\0" * before + text.encode()).rstrip(b"=")
            yield encoded[before + 1 : -1]
    for message in (secret, f'{{"userId":"{secret}"}}', f'{{"context":{{"userId":"{secret}"}}}}'):
        for algorithm in ("md5", "sha1", "sha256", "sha512", "blake2b"):
            digest = hashlib.new(algorithm, message.encode()).digest()
            yield digest[:10]
            yield digest.hex()[:20].encode()
            yield base64.b64encode(digest)[:12]


def unfolded(data: bytes) -> Iterator[bytes]:
    """The bytes, and whatever is compressed in them."""
    yield data
    for begin in range(len(data)):
        if data[begin : begin + 1] == b"\x78":
            with contextlib.suppress(zlib.error):
                yield zlib.decompressobj().decompress(data[begin:])


def test_redis_knows_neither_users_nor_the_key(redis_server: RedisServer) -> None:
    """Whoever reads all of Redis finds flags, and neither a user, nor an address, nor the key."""
    context = {
        "userId": "ada.lovelace",
        "email": "ada.lovelace@example.com",
        "title": "Countess-5",
    }
    # Enough to be compressed.
    flags = {f"flag-{number}": {"default": f"{SHOWN.decode()}-{number}"} for number in range(40)}
    with LocalService(flags, KEY) as service:
        site = Site(service, redis_server.url)
        with contextlib.closing(site.client):
            assert site.client.wait_ready(10)
            assert site.client.flags(context).get("flag-1", "").startswith(SHOWN.decode())
            site.ask("ada.lovelace")
            service.set_flag("flag-1", default=f"{SHOWN.decode()}-again")
            eventually(
                lambda: site.client.flags(context).get("flag-1", "").endswith("again"), "it changes"
            )
        bodies = [request.body for request in service.requests]
        assert any(b"ada.lovelace@example.com" in body for body in bodies)
    kept = redis_server.dump()
    assert {key.rpartition(b":")[0].rpartition(b":")[2] for key in kept} >= {b"context"}
    everything = [
        part for key, values in kept.items() for value in [key, *values] for part in unfolded(value)
    ]
    assert any(SHOWN in part for part in everything), "nothing can be read at all"
    for secret in SECRETS:
        for form in forms(secret):
            assert not any(form in part for part in everything), f"{secret} as {form!r}"
