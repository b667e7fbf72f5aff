"""The client's settings as fields of an app's own settings class."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import BaseModel, SecretStr, field_validator

from shipsilently_core import Config
from shipsilently_core._shipped import SWITCHES

__all__ = ["ShipSilentlySettings"]


class ShipSilentlySettings(BaseModel):
    """Fields for a class of pydantic-settings, which fills them from the environment.

    ::

        class Settings(ShipSilentlySettings, BaseSettings):
            database_url: str

        shipsilently = ShipSilently(Settings().shipsilently_config())

    Fields that stay ``None`` have `Config`'s own default; units are as there.

    Attributes:
        shipsilently_api_key: The environment's SDK key.
        shipsilently_api_url: The service's address.
        shipsilently_timeout: Seconds.
        shipsilently_polling_interval: Seconds.
        shipsilently_max_age: Seconds.
        shipsilently_stream: Whether changes are streamed.
        shipsilently_store: The path of a file, the address of a Redis server, or true.
        shipsilently_bootstrap: The path of a file that ``shipsilently snapshot`` wrote.
        shipsilently_max_stale: Seconds.
    """

    shipsilently_api_key: SecretStr | None = None
    shipsilently_api_url: str | None = None
    shipsilently_timeout: float | None = None
    shipsilently_polling_interval: float | None = None
    shipsilently_max_age: float | None = None
    shipsilently_stream: bool | None = None
    # An address may hold a password.
    shipsilently_store: SecretStr | bool | None = None
    shipsilently_bootstrap: Path | None = None
    shipsilently_max_stale: float | None = None

    @field_validator("shipsilently_store", mode="before")
    @classmethod
    def _switched(cls, value: Any) -> Any:
        """An environment variable has words only; these name no file."""
        return SWITCHES.get(value.strip().lower(), value) if isinstance(value, str) else value

    def shipsilently_config(self) -> Config:
        """The settings, for `ShipSilently`.

        Raises:
            ConfigurationError: One is missing or wrong.
        """
        given = {
            name.removeprefix("shipsilently_"): getattr(self, name)
            for name in ShipSilentlySettings.model_fields
            if getattr(self, name) is not None
        }
        if self.shipsilently_api_key is not None:
            given["api_key"] = self.shipsilently_api_key.get_secret_value()
        if isinstance(self.shipsilently_store, SecretStr):
            given["store"] = self.shipsilently_store.get_secret_value()
        return Config(**given)
