"""The example shop, in a server of its own and in this process."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from shipsilently_local import LocalService

EXAMPLES = Path(__file__).resolve().parent.parent.parent / "examples"
FORM = {"content-type": "application/x-www-form-urlencoded"}


@pytest.fixture
def service() -> Iterator[LocalService]:
    """A service whose new checkout is for those who pay."""
    paying = {
        "name": "paying customers",
        "when": [{"attribute": "plan", "operator": "equals", "value": "pro"}],
        "serve": True,
    }
    with LocalService({"new-checkout": {"default": False, "rules": [paying]}}) as service:
        yield service


@pytest.fixture
def shop(service: LocalService, free_port: int) -> Iterator[httpx2.Client]:
    """A browser's session at the running shop."""
    command = [
        *(sys.executable, "-W", "error", "-m", "uvicorn", "--app-dir", str(EXAMPLES / "fastapi")),
        *("app:app", "--port", str(free_port), "--log-level", "warning"),
    ]
    environment = {
        **os.environ,
        "SHIPSILENTLY_API_URL": service.url,
        "SHIPSILENTLY_API_KEY": service.key,
    }
    with subprocess.Popen(command, env=environment) as server:
        try:
            with httpx2.Client(
                base_url=f"http://127.0.0.1:{free_port}", follow_redirects=True, trust_env=False
            ) as browser:
                wait_for(browser)
                assert service.wait_for_streams(1)
                yield browser
        finally:
            server.terminate()
            server.wait(10)
    assert server.returncode in (0, -15)


def wait_for(browser: httpx2.Client) -> None:
    """Wait until the shop is open."""
    until = time.monotonic() + 30
    while True:
        try:
            browser.get("/")
        except httpx2.TransportError:
            assert time.monotonic() < until
            time.sleep(0.05)
        else:
            return


def variation(page: Any) -> str:
    """Which checkout a page shows."""
    assert page.status_code == 200
    start = page.text.index('<section id="checkout" data-variation="')
    return str(page.text[start:].split('"')[3])


def test_the_shop_follows_its_flags(shop: httpx2.Client, service: LocalService) -> None:
    """People see their own checkout, through logins, changes and an outage."""
    page = shop.get("/")
    assert variation(page) == "old"
    assert 'data-banner="blue"' in page.text
    assert '<dd id="reason">default</dd>' in page.text

    page = shop.post("/login", content="user=ada", headers=FORM)
    assert variation(page) == "new"
    assert '<strong id="user">ada</strong> (pro)' in page.text
    assert '<dd id="reason">rule_match</dd>' in page.text
    assert shop.get("/api/checkout").json() == {"user": "ada", "checkout": "new"}

    page = shop.post("/login", content="user=bob", headers=FORM)
    assert variation(page) == "old"
    assert shop.get("/api/checkout").status_code == 404

    service.set_flag("new-checkout", default=True)
    service.set_flag("banner", enabled=True, default="<script>")
    until = time.monotonic() + 5
    while variation(page := shop.get("/")) == "old":
        assert time.monotonic() < until
        time.sleep(0.02)
    assert 'data-banner="blue"' in page.text

    service.stop()
    for _ in range(10):
        assert variation(shop.get("/")) == "new"

    page = shop.post("/logout")
    assert '<form method="post" action="/login">' in page.text
    page = shop.post("/login", content="user=%3Cb%3E", headers=FORM)
    assert '<form method="post" action="/login">' in page.text


def test_the_shop_describes_its_api(shop: httpx2.Client) -> None:
    """The schema lists the gated endpoint with its refusal."""
    schema = shop.get("/openapi.json").json()
    responses = schema["paths"]["/api/checkout"]["get"]["responses"]
    assert set(responses) == {"200", "404"}
