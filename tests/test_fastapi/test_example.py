"""The example shop, in a server of its own."""

import time
from typing import Any

import httpx2
import pytest

from shipsilently_local import LocalService

FORM = {"content-type": "application/x-www-form-urlencoded"}


@pytest.fixture
def service(local_service: LocalService) -> LocalService:
    """The service that the shop asks."""
    return local_service


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
