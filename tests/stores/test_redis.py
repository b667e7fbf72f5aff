"""The store in Redis, alone."""

from __future__ import annotations

import math
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest
import redis
import redis.asyncio
from redis.backoff import NoBackoff
from redis.retry import Retry

from shipsilently_core import Config, ConfigurationError
from shipsilently_core.stores import Found, MemoryStore, SharedStore
from shipsilently_core.stores_redis import RedisStore
from tests.servers.harness import eventually, run_script
from tests.stores.redis_server import RedisServer, needs_redis

ENVIRONMENT = "0123456789abcdef0123"
NAME = f"{ENVIRONMENT}/ffeeddccbbaa"
#: Seconds; for tests that are about something else than the deadline.
PATIENT = 5.0
ANY = math.inf


@pytest.fixture(params=["memory", pytest.param("redis", marks=needs_redis)])
def store(request: pytest.FixtureRequest) -> SharedStore:
    """Each store that is shared, which have to do the same."""
    if request.param == "memory":
        return MemoryStore()
    server: RedisServer = request.getfixturevalue("redis_server")
    return RedisStore(server.url, deadline=PATIENT)


def look(store: SharedStore, name: str = NAME, **changes: Any) -> Found:
    """What the store knows, where nothing is good enough, and no lease is wanted."""
    return store.get(name, **{"newer_than": None, "younger_than": ANY, "lease": 0.0, **changes})


def moment(store: SharedStore) -> float:
    """The store's time."""
    now = store.clock(ENVIRONMENT)
    assert now is not None
    return now


@needs_redis
@pytest.mark.parametrize(
    "rest", ["clock", "context:ffeeddccbbaa", "lease:ffeeddccbbaa", "snapshot"]
)
@pytest.mark.parametrize("kind", ["hash", "list", "string"])
def test_what_somebody_else_has_put_in_its_place_is_not_there_for_ever(
    redis_server: RedisServer, rest: str, kind: str
) -> None:
    """Whatever its type is: the store works, and has its own there afterwards."""
    store = RedisStore(redis_server.url, deadline=PATIENT)
    key = f"shipsilently:{{{ENVIRONMENT}}}:{rest}"
    with redis.Redis.from_url(redis_server.url) as other:
        if kind == "hash":
            other.hset(key, "a", "b")
        elif kind == "list":
            other.rpush(key, "a")
        elif rest != "snapshot":
            other.set(key, "a")
    assert store.load(ENVIRONMENT) is None
    now = moment(store)
    look(store, lease=1.0)
    store.put(NAME, b"one", stamp=now)
    store.save(ENVIRONMENT, b"all")
    assert (store.load(ENVIRONMENT), look(store).data) == (b"all", b"one")
    assert moment(store) >= now
    store.close()


def test_what_is_refused_for_another_reason_stays_as_it_is() -> None:
    """A server that is short of memory, or allows too little, says so, and nothing is deleted."""
    asked: list[str] = []

    class Refusing:
        def __getattr__(self, name: str) -> Any:
            if name == "get_encoder":
                raise AttributeError(name)
            return lambda *given: self.refuse(name)

        def refuse(self, name: str) -> None:
            asked.append(name)
            raise redis.ResponseError("OOM command not allowed")

    store = RedisStore(Refusing())
    with pytest.raises(redis.ResponseError, match="OOM"):
        store.put(NAME, b"one", stamp=1.0)
    assert asked == ["evalsha"]


# What each shared store does.


def test_a_snapshot_comes_back_as_it_was(store: SharedStore) -> None:
    """What was saved last under a name is loaded, byte for byte, and nothing under another."""
    every_byte = bytes(range(256)) * 300
    assert store.load(ENVIRONMENT) is None
    store.save(ENVIRONMENT, b"before")
    store.save(ENVIRONMENT, every_byte)
    assert store.load(ENVIRONMENT) == every_byte
    assert store.load("another") is None


def test_the_first_who_asks_leads(store: SharedStore) -> None:
    """Of those who find nothing one leads, until the lease ends with an answer."""
    # Whatever else would be new enough: nothing is there.
    assert look(store, newer_than=-1.0, lease=60.0).leads
    assert not look(store, lease=60.0).leads
    assert not look(store).leads
    store.put(NAME, b"answer", stamp=moment(store))
    found = look(store, lease=60.0)
    assert (found.data, found.leads) == (b"answer", True)


def test_a_lease_ends_by_itself(store: SharedStore) -> None:
    """Who leads and never answers keeps the others for the time of the lease only."""
    assert look(store, lease=0.2).leads
    eventually(lambda: look(store, lease=60.0).leads, "another one leads")
    assert not look(store).leads


def test_a_lease_can_be_given_back(store: SharedStore) -> None:
    """Nothing put ends the lease, and leaves what is there."""
    store.put(NAME, b"answer", stamp=moment(store))
    assert look(store, lease=60.0).leads
    store.put(NAME, None, stamp=0.0)
    found = look(store, lease=60.0)
    assert (found.data, found.leads) == (b"answer", True)


def test_asking_without_a_lease_keeps_nobody(store: SharedStore) -> None:
    """Who wants no lease is told to lead, and so is the next."""
    assert look(store).leads
    assert look(store).leads


def test_who_finds_what_is_new_enough_need_not_ask(store: SharedStore) -> None:
    """A later stamp than that of the change is good enough; the same one is not."""
    stamp = moment(store)
    store.put(NAME, b"answer", stamp=stamp)
    assert not look(store, newer_than=stamp - 0.001, lease=60.0).leads
    assert not look(store, newer_than=-1.0, lease=60.0).leads
    assert look(store, newer_than=stamp, lease=60.0).leads


def test_what_is_too_old_has_to_be_asked_for(store: SharedStore) -> None:
    """A later stamp than that of the change does not count where it is older than allowed."""
    stamp = moment(store)
    store.put(NAME, b"answer", stamp=stamp - 100.0)
    assert not look(store, newer_than=-1.0, younger_than=200.0).leads
    found = look(store, newer_than=-1.0, younger_than=99.0, lease=60.0)
    assert (found.data, found.leads) == (b"answer", True)
    assert not look(store, newer_than=-1.0, younger_than=99.0, lease=60.0).leads


def test_an_older_answer_replaces_no_newer_one(store: SharedStore) -> None:
    """Of two answers that which was asked for later stays, in whatever order they come."""
    stamp = moment(store)
    store.put(NAME, b"newer", stamp=stamp)
    store.put(NAME, b"older", stamp=stamp - 0.001)
    assert look(store).data == b"newer"
    store.put(NAME, b"same moment", stamp=stamp)
    assert look(store).data == b"same moment"


def test_contexts_and_environments_are_kept_apart(store: SharedStore) -> None:
    """What is put or leased under one name is nothing to another."""
    store.put(NAME, b"answer", stamp=moment(store))
    assert look(store, lease=60.0).leads
    for other in (f"{ENVIRONMENT}/another", "another/ffeeddccbbaa"):
        found = look(store, other, lease=60.0)
        assert (found.data, found.leads) == (None, True)


def test_the_clock_of_a_look_is_the_stores(store: SharedStore) -> None:
    """The time that comes with a look lies between two readings of the clock."""
    before = moment(store)
    now = look(store).now
    assert now is not None
    assert before <= now <= moment(store)


def test_of_many_at_once_one_leads(store: SharedStore) -> None:
    """Of sixteen threads that find nothing at the same moment exactly one leads."""
    together = Barrier(16)

    def leads(_: int) -> bool:
        together.wait(10)
        return look(store, lease=60.0).leads

    with ThreadPoolExecutor(16) as pool:
        assert sum(pool.map(leads, range(16))) == 1


# What Redis does.


@pytest.fixture
def redis_store(redis_server: RedisServer) -> RedisStore:
    """A store with time."""
    return RedisStore(redis_server.url, deadline=PATIENT)


def use(store: SharedStore) -> None:
    """Every call of a store, once."""
    store.save(ENVIRONMENT, b"snapshot")
    store.load(ENVIRONMENT)
    found = look(store, lease=60.0)
    store.put(f"{ENVIRONMENT}/other", b"answer", stamp=found.now or 0.0)
    store.clock(ENVIRONMENT)


@needs_redis
def test_everything_in_redis_is_forgotten_some_day(redis_server: RedisServer) -> None:
    """Every key begins with the prefix and has a time to live."""
    use(RedisStore(redis_server.url, deadline=PATIENT, time_to_live=1_000, prefix="site"))
    with redis_server.client() as known:
        keys = sorted(known.keys())
        lives = [known.pttl(key) for key in keys]
    assert keys == [
        b"site:{%s}:%s" % (ENVIRONMENT.encode(), rest)
        for rest in (b"clock", b"context:other", b"lease:ffeeddccbbaa", b"snapshot")
    ]
    assert all(0 < life <= 2_000_000 for life in lives)


@needs_redis
def test_a_look_lets_a_context_live_on(redis_server: RedisServer) -> None:
    """Who looks for what has lived for more than half its time gives it the whole time again."""
    store = RedisStore(redis_server.url, deadline=PATIENT, time_to_live=1_000)
    store.put(NAME, b"answer", stamp=moment(store))
    key = f"shipsilently:{{{ENVIRONMENT}}}:context:ffeeddccbbaa"
    with redis_server.client() as known:
        for left, renewed in ((400_000, True), (600_000, False)):
            known.pexpire(key, left)
            look(store)
            life = known.pttl(key)
            assert (life > 900_000) is renewed


@needs_redis
def test_each_call_is_one_round_trip(redis_server: RedisServer) -> None:
    """Once the server knows the scripts, each call sends one command."""
    with redis_server.client() as known, redis_server.client() as mine:
        store = RedisStore(mine)
        use(store)
        commands: list[str] = []
        with known.monitor() as monitor:
            use(store)
            mine.echo("end")
            for seen in monitor.listen():
                if seen["command"].startswith("ECHO"):
                    break
                if seen["client_type"] != "lua":
                    commands.append(seen["command"].split()[0])
    assert commands == ["SET", "GET", "EVALSHA", "EVALSHA", "EVALSHA"]


@needs_redis
def test_a_server_that_lost_its_scripts_learns_them_again(
    redis_server: RedisServer, redis_store: RedisStore
) -> None:
    """Without its scripts every call works, and the next one needs one command again."""
    use(redis_store)
    with redis_server.client() as known:
        known.script_flush()
        use(redis_store)
        before = redis_server.calls("eval")
        use(redis_store)
    assert redis_server.calls("eval") == before


@needs_redis
def test_the_clock_never_goes_back(redis_server: RedisServer, redis_store: RedisStore) -> None:
    """Where the server's time is an hour earlier than it was, the store's goes on from there."""
    before = moment(redis_store)
    redis_store.put(NAME, b"answer", stamp=before)
    ahead = round((before + 3_600) * 1_000_000)
    with redis_server.client() as known:
        # As if an hour ago the server's clock, or another server's, had been an hour ahead.
        known.hset(f"shipsilently:{{{ENVIRONMENT}}}:clock", "until", str(ahead))
    readings = [moment(redis_store) for _ in range(20)]
    assert readings == sorted(readings)
    assert ahead <= readings[0] * 1_000_000 < ahead + 60_000_000
    eventually(lambda: moment(redis_store) > readings[0] + 0.02, "the clock goes on")
    assert look(redis_store, newer_than=readings[0]).leads, "an old answer has become new"
    redis_store.put(NAME, b"later", stamp=readings[-1])
    assert look(redis_store).data == b"later"


@needs_redis
def test_an_answer_from_the_future_is_in_nobodys_way(
    redis_server: RedisServer, redis_store: RedisStore
) -> None:
    """Where the clock's own memory is lost, a later stamp than now is not new, and is replaced."""
    now = moment(redis_store)
    redis_store.put(NAME, b"future", stamp=now + 3_600)
    assert look(redis_store, newer_than=now - 1).leads
    redis_store.put(NAME, b"present", stamp=now)
    found = look(redis_store, newer_than=now - 1)
    assert (found.data, found.leads) == (b"present", False)


@needs_redis
def test_a_client_of_ones_own_is_used_as_it_is(redis_server: RedisServer) -> None:
    """A client of redis-py's does what an address does, with the timeouts that it has."""
    with redis_server.client(client_name="mine", socket_timeout=7) as mine:
        store = RedisStore(mine, deadline=0.2)
        use(store)
        with redis_server.client() as known:
            names = [client["name"] for client in known.client_list()]
    assert "mine" in names
    assert store.deadline == 0.2


@needs_redis
def test_the_valkey_address_is_that_of_redis(redis_server: RedisServer) -> None:
    """valkey:// is another word for redis://."""
    use(RedisStore(redis_server.url.replace("redis://", "valkey://"), deadline=PATIENT))
    assert redis_server.calls("eval") == 3


FORKS = """
import os, sys, redis
from shipsilently_core.stores_redis import RedisStore

own = redis.Redis.from_url(sys.argv[1] if len(sys.argv) > 1 else os.environ["REDIS"])
stores = RedisStore(own, deadline=5), RedisStore(os.environ["REDIS"], deadline=5)
def use(who):
    for store in stores:
        for n in range(100):
            store.save(who, who.encode())
            assert store.load(who) == who.encode(), (who, store.load(who))
            store.clock(who)
use("parent")
parent = own.client_id()
children = []
for number in range(4):
    child = os.fork()
    if not child:
        use(f"child-{number}")
        os._exit(0 if own.client_id() != parent else 1)
    children.append(child)
use("parent")
assert own.client_id() == parent
assert all(os.waitpid(child, 0)[1] == 0 for child in children)
print("good")
"""


@needs_redis
def test_workers_use_connections_of_their_own(redis_server: RedisServer, tmp_path: Path) -> None:
    """A store that a master has used serves it and four forked workers, each on its own socket."""
    ended = run_script(FORKS, tmp_path, REDIS=redis_server.url)
    assert (ended.status, ended.output, ended.errors) == (0, "good\n", "")


GREENLETS = """
from gevent import monkey
monkey.patch_all()
import gevent, os
from shipsilently_core.stores_redis import RedisStore

store = RedisStore(os.environ["REDIS"], deadline=5)
def use(number):
    name = f"env/{number}"
    for n in range(10):
        found = store.get(name, newer_than=None, younger_than=1e9, lease=1.0)
        store.put(name, str(number).encode(), stamp=found.now)
        assert store.get(name, newer_than=None, younger_than=1.0, lease=0).data == b"%d" % number
    return True
jobs = [gevent.spawn(use, number) for number in range(40)]
gevent.joinall(jobs, timeout=20)
assert all(job.value for job in jobs)
print("good")
"""


@needs_redis
def test_greenlets_share_one_store(redis_server: RedisServer, tmp_path: Path) -> None:
    """Forty greenlets on one store get their own answers."""
    ended = run_script(GREENLETS, tmp_path, options=(), REDIS=redis_server.url)
    assert (ended.status, ended.output, ended.errors) == (0, "good\n", "")


@needs_redis
def test_a_server_that_does_not_answer_costs_the_deadline(
    redis_server: RedisServer, redis_store: RedisStore
) -> None:
    """Each call of a store made from an address gives up by itself, soon after its deadline."""
    store = RedisStore(redis_server.url, deadline=0.05)
    eventually(lambda: _works(store), "a call within the deadline")
    redis_server.hang()
    calls: list[Callable[[], object]] = [
        lambda: store.load(ENVIRONMENT),
        lambda: store.save(ENVIRONMENT, b"data"),
        lambda: look(store),
        lambda: store.put(NAME, None, stamp=0),
        lambda: store.clock(ENVIRONMENT),
    ]
    for call in calls:
        begin = time.monotonic()
        with pytest.raises(redis.TimeoutError):
            call()
        assert time.monotonic() - begin < 5.0
    redis_server.go_on()
    eventually(lambda: _works(store), "it works again")


def _works(store: SharedStore) -> bool:
    try:
        return store.clock(ENVIRONMENT) is not None
    except (redis.ConnectionError, redis.TimeoutError):
        return False


# What is wrong from the start.

PASSWORD = "s3cr3t-pa55word"
WRONG_ADDRESSES = [
    "redis://:{}@127.0.0.1:port/0",
    "redis://:{}@127.0.0.1:99999/0",
    "redis://:{}@127.0.0.1:6379/zero",
    "redis://:{}@127.0.0.1:6379/0/1",
    "redis://:{}@[::1/0",
    "redis://:{}@127.0.0.1:6379/0?unknown_option=1",
    "redis://:{}@127.0.0.1:6379/0?socket_timeout=soon",
    "redis://:{}@127.0.0.1:6379/0?protocol=9",
    "redis://:{}@127.0.0.1:6379/0?decode_responses=true",
    "rediss://:{}@127.0.0.1:6379/0?ssl_cert_reqs=perhaps",
    "http://:{}@127.0.0.1:6379/0",
]


@pytest.mark.parametrize("address", WRONG_ADDRESSES)
def test_a_wrong_address_is_told_at_start_up(address: str) -> None:
    """What is no address is told when the store is made, and the password is in no part of it."""
    given = address.format(PASSWORD)
    with pytest.raises(ConfigurationError, match=r"^store: ") as told:
        RedisStore(given)
    assert PASSWORD not in "".join(traceback.format_exception(told.value))
    assert told.value.__suppress_context__ or told.value.__context__ is None
    with pytest.raises(ConfigurationError, match=r"^store: "):
        Config(api_key="sk_local", store=given)


def clients() -> Iterator[tuple[str, Any, str]]:
    """What is no client that a store can use, and what is told of it."""
    yield "a class", redis.Redis, "address or a client"
    yield "a number", 7, "address or a client"
    yield "bytes", b"redis://127.0.0.1", "address or a client"
    yield "a pool", redis.ConnectionPool(), "address or a client"
    untyped: Any = redis.Sentinel
    yield "a sentinel", untyped([("127.0.0.1", 1)]), "master_for"
    yield "an async client", redis.asyncio.Redis(), "not an async one"
    yield "an async cluster", redis.asyncio.RedisCluster("127.0.0.1"), "not an async one"
    yield "a decoding client", redis.Redis(decode_responses=True), "decode_responses"
    yield "a pipeline", redis.Redis().pipeline(), "pipeline"


@pytest.mark.parametrize(("client", "told"), [pytest.param(c, t, id=n) for n, c, t in clients()])
def test_a_client_that_cannot_be_used_is_told_at_start_up(client: Any, told: str) -> None:
    """What is no blocking client that gives bytes is told when the store is made."""
    with pytest.raises(ConfigurationError, match=told):
        RedisStore(client)


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("deadline", 0),
        ("deadline", "1"),
        ("time_to_live", 0.5),
        ("time_to_live", math.inf),
        ("prefix", "{app}"),
        ("prefix", b"app"),
    ],
)
def test_wrong_settings_are_told_at_start_up(setting: str, value: Any) -> None:
    """A setting that cannot be meant is told by its name."""
    with pytest.raises(ConfigurationError, match=f"^store {setting}: "):
        RedisStore("redis://127.0.0.1", **{setting: value})


def test_nothing_shows_the_password() -> None:
    """Neither the store nor a configuration with it shows its address."""
    store = RedisStore(f"redis://user:{PASSWORD}@127.0.0.1:1/0")
    config = Config(api_key="sk_local", store=store)
    shown = f"{store!r} {store} {config!r} {config}"
    assert PASSWORD not in shown
    assert "127.0.0.1:1" not in shown


def test_a_missing_library_is_told_at_start_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without redis-py the error says what to install."""
    monkeypatch.setitem(sys.modules, "redis", None)
    with pytest.raises(ConfigurationError, match=r"pip install redis"):
        Config(api_key="sk_local", store="redis://127.0.0.1")


@pytest.mark.parametrize(
    "address",
    [
        "redis://",
        "redis://127.0.0.1",
        "redis://127.0.0.1:6379/3",
        "redis://[::1]:6379/?db=3",
        "rediss://user:pass@127.0.0.1:6379/0?ssl_cert_reqs=none",
        "unix:///run/redis.sock?db=1",
        "valkey://127.0.0.1:6379/0",
        "valkeys://127.0.0.1:6379/0",
    ],
)
def test_making_a_store_opens_nothing(address: str) -> None:
    """Whatever redis-py takes for an address is one, whether anybody listens there or not."""
    assert Config(api_key="sk_local", store=address).store.deadline == 0.05


@needs_redis
def test_a_server_that_wants_a_password_gets_it(tmp_path: Path) -> None:
    """The address's password is used; a wrong one is an error without it."""
    with RedisServer(tmp_path, "--requirepass", PASSWORD) as server:
        right = server.url.replace("//", f"//:{PASSWORD}@")
        use(RedisStore(right, deadline=PATIENT))
        wrong = RedisStore(server.url.replace("//", "//:another@"), deadline=PATIENT)
        with pytest.raises(redis.AuthenticationError) as told:
            wrong.load(ENVIRONMENT)
        assert "another" not in str(told.value)


@needs_redis
def test_a_stale_connection_is_made_anew(redis_server: RedisServer) -> None:
    """A connection that the server has closed meanwhile costs no call."""
    mine = redis.Redis.from_url(
        redis_server.url, socket_timeout=PATIENT, retry=Retry(NoBackoff(), 0)
    )
    for store in (RedisStore(redis_server.url, deadline=PATIENT), RedisStore(mine)):
        use(store)
        with redis_server.client() as known:
            known.client_kill_filter(_type="normal", skipme=True)
        use(store)
    mine.close()


@needs_redis
def test_after_a_failover_the_address_is_looked_up_anew(redis_server: RedisServer) -> None:
    """A server that has become a replica takes nothing: its connection is not kept."""
    store = RedisStore(redis_server.url, deadline=PATIENT)
    theirs = redis_server.client()
    given = RedisStore(theirs)
    for one in (store, given):
        use(one)
    before = (store._redis.client_id(), theirs.client_id())
    with redis_server.client() as admin:
        admin.replicaof("127.0.0.1", 1)
        for one in (store, given):
            with pytest.raises(redis.ReadOnlyError):
                one.save(ENVIRONMENT, b"data")
        admin.replicaof("NO", "ONE")
    use(store)
    after = (store._redis.client_id(), theirs.client_id())
    theirs.close()
    assert after[0] != before[0]
    # That of somebody else is their own matter.
    assert after[1] == before[1]
