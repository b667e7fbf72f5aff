"""From a request to a task that runs elsewhere."""

import json
from collections.abc import Callable
from typing import Any

import django
import pytest
from celery import Celery  # type: ignore[import-untyped]  # it has no types
from django.contrib.auth.models import User
from django.http import HttpRequest, JsonResponse
from django.test import RequestFactory
from shipsilently_django.tasks import atask_context, flags_for_task, task_context

from shipsilently_core.testing import ScriptedService

from .site import Browser

Serve = Callable[..., None]
Configure = Callable[..., None]


def receipt(context: dict[str, Any]) -> bool:
    """What the task does."""
    return flags_for_task(context).is_enabled("x")


@pytest.fixture
def sent(configure: Configure, service: ScriptedService) -> dict[str, Any]:
    """What a request of the user 7, for whom alone `x` is on, sends along with a task."""
    service.set(lambda context: {"x": context.get("userId") == "7"})
    request = RequestFactory().get("/")
    request.user = User(pk=7)
    return task_context(request)


def test_a_task_evaluates_for_the_user_of_the_request(sent: dict[str, Any]) -> None:
    """The context travels as plain JSON, and the task's flags are those of the same user."""
    assert json.loads(json.dumps(sent)) == sent == {"userId": "7"}
    assert receipt(sent)
    assert not receipt({})


def plain(request: HttpRequest) -> JsonResponse:
    """Say what a task would be told."""
    return JsonResponse(task_context(request))


async def awaited(request: HttpRequest) -> JsonResponse:
    """Say what a task would be told."""
    return JsonResponse(await atask_context(request))


@pytest.mark.parametrize("view", [plain, awaited], ids=["sync", "async"])
def test_a_view_makes_the_context(browser: Browser, serve: Serve, ada: User, view: Any) -> None:
    """Plain and async views tell who is logged in, and of a visitor nothing."""
    serve(view)
    assert browser.get().json() == {}
    browser.login(ada)
    assert browser.get().json() == {"userId": str(ada.pk)}


def test_celery_carries_the_context(sent: dict[str, Any]) -> None:
    """A task of Celery gets it as an argument."""
    app = Celery("site", set_as_current=False)
    app.conf.task_always_eager = True
    assert app.task(receipt).delay(sent).get() is True


def test_djangos_tasks_carry_the_context(sent: dict[str, Any]) -> None:
    """Where Django has tasks of its own, they take it as they take any JSON."""
    if django.VERSION >= (6, 0):
        from django.tasks import task

        assert task(receipt).enqueue(sent).return_value is True
    else:
        assert receipt(sent)
