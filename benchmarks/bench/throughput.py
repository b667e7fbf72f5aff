"""Requests per second of each example site under wrk, with the integration and without."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from .outcome import Figure, Goal, Outcome, Settings
from .timing import median, ratio

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"

_GUNICORN = ["gunicorn", "-w", "1", "-k", "gthread", "--threads", "2", "--log-level", "critical"]
_UVICORN = ["uvicorn", "--log-level", "critical", "--no-access-log"]

#: The servers have the first to themselves, as they would without wrk and the service beside them.
CORES = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
if len(CORES) < 2:
    CORES = []

#: The server of each example, the app with flags and the folder it is in, the app without.
SITES: dict[str, tuple[list[str], str, Path, str]] = {
    "Django": (_GUNICORN, "shop.wsgi:application", EXAMPLES / "django", "django_app()"),
    "Flask": (_GUNICORN, "app:create_app()", EXAMPLES / "flask", "flask_app()"),
    "FastAPI": (_UVICORN, "app:app", EXAMPLES / "fastapi", "fastapi_app"),
}

WITH, WITHOUT, ASKING, NOTING = (
    "with flags",
    "without flags",
    "without flags, an empty dependency",
    "with the least that these flags can be",
)

#: The apps with less than flags.
LESS: dict[str, dict[str, str]] = {
    "Django": {NOTING: "django_noting_app()"},
    "Flask": {NOTING: "flask_noting_app()"},
    "FastAPI": {NOTING: "fastapi_noting_app", ASKING: "fastapi_asking_app"},
}
_LEAST = "a visitor looked up, and as many reads, noted and not delivered"


def run(settings: Settings) -> Outcome:
    """Measure."""
    wrk = shutil.which("wrk")
    goals = [f"{name}: ≥ 97 % of the requests of the bare site" for name in SITES]
    if wrk is None:
        why = "wrk is not installed"
        rows = [Figure(name, None, "/s", note=why) for name in SITES]
        return Outcome(rows, [Goal(what, None, 97.0, at_least=True, note=why) for what in goals])
    if CORES:
        os.sched_setaffinity(0, CORES[1:])
    try:
        return _measured(settings, wrk, goals)
    finally:
        if CORES:
            os.sched_setaffinity(0, CORES)


def _measured(settings: Settings, wrk: str, goals: list[str]) -> Outcome:
    from shipsilently_local import LocalService

    rows = []
    reached = []
    rounds, seconds = (1, 1) if settings.quick else (7, 2)
    with LocalService(EXAMPLES / "flags.toml") as service:
        for name, what in zip(SITES, goals, strict=True):
            command, app, folder, bare = SITES[name]
            environment = {"SHIPSILENTLY_API_URL": service.url, "SHIPSILENTLY_API_KEY": service.key}
            bare_app = f"{__package__}.plain_sites:{bare}"
            with contextlib.ExitStack() as stack:
                urls = {
                    WITH: stack.enter_context(server(command, app, folder, environment)),
                    WITHOUT: stack.enter_context(server(command, bare_app, ROOT, {})),
                }
                for what_it_is, less in LESS[name].items():
                    less_app = f"{__package__}.plain_sites:{less}"
                    urls[what_it_is] = stack.enter_context(server(command, less_app, ROOT, {}))
                rates: dict[str, list[float]] = {which: [] for which in urls}
                for each in urls.values():
                    requests_per_second(wrk, each, 1)
                for number in range(rounds):
                    for which in urls if number % 2 else reversed(urls):
                        rates[which].append(requests_per_second(wrk, urls[which], seconds))
            how = f"{command[0]}, one process, 8 connections, the example's home page"
            for which in urls:
                rows.append(
                    Figure(
                        f"{name}, {which}",
                        median(rates[which]),
                        "/s",
                        ratio(rates[WITH], rates[which]),
                        _LEAST if which == NOTING else how,
                    )
                )
            share = 100 * ratio(rates[WITH], rates[WITHOUT])
            note = ", ".join(
                f"{what_it_is}: {100 * ratio(rates[what_it_is], rates[WITHOUT]):.0f}"
                for what_it_is in LESS[name]
            )
            reached.append(Goal(what, share, 97.0, at_least=True, note=note))
    return Outcome(rows, reached)


@contextlib.contextmanager
def server(
    command: list[str], app: str, folder: Path, environment: dict[str, str]
) -> Iterator[tuple[str, str]]:
    """The address of a server in a process of its own, and the cookie of its visitor."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    address = ["-b", f"127.0.0.1:{port}"] if command[0] == "gunicorn" else ["--port", str(port)]
    if command[0] == "uvicorn" and app.endswith("_app"):
        address.append("--factory")
    process = subprocess.Popen(
        [sys.executable, "-m", *command, *address, app],
        cwd=folder,
        env={
            **os.environ,
            "DEBUG": "0",
            "PYTHONPATH": os.pathsep.join(
                [str(ROOT), str(folder), os.environ.get("PYTHONPATH", "")]
            ),
            **environment,
        },
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    if CORES:
        os.sched_setaffinity(process.pid, CORES[:1])
    url = f"http://127.0.0.1:{port}/"
    try:
        yield url, wait_for(url, process)
    finally:
        process.terminate()
        try:
            process.communicate(timeout=10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()


def wait_for(url: str, process: subprocess.Popen[bytes]) -> str:
    """Wait until a server answers; gives the cookie that it sets.

    With it, wrk is one visitor who comes again and again, and not a new one each time.
    """
    end = time.monotonic() + 20
    while True:
        try:
            with urllib.request.urlopen(url, timeout=5) as answer:
                assert b"shop" in answer.read()
                return (answer.headers.get("Set-Cookie") or "").partition(";")[0]
        except OSError:
            if process.poll() is not None or time.monotonic() > end:
                process.kill()
                raise RuntimeError((process.communicate()[1] or b"").decode()[-500:]) from None
            time.sleep(0.05)


def requests_per_second(wrk: str, visitor: tuple[str, str], seconds: int) -> float:
    """What wrk counts."""
    url, cookie = visitor
    done = subprocess.run(
        [wrk, "-t", "1", "-c", "8", "-d", f"{seconds}s", "-H", f"Cookie: {cookie}", url],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "Non-2xx" not in done.stdout, done.stdout
    found = re.search(r"Requests/sec:\s*([\d.]+)", done.stdout)
    assert found is not None, done.stdout
    return float(found[1])
