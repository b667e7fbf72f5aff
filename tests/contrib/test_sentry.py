"""Sentry: flags beside an error."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import sentry_sdk

from shipsilently_core.contrib import sentry
from tests.core.support import setup


@pytest.fixture
def sent() -> Iterator[list[Any]]:
    """The events that Sentry would get."""
    events: list[Any] = []

    def keep(event: Any, hint: Any) -> None:
        events.append(event)

    sentry_sdk.init(
        dsn="http://key@127.0.0.1:9/1",
        before_send=keep,
        default_integrations=False,
        auto_enabling_integrations=False,
    )
    with sentry_sdk.isolation_scope():
        yield events
    sentry_sdk.get_client().close(timeout=0)
    sentry_sdk.get_global_scope().set_client(None)


def test_an_error_shows_the_flags_that_were_read(
    sent: list[Any], listen: Callable[[Callable[..., Any]], None]
) -> None:
    """Booleans only, each with what was last served, and nothing of the context."""
    listen(sentry.add_flag)
    made = setup({"new": True, "color": "red"})
    flags = made.client.flags({"userId": "recognisable@example.org"})
    flags.is_enabled("new")
    flags.get("color", "blue")
    flags.is_enabled("none")
    sentry_sdk.capture_message("broken")
    (event,) = sent
    assert event["contexts"]["flags"]["values"] == [
        {"flag": "new", "result": True},
        {"flag": "none", "result": False},
    ]
    assert "recognisable" not in str(event["contexts"])
