"""The example site, as people use it: in a browser's steps, and as a process of its own."""

import importlib.util
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import httpx
import pytest
from flask.testing import FlaskClient

from shipsilently_local import LocalService

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
SITE = EXAMPLES / "flask" / "app.py"


@pytest.fixture
def service(tmp_path: Path) -> Iterator[LocalService]:
    """The local service with a copy of the example sites' flags."""
    flags_file = tmp_path / "flags.toml"
    flags_file.write_text((EXAMPLES / "flags.toml").read_text())
    with LocalService(flags_file) as running:
        yield running


@pytest.fixture
def site(service: LocalService, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The module of the site, imported anew."""
    monkeypatch.setenv("SHIPSILENTLY_API_URL", service.url)
    monkeypatch.setenv("SHIPSILENTLY_API_KEY", service.key)
    spec = importlib.util.spec_from_file_location("example_flask_app", SITE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def browser(site: ModuleType) -> Iterator[FlaskClient]:
    """A browser on the site."""
    app = site.create_app()
    app.testing = True
    yield app.test_client()
    app.extensions["shipsilently"].client.close()


def variation(text: str) -> str:
    """Which checkout the page shows."""
    found = re.findall(r'<section id="checkout" data-variation="(\w+)">', text)
    (shown,) = found
    return str(shown)


def test_the_checkout_is_for_those_who_have_the_flag(browser: FlaskClient) -> None:
    """Strangers and bob see the old checkout, ada the new one, each with the reason."""
    assert variation(browser.get("/").text) == "old"
    page = browser.post("/login", data={"user": " Ada "}, follow_redirects=True).text
    assert variation(page) == "new"
    assert '<strong id="user">ada</strong> (pro)' in page
    assert '<dd id="reason">rule_match</dd>' in page
    assert '<dd id="rule">paying customers</dd>' in page
    page = browser.post("/login", data={"user": "bob"}, follow_redirects=True).text
    assert variation(page) == "old"
    assert '<dd id="value">off</dd>' in page
    page = browser.post("/logout", follow_redirects=True).text
    assert 'id="user"' not in page


def test_nobody_logs_in_under_an_unknown_name(browser: FlaskClient) -> None:
    """A name that has no account leaves one a stranger."""
    page = browser.post("/login", data={"user": "eve"}, follow_redirects=True).text
    assert 'id="user"' not in page
    assert browser.post("/login").status_code == 303


def test_the_banner_has_its_flags_colour(browser: FlaskClient, service: LocalService) -> None:
    """The banner has the colour that its flag holds."""
    service.set_flag("banner", default="green")
    assert 'data-banner="green"' in browser.get("/").text


def test_the_gated_blueprint_exists_for_some(browser: FlaskClient) -> None:
    """The pages below `/beta` are there for ada and a 404 for everybody else."""
    assert browser.get("/beta/gifts").status_code == 404
    browser.post("/login", data={"user": "ada"})
    assert 'id="gifts"' in browser.get("/beta/gifts").text
    assert browser.get("/beta/gifts/labels").text.splitlines()[2] == "label 3, blue paper"


def test_a_page_may_need_the_flag_and_an_account(
    browser: FlaskClient, service: LocalService
) -> None:
    """A visitor who has the flag sees the gifts, and is sent to log in for their labels."""
    service.set_flag("new-checkout", default=True, rules=[])
    assert browser.get("/beta/gifts").status_code == 200
    answer = browser.get("/beta/gifts/labels")
    assert (answer.status_code, answer.location) == (302, "/?next=%2Fbeta%2Fgifts%2Flabels")


def test_a_rollout_shows_each_visitor_the_same_shop(
    browser: FlaskClient, service: LocalService
) -> None:
    """With a rollout to half of the visitors some have the new checkout, each at every visit."""
    service.set_flag("new-checkout", rules=[{"name": "half", "serve": True, "rollout": 50}])
    visitors = [browser.application.test_client() for _ in range(40)]
    first, second = ([variation(visitor.get("/").text) for visitor in visitors] for _ in range(2))
    assert first == second
    assert set(first) == {"old", "new"}


def test_an_outage_leaves_the_page_as_it_was(browser: FlaskClient, service: LocalService) -> None:
    """With the service gone ada still sees the new checkout."""
    browser.post("/login", data={"user": "ada"})
    assert variation(browser.get("/").text) == "new"
    service.stop()
    assert [variation(browser.get("/").text) for _ in range(5)] == ["new"] * 5


def test_the_site_runs_as_a_program(free_port: int, service: LocalService) -> None:
    """`python app.py --port N` serves, and follows a change of the flags file."""
    process = subprocess.Popen(
        [sys.executable, "-W", "error", SITE, "--port", str(free_port)],
        env={**os.environ, "SHIPSILENTLY_API_URL": service.url},
        stderr=subprocess.PIPE,
        text=True,
    )
    pause = threading.Event()

    def page() -> str:
        for _ in range(200):
            try:
                return httpx.get(f"http://127.0.0.1:{free_port}/", timeout=10).text
            except httpx.TransportError:
                pause.wait(0.05)
        raise AssertionError("the site never answered")

    try:
        assert variation(page()) == "old"
        assert service.wait_for_streams(1, 10)
        service.set_flag("new-checkout", default=True)
        for _ in range(200):
            if variation(page()) == "new":
                break
            pause.wait(0.05)
        assert variation(page()) == "new"
    finally:
        process.terminate()
        _, errors = process.communicate(timeout=10)
    assert "Traceback" not in errors
