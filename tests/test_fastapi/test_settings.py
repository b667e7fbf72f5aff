"""The client's settings as fields of a settings class."""

from pathlib import Path
from typing import Any

import pytest
from shipsilently_fastapi import ShipSilently, ShipSilentlySettings

from shipsilently_core import Config, ConfigurationError
from shipsilently_core.stores import FileStore
from shipsilently_core.stores_redis import RedisStore


class Settings(ShipSilentlySettings):
    """An app's own settings."""

    database_url: str = "sqlite://"


def test_the_fields_become_a_configuration() -> None:
    """Fields that are set are used, the others have the defaults of `Config`."""
    settings = Settings.model_validate(
        {
            "shipsilently_api_key": "sk_secret",
            "shipsilently_api_url": "http://127.0.0.1:4400/",
            "shipsilently_timeout": "0.5",
            "shipsilently_polling_interval": 10,
            "shipsilently_max_age": 0,
            "shipsilently_stream": "false",
        }
    )
    config = settings.shipsilently_config()
    assert config == Config(
        api_key="sk_secret",
        api_url="http://127.0.0.1:4400",
        timeout=0.5,
        polling_interval=10.0,
        max_age=0.0,
        stream=False,
    )
    assert ShipSilently(config).config is config
    assert Settings(
        shipsilently_api_key=settings.shipsilently_api_key
    ).shipsilently_config() == Config(api_key="sk_secret")


@pytest.mark.parametrize(
    ("word", "kind"),
    [
        ("true", FileStore),
        ("1", FileStore),
        (True, FileStore),
        ("flags.snapshot", FileStore),
        ("redis://:secret@127.0.0.1:6379/0", RedisStore),
        ("false", None),
        (False, None),
        (None, None),
    ],
)
def test_a_store_can_be_named_in_the_environment(word: Any, kind: type | None) -> None:
    """By a path, by an address, or switched on and off by a word."""
    given = {"shipsilently_api_key": "k", "shipsilently_store": word}
    store = Settings.model_validate(given).shipsilently_config().store
    assert store is None if kind is None else isinstance(store, kind)


def test_what_was_shipped_and_how_old_is_too_old_can_be_set(tmp_path: Path) -> None:
    """A file of results, and seconds."""
    path = tmp_path / "flags.json"
    path.write_text('{"flags": {"x": {"value": true, "reason": "default"}}}')
    config = Settings.model_validate(
        {
            "shipsilently_api_key": "k",
            "shipsilently_bootstrap": str(path),
            "shipsilently_max_stale": "60",
        }
    ).shipsilently_config()
    assert config.max_stale == 60.0
    assert list(config.bootstrap.rows) == ["x"]


def test_the_key_is_not_shown() -> None:
    """The key is in no repr and in no dump of the settings, nor is a password of the store's."""
    settings = Settings.model_validate(
        {"shipsilently_api_key": "sk_secret", "shipsilently_store": "redis://:pa55@127.0.0.1"}
    )
    shown = repr(settings) + settings.model_dump_json()
    assert "sk_secret" not in shown
    assert "pa55" not in shown


def test_a_wrong_field_names_the_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    """A missing key and a wrong value are configuration errors."""
    monkeypatch.delenv("SHIPSILENTLY_API_KEY", raising=False)
    monkeypatch.delenv("SHIPSILENTLY_KEY", raising=False)
    with pytest.raises(ConfigurationError, match="api_key"):
        Settings().shipsilently_config()
    with pytest.raises(ConfigurationError, match="timeout"):
        Settings.model_validate(
            {"shipsilently_api_key": "k", "shipsilently_timeout": -1}
        ).shipsilently_config()
