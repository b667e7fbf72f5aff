"""Stands in for packages that are not installed here: as much of them as is built upon."""

import importlib.util
import sys
from types import ModuleType
from typing import Any

from django.template.loader import render_to_string


class Panel:
    """`debug_toolbar.panels.Panel`: what a panel gets from it."""

    template = ""

    def __init__(self, toolbar: Any, get_response: Any) -> None:
        self.toolbar = toolbar
        self.get_response = get_response
        self.stats: dict[str, Any] = {}
        self.timing: dict[str, Any] = {}

    @property
    def content(self) -> str:
        """The panel's page."""
        return render_to_string(self.template, self.get_stats())

    def process_request(self, request: Any) -> Any:
        """Go on to the next panel, and at last to the view."""
        return self.get_response(request)

    def record_stats(self, stats: dict[str, Any]) -> None:
        """Keep what the panel has found."""
        self.stats.update(stats)

    def get_stats(self) -> dict[str, Any]:
        """What was kept."""
        return self.stats

    def record_server_timing(self, key: str, title: str, value: float) -> None:
        """Keep what goes into the header."""
        self.timing[key] = (title, value)


class BasePermission:
    """`rest_framework.permissions.BasePermission`: everybody may pass."""

    def has_permission(self, request: Any, view: Any) -> bool:
        """Whether the request may pass."""
        return True


def stand_in(package: str, module: str, value: type[Any]) -> None:
    """Make `package.module` importable, with one class in it, where the package is not."""
    if importlib.util.find_spec(package) is None:
        top, inner = ModuleType(package), ModuleType(f"{package}.{module}")
        setattr(inner, value.__name__, value)
        sys.modules[package], sys.modules[f"{package}.{module}"] = top, inner
