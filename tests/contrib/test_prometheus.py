"""Prometheus: the collector."""

from __future__ import annotations

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from shipsilently_core import ShipSilentlyClient
from shipsilently_core.contrib.prometheus import ClientCollector
from shipsilently_core.stores import MemoryStore
from tests.core.running import eventually, running
from tests.core.support import setup

U1 = {"userId": "ada@example.org"}


class FullStore(MemoryStore):
    """A store without room."""

    def load(self, name: str) -> bytes | None:
        """Nothing."""
        raise OSError(28, "No space left on device")


def scraped(registry: CollectorRegistry) -> dict[str, str]:
    """Each sample's value by its name and labels."""
    lines = generate_latest(registry).decode().splitlines()
    return dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))


def test_a_scrape_shows_the_status() -> None:
    """Each metric with its value; those of what never happened are left out."""
    made = setup({"a": 1}, analytics={"max_buffer_size": 2})
    registry = CollectorRegistry()
    registry.register(ClientCollector(made.client))
    before = scraped(registry)
    assert before["shipsilently_attempts_total"] == "0.0"
    assert before['shipsilently_state{state="idle"}'] == "1.0"
    assert before['shipsilently_state{state="streaming"}'] == "0.0"
    assert not {"shipsilently_age_seconds", "shipsilently_last_success_timestamp_seconds"} & set(
        before
    )

    made.client.evaluate_all(U1)
    made.clock.advance(7)
    made.service.fail(429, headers={"retry-after": "30"}, times=1)
    for _ in range(3):
        made.client.evaluate("a", U1, 0)
    after = scraped(registry)
    assert after["shipsilently_attempts_total"] == "2.0"
    assert after['shipsilently_failures_total{failure="throttled"}'] == "1.0"
    assert after["shipsilently_age_seconds"] == "7.0"
    assert after["shipsilently_last_success_timestamp_seconds"] == "1.8e+09"
    assert after["shipsilently_retry_after_seconds"] == "30.0"
    assert after["shipsilently_contexts"] == "1.0"
    assert after["shipsilently_ready"] == "0.0"
    assert after["shipsilently_gate_closed"] == "0.0"
    assert after["shipsilently_events_buffered"] == "2.0"
    assert after["shipsilently_events_dropped_total"] == "1.0"


def test_registering_does_not_look_at_the_client() -> None:
    """A function that gives the client is first called by a scrape; the prefix can be chosen."""
    asked: list[str] = []

    def present() -> ShipSilentlyClient:
        asked.append("now")
        return setup().client

    registry = CollectorRegistry()
    registry.register(ClientCollector(present, prefix="flags"))
    assert asked == []
    assert scraped(registry)["flags_attempts_total"] == "0.0"
    assert asked == ["now"]


def test_nothing_is_shown_twice() -> None:
    """A second collector is refused, as any metric is, unless it has another prefix."""
    registry = CollectorRegistry()
    registry.register(ClientCollector(setup().client))
    with pytest.raises(ValueError, match="Duplicated timeseries"):
        registry.register(ClientCollector(setup(store=MemoryStore()).client))
    registry.register(ClientCollector(setup().client, prefix="other"))
    assert generate_latest(registry).decode().count("# TYPE shipsilently_ready ") == 1


def test_some_of_the_metrics_can_be_asked_for() -> None:
    """As with ``/metrics?name[]=shipsilently_ready``; also one that has something to tell later."""
    made = setup({"a": 1})
    registry = CollectorRegistry()
    registry.register(ClientCollector(made.client))
    some = registry.restricted_registry(["shipsilently_ready", "shipsilently_age_seconds"])
    assert b"shipsilently_age_seconds" not in generate_latest(some)
    made.client.evaluate_all(U1)
    lines = generate_latest(some).decode().splitlines()
    assert [line for line in lines if not line.startswith("#")] == [
        "shipsilently_ready 0.0",
        "shipsilently_age_seconds 0.0",
    ]


def test_a_scrape_shows_the_store_where_there_is_one() -> None:
    """Whether it works, when something was saved, and when it is tried again."""
    registry = CollectorRegistry()
    registry.register(ClientCollector(setup().client))
    assert not [name for name in scraped(registry) if "store" in name]

    with running({"a": 1}, store=MemoryStore()) as run:
        registry = CollectorRegistry()
        registry.register(ClientCollector(run.client))
        saved = "shipsilently_store_saved_timestamp_seconds"
        eventually(lambda: saved in scraped(registry))
        found = scraped(registry)
        assert found['shipsilently_store_up{kind="MemoryStore"}'] == "1.0"
        assert found[saved] == "1.8e+09"
        assert found["shipsilently_store_cool_down_seconds"] == "0.0"
        assert found["shipsilently_store_contexts"] == "0.0"

    made = setup(store=FullStore())
    made.client.flags(U1).get("a", 0)
    registry = CollectorRegistry()
    registry.register(ClientCollector(made.client))
    found = scraped(registry)
    assert found['shipsilently_store_up{kind="FullStore"}'] == "0.0"
    assert float(found["shipsilently_store_cool_down_seconds"]) > 0
