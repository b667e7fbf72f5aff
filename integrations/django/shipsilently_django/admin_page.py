"""A read-only page for staff: the flags as this process sees them, for whomever they choose.

urlpatterns = [
    path("admin/flags/", flags_page, name="flags"),
    path("admin/", admin.site.urls),
]
"""

from __future__ import annotations

import json
from typing import Any

from django.contrib import admin
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.views.decorators.http import require_safe

from shipsilently_core import Context
from shipsilently_core.contrib._shared import aged

from .setup import get_client
from .users import UnknownUserError, context_of_user, find_user

__all__ = ["flags_page"]


def flags_page(request: HttpRequest) -> HttpResponse:
    """The page; whoever is not staff is sent to the admin's login."""
    return admin.site.admin_view(_page)(request)


@require_safe
def _page(request: HttpRequest) -> HttpResponse:
    client = get_client()
    name = request.GET.get("user", "").strip()
    context, problem = Context(), ""
    try:
        context = context_of_user(find_user(name) if name else request.user)
    except UnknownUserError as error:
        problem = str(error)
    except Exception as error:
        problem = f"the context of this user could not be made ({type(error).__name__})"
    results = [] if problem else sorted(client.flags(context).evaluate_all().items())
    shown: dict[str, Any] = {
        **admin.site.each_context(request),
        "title": "Feature flags",
        "name": name,
        "problem": problem,
        "status": client.status(),
        "offline": client.evaluator.closed,
        "service": client.config.api_url,
        "attributes": sorted(json.loads(context.body)),
        "flags": [
            (
                result,
                json.dumps(result.value, ensure_ascii=False, indent=1),
                aged(result.source, result.age),
            )
            for _, result in results
        ],
    }
    return TemplateResponse(request, "shipsilently/admin_page.html", shown)
