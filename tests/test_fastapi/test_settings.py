"""The client's settings as fields of a settings class."""

import pytest
from shipsilently_fastapi import ShipSilently, ShipSilentlySettings

from shipsilently_core import Config, ConfigurationError


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


def test_the_key_is_not_shown() -> None:
    """The key is in no repr and in no dump of the settings."""
    settings = Settings.model_validate({"shipsilently_api_key": "sk_secret"})
    assert "sk_secret" not in repr(settings) + settings.model_dump_json()


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
