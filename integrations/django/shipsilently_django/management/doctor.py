"""``manage.py shipsilently doctor``: the doctor's checks, with the site's settings and its own."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from django.apps import apps
from django.conf import settings
from django.core.checks import ERROR
from django.core.management.base import BaseCommand
from django.urls import get_resolver

from shipsilently_cli.checkup import Finding, Level, Subject, examine, print_report
from shipsilently_cli.checkup.findings import failure, ok, warning
from shipsilently_cli.checkup.sources import places_of
from shipsilently_django.checks import (
    check_attributes,
    check_middleware,
    check_store,
    check_targets,
    check_templates,
    check_visitors,
)
from shipsilently_django.options import read_options
from shipsilently_django.setup import get_setup

__all__ = ["add_parser", "run"]

_NAME = "the site"
_NO_MIDDLEWARE = "shipsilently.W001"
_CHECKS = (
    *(check_middleware, check_visitors, check_attributes),
    *(check_templates, check_store, check_targets),
)


def add_parser(subparsers: Any) -> None:
    """The words of the command line."""
    parser = subparsers.add_parser(
        "doctor", help="check the way to the service, the settings and the production checklist"
    )
    parser.add_argument(
        "--quick", action="store_true", help="measure less and do not wait for a heartbeat"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    # What Django's own checks would end the command with, the doctor tells among the rest.
    parser.set_defaults(skip_checks=True)


def run(command: BaseCommand, *, quick: bool, as_json: bool) -> None:
    """Examine and print; the process ends with 1 for warnings and 2 for failures."""
    styles = {
        Level.OK: command.style.SUCCESS,
        Level.WARNING: command.style.WARNING,
        Level.FAILURE: command.style.ERROR,
        Level.SKIPPED: command.style.HTTP_NOT_MODIFIED,
    }

    def write(line: str) -> None:
        command.stdout.write(line)
        command.stdout.flush()

    code = print_report(
        examine(_subject(), quick=quick, progress=command.stderr.write),
        write,
        as_json=as_json,
        paint=lambda level, text: str(styles[level](text)),
    )
    if code:
        sys.exit(code)


def _subject() -> Subject:
    # Views are imported with the addresses, and what they import may connect hooks.
    broken = list(_load_urls())
    reading = read_options(getattr(settings, "SHIPSILENTLY", {}))
    problems = [
        failure("configuration", problem.text, problem.hint or "See `manage.py check`.")
        for problem in reading.problems
    ]
    setup = get_setup()
    config = reading.config
    if setup.options.client is not None and not problems:
        config = setup.client.config
    if setup.options.offline:
        problems.append(
            warning(
                "configuration",
                "SHIPSILENTLY['OFFLINE'] is on: the site asks no service",
                "Leave it out in production.",
            )
        )
    return Subject(
        config=config,
        problems=tuple(problems),
        app=_NAME,
        client=setup.client,
        sources=tuple(_sources()),
        framework=lambda _: [*broken, *_framework()],
    )


def _load_urls() -> Iterator[Finding]:
    try:
        _ = get_resolver().url_patterns
    except Exception as error:
        yield failure(
            "django",
            f"the site's addresses cannot be loaded: {type(error).__name__}",
            "See `manage.py check`.",
        )


def _sources() -> Iterator[Path]:
    base = getattr(settings, "BASE_DIR", None)
    if base is not None:
        yield Path(base)
        return
    for app in apps.get_app_configs():
        path = Path(app.path)
        if "site-packages" not in path.parts and app.label != "shipsilently":
            yield path


def _framework() -> Iterable[Finding]:
    messages = [message for check in _CHECKS for message in check()]
    readers = places_of(_sources(), "flags")
    for message in messages:
        make = failure if message.level >= ERROR else warning
        if message.id == _NO_MIDDLEWARE and readers:
            yield failure(
                "django",
                f"FlagsMiddleware is not in MIDDLEWARE, and {readers[0]} reads `request.flags`, "
                "which is an error there",
                f"{message.hint} ({message.id})",
            )
            continue
        yield make("django", message.msg.rstrip("."), f"{message.hint} ({message.id})")
    if not messages:
        yield ok("django", "the middleware is there, once and behind the user; so are the tags")
