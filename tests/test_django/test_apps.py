"""The Django app, and processes that must not notice it."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
from django.apps import apps
from django.core.management import call_command

from shipsilently_local import LocalService

ROOT = Path(__file__).resolve().parent.parent.parent


def run(source: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a program that uses the test settings, with warnings as errors."""
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(source)],
        cwd=folder,
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "DJANGO_SETTINGS_MODULE": "tests.django_settings",
            **environment,
        },
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )


def test_the_app_has_a_label_of_its_own() -> None:
    """Its label is `shipsilently`, and it has no models."""
    config = apps.get_app_config("shipsilently")
    assert config.name == "shipsilently_django"
    assert not list(config.get_models())


@pytest.mark.django_db
def test_there_is_nothing_to_migrate(capsys: pytest.CaptureFixture[str]) -> None:
    """`makemigrations --check` finds nothing."""
    call_command("makemigrations", "--check", "--dry-run")
    assert "No changes detected" in capsys.readouterr().out


def test_starting_django_starts_nothing(tmp_path: Path) -> None:
    """Set-up and commands make no client, and that of the middleware no thread and no socket.

    Without a key the log says at the start what is wrong, and the site runs.
    """
    result = run(
        """
        import socket, sys, threading

        class NoSocket(socket.socket):
            def __init__(self, *args, **kwargs):
                raise AssertionError("a socket was opened")

        socket.socket = NoSocket
        import django
        django.setup()
        from django.core.management import call_command
        from django.core.handlers.wsgi import WSGIHandler
        call_command("migrate", verbosity=0)
        from shipsilently_django import setup
        assert not setup.in_use
        WSGIHandler()
        assert threading.active_count() == 1, threading.enumerate()
        assert setup.in_use["setup"].client
        assert "httpx" not in sys.modules
        """,
        tmp_path,
        SHIPSILENTLY_API_KEY="",
    )
    assert result.returncode == 0, result.stderr
    assert "SHIPSILENTLY['API_KEY']" in result.stderr


@pytest.mark.parametrize("fault", [{"silence": True}, {"drop": True}, {"status": 503}])
def test_the_service_cannot_hold_up_the_start(tmp_path: Path, fault: dict[str, Any]) -> None:
    """With a service that hangs, Django is set up in the time that it takes without one."""
    with LocalService({"x": True}) as service:
        service.fault("*", **fault)
        result = run(
            """
            import time
            import django
            django.setup()
            began = time.monotonic()
            from django.apps import apps
            apps.get_app_config("shipsilently").ready()
            from django.core.handlers.wsgi import WSGIHandler
            WSGIHandler()
            assert time.monotonic() - began < 1
            """,
            tmp_path,
            SHIPSILENTLY_API_KEY=service.key,
            SHIPSILENTLY_API_URL=service.url,
        )
        assert result.returncode == 0, result.stderr
        assert not service.requests


def test_every_name_can_be_imported_before_django_is_set_up(tmp_path: Path) -> None:
    """Settings modules and URLconfs may import from the package at any time."""
    result = run(
        """
        import shipsilently_django
        for name in shipsilently_django.__all__:
            getattr(shipsilently_django, name)
        import shipsilently_django.asgi, shipsilently_django.testing, shipsilently_django.tasks
        """,
        tmp_path,
    )
    assert result.returncode == 0, result.stderr
