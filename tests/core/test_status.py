"""What a client tells of itself: each field, in good and in bad times."""

from __future__ import annotations

import time
from pathlib import Path

import msgspec
import pytest

from shipsilently_core import ConnectionState, Failure, FailureReport, Status
from tests.core.running import eventually, running
from tests.core.support import setup
from tests.servers.harness import local_service, run_script

U1 = {"userId": "u1"}
NOW = 1_800_000_000.0


def test_a_new_client_knows_nothing() -> None:
    """Each field before anything has happened; asking changes none of it."""
    made = setup({"a": 1})
    first = made.client.status()
    assert first == Status(
        state=ConnectionState.IDLE,
        since=None,
        ready=False,
        last_success=None,
        age=None,
        contexts=0,
        attempts=0,
        failures={},
        gate=None,
        cool_down=0.0,
        retry_after=0.0,
        buffered_events=0,
        dropped_events=0,
        last_error=None,
        pid=first.pid,
    )
    assert made.client.status() == first
    assert made.service.requests == []


def test_it_follows_an_outage_and_the_recovery() -> None:
    """Successes, failures by class, the gate, its probe, events, and the last error."""
    made = setup({"a": 1}, analytics={"max_buffer_size": 3})
    made.client.evaluate_all(U1)
    made.clock.advance(10)
    good = made.client.status()
    assert (good.attempts, good.failures, good.contexts) == (1, {}, 1)
    assert (good.last_success, good.age) == (NOW, 10)

    made.service.fail(503)
    for number in range(3):
        made.client.evaluate("a", {"userId": f"u{number}"}, 0)
    made.service.fail(failure=Failure.TIMEOUT)
    for number in range(2):
        made.client.evaluate("a", {"userId": f"u{number}"}, 0)
    bad = made.client.status()
    assert (bad.attempts, bad.contexts) == (6, 1)
    assert bad.failures == {Failure.SERVER: 3, Failure.TIMEOUT: 2}
    assert (bad.last_success, bad.age) == (NOW, 10)
    assert bad.gate is Failure.TIMEOUT
    assert bad.cool_down > 0
    assert (bad.buffered_events, bad.dropped_events) == (3, 2)
    assert bad.last_error == FailureReport(
        Failure.TIMEOUT, None, "a", "the service did not answer in time"
    )
    made.clock.advance(bad.cool_down)
    assert made.client.status().cool_down == 0

    made.service.recover()
    made.client.evaluate_all(U1)
    after = made.client.status()
    assert (after.gate, after.cool_down, after.age) == (None, 0.0, 0.0)
    assert after.attempts == 7
    assert after.last_error == bad.last_error
    assert made.client.flush() == 3
    assert made.client.status().buffered_events == 0
    assert made.client.status().dropped_events == 2


def test_it_tells_what_is_left_of_a_pause() -> None:
    """`Retry-After`, counting down; what may not be asked is no attempt."""
    made = setup({"a": 1})
    made.service.fail(429, headers={"retry-after": "30"}, times=1)
    made.client.evaluate("a", U1, 0)
    assert made.client.status().retry_after == 30
    made.clock.advance(12)
    made.client.evaluate("a", U1, 0)
    status = made.client.status()
    assert (status.retry_after, status.attempts) == (18, 1)
    assert status.last_error is not None
    assert (status.last_error.failure, status.last_error.status) == (Failure.THROTTLED, 429)


def test_an_unknown_flag_is_an_answer() -> None:
    """A 404 is a success of the service, not a failure of it."""
    made = setup({"a": 1})
    made.client.evaluate("none", U1, 0)
    status = made.client.status()
    assert (status.attempts, status.failures, status.last_error) == (1, {}, None)
    assert status.last_success == NOW


def test_a_clock_that_was_set_back_makes_no_negative_age() -> None:
    """Wall clocks jump."""
    made = setup({"a": 1})
    made.client.evaluate_all(U1)
    made.clock.advance(-100)
    assert made.client.status().age == 0


def test_it_follows_the_connection() -> None:
    """State, since when, and whether the baseline is known."""
    with running() as run:
        live = run.client.status()
        assert (live.state, live.since, live.ready) == (ConnectionState.STREAMING, NOW, True)
        run.clock.advance(5)
        run.service.fail(500)
        run.service.drop_streams()
        run.is_in(ConnectionState.RECONNECTING)
        eventually(lambda: run.client.status().since == run.clock.time())
        assert run.client.status().ready
        run.service.recover()
        run.clock.advance(5)
        run.is_in(ConnectionState.STREAMING)
        eventually(lambda: run.client.status().since == run.clock.time())
    assert run.client.status().state is ConnectionState.IDLE


def test_it_is_frozen_and_becomes_json() -> None:
    """A picture of one moment, for logs and pages."""
    made = setup({"a": 1})
    made.service.fail(401)
    made.client.evaluate("a", U1, 0)
    status = made.client.status()
    with pytest.raises(AttributeError):
        status.attempts = 7  # type: ignore[misc]  # that is the point
    status.failures.clear()
    assert made.client.status().failures == {Failure.AUTH: 1}
    again = msgspec.json.decode(msgspec.json.encode(made.client.status()))
    assert again["failures"] == {"auth": 1}
    assert again["last_error"] == {
        "failure": "auth",
        "status": 401,
        "flag_key": "a",
        "message": "the service refused the API key (HTTP 401)",
    }


def test_it_is_cheap() -> None:
    """Ten thousand looks take less than a health check may."""
    made = setup({"a": 1})
    made.client.evaluate_all(U1)
    begin = time.perf_counter()
    for _ in range(10_000):
        made.client.status()
    assert time.perf_counter() - begin < 5


FORKED = """
import os
from shipsilently_core import ShipSilentlyClient

client = ShipSilentlyClient(timeout=10, background=False, analytics={"max_buffer_size": 1})
client.evaluate_all()
for _ in range(3):
    client.get("who", "")
child = os.fork()
if child:
    os.waitpid(child, 0)
status = client.status()
assert status.pid == os.getpid()
told = [status.attempts, status.dropped_events, status.buffered_events, status.contexts]
os.write(1, f"{'parent' if child else 'child'} {told} {status.state}\\n".encode())
if not child:
    os._exit(0)
"""


def test_a_forked_child_tells_of_itself(tmp_path: Path) -> None:
    """Its own process, no calls and no events yet, and what its parent knew."""
    with local_service() as service:
        ended = run_script(FORKED, tmp_path, service)
    assert (ended.status, ended.errors) == (0, "")
    assert ended.output.splitlines() == ["child [0, 0, 0, 1] idle", "parent [1, 2, 1, 1] idle"]
