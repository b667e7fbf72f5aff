"""The model of a large fleet says what a small one really does."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import pytest
from click.testing import CliRunner

from benchmarks import fleet as real
from benchmarks.fleet_model import (
    Fleet,
    allotted,
    bytes_in_redis,
    bytes_per_context,
    main,
    play,
)
from shipsilently_core import ShipSilentlyClient, _consult, _evaluation
from shipsilently_core.stores import MemoryStore
from shipsilently_core.stores_redis import RedisStore
from tests.stores.redis_server import RedisServer, needs_redis

#: By how much the model's figures may differ from the real ones: a tenth, and a few.
SHARE, FEW = 0.1, 6


def about(figure: float) -> object:
    """Equal to what is near."""
    return pytest.approx(figure, rel=SHARE, abs=FEW)


def test_the_model_has_the_clients_own_times() -> None:
    """Lease, patience and pauses of the model are those of the code."""
    with closing(
        ShipSilentlyClient(api_key="sk_local", api_url="http://127.0.0.1:1", store=MemoryStore())
    ) as client:
        evaluator = client.evaluator
        assert evaluator.keeper is not None
        assert evaluator.keeper._lease == Fleet.lease
        assert client.config.timeout * _evaluation._PATIENCE == Fleet.patience
        assert Fleet.pauses == (_consult._PAUSE, _consult._LONGEST_PAUSE)


@needs_redis
def test_the_model_says_what_real_processes_do(redis_server: RedisServer) -> None:
    """Three processes and fifty users make as many calls, to the service and to the store, as the
    model says."""
    fleet = Fleet(
        workers=3, users=50, rate=60.0, rounds=True, seconds=3.0, spread=0.02, latency=0.022
    )
    for store, modelled in zip((None, redis_server.url), play(fleet), strict=True):
        (change,) = real.measure(store, workers=3, users=50, rate=60.0, changes=1, latency=0.02)
        assert change.calls == about(modelled.calls_within(3.0))
        assert change.baseline == about(modelled.baseline)
        assert change.operations == about(sum(modelled.operations))


def test_new_processes_can_be_measured() -> None:
    """While the service is down a new process is right with a file, and not without one."""
    table = real.cold_starts(None, 1)
    rows = list(zip(*(column.cells for column in table.columns), strict=True))
    rights = [(row[0], row[2], row[4]) for row in rows]
    assert rights == [("none", "1 of 1", "0 of 1"), ("a file", "1 of 1", "1 of 1")]


def test_a_store_saves_what_it_is_said_to_save() -> None:
    """Of eight processes and two hundred users 1,600 calls come without a store, and with one
    hardly more than two hundred."""
    without, shared = play(
        Fleet(workers=8, users=200, rate=50.0, rounds=True, seconds=9.0, spread=0.01)
    )
    assert without.calls_within(9.0) == 1_600
    assert 200 <= shared.calls_within(9.0) <= 220
    assert without.most == 8
    assert (without.baseline, sum(without.operations)) == (8, 0)
    assert shared.baseline <= 4
    assert shared.given_up == 0


def test_a_crowd_of_one_user_costs_a_few_calls() -> None:
    """A hundred processes that all serve one user at once ask for it a few times in all."""
    without, shared = play(Fleet(workers=100, users=1, rate=100.0, seconds=2.0))
    assert without.most == 100
    assert shared.most <= 10


def test_a_service_that_is_slower_than_the_lease_is_asked_by_more() -> None:
    """Where an evaluation takes longer than the lease others take over, and nobody waits for
    longer than the patience and what it takes then."""
    _, shared = play(Fleet(workers=20, users=5, rate=20.0, seconds=5.0, latency=1.5))
    assert shared.most > 1
    assert shared.given_up > 0
    with_time = play(Fleet(workers=20, users=5, rate=20.0, seconds=5.0, latency=0.02))[1]
    assert with_time.given_up == 0


def test_the_same_seed_gives_the_same_fleet() -> None:
    """A run can be repeated to the last call, and another seed is another run."""
    fleet = Fleet(workers=10, users=50, rate=10.0, seconds=3.0)
    assert play(fleet) == play(fleet)
    assert play(fleet) != play(Fleet(workers=10, users=50, rate=10.0, seconds=3.0, seed=2))


@needs_redis
@pytest.mark.parametrize("length", [250, 700, 2_300])
def test_the_memory_is_what_redis_takes(redis_server: RedisServer, length: int) -> None:
    """A context takes as many bytes in Redis as the model says."""
    store, count = RedisStore(redis_server.url, deadline=5.0), 1_000
    with redis_server.client() as known:
        store.clock("environment-20-chars")
        before: Any = known.info("memory")
        for number in range(count):
            store.put(f"environment-20-chars/{number:040}", bytes(length), stamp=1.0)
        after: Any = known.info("memory")
    taken = (after["used_memory"] - before["used_memory"]) / count
    assert taken == pytest.approx(bytes_in_redis(length), rel=0.2)


def test_memory_is_given_out_in_steps() -> None:
    """Sizes are rounded up to those that jemalloc has."""
    given = [allotted(size) for size in (1, 16, 17, 277, 659, 2_234)]
    assert given == [16, 16, 32, 320, 768, 2_560]
    assert bytes_per_context(10) < bytes_per_context(50) < bytes_per_context(200)


def test_the_model_prints_its_tables() -> None:
    """The command prints both tables for the fleet that its options describe."""
    given = ["--workers", "5", "--users", "50", "--seconds", "2", "--rate", "30", "--skew", "0.5"]
    shown = CliRunner().invoke(main, given, env={"COLUMNS": "120"})
    assert shown.exit_code == 0, shown.output
    assert "5 processes, 50 users, 150 requests/s" in shown.output
    assert "What Redis has to take" in shown.output
