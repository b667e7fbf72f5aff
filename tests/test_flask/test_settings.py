"""Settings: where they may stand, who wins, and which key an error names."""

from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from shipsilently_flask import ShipSilently

from shipsilently_core import Config, ConfigurationError
from shipsilently_core.stores import FileStore
from shipsilently_core.testing import ScriptedService

from .apps import bare_app, client_of


def set_up(config: dict[str, Any], **keywords: Any) -> Flask:
    """An app with this configuration and these keywords of the extension."""
    app = bare_app(**config)
    ShipSilently(app, **keywords)
    return app


def config_of(app: Flask) -> Config:
    """What the app's client has been told."""
    config: Config = app.extensions["shipsilently"].client.config
    return config


@pytest.mark.parametrize(
    ("config", "keywords"),
    [
        ({"SHIPSILENTLY_API_KEY": "sk_1", "SHIPSILENTLY_TIMEOUT": 0.5}, {}),
        ({"SHIPSILENTLY": {"API_KEY": "sk_1", "TIMEOUT": 0.5}}, {}),
        ({"SHIPSILENTLY": {"api_key": "sk_1", "timeout": 0.5}}, {}),
        ({}, {"api_key": "sk_1", "timeout": 0.5}),
        ({"SHIPSILENTLY_API_KEY": "sk_1"}, {"timeout": 0.5}),
        ({"SHIPSILENTLY_API_KEY": "sk_1", "SHIPSILENTLY": {"TIMEOUT": 0.5}}, {}),
    ],
)
def test_settings_may_stand_in_three_places(
    config: dict[str, Any], keywords: dict[str, Any]
) -> None:
    """Single keys, one dictionary and keywords of the extension all reach the client."""
    read = config_of(set_up(config, **keywords))
    assert (read.api_key, read.timeout) == ("sk_1", 0.5)


def test_the_nearest_to_the_app_wins() -> None:
    """A single key wins over the dictionary, and that over the extension's keywords."""
    app = set_up(
        {"SHIPSILENTLY_TIMEOUT": 1, "SHIPSILENTLY": {"TIMEOUT": 2, "MAX_AGE": 2}},
        api_key="sk_1",
        timeout=3,
        max_age=3,
        polling_interval=3,
    )
    read = config_of(app)
    assert (read.timeout, read.max_age, read.polling_interval) == (1, 2, 3)


def test_settings_come_from_prefixed_environment_variables(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """`from_prefixed_env` gives single keys, nested ones and the dictionary."""
    monkeypatch.setenv("FLASK_SHIPSILENTLY_API_KEY", "sk_env")
    monkeypatch.setenv("FLASK_SHIPSILENTLY_RETRY__BASE_DELAY", "2.5")
    monkeypatch.setenv("FLASK_SHIPSILENTLY__TIMEOUT", "0.25")
    app = bare_app()
    app.config.from_prefixed_env()
    ShipSilently(app)
    read = config_of(app)
    assert (read.api_key, read.retry.base_delay, read.timeout) == ("sk_env", 2.5, 0.25)


def test_the_key_comes_from_the_environment_where_the_app_has_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The core's own variable is read, and the key is not written into the configuration."""
    monkeypatch.setenv("SHIPSILENTLY_API_KEY", "sk_env")
    app = set_up({})
    assert config_of(app).api_key == "sk_env"
    assert app.config["SHIPSILENTLY_API_KEY"] is None


def test_the_configuration_shows_what_holds() -> None:
    """What the app leaves open is in its configuration afterwards, anew for each app."""
    first, second = set_up({}, api_key="sk_1"), set_up({}, api_key="sk_1")
    assert first.config["SHIPSILENTLY_TIMEOUT"] == 2.0
    assert first.config["SHIPSILENTLY_CLIENT_FLAGS"] == ()
    first.config["SHIPSILENTLY_DEFAULTS"]["x"] = True
    assert second.config["SHIPSILENTLY_DEFAULTS"] == {}


@pytest.mark.parametrize(
    ("config", "keywords", "message"),
    [
        ({"SHIPSILENTLY_TIMEOUT": 0}, {}, "SHIPSILENTLY_TIMEOUT: must be more than 0"),
        ({"SHIPSILENTLY": {"TIMEOUT": 0}}, {}, r"SHIPSILENTLY\['TIMEOUT'\]: must be more"),
        ({}, {"timeout": 0}, r"ShipSilently\(timeout=…\): must be more"),
        (
            {"SHIPSILENTLY_RETRY": {"BASE_DELAY": -1}},
            {},
            r"SHIPSILENTLY_RETRY\.base_delay: must be more",
        ),
        (
            {"SHIPSILENTLY_DEFAULTS": {"x": object()}},
            {},
            r"SHIPSILENTLY_DEFAULTS\['x'\]: must be a boolean",
        ),
        (
            {"SHIPSILENTLY_TIMOUT": 1},
            {},
            "SHIPSILENTLY_TIMOUT: is not a setting; did you mean SHIPSILENTLY_TIMEOUT",
        ),
        ({"SHIPSILENTLY": {"TIMOUT": 1}}, {}, r"\['TIMOUT'\]: is not .* did you mean TIMEOUT"),
        ({}, {"timout": 1}, r"ShipSilently\(timout=…\): is not .* did you mean timeout"),
        (
            {},
            {"quux": 1},
            r"ShipSilently\(quux=…\): is not a setting; known are: .*anonymous_cookie",
        ),
        (
            {"SHIPSILENTLY_QUUX": 1},
            {},
            "SHIPSILENTLY_QUUX: is not a setting; known are: SHIPSILENTLY_ANALYTICS, SHIPSILENTLY_",
        ),
        ({"SHIPSILENTLY": {"QUUX": 1}}, {}, r"\['QUUX'\]: is not .*; known are: ANALYTICS, "),
        ({"SHIPSILENTLY": "sk_1"}, {}, "SHIPSILENTLY: must be a mapping"),
        ({"SHIPSILENTLY_CLIENT_FLAGS": "x"}, {}, "SHIPSILENTLY_CLIENT_FLAGS: must be a list"),
        ({"SHIPSILENTLY_CLIENT_FLAGS": [1]}, {}, "SHIPSILENTLY_CLIENT_FLAGS: must be a list"),
        ({}, {"anonymous_id": "url"}, r"anonymous_id=…\): must be 'session', 'cookie' or None"),
        ({"SHIPSILENTLY_ANONYMOUS_ID": []}, {}, "SHIPSILENTLY_ANONYMOUS_ID: must be 'session'"),
        ({}, {"anonymous_cookie": "a;b"}, "must be a cookie's name"),
        ({}, {"anonymous_max_age": 0}, "must be a whole number of seconds"),
        ({}, {"anonymous_max_age": True}, "must be a whole number of seconds"),
    ],
)
def test_wrong_settings_are_named_as_the_app_wrote_them(
    config: dict[str, Any], keywords: dict[str, Any], message: str
) -> None:
    """Setting up refuses a wrong value or an unknown name, and says which key it was."""
    with pytest.raises(ConfigurationError, match=message):
        set_up({"SHIPSILENTLY_API_KEY": "sk_1", **config}, **keywords)


def test_a_missing_key_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a key anywhere, the error names Flask's key and the environment variable."""
    monkeypatch.delenv("SHIPSILENTLY_API_KEY", raising=False)
    monkeypatch.delenv("SHIPSILENTLY_KEY", raising=False)
    with pytest.raises(ConfigurationError, match=r"SHIPSILENTLY_API_KEY: is missing.*environment"):
        set_up({})


def test_a_refused_key_is_not_shown() -> None:
    """The error for a key with a line break names the setting and not the key."""
    with pytest.raises(ConfigurationError) as caught:
        set_up({"SHIPSILENTLY_API_KEY": "sk_\nsecret"})
    assert caught.value.setting == "SHIPSILENTLY_API_KEY"
    assert "secret" not in str(caught.value)


def test_a_ready_client_keeps_its_own_settings() -> None:
    """With a client given, the app's configuration is asked for the integration's settings only."""
    client = client_of(ScriptedService())
    app = set_up({"SHIPSILENTLY_CLIENT_FLAGS": ["x"]}, client=client)
    assert app.extensions["shipsilently"].client is client
    assert app.extensions["shipsilently"].settings.client_flags == ("x",)
    assert "SHIPSILENTLY_API_KEY" not in app.config


def test_a_store_and_what_was_shipped_are_settings_as_others(tmp_path: Path) -> None:
    """A path and a file of results; a file that cannot be read is an error with the key's name."""
    path = tmp_path / "flags.json"
    path.write_text('{"flags": {"x": {"value": true, "reason": "default"}}}')
    app = bare_app(
        SHIPSILENTLY_API_KEY="sk_test",
        SHIPSILENTLY_STORE=str(tmp_path / "flags.snapshot"),
        SHIPSILENTLY_BOOTSTRAP=str(path),
    )
    ShipSilently(app)
    config = config_of(app)
    assert isinstance(config.store, FileStore)
    assert list(config.bootstrap.rows) == ["x"]
    broken = bare_app(SHIPSILENTLY_API_KEY="sk_test", SHIPSILENTLY_BOOTSTRAP="none.json")
    with pytest.raises(ConfigurationError, match="SHIPSILENTLY_BOOTSTRAP: cannot be read"):
        ShipSilently(broken)
