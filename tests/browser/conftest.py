"""Fixtures of the tests in a browser; needs nothing of the browser to be loaded."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.browser.support import (
    FRAMEWORKS,
    LAUNCH_ARGUMENTS,
    Person,
    Site,
    chromium,
    running_site,
)

if TYPE_CHECKING:
    from playwright.sync_api import Browser

PEOPLE = pytest.StashKey[list[Person]]()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A headless Chromium.

    Playwright occupies the thread's event loop, so that no test of another module, which may
    need one, runs while it is there.
    """
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        running = playwright.chromium.launch(
            executable_path=chromium(), args=LAUNCH_ARGUMENTS, timeout=30_000
        )
        with contextlib.closing(running):
            yield running


@pytest.fixture(scope="module", params=FRAMEWORKS)
def site(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Site]:
    """Each example site, shared by tests that change nothing but what their people see."""
    with running_site(request.param, tmp_path_factory.mktemp("site")) as running:
        yield running


@pytest.fixture(params=FRAMEWORKS)
def own_site(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Site]:
    """Each example site, for one test alone."""
    with running_site(request.param, tmp_path) as running:
        yield running


@pytest.fixture
def somebody(
    browser: Browser, request: pytest.FixtureRequest, tmp_path: Path
) -> Iterator[Callable[[Site], Person]]:
    """Gives people who look at a site; in the end none of their pages may have complained."""
    people: list[Person] = request.node.stash.setdefault(PEOPLE, [])

    def somebody(site: Site) -> Person:
        people.append(Person(browser, site.url))
        return people[-1]

    yield somebody
    complaints = [complaint for person in people for complaint in person.complaints]
    while people:
        people.pop().close()
    assert not complaints


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Keep a picture of what each person saw when a test failed, in its temporary folder."""
    report = yield
    people = item.stash.get(PEOPLE, [])
    if report.when == "call" and report.failed and isinstance(item, pytest.Function):
        folder = item.funcargs["tmp_path"]
        assert isinstance(folder, Path)
        for number, person in enumerate(people, 1):
            picture = folder / f"person-{number}.png"
            # What is shown is that the test failed, not that there is no picture of it.
            with contextlib.suppress(Exception):
                person.page.screenshot(path=picture, timeout=5000)
                report.sections.append(("what was seen", f"{person.page.url}: {picture}"))
    return report
