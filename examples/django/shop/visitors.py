"""Whom flags are evaluated for."""

from typing import Any

from django.http import HttpRequest
from shipsilently_django import default_context


def flag_context(request: HttpRequest) -> dict[str, Any]:
    """Who is logged in, and what they pay for. Runs only where a flag is read.

    Visitors are told apart where a rollout needs it. On all other pages they are one and
    the same to the service, and get no cookie.
    """
    if not request.user.is_authenticated:
        page = request.resolver_match
        return default_context(request) if page and page.url_name == "delivery" else {}
    context = default_context(request)
    if request.user.groups.filter(name="pro").exists():
        context["plan"] = "pro"
    return context
