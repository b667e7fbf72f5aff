"""The pages of the Django site."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.models import Group
from django.http import HttpRequest, JsonResponse
from django.urls import path
from shipsilently_django import FlagsRequest, get_client

from tests.servers.apps.answer import answer, hold, set_up


def context(request: HttpRequest) -> dict[str, Any]:
    """Whom flags are for."""
    return {"userId": request.GET["user"]}


def ping(request: HttpRequest) -> JsonResponse:
    """Read no flag."""
    return JsonResponse({})


def show(request: FlagsRequest) -> JsonResponse:
    """Read flags."""
    hold(request.GET.get("hold", ""))
    return JsonResponse(answer(get_client(), request.flags))


def orm(request: FlagsRequest) -> JsonResponse:
    """Read flags, write to the database and read from it."""
    found = answer(get_client(), request.flags)
    Group.objects.get_or_create(name=request.GET["user"])
    return JsonResponse({**found, "group": Group.objects.get(name=request.GET["user"]).name})


urlpatterns = [path("ping", ping), path("flags", show), path("orm", orm)]
set_up(get_client())
