"""The example sites as processes, and people who look at them in a browser."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from shipsilently_cli._flagtext import save, with_default, without_schema
from shipsilently_cli._sites import environment, example_sites
from shipsilently_local import LocalService
from tests.ports import free_port
from tests.servers.harness import ROOT, eventually, kill, spawn

if TYPE_CHECKING:
    from playwright.sync_api import Browser, ConsoleMessage, Request

__all__ = ["FRAMEWORKS", "LAUNCH_ARGUMENTS", "Person", "Site", "chromium", "running_site"]

FRAMEWORKS = ("Django", "Flask", "FastAPI")

#: A page behind the flag `new-checkout`, by framework, and what is to be read there.
GATED = {
    "Django": ("/pay/", "Pay in one step"),
    "Flask": ("/beta/gifts", "Gift wrapping"),
    "FastAPI": ("/api/checkout", '"checkout":"new"'),
}

#: No sandbox, since that does not work for root in a container; nothing of its own accord; and
#: no address but this machine's can be found.
LAUNCH_ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
)


def chromium() -> Path:
    """Where Chromium is, or would be."""
    return Path(os.environ.get("CHROMIUM") or "/usr/bin/chromium")


@dataclass(frozen=True)
class Site:
    """A running example site.

    Attributes:
        name: The framework's.
        url: Its address, without a slash at the end.
        service: The service that it asks.
        flags: The file of flags that the service watches.
        output: What the site writes.
    """

    name: str
    url: str
    service: LocalService
    flags: Path
    output: Path

    @property
    def gated(self) -> str:
        """The path of a page that exists only for those who have the new checkout."""
        return GATED[self.name][0]

    @property
    def gated_text(self) -> str:
        """What is to be read on that page."""
        return GATED[self.name][1]

    def switch(self, flag: str, default: str) -> None:
        """Save the flags file with another default, spelled as in TOML."""
        save(self.flags, with_default(self.flags.read_text(encoding="utf-8"), flag, default))


@contextlib.contextmanager
def running_site(name: str, folder: Path) -> Iterator[Site]:
    """Run a copy of an example site, and the service with a copy of the examples' flags."""
    examples = folder / "examples"
    shutil.copytree(
        ROOT / "examples", examples, ignore=shutil.ignore_patterns("__pycache__", "*.sqlite3")
    )
    flags = examples / "flags.toml"
    save(flags, without_schema(flags.read_text(encoding="utf-8")))
    site = next(site for site in example_sites(examples) if site.name == name)
    output = folder / "output.txt"
    with LocalService(flags) as service:
        variables = environment(
            os.environ, api_url=service.url, api_key=service.key, database=folder / "site.sqlite3"
        )
        if prepare := site.prepare_with():
            done = subprocess.run(
                prepare,
                cwd=site.folder,
                env=variables,
                capture_output=True,
                text=True,
                timeout=50,
                check=False,
            )
            assert done.returncode == 0, done.stdout + done.stderr
        port = free_port()
        process = spawn(site.serve_on(port), output, environment=variables, folder=site.folder)

        def listens() -> bool:
            assert process.poll() is None, output.read_text(encoding="utf-8")
            with socket.socket() as probe:
                return probe.connect_ex(("127.0.0.1", port)) == 0

        try:
            eventually(listens, f"{name} listens")
            yield Site(name, f"http://127.0.0.1:{port}", service, flags, output)
        finally:
            kill(process)
    assert "Traceback" not in (said := output.read_text(encoding="utf-8")), said


class Person:
    """Somebody with a browser of their own, whose page is watched for what it should not do.

    Attributes:
        page: The page in front of them.
        complaints: The errors in the page's console, those of its scripts, and the addresses of
            other hosts that it asked for something.
    """

    def __init__(self, browser: Browser, url: str) -> None:
        self.url = url
        self.complaints: list[str] = []
        # The console tells of each page that is not there; browsers ask for a picture of the site.
        self._missing = {f"{url}/favicon.ico"}
        self._context = browser.new_context(viewport={"width": 1000, "height": 760})
        self._context.set_default_timeout(10_000)
        self.page = self._context.new_page()
        self.page.on("console", self._on_console)
        self.page.on("pageerror", lambda error: self.complaints.append(f"script: {error}"))
        self._context.on("request", self._on_request)

    def close(self) -> None:
        """Close the browser, with all its cookies."""
        self._context.close()

    def go(self, path: str = "/", *, status: int = 200) -> None:
        """Open a page of the site."""
        address = self.url + path
        if status >= 400:
            self._missing.add(address)
        response = self.page.goto(address)
        assert response is not None
        assert response.status == status, f"{response.status} for {path}"

    def reload(self) -> None:
        """Ask for the page again."""
        response = self.page.reload()
        assert response is not None
        assert response.status == 200, f"{response.status} for {self.page.url}"

    def log_in(self, name: str) -> None:
        """Log in from the first page, with the form that the site has for it."""
        self.go()
        link = self.page.get_by_role("link", name="Log in", exact=True)
        if link.count():
            link.first.click()
        self.page.locator("input[name=username], input[name=user]").fill(name)
        password = self.page.locator("input[name=password]")
        if password.count():
            password.fill("demo")
        self.page.get_by_role("button", name="Log in", exact=True).click()
        self.page.locator("#user", has_text=name).wait_for()

    def log_out(self) -> None:
        """Log out with the button of the page."""
        self.page.get_by_role("button", name="Log out", exact=True).click()
        self.page.get_by_role("button", name="Log out", exact=True).wait_for(state="detached")

    @property
    def cookies(self) -> dict[str, bool]:
        """The names of the site's cookies, and whether each is kept from scripts."""
        return {cookie["name"]: cookie["httpOnly"] for cookie in self._context.cookies()}

    @property
    def checkout(self) -> str | None:
        """Which checkout the page shows."""
        return self.attribute("#checkout", "data-variation")

    @property
    def banner(self) -> str | None:
        """Which banner the page shows."""
        return self.attribute("#banner", "data-banner")

    def attribute(self, selector: str, name: str) -> str | None:
        """An attribute of what is found on the page."""
        value: str | None = self.page.locator(selector).get_attribute(name)
        return value

    def sees(self, checkout: str, banner: str) -> bool:
        """Whether the page, asked for again, has this checkout and this banner."""
        self.reload()
        return (self.checkout, self.banner) == (checkout, banner)

    def _on_console(self, message: ConsoleMessage) -> None:
        if message.type == "error" and message.location["url"] not in self._missing:
            self.complaints.append(f"console: {message.text} {message.location['url']}")

    def _on_request(self, request: Request) -> None:
        address = urlsplit(request.url)
        own = urlsplit(self.url)
        if address.scheme != "data" and address.netloc != own.netloc:
            self.complaints.append(f"other host: {request.url}")
