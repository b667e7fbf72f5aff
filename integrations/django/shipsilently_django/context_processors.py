"""``shipsilently_django.context_processors.flags``: the variable ``flags`` in every template."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest

from .flags import flags_of

__all__ = ["flags"]


def flags(request: HttpRequest) -> dict[str, Any]:
    """The request's flags; nothing is read by this."""
    return {"flags": flags_of(request)}
