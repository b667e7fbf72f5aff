"""Nothing of a key, a ticket, a person or a failing answer leaves, through any door there is."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import msgspec
import pytest
import sentry_sdk
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from prometheus_client import CollectorRegistry, generate_latest

from shipsilently_core import Context, EvaluationError, ShipSilentlyClient, signals
from shipsilently_core.contrib import health, logs, opentelemetry, prometheus, sentry
from tests.core.running import QUICK, eventually
from tests.core.wire_server import Answer, Received, WireServer, batch_of

MARK = "recognisable"
KEY = f"sk_live_{MARK}-key"
TICKET = f"{MARK}-ticket"
WHO = Context(user_id=f"{MARK}-person", email=f"{MARK}@example.org", plan=f"{MARK}-plan")
PAGE = f"<html>{MARK}-answer {KEY} {TICKET}</html>".encode()
HTML = (("Content-Type", "text/html"),)

FAILURES = {
    "page": Answer(200, PAGE, HTML),
    "JSON of another kind": Answer(200, json.dumps({MARK: [MARK]}).encode()),
    "500": Answer(500, PAGE),
    "401": Answer(401, PAGE),
    "402": Answer(402, PAGE),
    "404": Answer(404, PAGE),
    "429": Answer(429, PAGE, (("Retry-After", "0.05"),)),
    "redirect": Answer(302, PAGE, (("Location", "http://127.0.0.1:9/"),)),
    "cut off": Answer(200, PAGE, length=1_000, close=True),
    "dropped": Answer(drop=True),
    "no HTTP": Answer(raw=PAGE, close=True),
    "silent": Answer(silent=True),
}
GOOD = {
    "/v1/evaluate/batch": batch_of({"a": True}),
    "/v1/stream/ticket": Answer(body=json.dumps({"ticket": TICKET, "expiresIn": 60}).encode()),
}


class Ears:
    """Everything that could be overheard.

    Attributes:
        told: As text.
    """

    def __init__(self) -> None:
        self.told: list[str] = []
        self.spans = InMemorySpanExporter()
        self.reader = InMemoryMetricReader()
        self.registry = CollectorRegistry()
        self.tracing = TracerProvider()
        self.tracing.add_span_processor(SimpleSpanProcessor(self.spans))
        self.metering = MeterProvider([self.reader])

    def receiver(self, sender: Any, **arguments: Any) -> None:
        """Any signal."""
        self.told.append(repr((sender, arguments)))

    def event(self, event: Any, hint: Any) -> None:
        """Sentry's."""
        self.told.append(json.dumps(event, default=repr))

    def follow(self, client: ShipSilentlyClient) -> None:
        """Let the exporters read this client."""
        opentelemetry.observe(client, meter_provider=self.metering)
        self.registry.register(prometheus.ClientCollector(client))

    def look(self, client: ShipSilentlyClient) -> None:
        """Take down what can be seen of a client now."""
        status = client.status()
        self.told += [repr(status), msgspec.json.encode(status).decode(), repr(client)]
        self.told += [health.health(client)[1].decode(), repr(client.config)]
        self.told.append(str(logs.flags_read()))
        self.told.append(generate_latest(self.registry).decode())
        metrics = self.reader.get_metrics_data()
        self.told.append("" if metrics is None else metrics.to_json())
        self.told += [span.to_json() for span in self.spans.get_finished_spans()]


@pytest.fixture
def ears(caplog: pytest.LogCaptureFixture) -> Iterator[Ears]:
    """What is overheard in a test; it fails where anything recognisable is among it."""
    ears = Ears()
    listeners: dict[Any, list[Callable[..., Any]]] = {
        getattr(signals, name): [ears.receiver]
        for name in signals.__all__
        if not name.endswith("connect")
    }
    listeners[signals.flag_evaluated] += [
        opentelemetry.add_span_event,
        sentry.add_flag,
        logs.remember_flag,
    ]
    for signal, receivers in listeners.items():
        for receiver in receivers:
            signals.connect(signal, receiver)
    for name in ("shipsilently", "httpx", "httpcore", "asyncio"):
        caplog.set_level(logging.DEBUG, logger=name)
    sentry_sdk.init(
        dsn="http://key@127.0.0.1:9/1",
        before_send=ears.event,
        default_integrations=False,
        auto_enabling_integrations=False,
    )
    logs.begin_request()
    with sentry_sdk.isolation_scope():
        yield ears
    sentry_sdk.get_client().close(timeout=0)
    sentry_sdk.get_global_scope().set_client(None)
    for signal, receivers in listeners.items():
        for receiver in receivers:
            signals.disconnect(signal, receiver)
    ears.tracing.shutdown()
    ears.metering.shutdown()
    formatter = logging.Formatter("%(name)s %(message)s")
    ears.told += [formatter.format(record) for record in caplog.get_records("call")]
    assert ears.told
    assert [text for text in ears.told if MARK in text] == []


def raised(client: ShipSilentlyClient) -> None:
    """Let Sentry see an exception with every local variable on its way."""
    try:
        client.evaluate("a", WHO, False)
        client.flags(WHO).get("a", False)
    except EvaluationError as error:
        sentry_sdk.capture_exception(error)


def analytics_and_streams(client: ShipSilentlyClient) -> None:
    """Check flags, deliver the checks, and follow the stream."""
    client.start()
    client.evaluate("a", WHO, False)
    client.flags(WHO).get("a", False)
    client.get("a", False, WHO)
    client.get(f"a{0}", True, WHO)
    client.flush(0.2)


@pytest.mark.parametrize("custom", [False, True], ids=["own", "httpx"])
@pytest.mark.parametrize("failing", ["all but tickets", "tickets", "all but batches"])
@pytest.mark.parametrize("kind", FAILURES)
def test_no_failure_tells_a_secret(
    kind: str, failing: str, custom: bool, server: WireServer, ears: Ears
) -> None:
    """Logs at DEBUG, signals, spans, metrics, errors, status and health hold none of it."""

    def answer(received: Received) -> Answer:
        path = received.path.partition("?")[0]
        spared = {"all but tickets": "ticket", "all but batches": "batch"}.get(failing)
        fails = path.endswith("ticket") if spared is None else not path.endswith(spared)
        return FAILURES[kind] if fails or path not in GOOD else GOOD[path]

    server.always(answer)
    own = httpx.Client() if custom else None
    client = ShipSilentlyClient(
        api_key=KEY,
        api_url=server.url,
        timeout=0.2,
        max_age=0,
        retry=QUICK,
        http_client=own,
        baseline_context={"userId": f"{MARK}-system"},
        on_error=lambda report: ears.told.append(repr(report)),
        on_state_change=lambda state: ears.told.append(repr(state)),
    )
    ears.follow(client)
    wanted = {"/v1/stream/ticket", "/v1/evaluate", "/v1/evaluate/batch", "/v1/analytics/events"}
    if failing == "all but tickets":
        wanted.add(f"/v1/stream?ticket={TICKET}")

    def all_asked() -> bool:
        # Again where a 429 of one call has kept another from being made.
        with ears.tracing.get_tracer("tests").start_as_current_span("request"):
            analytics_and_streams(client)
        return wanted <= set(server.paths())

    eventually(all_asked, within=15)
    sentry_sdk.capture_message("looking")
    ears.look(client)
    client.close(0.2)

    strict = ShipSilentlyClient(
        api_key=KEY, api_url=server.url, timeout=0.2, disable_cache=True, background=False
    )
    raised(strict)
    ears.look(strict)
    strict.close(0)
    if own is not None:
        own.close()
