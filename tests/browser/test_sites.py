"""The example sites in a headless Chromium, as people use them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.browser.support import Person, Site, chromium
from tests.servers.harness import eventually

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytest.importorskip("playwright", reason="playwright comes with the extra `browser`")
if not chromium().exists():
    pytest.skip(f"there is no Chromium at {chromium()}", allow_module_level=True)

Somebody = Callable[[Site], Person]


def test_people_see_their_checkout(site: Site, somebody: Somebody) -> None:
    """A visitor has the old checkout, ada after logging in the new one, bob the old one."""
    person = somebody(site)
    person.go()
    assert (person.checkout, person.banner) == ("old", "blue")
    person.log_in("ada")
    assert person.checkout == "new"
    person.log_out()
    assert person.checkout == "old"
    person.log_in("bob")
    assert (person.checkout, person.banner) == ("old", "blue")


def test_a_gated_page_is_there_for_some(site: Site, somebody: Somebody) -> None:
    """A page behind a flag is a 404 for a visitor and for bob, and there for ada."""
    person = somebody(site)
    person.go(site.gated, status=404)
    person.log_in("bob")
    person.go(site.gated, status=404)
    person.go()
    person.log_out()
    person.log_in("ada")
    person.go(site.gated)
    assert site.gated_text in person.page.content()


def test_a_change_reaches_everybody_and_outlives_the_service(
    own_site: Site, somebody: Somebody
) -> None:
    """After a save everybody's page is the new one, and stays so when the service has stopped."""
    visitor, bob = somebody(own_site), somebody(own_site)
    visitor.go()
    bob.log_in("bob")
    assert [person.checkout for person in (visitor, bob)] == ["old", "old"]

    own_site.switch("new-checkout", "true")
    own_site.switch("banner", '"green"')
    for person in (visitor, bob):
        eventually(partial(person.sees, "new", "green"), "the new page", timeout=10)

    own_site.service.stop()
    for _ in range(3):
        assert visitor.sees("new", "green")
        assert bob.sees("new", "green")
    bob.go(own_site.gated)
    assert own_site.gated_text in bob.page.content()


@pytest.mark.parametrize("site", ["Django"], indirect=True)
def test_a_wrong_password_is_refused(site: Site, somebody: Somebody) -> None:
    """Django's own form lets nobody in who does not know the password, and says so."""
    person = somebody(site)
    person.go("/login/")
    person.page.locator("input[name=username]").fill("ada")
    person.page.locator("input[name=password]").fill("no")
    person.page.get_by_role("button", name="Log in", exact=True).click()
    person.page.locator(".error").wait_for()
    person.go()
    assert person.checkout == "old"


@pytest.mark.parametrize("site", ["Django"], indirect=True)
def test_staff_see_all_flags(site: Site, somebody: Somebody) -> None:
    """The link to the page of all flags is there for ada, who is staff, and works; not for bob."""
    person = somebody(site)
    person.log_in("bob")
    assert person.page.get_by_role("link", name="Flags", exact=True).count() == 0
    person.log_out()
    person.log_in("ada")
    person.page.get_by_role("link", name="Flags", exact=True).click()
    person.page.wait_for_url("**/admin/flags/")
    text = person.page.locator("body").inner_text()
    assert "new-checkout" in text
    assert "banner" in text


@pytest.mark.parametrize("site", ["Django"], indirect=True)
def test_a_rollout_stays_with_a_visitor(site: Site, somebody: Somebody) -> None:
    """Some visitors are served by a rollout, some are not, and each sees the same again."""
    seen: dict[str | None, Person] = {}
    # All of so many would be served alike once in a million million times.
    for _ in range(40):
        person = somebody(site)
        person.go()
        assert not person.cookies
        person.page.get_by_role("link", name="delivery").click()
        person.page.wait_for_url("**/delivery/")
        seen.setdefault(person.attribute("#delivery", "data-variation"), person)
        if len(seen) == 2:
            break
    assert seen.keys() == {"old", "new"}
    for variation, person in seen.items():
        assert list(person.cookies.values()) == [True]
        for _ in range(3):
            person.reload()
            assert person.attribute("#delivery", "data-variation") == variation


@pytest.mark.parametrize("site", ["Django"], indirect=True)
def test_the_toolbar_shows_the_flags_of_a_page(site: Site, somebody: Somebody) -> None:
    """The panel of the Django Debug Toolbar lists what the page has read, and why it was so."""
    pytest.importorskip("debug_toolbar")
    person = somebody(site)
    person.log_in("ada")
    person.page.locator("#djDebug #djShowToolBarButton").click()
    person.page.locator("#djDebug a.FlagsPanel").click()
    panel = person.page.locator("#djDebug #FlagsPanel")
    panel.get_by_text("rule_match").first.wait_for()
    text = panel.inner_text()
    assert "new-checkout" in text
    assert "banner" in text


@pytest.mark.parametrize("site", ["Flask"], indirect=True)
def test_a_streamed_page_reads_flags(site: Site, somebody: Somebody) -> None:
    """The streamed page, which ada reaches by links, has the value of a flag in each line."""
    person = somebody(site)
    person.log_in("ada")
    person.page.get_by_role("link", name="Wrap it as a gift").click()
    person.page.get_by_role("link", name="Print the labels").click()
    person.page.wait_for_url("**/beta/gifts/labels")
    lines = person.page.locator("body").inner_text().split("\n")
    assert [line for line in lines if line] == [f"label {n}, blue paper" for n in (1, 2, 3)]


@pytest.mark.parametrize("site", ["Flask"], indirect=True)
def test_what_a_page_does_wrong_is_noticed(site: Site, browser: Browser) -> None:
    """Errors in the console, failing scripts and requests to other hosts are seen as such."""
    person = Person(browser, site.url)
    person.go()
    person.page.set_content(
        "<img src='http://elsewhere.invalid/x.png'>"
        "<script>console.error('said'); throw new Error('thrown')</script>"
    )
    seen = " ".join(person.complaints)
    person.close()
    for part in ("other host: http://elsewhere.invalid/x.png", "console: said", "script: thrown"):
        assert part in seen


def test_chromium_can_be_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """The variable CHROMIUM names another Chromium than Debian's."""
    monkeypatch.delenv("CHROMIUM", raising=False)
    assert chromium() == Path("/usr/bin/chromium")
    monkeypatch.setenv("CHROMIUM", "/nowhere/chromium")
    assert chromium() == Path("/nowhere/chromium")
