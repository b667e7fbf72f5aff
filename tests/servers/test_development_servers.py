"""`runserver` and `flask run`, with and without their reloaders, and commands that serve nobody."""

from __future__ import annotations

import contextlib
import http.client
import math
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from shipsilently_local import LocalService
from tests.servers.checks import (
    assert_changes_arrive_everywhere,
    assert_ends_quickly,
    assert_nobody_gets_anothers_answer,
    assert_one_stream_each,
    assert_quiet,
)
from tests.servers.harness import ROOT, Program, Server, eventually, opened_streams

pytestmark = pytest.mark.timeout(90)

FLASK = ["flask", "--app", "tests.servers.apps.flask_site:app"]
FLASK_RUN = [*FLASK, "run", "--port", "{port}"]
DJANGO = ["python", "-m", "django"]
RUNSERVER = [*DJANGO, "runserver", "127.0.0.1:{port}"]
WITH_RELOADER = {
    "runserver": RUNSERVER,
    # Only the site's own module is watched, so that nobody's work on this project is in the way.
    "flask --debug": [*FLASK_RUN, "--debug", "--exclude-patterns", f"{ROOT}/*"],
}
RELOADING = {
    "runserver": RUNSERVER,
    "Flask": ["python", "-m", "tests.servers.apps.flask_reloading", "{port}"],
}
ALL = {
    **WITH_RELOADER,
    "runserver --noreload": [*RUNSERVER, "--noreload"],
    "flask": FLASK_RUN,
}

# Both print that they are not for production.
TOLD = r"WARNING.*development server|^WARNING: This is a development server"


def site(folder: Path) -> dict[str, str]:
    """The variables of a site that imports a module of its own, which a test may touch."""
    (folder / "touched.py").touch()
    return {
        "ALSO_IMPORT": "touched",
        "DJANGO_SETTINGS_MODULE": "tests.servers.apps.django_settings",
        "PYTHONPATH": os.pathsep.join([str(folder), str(ROOT), os.environ.get("PYTHONPATH", "")]),
        "SITE_DEBUG": "1",
        "SITE_DB": str(folder / "site.sqlite3"),
    }


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_only_the_serving_process_streams(
    name: str,
    how: signal.Signals,
    service: LocalService,
    tmp_path: Path,
    say: Callable[[str], None],
) -> None:
    """The process that serves streams, one that watches files does not; both signals end all."""
    with Server(ALL[name], service, tmp_path, **site(tmp_path)) as server:
        assert opened_streams(service) == (0, 0), "something started before a flag was read"
        pids = {server.ask("user-1").pid}
        assert (server.process.pid in pids) is (name not in WITH_RELOADER)
        assert_one_stream_each(service, pids)
        assert_nobody_gets_anothers_answer(server, users=50)
        assert_changes_arrive_everywhere(server, service, pids)
        assert_one_stream_each(service, pids)
        # SIGTERM kills them before anything of ours can run, and a reloader its child on Ctrl-C
        # after a quarter of a second.
        delivers = how is signal.SIGINT and name not in WITH_RELOADER
        seconds = assert_ends_quickly(server, service, how, delivers=delivers)
    assert_quiet(server, TOLD)
    say(f"{name}: {how.name} ends it in {seconds:.2f} s")


@pytest.mark.parametrize("name", RELOADING)
def test_the_autoreloader_never_makes_two_streams(
    name: str, service: LocalService, tmp_path: Path
) -> None:
    """After a source file was saved the old stream goes, one new comes, and never are there two."""
    with Server(RELOADING[name], service, tmp_path, **site(tmp_path)) as server:
        before = server.ask("user-1").pid
        assert service.wait_for_streams(1)
        streams: set[int] = set()
        saved = -math.inf

        def reloaded() -> bool:
            nonlocal saved
            streams.add(service.open_streams)
            # Its end may cut an answer off.
            with contextlib.suppress(OSError, ValueError, http.client.HTTPException):
                if server.ask("user-1").pid != before:
                    return True
                if time.monotonic() > saved + 4:
                    # Again, if the reloader had not begun to watch when it was saved first.
                    (tmp_path / "touched.py").write_text("changed = True\n", encoding="utf-8")
                    saved = time.monotonic()
            return False

        eventually(reloaded, "another process serves")
        assert service.wait_for_streams(1)
        assert streams <= {0, 1}
        assert opened_streams(service) == (2, 2)
        assert_ends_quickly(server, service, signal.SIGINT)


@pytest.mark.parametrize(
    "command",
    [
        [*DJANGO, "migrate"],
        [*DJANGO, "check"],
        [*DJANGO, "shell", "--command", "print('here')"],
        [*FLASK, "routes"],
    ],
    ids=lambda command: " ".join(command[-2:]),
)
def test_commands_that_serve_nobody_ask_the_service_nothing(
    command: list[str], service: LocalService, tmp_path: Path
) -> None:
    """Setting up a site in a command opens no stream and makes no call."""
    with Program(command, service, tmp_path, **site(tmp_path)) as program:
        assert program.process.wait(30) == 0, program.output
    assert program.output
    assert service.requests == []
    assert_quiet(program)
