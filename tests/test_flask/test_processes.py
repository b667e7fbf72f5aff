"""Once per serving process: under the reloader, after a fork, and with a service that hangs."""

import math
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import httpx
import pytest
from flask import Flask
from shipsilently_flask import ShipSilently

from shipsilently_local import LocalService

SHOP = """
import os, sys
from flask import Flask
from shipsilently_flask import ShipSilently, flags

def create_app():
    app = Flask("shop")
    ShipSilently(app)
    app.add_url_rule("/", "page", lambda: f"{os.getpid()} {flags.get('banner', '')}")
    return app

if __name__ == "__main__":
    create_app().run(port=int(sys.argv[1]), debug=True, reloader_type="stat")
"""

FORKING = """
import os, sys, time
from shop import create_app

app = create_app()

def page():
    return app.test_client().get("/").text.split()

if sys.argv[1] == "used":
    page()
children = []
for number in range(2):
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        found = page()
        client, end = app.extensions["shipsilently"].client, time.monotonic() + 10
        while client.connection_state != "streaming" and time.monotonic() < end:
            time.sleep(0.01)
        os.write(writer, " ".join(found).encode())
        os._exit(0 if found[0] == str(os.getpid()) else 1)
    children.append((pid, reader))
for pid, reader in children:
    print(os.read(reader, 100).decode().split()[1], os.waitpid(pid, 0)[1])
print(page()[1])
"""


def environment(service: LocalService) -> dict[str, str]:
    """The environment of a process that uses the service."""
    return {
        **os.environ,
        "SHIPSILENTLY_API_URL": service.url,
        "SHIPSILENTLY_API_KEY": service.key,
    }


def count(service: LocalService, endpoint: str) -> int:
    """How many requests came to an endpoint."""
    return sum(endpoint in request.path for request in service.requests)


def test_the_reloader_runs_one_client(tmp_path: Path, free_port: int) -> None:
    """Under Flask's reloader there is one stream, of the serving process; after a reload there
    is one again, and the process that watches the files never asks for anything."""
    shop = tmp_path / "shop.py"
    shop.write_text(SHOP)
    pause = threading.Event()
    with LocalService({"banner": "blue"}) as service, httpx.Client(timeout=10) as browser:
        server = subprocess.Popen(
            [sys.executable, shop, str(free_port)],
            cwd=tmp_path,
            env=environment(service),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

        def serving(other_than: str = "") -> str:
            """The pid that answers, once it is another one."""
            saved = -math.inf
            for _ in range(400):
                try:
                    answer = browser.get(f"http://127.0.0.1:{free_port}/").text
                except httpx.TransportError:
                    answer = other_than
                pid, _, banner = answer.partition(" ")
                if banner == "blue" and pid != other_than:
                    return pid
                if banner == "blue" and time.monotonic() > saved + 4:
                    # Again, if the reloader had not begun to watch when it was saved first.
                    shop.write_text(f"{SHOP}\n# saved\n")
                    saved = time.monotonic()
                pause.wait(0.05)
            raise AssertionError("nobody answers")

        try:
            first = serving()
            assert first != str(server.pid)
            assert service.wait_for_streams(1, 10)
            assert count(service, "ticket") == 1
            second = serving(other_than=first)
            assert second != str(server.pid)
            assert service.wait_for_streams(1, 10)
            assert count(service, "ticket") == 2
        finally:
            os.killpg(server.pid, signal.SIGKILL)
            server.wait(10)


@pytest.mark.parametrize("before", ["used", "unused"])
def test_workers_that_are_forked_begin_for_themselves(tmp_path: Path, before: str) -> None:
    """An app that was made before the fork, used or not, serves in both children and in the parent;
    each worker has a background of its own without any hook."""
    (tmp_path / "shop.py").write_text(SHOP)
    with LocalService({"banner": "blue"}) as service:
        done = subprocess.run(
            [sys.executable, "-W", "ignore::DeprecationWarning", "-c", FORKING, before],
            cwd=tmp_path,
            env=environment(service),
            capture_output=True,
            text=True,
            timeout=40,
            check=False,
        )
        assert done.stderr == ""
        assert done.stdout.splitlines() == ["blue 0", "blue 0", "blue"]
        assert count(service, "ticket") >= 2


def test_a_service_that_hangs_does_not_hold_up_the_start() -> None:
    """`init_app` returns at once while the service is silent, and the first request takes no longer
    than the timeout."""
    with LocalService({"banner": "blue"}) as service:
        service.fault(silence=True)
        app = Flask("shop")
        began = time.monotonic()
        ShipSilently(app, api_url=service.url, api_key=service.key, timeout=1.0)
        assert time.monotonic() - began < 1.0
        app.add_url_rule("/", "page", lambda: app.jinja_env.from_string(TAG).render())
        began = time.monotonic()
        assert app.test_client().get("/").text == "off"
        assert 0.9 < time.monotonic() - began < 5
        app.extensions["shipsilently"].client.close()


TAG = '{% flag "banner" == "blue" %}on{% else %}off{% endflag %}'
