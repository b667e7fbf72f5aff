"""A page that tells how the client is, for monitoring: ``path("health/flags/", health)``."""

from __future__ import annotations

import msgspec
from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from .setup import get_client

__all__ = ["health"]


@login_not_required
@never_cache
@require_safe
def health(request: HttpRequest) -> HttpResponse:
    """The status of this process's client as JSON.

    It always answers 200. A site goes on without the service, so nothing should stop
    sending people there on its account; ``ready`` and ``gate`` tell how things are. It
    holds no key, no context and no flag's value, asks the service nothing, and costs no query.
    """
    return HttpResponse(msgspec.json.encode(get_client().status()), "application/json")
