"""The store in Redis behind TLS, on a Unix socket, with a Sentinel, and in a cluster."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from shipsilently_core import ShipSilentlyClient
from shipsilently_core.stores_redis import RedisStore
from shipsilently_local import LocalService
from tests.core.certificate import make_certificate
from tests.ports import free_port
from tests.servers.harness import eventually
from tests.stores.redis_server import PROGRAM, RedisServer, needs_redis
from tests.stores.test_redis import ENVIRONMENT, NAME, PATIENT, look, moment, use

pytestmark = needs_redis

NO_RETRY = Retry(NoBackoff(), 0)


def round_trip(store: RedisStore, environment: str = ENVIRONMENT) -> None:
    """Everything of one context: miss, lease, answer, hit."""
    name = f"{environment}/ffeeddccbbaa"
    before = store.clock(environment)
    found = look(store, name, lease=60.0)
    assert found.leads
    assert not look(store, name, lease=60.0).leads
    store.put(name, b"answer", stamp=found.now or 0.0)
    again = look(store, name, newer_than=before - 0.001)
    assert (again.data, again.leads) == (b"answer", False)
    store.save(environment, environment.encode())
    assert store.load(environment) == environment.encode()


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A key and a certificate for 127.0.0.1, in one file."""
    file = tmp_path_factory.mktemp("tls") / "both.pem"
    file.write_text(make_certificate(), encoding="ascii")
    return file


@pytest.fixture
def tls_server(certificate: Path, tmp_path: Path) -> Iterator[RedisServer]:
    """A server that speaks TLS only, where it was built with it."""
    with contextlib.ExitStack() as stack:
        server = RedisServer(tmp_path, tls=certificate)
        try:
            stack.enter_context(server)
        except AssertionError as error:
            if "tls" in str(error).lower():
                pytest.skip(f"{PROGRAM} was built without TLS")
            raise
        yield server


def test_redis_behind_tls(tls_server: RedisServer) -> None:
    """rediss:// and a file of certificates are all that TLS needs."""
    store = RedisStore(tls_server.url, deadline=PATIENT)
    use(store)
    round_trip(store, "tls")


def test_a_certificate_that_nobody_vouches_for_is_refused(
    tls_server: RedisServer, service: LocalService, caplog: pytest.LogCaptureFixture
) -> None:
    """Without the certificate's authority nothing is sent, and flags come from the service."""
    url = tls_server.url.partition("?")[0].replace("//", "//:s3cr3t@")
    store = RedisStore(url, deadline=PATIENT)
    with caplog.at_level(logging.INFO):
        client = ShipSilentlyClient(api_key=service.key, api_url=service.url, store=store)
        assert client.flags({"userId": "user-1"}).get("who", "nobody") == "user-1"
        client.close()
    status = client.status().store
    assert status is not None
    assert status.error == "ConnectionError"
    assert "s3cr3t" not in caplog.text
    assert tls_server.calls("evalsha") + tls_server.calls("eval") == 0


def test_redis_on_a_unix_socket(tmp_path: Path) -> None:
    """unix:// names the socket's file."""
    with RedisServer(tmp_path, "--unixsocket", "redis.sock"):
        round_trip(RedisStore(f"unix://{tmp_path}/redis.sock", deadline=PATIENT))


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[tuple[RedisServer, RedisServer, RedisServer]]:
    """A master, a replica of it, and a Sentinel that looks after them."""
    with contextlib.ExitStack() as stack:

        def start(name: str, *options: str, mode: str = "") -> RedisServer:
            folder = tmp_path / name
            folder.mkdir()
            configuration = folder / "redis.conf"
            configuration.touch()
            server = RedisServer(folder, *options, configuration=configuration, mode=mode)
            return stack.enter_context(server)

        master = start("master")
        replica = start("replica", "--replicaof", f"127.0.0.1 {master.port}")
        sentinel = start("sentinel", mode="--sentinel")
        with sentinel.client() as known:
            known.sentinel_monitor("flags", "127.0.0.1", master.port, 1)
            known.sentinel_set("flags", "down-after-milliseconds", 500)
            known.sentinel_set("flags", "failover-timeout", 3000)
            eventually(
                lambda: known.sentinel_master("flags")["num-slaves"] == 1, "the replica is known"
            )
        yield master, replica, sentinel


def test_a_sentinels_master_is_used_and_after_its_death_the_next(
    guarded: tuple[RedisServer, RedisServer, RedisServer],
) -> None:
    """The store follows its Sentinel to the new master, with what was kept and a clock that
    does not go back."""
    master, replica, sentinel = guarded
    untyped: Any = redis.Sentinel
    watch = untyped([("127.0.0.1", sentinel.port)], socket_timeout=PATIENT)
    mine = watch.master_for("flags", socket_timeout=PATIENT, retry=NO_RETRY)
    store = RedisStore(mine)
    round_trip(store)
    before = moment(store)
    with replica.client() as known, master.client() as old:
        eventually(
            lambda: known.info("replication")["master_link_status"] == "up", "the replica is linked"
        )
        # What was kept so far has arrived there.
        assert old.wait(1, 10_000) == 1
    master.kill()

    def follows() -> bool:
        with contextlib.suppress(redis.RedisError):
            return look(store, newer_than=0.0).data == b"answer"
        return False

    eventually(follows, "the replica is used", timeout=30)
    assert replica.calls("eval") + replica.calls("evalsha") > 0
    assert moment(store) > before
    round_trip(store, "after")
    mine.close()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[list[RedisServer]]:
    """Three masters that share the slots."""
    with contextlib.ExitStack() as stack:
        servers, buses = [], [free_port() for _ in range(3)]
        for number, bus in enumerate(buses):
            folder = tmp_path / str(number)
            folder.mkdir()
            options = ("--cluster-enabled", "yes", "--cluster-port", str(bus))
            servers.append(stack.enter_context(RedisServer(folder, *options)))
        known = [stack.enter_context(server.client()) for server in servers]
        for number, node in enumerate(known):
            first, last = 5_500 * number, min(5_500 * number + 5_499, 16_383)
            node.execute_command("CLUSTER", "ADDSLOTS", *range(first, last + 1))
            node.execute_command("CLUSTER", "SET-CONFIG-EPOCH", number + 1)
        for server, bus in zip(servers[1:], buses[1:], strict=True):
            known[0].execute_command("CLUSTER", "MEET", "127.0.0.1", server.port, bus)

        def agree() -> bool:
            infos: list[Any] = [node.execute_command("CLUSTER INFO") for node in known]
            return all(
                info["cluster_state"] == "ok" and info["cluster_known_nodes"] == "3"
                for info in infos
            )

        eventually(agree, "the cluster is made", timeout=30)
        yield servers


def test_a_cluster_keeps_an_environment_in_one_place(cluster: list[RedisServer]) -> None:
    """In a cluster each environment's keys are on one node, and environments are spread."""
    mine = redis.RedisCluster(
        host="127.0.0.1", port=cluster[0].port, socket_timeout=PATIENT, decode_responses=False
    )
    store = RedisStore(mine)
    environments = [f"environment-{number}" for number in range(30)]
    for environment in environments:
        round_trip(store, environment)
    places = []
    for server in cluster:
        keys = b" ".join(server.dump())
        places.append({name for name in environments if b"{%s}" % name.encode() in keys})
    assert sorted(name for place in places for name in place) == sorted(environments)
    assert all(places), "one node has them all"
    assert look(store, NAME).data is None
    mine.close()
