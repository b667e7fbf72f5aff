"""The Django app: checks and nothing else; no thread, no connection, no exception."""

from __future__ import annotations

from typing import Any

from django.apps import AppConfig
from django.core import checks
from django.core.signals import setting_changed

from .checks import (
    check_attributes,
    check_deployment,
    check_middleware,
    check_settings,
    check_store,
    check_targets,
    check_templates,
    check_visitors,
)
from .setup import reset_setup

__all__ = ["ShipSilentlyAppConfig"]


class ShipSilentlyAppConfig(AppConfig):
    """``shipsilently_django`` in ``INSTALLED_APPS``."""

    name = "shipsilently_django"
    label = "shipsilently"
    verbose_name: str = "ShipSilently"

    def ready(self) -> None:
        """Register checks. This runs in commands and in parent processes too."""
        for check in (
            *(check_settings, check_middleware, check_visitors, check_attributes),
            *(check_templates, check_store, check_targets),
        ):
            checks.register(check, "shipsilently")
        checks.register(check_deployment, "shipsilently", deploy=True)
        setting_changed.connect(_follow_settings, dispatch_uid="shipsilently")


def _follow_settings(*, setting: str, **_: Any) -> None:
    if setting == "SHIPSILENTLY":
        reset_setup()
