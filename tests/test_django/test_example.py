"""The example shop, as people start it."""

import os
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from shipsilently_local import LocalService

EXAMPLE = Path(__file__).resolve().parent.parent.parent / "examples" / "django"
FLAGS = EXAMPLE.parent / "flags.toml"


class Shop:
    """The running shop."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.browsers: list[httpx.Client] = []

    def browser(self, name: str | None = None) -> httpx.Client:
        """A browser, logged in where a name is given."""
        browser = httpx.Client(base_url=self.url, follow_redirects=True, trust_env=False)
        self.browsers.append(browser)
        if name is not None:
            token = re.search(r'csrfmiddlewaretoken" value="(\w+)"', browser.get("/login/").text)
            assert token
            form = {"username": name, "password": "demo", "csrfmiddlewaretoken": token[1]}
            assert browser.post("/login/", data=form).url.path == "/"
        return browser


def variation(browser: httpx.Client) -> str:
    """Which checkout a browser is shown."""
    found = re.search(r'id="checkout" data-variation="(\w+)"', browser.get("/").text)
    assert found
    return found[1]


def eventually(condition: Callable[[], bool], seconds: float = 10) -> bool:
    """Whether something becomes true in time."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """The environment of the shop's commands."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    return {**kept, "EXAMPLE_DB": str(tmp_path / "shop.sqlite3"), "PYTHONUNBUFFERED": "1"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy of the shop, whose files may be touched."""
    return Path(shutil.copytree(EXAMPLE, tmp_path / "django", symlinks=True))


@pytest.fixture
def service(tmp_path: Path) -> Iterator[LocalService]:
    """The service with the examples' flags, in a file that may be changed."""
    with LocalService(shutil.copy(FLAGS, tmp_path)) as running:
        yield running


def manage(folder: Path, environment: dict[str, str], *words: str) -> str:
    """Run one of the shop's commands."""
    result = subprocess.run(
        [sys.executable, "-W", "error", "manage.py", *words],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout + result.stderr


@pytest.fixture
def start(
    folder: Path, environment: dict[str, str], service: LocalService, free_port: int
) -> Iterator[Callable[..., Shop]]:
    """Starts the shop under Django's own server."""
    environment |= {"SHIPSILENTLY_API_URL": service.url, "SHIPSILENTLY_API_KEY": service.key}
    running: list[subprocess.Popen[bytes]] = []
    shops: list[Shop] = []

    def start(*options: str) -> Shop:
        manage(folder, environment, "migrate", "-v0")
        assert not service.requests
        address = f"127.0.0.1:{free_port}"
        running.append(
            subprocess.Popen(
                [sys.executable, "manage.py", "runserver", *options, address],
                cwd=folder,
                env=environment,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        )
        assert eventually(lambda: listens(free_port), 20)
        shops.append(Shop(f"http://{address}"))
        return shops[-1]

    yield start
    for browser in (browser for shop in shops for browser in shop.browsers):
        browser.close()
    for process in running:
        os.killpg(process.pid, 15)
        process.wait(10)


def listens(port: int) -> bool:
    """Whether a server has come up."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def test_the_shop_follows_the_flags(start: Callable[..., Shop], service: LocalService) -> None:
    """A rule for one user, a change for everybody, an outage, and the time after it."""
    shop = start("--noreload")
    ada, bob, visitor = shop.browser("ada"), shop.browser("bob"), shop.browser()
    people = (ada, bob, visitor)

    assert [variation(one) for one in people] == ["new", "old", "old"]
    assert ada.get("/pay/").status_code == 200
    assert bob.get("/pay/").status_code == visitor.get("/pay/").status_code == 404
    page = ada.get("/").text
    assert '<b id="user">ada</b>' in page
    assert 'id="reason">rule_match' in page
    assert 'data-banner="blue"' in page
    assert "answers 404" in ada.get("/checkout/").text
    assert "Step 1 of 3" in bob.get("/checkout/").text
    assert "under a blue banner" in ada.get("/receipt/").text
    assert bob.get("/receipt/").status_code == 404
    assert "<code>true</code></td><td>rule_match" in ada.get("/admin/flags/").text
    assert bob.get("/admin/flags/").url.path == "/admin/login/"

    service.set_flag("new-checkout", default=True)
    assert eventually(lambda: variation(bob) == variation(visitor) == "new")

    service.fault("*", status=503)
    service.set_flag("new-checkout", default=False)
    assert [variation(one) for one in people] == ["new"] * 3
    service.stop()
    assert [variation(one) for one in people] == ["new"] * 3

    service.clear_faults()
    service.start()
    assert eventually(lambda: variation(bob) == variation(visitor) == "old", 30)
    assert variation(ada) == "new"


def delivery(browser: httpx.Client) -> str:
    """What a browser is told of delivery."""
    found = re.search(r'id="delivery" data-variation="(\w+)"', browser.get("/delivery/").text)
    assert found
    return found[1]


def test_a_rollout_stays_with_a_visitor(start: Callable[..., Shop], service: LocalService) -> None:
    """Some visitors are in it and some are not, each for good; nobody needs an id elsewhere."""
    shop = start("--noreload")
    browsers = [shop.browser() for _ in range(24)]
    for browser in browsers:
        assert variation(browser) == "old"
        assert "shipsilently_visitor" not in browser.cookies
    asked = [one.body for one in service.requests if "evaluate" in one.path]
    assert not any(b"visitor-" in body for body in asked)
    assert len(asked) < len(browsers)

    first = [delivery(browser) for browser in browsers]
    assert set(first) == {"new", "old"}
    assert all("shipsilently_visitor" in browser.cookies for browser in browsers)
    assert [delivery(browser) for browser in browsers] == first
    ada = shop.browser("ada")
    assert delivery(ada) == delivery(ada)
    assert "shipsilently_visitor" not in ada.cookies


def test_the_toolbar_lists_the_flags_of_a_page(start: Callable[..., Shop]) -> None:
    """Where it is installed, with DEBUG: the flags that were read, and why they were so."""
    ada = start("--noreload").browser("ada")
    response = ada.get("/")
    assert "2 flags read" in response.headers["Server-Timing"]
    (request_id,) = re.findall(r'data-request-id="(\w+)"', response.text)
    asked = {"request_id": request_id, "panel_id": "FlagsPanel"}
    content = ada.get("/__debug__/render_panel/", params=asked).json()["content"]
    assert "<code>new-checkout</code></td><td><code>true</code></td><td>rule_match" in content


def test_production_has_no_toolbar(folder: Path, environment: dict[str, str]) -> None:
    """Without DEBUG neither the app nor its addresses are there."""
    shown = manage(folder, environment | {"DEBUG": "0"}, "shell", "-v0", "-c", TOOLBAR)
    assert shown.split() == ["False", "False"]


TOOLBAR = """
from django.conf import settings
from django.urls import get_resolver
print(settings.TOOLBAR, "djdt" in get_resolver().namespace_dict)
"""


def test_the_reloader_starts_the_background_once(
    start: Callable[..., Shop], service: LocalService, folder: Path
) -> None:
    """Under `runserver` the watching parent has no stream, and a reload leaves one, not two."""
    browser = start().browser()
    variation(browser)
    assert service.wait_for_streams(1, 20)
    before = len([one for one in service.requests if one.path.endswith("/ticket")])
    assert before == 1

    def saved() -> bool:
        # What was saved before the reloader's first look at its files it never sees: once more.
        (folder / "shop" / "views.py").touch()
        return service.wait_for_streams(0, 4)

    assert eventually(saved, 20)

    def answers() -> bool:
        try:
            return browser.get("/").status_code == 200
        except httpx.TransportError:
            return False

    # The old process may answer once more while it ends, when its stream is gone already.
    assert eventually(lambda: answers() and service.wait_for_streams(1, 1), 20)


def test_the_shop_passes_the_checks_of_a_deployment(
    folder: Path, environment: dict[str, str]
) -> None:
    """`check --deploy` is clean, and there is nothing to migrate."""
    environment |= {
        "ALLOWED_HOSTS": "shop.example.com",
        "DEBUG": "0",
        "HTTPS": "1",
        "SECRET_KEY": "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ",
        "SHIPSILENTLY_API_URL": "https://flags.example.com",
        "SHIPSILENTLY_API_KEY": "sk_live_1",
    }
    assert "no issues" in manage(folder, environment, "check", "--deploy", "--fail-level=WARNING")
    manage(folder, environment, "migrate", "-v0")
    assert "No changes" in manage(folder, environment, "makemigrations", "--check", "--dry-run")
