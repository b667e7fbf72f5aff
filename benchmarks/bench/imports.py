"""Importing an integration in a process that has its framework already, in processor time."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from .outcome import Figure, Goal, Outcome, Settings
from .timing import median

ROOT = Path(__file__).resolve().parents[2]

_DJANGO = """
import django
from django.conf import settings
settings.configure(INSTALLED_APPS=["django.contrib.contenttypes", "django.contrib.auth"])
django.setup()
import django.core.handlers.asgi, django.core.handlers.wsgi, django.shortcuts, django.urls
import django.template.loader, django.contrib.auth.middleware, django.core.management
"""
_FLASK = "import flask, flask.views"
_FASTAPI = "import fastapi, fastapi.responses"
_CORE = """
from shipsilently_core import Config, ShipSilentlyClient
"""
_CLIENT = """
client = ShipSilentlyClient(api_key="bench", api_url="http://127.0.0.1:9", timeout=0.1)
"""
_TRANSPORT = """
from shipsilently_core._http import HttpTransport
HttpTransport(client.config)
"""

#: What is there before, what is imported, and what is made after that, step by step.
CASES: dict[str, tuple[str, ...]] = {
    "shipsilently_django": (_DJANGO, "import shipsilently_django" + _CORE, _CLIENT, _TRANSPORT),
    "shipsilently_flask": (_FLASK, "import shipsilently_flask" + _CORE, _CLIENT, _TRANSPORT),
    "shipsilently_fastapi": (_FASTAPI, "import shipsilently_fastapi" + _CORE, _CLIENT, _TRANSPORT),
}
#: A library that each of these needs, alone, and one that comes with it.
LIBRARIES: dict[str, tuple[str, ...]] = {
    "msgspec alone in Django": (_DJANGO, "import msgspec"),
    "msgspec alone in Flask": (_FLASK, "import msgspec"),
    "msgspec alone in FastAPI": (_FASTAPI, "import msgspec"),
    "typing_extensions alone in Django": (_DJANGO, "import typing_extensions"),
    "typing_extensions alone in Flask": (_FLASK, "import typing_extensions"),
}
PEERS: dict[str, tuple[str, ...]] = {
    "furagu in Django": (_DJANGO, "import furagu.contrib.django, furagu.openfeature.provider"),
    "furagu in Flask": (_FLASK, "import furagu.contrib.flask"),
    "furagu in FastAPI": (_FASTAPI, "import furagu.contrib.fastapi"),
    "launchdarkly-server-sdk in Flask": (_FLASK, "import ldclient, ldclient.config"),
    "posthog in Flask": (_FLASK, "import posthog"),
}

_SCRIPT = """
import gc, json, sys, time
{before}
def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096
gc.collect()
size, began = resident(), time.process_time()
figures = []
{steps}
print(json.dumps(figures))
"""
_STEP = """
{step}
figures += [time.process_time() - began, resident() - size]
"""


def run(settings: Settings) -> Outcome:
    """Measure."""
    cases = CASES | LIBRARIES if settings.own else CASES | LIBRARIES | PEERS
    figures: dict[str, list[list[float]]] = {name: [] for name in cases}
    missing: dict[str, str] = {}
    # An installed package is compiled once and for all, so the source tree must be too.
    with tempfile.TemporaryDirectory() as compiled:
        environment = {**os.environ, "PYTHONPYCACHEPREFIX": compiled}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        _run_all(settings, cases, environment, figures, missing)
    rows: list[Figure] = []
    goals: list[Goal] = []
    for name, runs in figures.items():
        if not runs:
            rows.append(Figure(name, None, "ms", note=missing.get(name, "")))
            continue
        first, size, *more = (median(figures) for figures in zip(*runs, strict=True))
        rows.append(Figure(f"{name}: import", first * 1e3, "ms"))
        rows.append(Figure(f"{name}: memory", size / 1e6, "MB"))
        if name in CASES:
            client, client_size, made, _ = more
            rows.append(Figure(f"{name}: with a client", client * 1e3, "ms"))
            rows.append(Figure(f"{name}: memory with a client", client_size / 1e6, "MB"))
            rows.append(Figure(f"{name}: with a transport", made * 1e3, "ms"))
            goals.append(Goal(f"{name}: import ≤ 10 ms", first * 1e3, 10.0))
            goals.append(Goal(f"{name}: import ≤ 1.5 MB", size / 1e6, 1.5))
            goals.append(Goal(f"{name}: with a transport ≤ 30 ms", made * 1e3, 30.0))
    return Outcome(rows, goals)


def _run_all(
    settings: Settings,
    cases: dict[str, tuple[str, ...]],
    environment: dict[str, str],
    figures: dict[str, list[list[float]]],
    missing: dict[str, str],
) -> None:
    for number in range(1 if settings.quick else 14):
        for name in cases if number % 2 else reversed(cases):
            before, *then = cases[name]
            steps = "".join(_STEP.format(step=step) for step in then)
            script = _SCRIPT.format(before=before, steps=steps)
            done = subprocess.run(
                [sys.executable, "-c", script],
                capture_output=True,
                text=True,
                cwd=ROOT,
                env=environment,
                check=False,
            )
            if done.returncode:
                missing[name] = done.stderr.strip().splitlines()[-1]
            elif number or settings.quick:
                # The first run of each compiles, and fills the caches of the files.
                figures[name].append(json.loads(done.stdout))
