"""Whom flags are evaluated for."""

from typing import Any

from django.http import HttpRequest
from shipsilently_django import default_context


def flag_context(request: HttpRequest) -> dict[str, Any]:
    """Who is logged in, and what they pay for. Runs only where a flag is read."""
    context = default_context(request)
    if context and request.user.groups.filter(name="pro").exists():
        context["plan"] = "pro"
    return context
