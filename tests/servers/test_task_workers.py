"""Celery's prefork pool, and processes made with multiprocessing."""

from __future__ import annotations

import json
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from shipsilently_local import LocalService
from tests.servers.harness import (
    Program,
    delivered_events,
    eventually,
    opened_streams,
    run_script,
    user_names,
)

pytestmark = pytest.mark.timeout(90)

TASKS = "tests.servers.apps.celery_tasks"
CELERY = [
    *("celery", "--app", TASKS, "worker", "--pool", "prefork", "--concurrency", "2"),
    *("-O", "fair", "--without-gossip", "--without-mingle", "--without-heartbeat"),
    *("--loglevel", "WARNING"),
]


class Tasks:
    """Sends tasks to the worker and collects what they write."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._taken: set[Path] = set()

    def run(self, users: list[str]) -> list[dict[str, Any]]:
        """Have the task run for each of these users; what each wrote."""
        source = f"from {TASKS} import show\nfor user in {users}: show.delay(user)\n"
        sent = run_script(
            source,
            self._folder,
            options=(),
            CELERY_FOLDER=str(self._folder),
            SHIPSILENTLY_API_KEY="sk_local",
        )
        assert sent.status == 0, sent.errors
        for path in (self._folder / "sent").iterdir():
            path.rename(self._folder / "queue" / path.name)
        return eventually(lambda: self._written(len(users)), f"{len(users)} tasks have run")

    def _written(self, count: int) -> list[dict[str, Any]]:
        there = set((self._folder / "results").glob("*.json")) - self._taken
        if len(there) < count:
            return []
        self._taken |= there
        return [json.loads(path.read_text(encoding="utf-8")) for path in there]


@pytest.mark.parametrize("use", ["", "start"], ids=["unused", "started-in-main"])
def test_each_celery_child_streams_once(
    use: str, service: LocalService, tmp_path: Path, say: Callable[[str], None]
) -> None:
    """Each child has a stream of its own, answers of its own, and gets changes; the main none."""
    environment = {"CELERY_FOLDER": str(tmp_path), "USE_AT_IMPORT": use}
    tasks = Tasks(tmp_path)
    with Program(CELERY, service, tmp_path, **environment) as worker:
        seen: set[int] = set()

        def both() -> bool:
            found = tasks.run(user_names(40))
            assert all(one["who"] == one["user"] for one in found)
            seen.update(one["pid"] for one in found)
            return len(seen) == 2

        eventually(both, "both children work")
        assert worker.process.pid not in seen
        streams = 2 + bool(use)
        assert service.wait_for_streams(streams, 10)
        service.set_flag("version", default=2)

        def everywhere() -> bool:
            found = tasks.run(user_names(12))
            arrived = {one["pid"] for one in found if one["version"] == 2}
            return arrived >= seen

        eventually(everywhere, "the change is everywhere", pause=0.2)
        assert opened_streams(service) == (streams, streams)
        tasks.run(["user-1"] * 12)
        # With these a batch may have become full, which is delivered before the end.
        threading.Event().wait(0.3)
        before = delivered_events(service)
        tasks.run(["user-1"] * 12)
        # It takes seconds without us, too.
        seconds = worker.stop(signal.SIGTERM, limit=30)
        assert delivered_events(service) > before, "the last events are lost"
        assert service.wait_for_streams(0, 5)
    assert "Traceback" not in worker.output
    say(f"celery: SIGTERM ends it in {seconds:.2f} s")


POOL = """
import multiprocessing, os, sys, threading
from shipsilently_core import ShipSilentlyClient

client = ShipSilentlyClient()

def say(*words):
    os.write(1, (" ".join(map(str, words)) + "\\n").encode())

def live(first):
    wrong = 0
    for number in range(first, first + 50):
        wrong += client.flags({"userId": f"user-{number}"}).get("who", "") != f"user-{number}"
    say("ready", os.getpid(), wrong)
    pause = threading.Event()
    while client.flags({"userId": f"user-{first}"}).get("version", 0) != 2:
        pause.wait(0.02)
    say("changed", os.getpid())

if __name__ == "__main__":
    assert client.wait_ready(10)
    make = multiprocessing.get_context(sys.argv[1]).Process
    children = [make(target=live, args=(first,)) for first in (50, 100)]
    for child in children:
        child.start()
    live(0)
    for child in children:
        child.join()
        assert child.exitcode == 0
    say("over")
"""


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_multiprocessing_children_live_on_their_own(
    method: str, service: LocalService, tmp_path: Path
) -> None:
    """Parent and children, forked or spawned, each stream once and get only their own answers."""
    script = tmp_path / "pool.py"
    script.write_text(POOL, encoding="utf-8")
    with Program(["python", script, method], service, tmp_path) as program:
        ready = program.said("ready", 3)
        assert len({pid for _, pid, _ in ready}) == 3
        assert [wrong for _, _, wrong in ready] == ["0"] * 3
        assert service.wait_for_streams(3, 10)
        service.set_flag("version", default=2)
        changed = program.said("changed", 3)
        assert {pid for _, pid in changed} == {pid for _, pid, _ in ready}
        program.said("over")
        assert program.process.wait(10) == 0
    assert opened_streams(service) == (3, 3)
    assert service.wait_for_streams(0, 5)
    assert "Traceback" not in program.output
    assert sys.version_info >= (3, 12) or "Warning" not in program.output, program.output
