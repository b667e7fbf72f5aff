"""Prometheus: a collector that reads the client's status when it is scraped.

from prometheus_client import REGISTRY
from shipsilently_core.contrib.prometheus import ClientCollector

REGISTRY.register(ClientCollector(client))
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from shipsilently_core.values import ConnectionState, Status, StoreStatus

from ._shared import CALL_FAILURES, AnyClient, status_of

__all__ = ["ClientCollector"]


#: One of which every metric has something to tell.
_EVERYTHING: Final = Status(
    state=ConnectionState.IDLE,
    since=None,
    ready=False,
    last_success=0.0,
    age=0.0,
    contexts=0,
    attempts=0,
    failures={},
    gate=None,
    cool_down=0.0,
    retry_after=0.0,
    buffered_events=0,
    dropped_events=0,
    last_error=None,
    pid=0,
    store=StoreStatus("", loaded=True, contexts=0, saved=0.0, error=None, cool_down=0.0),
)


class ClientCollector(Collector):
    """The status of a client as metrics; collecting asks the service nothing.

    They are those of this process: where several serve, scrape each. A registry takes one
    collector with the same prefix: a second one is refused with a `ValueError`.

    Args:
        client: The client, or a function that gives the present one.
        prefix: What the names begin with; another one for each client of the process.
    """

    def __init__(self, client: AnyClient, *, prefix: str = "shipsilently") -> None:
        self._status = status_of(client)
        self._prefix = prefix

    def describe(self) -> list[Metric]:
        """The names of all metrics that there may be, without a look at the client.

        By them a registry knows what was registered before, and which metrics to collect where
        only some are asked for.
        """
        return list(self._metrics(_EVERYTHING))

    def collect(self) -> Iterator[Metric]:
        """Every metric, as of one moment."""
        return self._metrics(self._status())

    def _metrics(self, status: Status) -> Iterator[Metric]:
        prefix = self._prefix
        yield CounterMetricFamily(
            f"{prefix}_attempts", "Calls for evaluations that were carried out", status.attempts
        )
        failures = CounterMetricFamily(
            f"{prefix}_failures", "Calls for evaluations that failed", labels=["failure"]
        )
        for failure in CALL_FAILURES:
            failures.add_metric([failure.value], status.failures.get(failure, 0))
        yield failures
        states = GaugeMetricFamily(
            f"{prefix}_state", "1 for the state that the connection is in", labels=["state"]
        )
        for state in ConnectionState:
            states.add_metric([state.value], status.state is state)
        yield states
        gauges: list[tuple[str, str, float | None]] = [
            ("ready", "Whether the baseline has been evaluated", status.ready),
            (
                "last_success_timestamp_seconds",
                "When an evaluation last succeeded",
                status.last_success,
            ),
            ("age_seconds", "Time since an evaluation last succeeded", status.age),
            ("contexts", "Contexts that are held", status.contexts),
            ("gate_closed", "Whether requests are kept from asking", status.gate is not None),
            ("cool_down_seconds", "Time until a closed gate is tried", status.cool_down),
            ("retry_after_seconds", "Time that the service asked to wait", status.retry_after),
            ("events_buffered", "Analytics events that wait for delivery", status.buffered_events),
        ]
        for name, help_text, value in gauges:
            if value is not None:
                yield GaugeMetricFamily(f"{prefix}_{name}", help_text, value)
        yield CounterMetricFamily(
            f"{prefix}_events_dropped", "Analytics events that were lost", status.dropped_events
        )
        if status.store is not None:
            yield from self._of_store(status.store)

    def _of_store(self, store: StoreStatus) -> Iterator[Metric]:
        prefix = f"{self._prefix}_store"
        works = GaugeMetricFamily(f"{prefix}_up", "1 while the store works", labels=["kind"])
        works.add_metric([store.kind], store.error is None)
        yield works
        if store.saved is not None:
            yield GaugeMetricFamily(
                f"{prefix}_saved_timestamp_seconds", "When something was last saved", store.saved
            )
        yield GaugeMetricFamily(
            f"{prefix}_cool_down_seconds", "Time until the store is tried again", store.cool_down
        )
        yield GaugeMetricFamily(
            f"{prefix}_contexts", "Contexts of earlier processes not needed yet", store.contexts
        )
