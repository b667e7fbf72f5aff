"""gevent's patched standard library: greenlets in the place of threads."""

from __future__ import annotations

import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from shipsilently_local import LocalService
from tests.servers.checks import assert_ends_quickly, assert_quiet
from tests.servers.harness import Program, Server, eventually, run_script, user_names

pytestmark = pytest.mark.timeout(60)


def test_the_orm_works_while_the_background_runs(service: LocalService, tmp_path: Path) -> None:
    """Django's database works in views while greenlets follow the stream, and changes arrive."""
    environment = {
        "DJANGO_SETTINGS_MODULE": "tests.servers.apps.django_settings",
        "SITE_DB": str(tmp_path / "site.sqlite3"),
    }
    with Program(["python", "-m", "django", "migrate"], service, tmp_path, **environment) as made:
        assert made.process.wait(30) == 0, made.output
    command = [
        *("gunicorn", "--no-control-socket", "--bind", "127.0.0.1:{port}", "--workers", "1"),
        *("--worker-class", "gevent", "tests.servers.apps.django_wsgi"),
    ]
    with Server(command, service, tmp_path, **environment) as server:
        users = user_names(30)
        with ThreadPoolExecutor(6) as pool:
            pages = list(pool.map(lambda user: server.get("/orm", user=user), users))
        assert [page["group"] for page in pages] == users
        assert [page["who"] for page in pages] == users
        assert service.wait_for_streams(1)
        service.set_flag("version", default=2)
        eventually(lambda: server.get("/orm", user="user-1")["version"] == 2, "the change arrives")
        assert server.get("/orm", user="user-2")["state"] == "streaming"
        assert_ends_quickly(server, service, signal.SIGTERM, delivers=True)
    assert_quiet(server)


PATCHED = """
from gevent import monkey
monkey.patch_all()
import gevent, sys, time
from shipsilently_core import ShipSilentlyClient

client = ShipSilentlyClient()
assert client.wait_ready(10)

def ticks():
    count = 0
    while not over:
        gevent.sleep(0.01)
        count += 1
    return count

over = []
ticking = gevent.spawn(ticks)

def read(user):
    return client.flags({"userId": user}).get("who", "")

users = [f"user-{n}" for n in range(100)]
jobs = [gevent.spawn(read, user) for user in users]
gevent.joinall(jobs, timeout=20)
assert [job.value for job in jobs] == users
begin = time.monotonic()
gevent.sleep(0.5)
over.append(True)
assert ticking.get(timeout=5) > 5, "the background stops all greenlets"
client.close()
print("end", flush=True)
sys.exit(3)
"""


def test_greenlets_share_one_client(service: LocalService, tmp_path: Path) -> None:
    """A hundred greenlets get their own answers, none waits for the background, and it all ends."""
    ended = run_script(PATCHED, tmp_path, service, options=())
    assert (ended.status, ended.errors) == (3, "")
    assert ended.seconds < 2
    assert service.wait_for_streams(0)
