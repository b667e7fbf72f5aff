"""What a health check answers."""

from __future__ import annotations

import json
from typing import Any

import pytest

from shipsilently_core import ConnectionState, ShipSilentlyClient
from shipsilently_core.contrib.health import health
from shipsilently_core.stores import MemoryStore
from tests.core.running import running
from tests.core.support import setup

U1 = {"userId": "u1"}


def look(client: ShipSilentlyClient, **arguments: Any) -> tuple[int, str, dict[str, Any]]:
    """The status, what is served, and the whole body."""
    status, body = health(client, **arguments)
    told = json.loads(body)
    return status, told["serving"], told


def test_a_process_that_was_never_asked_is_healthy() -> None:
    """Otherwise nobody would ever send it a request; and looking asks and starts nothing."""
    made = setup({"a": 1})
    assert look(made.client)[:2] == (200, "nothing_yet")
    assert made.service.requests == []
    assert made.client.connection_state is ConnectionState.IDLE


@pytest.mark.parametrize("state", ["streaming", "polling"])
def test_a_live_client_is_healthy(state: str) -> None:
    """While it streams, and while it polls."""
    with running(streaming=state == "streaming") as run:
        status, serving, told = look(run.client)
        assert (status, serving, told["state"]) == (200, "values", state)
        assert told["ready"] is True


def test_an_outage_with_values_known_is_healthy() -> None:
    """Last known good values are served, and what is wrong is told."""
    with running() as run:
        run.service.fail(503)
        run.service.drop_streams()
        run.is_in(ConnectionState.RECONNECTING)
        run.client.evaluate("a", U1, 0)
        status, serving, told = look(run.client)
        assert (status, serving) == (200, "values")
        assert told["last_error"]["status"] == 503


def test_only_defaults_are_unhealthy_until_the_service_answers() -> None:
    """A start during an outage is a 503, or what was chosen; the first success ends it."""
    made = setup({"a": 1})
    made.service.fail(503)
    made.client.flags(U1).get("a", 0)
    assert look(made.client)[:2] == (503, "defaults")
    assert look(made.client, unavailable=200)[:2] == (200, "defaults")
    made.service.recover()
    made.clock.advance(60)
    made.client.flags(U1).get("a", 0)
    assert look(made.client)[:2] == (200, "values")


def test_a_closed_client_that_knows_nothing_is_unhealthy() -> None:
    """As where the settings are wrong: it will never know anything."""
    made = setup()
    made.client.close()
    assert look(made.client)[:2] == (503, "defaults")


def test_what_was_shipped_with_the_app_is_healthy() -> None:
    """It is served as was meant, in an outage and where no service is asked at all."""
    made = setup(bootstrap={"a": {"value": 1}})
    made.service.fail(503)
    assert look(made.client)[:2] == (200, "nothing_yet")
    made.client.flags(U1).get("a", 0)
    assert look(made.client)[:2] == (200, "bootstrap")
    made.client.close()
    assert look(made.client)[:2] == (200, "bootstrap")


def test_the_store_is_told() -> None:
    """Its kind and how it does; what an earlier process knew counts as values."""
    store = MemoryStore()
    with running({"a": 1}, store=store) as run:
        run.client.flags(U1).get("a", 0)
    made = setup(store=store)
    made.service.fail(503)
    assert look(made.client)[2]["store"]["loaded"] is False
    assert made.client.flags(U1).get("a", 0) == 1
    status, serving, told = look(made.client)
    assert (status, serving) == (200, "values")
    assert told["store"]["kind"] == "MemoryStore"
    assert (told["store"]["loaded"], told["store"]["error"]) == (True, None)


def test_the_body_is_the_status() -> None:
    """Every field of it, as JSON."""
    made = setup({"a": 1})
    made.client.evaluate_all(U1)
    made.service.fail(401)
    made.client.evaluate("a", U1, 0)
    _, _, told = look(made.client)
    assert set(told) == {"serving", *made.client.status().__struct_fields__}
    assert told["failures"] == {"auth": 1}
    assert told["contexts"] == 1
