"""The client's settings."""

from __future__ import annotations

import inspect
import pickle
from collections.abc import Callable
from typing import Any

import httpx
import httpx2
import pytest
from rich.pretty import pretty_repr

from shipsilently_core import AnalyticsConfig, Config, ConfigurationError, RetryConfig
from shipsilently_core._cachestore import CacheStore
from shipsilently_core._settings import Settings, StoreSettings
from tests.core.support import named

KEY = "sk_live_abc"


def refused(**settings: Any) -> ConfigurationError:
    with pytest.raises(ConfigurationError) as caught:
        Config(**{"api_key": KEY, **settings})
    return caught.value


def test_a_key_is_enough() -> None:
    """Everything but the key has a default, and those are the documented ones."""
    config = Config(api_key=KEY)
    shown = {name: getattr(config, name) for name in config.__struct_fields__}
    assert shown == {
        "api_key": KEY,
        "api_url": "https://shipsilently-cf.workers.dev",
        "timeout": 2.0,
        "polling_interval": 30.0,
        "max_age": None,
        "max_contexts": 10_000,
        "max_response_bytes": 16 * 1024 * 1024,
        "stream": True,
        "baseline_context": {"userId": "system"},
        "defaults": {},
        "store": None,
        "bootstrap": None,
        "max_stale": None,
        "max_stale_per_flag": {},
        "disable_cache": False,
        "background": True,
        "analytics": AnalyticsConfig(),
        "retry": RetryConfig(base_delay=1.0, max_delay=60.0, heartbeat_timeout=90.0, enabled=True),
        "http_client": None,
        "on_error": None,
        "on_state_change": None,
    }


@pytest.mark.parametrize("edge", [" ", "\n", "\r\n", "\t", "\ufeff", "\u00a0", "\u200b"])
def test_what_files_add_at_the_edges_of_a_key_is_trimmed(edge: str) -> None:
    """White space and a BOM around the key are not part of it."""
    assert Config(api_key=f"{edge}{KEY}{edge}").api_key == KEY


@pytest.mark.parametrize(
    "key",
    ["", " \n", "sk_live\nabc", "sk_live abc", "sk_live\tabc", "sk_live_ключ", "sk\x00x", b"x", 5],
    ids=named,
)
def test_a_key_that_cannot_be_sent_is_refused_and_not_shown(key: Any) -> None:
    """The error names the setting and what to do, and never prints the key."""
    error = refused(api_key=key)
    assert error.setting == "api_key"
    for part in ("sk_", "live_", "abc", "ключ"):
        assert part not in str(error)


def test_the_key_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Left out, it is read from either variable, the first of them before the second."""
    monkeypatch.setenv("SHIPSILENTLY_KEY", "sk_second\n")
    assert Config().api_key == "sk_second"
    monkeypatch.setenv("SHIPSILENTLY_API_KEY", "sk_first")
    assert Config.from_env(timeout=1).api_key == "sk_first"
    assert Config(api_key="sk_given").api_key == "sk_given"


def test_an_empty_variable_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """A variable that is set and empty is a mistake in that variable."""
    monkeypatch.setenv("SHIPSILENTLY_API_KEY", "")
    with pytest.raises(ConfigurationError, match=r"^api_key \(from SHIPSILENTLY_API_KEY\): is emp"):
        Config()


def test_a_missing_key_says_how_to_set_it() -> None:
    """Without a key anywhere the error names the setting and the variable."""
    with pytest.raises(ConfigurationError, match=r"^api_key: is missing; .*SHIPSILENTLY_API_KEY"):
        Config.from_env()


@pytest.mark.parametrize(
    ("given", "url"),
    [
        ("https://flags.example", "https://flags.example"),
        ("https://flags.example/", "https://flags.example"),
        (" http://127.0.0.1:4400/base/\n", "http://127.0.0.1:4400/base"),
        ("http://[::1]:80", "http://[::1]:80"),
    ],
)
def test_an_address_is_trimmed(given: str, url: str) -> None:
    """A slash at the end and white space around it are dropped."""
    assert Config(api_key=KEY, api_url=given).api_url == url


@pytest.mark.parametrize(
    "url",
    [
        "",
        "flags.example",
        "ftp://flags.example",
        "http://",
        "https://user:secret@flags.example",
        "https://flags.example?x=1",
        "https://flags.example#x",
        "https://flags.example:port",
        "https://flags.example:99999",
        "https://[::1",
        "https://flags .example",
        "https://flags.exa\nmple",
        "https://флаги.example",
        5,
    ],
)
def test_an_address_that_cannot_be_used_is_refused(url: Any) -> None:
    """The error names the setting, and shows no user or password."""
    error = refused(api_url=url)
    assert error.setting == "api_url"
    assert "secret" not in str(error)


def test_the_address_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Left out, it is read from its variable, and an empty one counts as not set."""
    monkeypatch.setenv("SHIPSILENTLY_API_URL", "http://127.0.0.1:4400/")
    assert Config(api_key=KEY).api_url == "http://127.0.0.1:4400"
    monkeypatch.setenv("SHIPSILENTLY_API_URL", "")
    assert Config(api_key=KEY).api_url == "https://shipsilently-cf.workers.dev"


WRONG_SECONDS = [0, -1, True, "2", None, float("nan"), float("inf"), 10**400, 1e12, [2]]


@pytest.mark.parametrize("value", WRONG_SECONDS, ids=lambda value: repr(value)[:20])
@pytest.mark.parametrize("name", ["timeout", "polling_interval"])
def test_times_are_positive_numbers_of_seconds(name: str, value: Any) -> None:
    """What cannot be waited for is refused when it is set, and not when it is waited for."""
    assert refused(**{name: value}).setting == name


@pytest.mark.parametrize("value", WRONG_SECONDS, ids=lambda value: repr(value)[:20])
@pytest.mark.parametrize("name", ["base_delay", "max_delay", "heartbeat_timeout"])
def test_delays_are_positive_numbers_of_seconds(name: str, value: Any) -> None:
    """The same holds for the nested settings, which are named with their place."""
    assert refused(retry={name: value}).setting == f"retry.{name}"


@pytest.mark.parametrize("value", [-0.1, True, "2", float("nan"), float("inf")], ids=named)
def test_an_age_is_a_number_of_seconds_and_may_be_zero(value: Any) -> None:
    """Zero asks the service each time; less than that is refused."""
    assert refused(max_age=value).setting == "max_age"
    assert Config(api_key=KEY, max_age=0).max_age == 0.0


def test_whole_seconds_are_kept_as_fractions() -> None:
    """A number of seconds is a float, whatever it was given as."""
    config = Config(api_key=KEY, timeout=3)
    assert config.timeout == 3.0
    assert type(config.timeout) is float


@pytest.mark.parametrize("name", ["max_contexts", "max_response_bytes"])
@pytest.mark.parametrize("value", [0, -1, 1.5, True, "1", None], ids=named)
def test_counts_are_whole_numbers(name: str, value: Any) -> None:
    """A bound is at least one, and no fraction, text or truth."""
    assert refused(**{name: value}).setting == name


@pytest.mark.parametrize("name", ["stream", "background", "disable_cache"])
@pytest.mark.parametrize("value", [0, 1, "false", None], ids=named)
def test_switches_are_true_or_false(name: str, value: Any) -> None:
    """The text "false" does not switch anything on."""
    assert refused(**{name: value}).setting == name


def test_retrying_is_switched_by_true_or_false() -> None:
    """The nested switch is checked like the others."""
    assert refused(retry={"enabled": "no"}).setting == "retry.enabled"


@pytest.mark.parametrize("value", [True, "1", None, float("nan")], ids=named)
def test_a_sampling_rate_is_a_number(value: Any) -> None:
    """What is no number is refused."""
    assert refused(analytics={"sampling_rate": value}).setting == "analytics.sampling_rate"


@pytest.mark.parametrize(("given", "rate"), [(-1, 0.0), (0.5, 0.5), (7, 1.0), (True + 0.0, 1.0)])
def test_a_sampling_rate_is_clamped(given: float, rate: float) -> None:
    """Below none is none, and above all is all."""
    config = Config.from_mapping({"api_key": KEY, "analytics": {"sampling_rate": given}})
    assert config.analytics.sampling_rate == rate


def test_events_are_not_sent_more_often_than_once_a_second() -> None:
    """The least interval of the protocol is one second."""
    assert refused(analytics={"flush_interval": 0.9}).setting == "analytics.flush_interval"
    assert refused(analytics={"enabled": 1}).setting == "analytics.enabled"
    assert refused(analytics={"max_buffer_size": 0}).setting == "analytics.max_buffer_size"


def test_the_ladder_has_its_ends_in_order() -> None:
    """The greatest delay is not less than the first."""
    assert refused(retry={"base_delay": 5, "max_delay": 4}).setting == "retry.max_delay"


@pytest.mark.parametrize("value", [None, "u1", ["userId"]], ids=named)
def test_the_baseline_context_is_a_mapping(value: Any) -> None:
    """The client's own context is checked when it is set."""
    assert refused(baseline_context=value).setting == "baseline_context"


def test_the_baseline_context_can_be_sent() -> None:
    """An attribute without a form is a mistake here, named without its value."""
    error = refused(baseline_context={"secret": ["hidden"]})
    assert "'secret'" in str(error)
    assert "hidden" not in str(error)


@pytest.mark.parametrize("value", [None, [], {1: True}, {"a": object()}, {"a": b"x"}], ids=named)
def test_defaults_are_flag_values_by_key(value: Any) -> None:
    """A default is what a flag could hold."""
    assert refused(defaults=value).setting.startswith("defaults")


def test_defaults_are_taken_over() -> None:
    """Changing the mapping afterwards changes nothing."""
    defaults: dict[str, Any] = {"a": True, "b": 1, "c": "x", "d": {}, "e": None, "f": [1]}
    config = Config(api_key=KEY, defaults=defaults)
    defaults.clear()
    assert set(config.defaults) == set("abcdef")


@pytest.mark.parametrize("name", ["on_error", "on_state_change"])
def test_callbacks_can_be_called(name: str) -> None:
    """A callback is a callable or nothing."""
    assert refused(**{name: "print"}).setting == name
    config = Config.from_mapping({"api_key": KEY, name: print})
    assert getattr(config, name) is print


class NoClient:
    send = "not callable"


@pytest.mark.parametrize("client", [object(), "x", NoClient()], ids=named)
def test_a_client_of_ones_own_is_one_of_httpx(client: Any) -> None:
    """What can neither send nor build a request is refused."""
    assert refused(http_client=client).setting == "http_client"


@pytest.mark.parametrize("module", [httpx, httpx2], ids=lambda module: module.__name__)
def test_a_client_of_ones_own_blocks(module: Any) -> None:
    """A blocking client or a function that makes one will do, an asynchronous one will not."""
    with module.Client() as client:
        assert Config(api_key=KEY, http_client=client).http_client is client
    assert Config(api_key=KEY, http_client=module.Client).http_client is module.Client
    assert "AsyncClient" in str(refused(http_client=module.AsyncClient()))


def test_frameworks_give_settings_in_capitals() -> None:
    """A mapping may be spelt as Django and Flask do, nested settings included."""
    config = Config.from_mapping(
        {"API_KEY": KEY, "TIMEOUT": 1, "RETRY": {"BASE_DELAY": 2, "enabled": False}}
    )
    assert config.api_key == KEY
    assert config.timeout == 1
    assert config.retry == RetryConfig(base_delay=2, enabled=False)


@pytest.mark.parametrize(
    ("mapping", "text"),
    [
        ({"TIMOUT": 1}, "TIMOUT: is not a setting; did you mean 'timeout'?"),
        ({"RETRY": {"BASE_DLAY": 1}}, "retry.BASE_DLAY: is not a setting; did you mean"),
        ({"xyzzy": 1}, "xyzzy: is not a setting; known are: api_key, api_url"),
        ({5: 1}, "5: is not a setting; known are"),
    ],
)
def test_an_unknown_setting_is_refused_with_the_nearest(mapping: Any, text: str) -> None:
    """A misspelt setting is not passed over in silence."""
    with pytest.raises(ConfigurationError) as caught:
        Config.from_mapping({"API_KEY": KEY, **mapping})
    assert str(caught.value).startswith(text)


def test_nested_settings_are_a_mapping_or_the_class() -> None:
    """Anything else is refused with the name of the class."""
    retry = RetryConfig(base_delay=2)
    assert Config(api_key=KEY, retry=retry).retry is retry
    assert str(refused(retry=5)) == "retry: must be a RetryConfig or a mapping"


@pytest.mark.parametrize("show", [repr, pretty_repr])
def test_a_configuration_shows_no_secret(show: Callable[[object], str]) -> None:
    """Neither the key nor the baseline's attributes are in the representation, nor in rich's."""
    shown = show(Config(api_key=KEY, baseline_context={"userId": "hidden"}))
    assert shown.startswith("Config(")
    assert KEY not in shown
    assert "hidden" not in shown


def test_a_configuration_is_frozen_and_can_be_pickled() -> None:
    """It cannot change under a client, and it can go to another process."""
    config = Config(api_key=KEY, timeout=1)
    with pytest.raises(AttributeError):
        config.timeout = 2  # type: ignore[misc]
    assert pickle.loads(pickle.dumps(config)) == config


def test_editors_know_the_settings_that_there_are() -> None:
    """The keywords that type checkers see are all of a configuration's, and of a cache's store."""
    assert tuple(Settings.__annotations__) == Config.__struct_fields__
    taken = inspect.signature(CacheStore).parameters
    assert tuple(StoreSettings.__annotations__) == tuple(taken)
