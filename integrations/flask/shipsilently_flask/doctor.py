"""What ``flask shipsilently doctor`` looks at, and what it says of each."""

from __future__ import annotations

import threading
import time
from collections.abc import Generator, Iterator
from dataclasses import dataclass

from flask import Flask

from shipsilently_core import (
    ConfigurationError,
    ConnectionState,
    EvaluationError,
    Failure,
    ShipSilentlyClient,
)
from shipsilently_core.signals import evaluation_failed

from .order import check_order
from .state import State, state_of

__all__ = ["Finding", "examine"]

_ADVICE = {
    Failure.AUTH: "the service refuses the key; is SHIPSILENTLY_API_KEY that of this environment?",
    Failure.NETWORK: "no connection; look at SHIPSILENTLY_API_URL, the proxy and the firewall",
    Failure.TIMEOUT: "no answer within SHIPSILENTLY_TIMEOUT",
    Failure.THROTTLED: "the service asks for a pause; try again later",
    Failure.SERVER: "the service itself has an error; try again later",
    Failure.PROTOCOL: "something else answers there; is SHIPSILENTLY_API_URL right?",
}
_SETTLED = (ConnectionState.STREAMING, ConnectionState.POLLING)
_LOOK_AGAIN = 0.02


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at.

    Attributes:
        verdict: ``ok``, ``note`` for what may be meant so, or ``bad``.
        what: What was looked at.
        text: What was found, and what to do.
    """

    verdict: str
    what: str
    text: str


def examine(app: Flask, patience: float) -> Iterator[Finding]:
    """Look at the app's set-up, then at the service, then at the stream.

    Args:
        app: The app.
        patience: Seconds to wait for the stream.
    """
    state = state_of(app)
    yield _people(app, state)
    yield _gates(app)
    reached = yield from _service(app, state)
    if reached:
        yield _stream(state.client, patience)


def _people(app: Flask, state: State) -> Finding:
    if state.extension.loader is not None:
        return Finding("ok", "context", "a context loader says whom flags are for")
    if hasattr(app, "login_manager"):
        return Finding("ok", "context", "flags are for Flask-Login's current user")
    return Finding(
        "note",
        "context",
        "no context loader and no Flask-Login: everybody gets the same flags",
    )


def _gates(app: Flask) -> Finding:
    try:
        check_order(app)
    except ConfigurationError as error:
        return Finding("bad", "gates", str(error))
    return Finding("ok", "gates", "every @requires_flag stands below its route")


def _service(app: Flask, state: State) -> Generator[Finding, None, bool]:
    """Findings; returns whether the service answered."""
    client = state.client
    failures: list[Failure] = []

    def note(sender: object, failure: Failure, **more: object) -> None:
        failures.append(failure)

    began = time.monotonic()
    with evaluation_failed.connected_to(note, sender=client):
        try:
            found = client.evaluate_all()
        except EvaluationError:
            found = {}
    took = time.monotonic() - began
    if failures:
        advice = _ADVICE.get(failures[0], str(failures[0]))
        yield Finding("bad", "service", f"{client.config.api_url}: {advice}")
        return False
    yield Finding(
        "ok", "service", f"{client.config.api_url}: {len(found)} flags in {took * 1000:.0f} ms"
    )
    for key in state.settings.client_flags:
        if key not in found:
            yield Finding("note", "browser", f"SHIPSILENTLY_CLIENT_FLAGS: there is no flag {key!r}")
    return True


def _stream(client: ShipSilentlyClient, patience: float) -> Finding:
    config = client.config
    if not (config.background and config.stream):
        return Finding("note", "stream", "switched off by the configuration")
    client.start()
    pause, end = threading.Event(), time.monotonic() + patience
    while client.connection_state not in _SETTLED and time.monotonic() < end:
        pause.wait(_LOOK_AGAIN)
    if client.connection_state is ConnectionState.STREAMING:
        return Finding("ok", "stream", "open: changes arrive as they are made")
    if client.connection_state is ConnectionState.POLLING:
        text = f"not in the plan: flags are polled every {config.polling_interval:g} s"
        return Finding("note", "stream", text)
    return Finding("bad", "stream", f"not open after {patience:g} s; is a proxy holding it back?")
