"""From a request to a task that runs later, or elsewhere: for Celery, ``django.tasks`` and others.

A task has no request. What it needs is handed to it as an argument: the context, to have
flags evaluated anew when it runs, or the values, to do what the request has announced.
"""

from __future__ import annotations

import json
from typing import Any

from django.http import HttpRequest

from shipsilently_core import Flags

from .flags import flags_of
from .setup import get_client

__all__ = ["atask_context", "flags_for_task", "task_context"]


def task_context(request: HttpRequest) -> dict[str, Any]:
    """Whom the request's flags are for, as plain JSON to send along with a task."""
    context: dict[str, Any] = json.loads(flags_of(request).context.body)
    return context


async def atask_context(request: HttpRequest) -> dict[str, Any]:
    """`task_context`, waiting in a task of the event loop."""
    context: dict[str, Any] = json.loads((await flags_of(request).acontext()).body)
    return context


def flags_for_task(context: dict[str, Any]) -> Flags:
    """In the task: flags for what `task_context` has sent, evaluated when the first is read."""
    return get_client().flags(context)
