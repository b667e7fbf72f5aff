"""OpenTelemetry: events of spans, and metrics."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader, NumberDataPoint
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import Tracer

from shipsilently_core import EvaluationResult, Failure, Reason
from shipsilently_core.contrib import opentelemetry
from shipsilently_core.stores import MemoryStore
from tests.core.support import setup

Listen = Callable[[Callable[..., Any]], None]
U1 = {"userId": "ada@example.org", "plan": "pro"}


@pytest.fixture
def exporter() -> InMemorySpanExporter:
    """What is exported."""
    return InMemorySpanExporter()


@pytest.fixture
def tracer(exporter: InMemorySpanExporter, listen: Listen) -> Iterator[Tracer]:
    """A tracer, with the client's receiver connected."""
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    listen(opentelemetry.add_span_event)
    yield provider.get_tracer("tests")
    provider.shutdown()


def events(exporter: InMemorySpanExporter) -> list[tuple[str, dict[str, Any]]]:
    """Name and attributes of each event of the one span."""
    (span,) = exporter.get_finished_spans()
    return [(event.name, dict(event.attributes or {})) for event in span.events]


def test_each_flag_of_a_request_is_one_event_of_its_span(
    tracer: Tracer, exporter: InMemorySpanExporter
) -> None:
    """With the conventions' names, and nothing of the context."""
    made = setup({"new": True, "layout": {"columns": 2}})
    with tracer.start_as_current_span("request"):
        flags = made.client.flags(U1)
        flags.get("new", False)
        flags.get("new", False)
        flags.get("layout", {})
        flags.get("none", "x")
        flags.get("new", "text")
    assert events(exporter) == [
        (
            "feature_flag.evaluation",
            {
                "feature_flag.key": "new",
                "feature_flag.provider.name": "shipsilently",
                "feature_flag.result.value": True,
                "feature_flag.result.reason": "default",
            },
        ),
        (
            "feature_flag.evaluation",
            {
                "feature_flag.key": "layout",
                "feature_flag.provider.name": "shipsilently",
                "feature_flag.result.value": '{"columns":2}',
                "feature_flag.result.reason": "default",
            },
        ),
        (
            "feature_flag.evaluation",
            {
                "feature_flag.key": "none",
                "feature_flag.provider.name": "shipsilently",
                "feature_flag.result.value": "x",
                "feature_flag.result.reason": "error",
                "error.type": "flag_not_found",
            },
        ),
    ]


def test_the_span_of_the_task_that_reads_gets_the_event(
    tracer: Tracer, exporter: InMemorySpanExporter
) -> None:
    """Two requests at once, each with its own span and its own flag."""
    made = setup({"a": 1, "b": 2})

    async def request(key: str) -> None:
        with tracer.start_as_current_span(key):
            await asyncio.sleep(0)
            await made.client.flags(U1).aget(key, 0)

    async def both() -> None:
        await asyncio.gather(request("a"), request("b"))

    asyncio.run(both())
    seen = {
        span.name: [(event.attributes or {})["feature_flag.key"] for event in span.events]
        for span in exporter.get_finished_spans()
    }
    assert seen == {"a": ["a"], "b": ["b"]}


@pytest.mark.parametrize(
    ("reason", "error", "shown"),
    [
        (Reason.DEFAULT, None, ("default", None)),
        (Reason.RULE_MATCH, None, ("targeting_match", None)),
        ("rule_match", None, ("targeting_match", None)),
        (Reason.ROLLOUT, None, ("split", None)),
        (Reason.FLAG_DISABLED, None, ("disabled", None)),
        (Reason.ERROR_FALLBACK, None, ("stale", None)),
        ("newer", None, ("unknown", None)),
        (Reason.FLAG_NOT_FOUND, Failure.NOT_FOUND, ("error", "flag_not_found")),
        (Reason.ERROR_FALLBACK, Failure.TYPE_MISMATCH, ("error", "type_mismatch")),
        (Reason.ERROR_FALLBACK, Failure.TIMEOUT, ("error", "timeout")),
    ],
)
def test_reasons_have_the_words_of_the_conventions(
    reason: str,
    error: Failure | None,
    shown: tuple[str, str | None],
    tracer: Tracer,
    exporter: InMemorySpanExporter,
) -> None:
    """A last known good value is stale; a default after a failure is an error, with its class."""
    with tracer.start_as_current_span("request"):
        opentelemetry.add_span_event(None, result=EvaluationResult("a", 1, reason, error=error))
    ((_, attributes),) = events(exporter)
    assert (attributes["feature_flag.result.reason"], attributes.get("error.type")) == shown


def test_without_a_span_nothing_happens(tracer: Tracer, exporter: InMemorySpanExporter) -> None:
    """Reading a flag outside of every span is no error."""
    setup({"a": 1}).client.evaluate("a", U1, 0)
    assert exporter.get_finished_spans() == ()


def collected(reader: InMemoryMetricReader) -> dict[str, dict[str, float]]:
    """Each metric's values by the values of their attributes."""
    data = reader.get_metrics_data()
    assert data is not None
    return {
        metric.name: {
            ",".join(str(value) for value in (point.attributes or {}).values()): point.value
            for point in metric.data.data_points
            if isinstance(point, NumberDataPoint)
        }
        for resource in data.resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
    }


def test_metrics_follow_the_client() -> None:
    """Read when they are collected: calls, failures by class, state, age, events."""
    made = setup({"a": 1}, analytics={"max_buffer_size": 2})
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader])
    opentelemetry.observe(made.client, meter_provider=provider)
    before = collected(reader)
    assert before["shipsilently.client.attempts"] == {"": 0}
    assert before["shipsilently.client.state"] == {
        "idle": 1,
        "streaming": 0,
        "reconnecting": 0,
        "polling": 0,
    }
    assert "shipsilently.client.age" not in before

    made.client.evaluate_all(U1)
    made.clock.advance(7)
    made.service.fail(503)
    for _ in range(3):
        made.client.evaluate("a", U1, 0)
    after = collected(reader)
    assert after["shipsilently.client.attempts"] == {"": 4}
    assert after["shipsilently.client.failures"]["server"] == 3
    assert after["shipsilently.client.failures"]["network"] == 0
    assert after["shipsilently.client.age"] == {"": 7}
    assert after["shipsilently.events.buffered"] == {"": 2}
    assert after["shipsilently.events.dropped"] == {"": 1}
    assert "shipsilently.store.up" not in after
    provider.shutdown()


def test_the_store_is_a_metric_where_there_is_one() -> None:
    """1 while it works, with its kind."""
    made = setup(store=MemoryStore())
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader])
    opentelemetry.observe(made.client, meter_provider=provider)
    assert collected(reader)["shipsilently.store.up"] == {"MemoryStore": 1}
    provider.shutdown()
