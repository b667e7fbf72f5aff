"""Flags where there is no request: commands, tasks of Celery, mails."""

import asyncio
import time
from collections.abc import Callable
from typing import Any

import pytest
from django.template import Context, Template
from pytest_django import Settings
from shipsilently_django import aflag_enabled, flag_enabled, get_client
from shipsilently_django.readable import KnownFlags

from shipsilently_core.testing import ScriptedService
from shipsilently_local import LocalService

MAIL = Template('{% load shipsilently %}{% flag "x" %}new{% else %}old{% endflag %}')


def eventually(condition: Callable[[], object], seconds: float = 10.0) -> bool:
    """Whether something becomes true in time."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


@pytest.mark.parametrize(
    "read",
    [
        lambda: flag_enabled("x"),
        lambda: asyncio.run(aflag_enabled("x")),
        lambda: MAIL.render(Context({})) == "new",
        lambda: KnownFlags().evaluate_all(),
    ],
    ids=["flag_enabled", "aflag_enabled", "template", "evaluate_all"],
)
def test_a_process_that_serves_no_request_learns_what_is_known(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, read: Callable[[], object]
) -> None:
    """The first read starts the client, without which those after it would see no value either."""
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    with LocalService({"x": True}) as service:
        settings.SHIPSILENTLY = {"API_KEY": service.key, "API_URL": service.url, "OFFLINE": False}
        assert eventually(read)


@pytest.mark.parametrize("given", [{"OFFLINE": True}, {}], ids=["offline", "in tests"])
def test_nothing_is_started_where_nobody_is_to_be_asked(
    settings: Settings, given: dict[str, Any]
) -> None:
    """Offline, and while tests run, a read only serves the declared default."""
    settings.SHIPSILENTLY = {"API_KEY": "sk_test", "DEFAULTS": {"x": True}, **given}
    assert flag_enabled("x")
    assert get_client().status().attempts == 0
    assert get_client().connection_state == "idle"


def test_nobody_waits_for_the_service(
    configure: Callable[..., None], service: ScriptedService
) -> None:
    """A read without a request asks nothing itself."""
    assert not flag_enabled("x")
    assert not service.requests
