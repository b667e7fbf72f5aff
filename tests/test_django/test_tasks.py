"""From a request to a task that runs elsewhere."""

import json
from collections.abc import Callable

from django.contrib.auth.models import User
from django.test import RequestFactory
from shipsilently_django.tasks import flags_for_task, task_context

from shipsilently_core.testing import ScriptedService

Configure = Callable[..., None]


def test_a_task_evaluates_for_the_user_of_the_request(
    configure: Configure, service: ScriptedService
) -> None:
    """The context travels as plain JSON, and the task's flags are those of the same user."""
    service.set(lambda context: {"x": context.get("userId") == "7"})
    request = RequestFactory().get("/")
    request.user = User(pk=7)
    sent = json.loads(json.dumps(task_context(request)))
    assert sent == {"userId": "7"}
    assert flags_for_task(sent).is_enabled("x")
    assert not flags_for_task({}).is_enabled("x")
