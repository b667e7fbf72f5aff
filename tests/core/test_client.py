"""The public verbs."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from shipsilently_core import (
    Config,
    ConfigurationError,
    Context,
    Failure,
    FailureReport,
    Reason,
    ShipSilentlyClient,
    Source,
)
from tests.core.support import Heard, listening, setup

WHO = {"userId": "u1"}


def test_settings_are_given_as_a_config_or_as_keywords() -> None:
    """Either way will do, and both together are a mistake that names the keyword."""
    by_keyword = ShipSilentlyClient(api_key="sk_x", timeout=1)
    assert by_keyword.config == ShipSilentlyClient(by_keyword.config).config
    with pytest.raises(ConfigurationError, match=r"^timeout: is given beside a Config"):
        ShipSilentlyClient(Config(api_key="sk_x"), timeout=1)


def test_a_setting_that_does_not_exist_is_refused_with_the_nearest_that_does() -> None:
    """A misspelt keyword is told like any wrong setting, not as a fault in our own code."""
    with pytest.raises(ConfigurationError, match=r"^timout: is not a setting; did you mean 'timeo"):
        ShipSilentlyClient(api_key="sk_x", timout=1)  # type: ignore[call-arg]  # as is proven here


def test_a_key_in_the_configuration_s_place_is_refused_without_being_shown() -> None:
    """Whoever gives the key alone is told where it goes, and no traceback shows it."""
    given: Any = "sk_secret"
    with pytest.raises(ConfigurationError, match=r"^config: is a str, .* a key goes to api_key=$"):
        ShipSilentlyClient(given)


def test_a_client_shows_no_key() -> None:
    """The representation names the address alone."""
    client = ShipSilentlyClient(api_key="sk_secret", api_url="http://flags.invalid")
    assert repr(client) == "<ShipSilentlyClient http://flags.invalid>"


def test_one_flag_is_one_call() -> None:
    """Each `evaluate` asks the service, whatever is known."""
    s = setup({"a": 1})
    assert s.client.evaluate("a", WHO, 0) == 1
    assert asyncio.run(s.client.aevaluate("a", WHO, 0)) == 1
    detail = s.client.evaluate_detail("a", WHO, 0)
    assert (detail.value, detail.source, detail.reason) == (1, Source.SERVER, Reason.DEFAULT)
    assert asyncio.run(s.client.aevaluate_detail("a", WHO, 0)) == detail
    assert [request.path for request in s.service.requests] == ["/v1/evaluate"] * 4


def test_all_flags_are_one_call() -> None:
    """Each `evaluate_all` asks the service, whatever is known."""
    s = setup({"a": 1, "b": "x"})
    results = s.client.evaluate_all(WHO)
    assert {key: result.value for key, result in results.items()} == {"a": 1, "b": "x"}
    assert asyncio.run(s.client.aevaluate_all(WHO)) == results
    assert [request.path for request in s.service.requests] == ["/v1/evaluate/batch"] * 2


def test_a_default_may_be_left_out() -> None:
    """Then it is the declared one, else None."""
    s = setup({}, defaults={"a": 5})
    assert s.client.evaluate("a") == 5
    assert asyncio.run(s.client.aevaluate("b")) is None
    assert s.client.get("a") == 5
    assert s.client.get("b") is None


def test_reading_what_is_known_never_asks() -> None:
    """`get` and `get_all` show the last known good values with their own reasons."""
    s = setup({"a": 1})
    assert s.client.get("a", 0, WHO) == 0
    assert s.client.get_all(WHO) == {}
    s.client.evaluate_all(WHO)
    s.clock.advance(1e6)
    assert s.client.get("a", 0, WHO) == 1
    result = s.client.get_all(WHO)["a"]
    assert (result.value, result.reason, result.source) == (1, Reason.DEFAULT, Source.CACHE)
    assert len(s.service.requests) == 1


def test_a_context_may_be_given_in_any_way() -> None:
    """A mapping, a context and keywords mean the same user, and nothing means nobody."""
    s = setup(lambda context: {"who": context.get("userId", "nobody")})
    assert s.client.evaluate("who", Context(user_id="u1"), "") == "u1"
    assert s.client.evaluate("who", {"user_id": "u1"}, "") == "u1"
    assert s.client.flags(user_id="u2").get("who", "") == "u2"
    assert s.client.flags(Context(user_id="u1"), plan="pro").get("who", "") == "u1"
    assert s.client.evaluate("who", None, "") == "nobody"


def test_failures_are_told_by_signal_and_callback() -> None:
    """Both get the class, the status and the flag; the callback gets a line for people too."""
    reports: list[FailureReport] = []
    s = setup(on_error=reports.append)
    s.service.fail(503)
    with listening(s.client) as heard:
        s.client.evaluate("a", WHO, False)
        s.client.evaluate_all(WHO)
    assert heard == [Heard(Failure.SERVER, 503, "a"), Heard(Failure.SERVER, 503, None)]
    assert [(r.failure, r.status, r.flag_key) for r in reports] == [
        (Failure.SERVER, 503, "a"),
        (Failure.SERVER, 503, None),
    ]
    assert reports[0].message == "the service failed (HTTP 503)"


def test_a_callback_that_raises_costs_the_request_nothing(lines: list[Any]) -> None:
    """What `on_error` raises is logged, and the value is served."""

    def bad(report: FailureReport) -> None:
        raise RuntimeError("broken callback")

    s = setup(on_error=bad)
    s.service.fail(503)
    assert s.client.evaluate("a", WHO, "default") == "default"
    assert "on_error raised" in [line.getMessage() for line in lines]


@pytest.mark.parametrize("awaited", [False, True])
def test_a_closed_client_serves_what_it_knows(awaited: bool) -> None:
    """After the end nothing is asked, nothing raises, and closing again does nothing."""
    s = setup({"a": 1})
    s.client.evaluate_all(WHO)
    for _ in range(2):
        if awaited:
            asyncio.run(s.client.aclose())
        else:
            s.client.close()
    s.clock.advance(1e6)
    requests = len(s.service.requests)
    assert s.client.evaluate("a", WHO, 0) == 1
    assert asyncio.run(s.client.aevaluate("a", WHO, 0)) == 1
    assert s.client.evaluate_all(WHO)["a"].value == 1
    assert s.client.flags(WHO).get("a", 0) == 1
    assert asyncio.run(s.client.flags(WHO).aget("a", 0)) == 1
    assert s.client.get("a", 0, WHO) == 1
    assert len(s.service.requests) == requests


@pytest.mark.parametrize("awaited", [False, True])
def test_a_client_that_was_never_used_can_be_closed(awaited: bool) -> None:
    """Closing opens nothing."""
    client = ShipSilentlyClient(api_key="sk_x", api_url="http://flags.invalid")
    if awaited:
        asyncio.run(client.aclose())
    else:
        client.close()
    assert client.evaluate("a", None, "default") == "default"


def test_an_error_while_leading_is_the_leader_s_own() -> None:
    """What interrupts the request that carries out an attempt is raised there, and only there."""
    s = setup({"a": 1})
    answer = s.service.send

    def interrupted(request: Any) -> Any:
        raise KeyboardInterrupt

    s.service.send = interrupted  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        s.client.flags(WHO).get("a", 0)
    s.service.send = answer  # type: ignore[method-assign]
    assert s.client.flags(WHO).get("a", 0) == 1
