"""A page that tells how the client is, for monitoring: ``path("health/flags/", health)``."""

from __future__ import annotations

from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from shipsilently_core.contrib import health as core

from .setup import get_setup

__all__ = ["health"]


@login_not_required
@never_cache
@require_safe
def health(request: HttpRequest, unavailable: int = core.UNAVAILABLE) -> HttpResponse:
    """The status of this process's client as JSON.

    It answers 200 while the service's values are served. That includes last known good
    ones during an outage, a process that nobody has asked for a flag yet, and a site that
    is told to ask no service; 503 where only defaults are left, as with a key that is missing. What
    is wrong with the settings is in ``settings_errors``. It holds no key, no context and no flag's
    value, asks the service nothing, and costs no query.

    Args:
        request: The request.
        unavailable: The HTTP status where only defaults are left; 200 for a site that is
            fine with them: ``path("health/flags/", health, {"unavailable": 200})``.
    """
    setup = get_setup()
    status, body = core.health(
        setup.client,
        unavailable=200 if setup.asks_nobody else unavailable,
        settings_errors=[
            {"kind": f"shipsilently.{problem.code}", "message": problem.text}
            for problem in setup.problems
        ],
    )
    return HttpResponse(body, "application/json", status)
