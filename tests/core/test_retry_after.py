"""Retry-After in all its forms, on a real wire."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest

from shipsilently_core import Failure, ShipSilentlyClient, Source
from tests.core.support import KEY, fixed
from tests.core.wire_server import Answer, WireServer, batch_of

WHO = {"userId": "u1"}
BASE = 40.0


def http_date(seconds: float, zone: str = "GMT") -> str:
    moment = datetime.now(UTC) + timedelta(seconds=seconds)
    return format_datetime(moment, usegmt=True).replace("GMT", zone).strip()


FORMS: dict[str, tuple[Any, float]] = {
    # The header's values, and the pause in seconds that they mean; BASE where they mean nothing.
    "whole seconds": (("7",), 7),
    "nothing": (("0",), 0),
    "less than nothing": (("-5",), BASE),
    "a fraction": (("1.5",), 1.5),
    "a word": (("soon",), BASE),
    "an empty value": (("",), BASE),
    "not a number": (("nan",), BASE),
    "infinity": (("inf",), BASE),
    "two values": (("2", "5"), BASE),
    "years": (("99999999",), 3600),
    "no header": ((), BASE),
    "a date ahead": (lambda: (http_date(20),), 20),
    "a date without a zone": (lambda: (http_date(20, ""),), 20),
    "a past date": (lambda: (http_date(-100),), BASE),
}


@pytest.mark.parametrize("verb", ["evaluate", "evaluate_all", "flags"])
@pytest.mark.parametrize("code", [429, 503])
@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_retry_after_is_a_pause_or_the_backoff(
    form: str, code: int, verb: str, server: WireServer
) -> None:
    """Nothing raises, nobody asks before the pause is over, and the value stays."""
    given, seconds = FORMS[form]
    values = given() if callable(given) else given
    client = ShipSilentlyClient(
        api_key=KEY,
        api_url=server.url,
        max_age=0,
        background=False,
        rng=fixed(),
        retry={"base_delay": BASE},
    )
    server.always(batch_of({"a": 1}))
    client.evaluate_all(WHO)
    failing = Answer(code, headers=[("Retry-After", value) for value in values])
    server.always(failing)
    before = time.monotonic()

    def ask() -> Any:
        if verb == "evaluate":
            return client.evaluate_detail("a", WHO, 0)
        if verb == "evaluate_all":
            return client.evaluate_all(WHO)["a"]
        return client.flags(WHO).detail("a", 0)

    result = ask()
    held = client.evaluator.gate.held_for()
    passed = time.monotonic() - before
    assert (result.value, result.source) == (1, Source.CACHE)
    if code == 503 and not values:
        # An ordinary failure, which asks for nothing.
        seconds = 0
    # A date has whole seconds.
    slack = 1.1 if "date" in form else 0.0
    assert max(0.0, seconds - passed - slack) <= held <= seconds
    attempts = len(server.received)
    if seconds > 5:
        assert ask().value == 1
        assert client.evaluate_detail("b", WHO, 0).error is Failure.THROTTLED
        assert len(server.received) == attempts
    client.close()
