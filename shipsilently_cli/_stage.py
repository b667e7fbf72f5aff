"""The service and the sites of the demo, as they are started, refused, killed and started again."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx

from ._pages import Page
from ._processes import Child, Children, free_ports
from ._sites import Site, environment

__all__ = ["KEY", "RefusedError", "Stage", "StartError"]

#: The key that the service accepts.
KEY = "sk_local"

#: Seconds that each of the service and the sites may take to answer.
_START_LIMIT = 60.0
_PAUSE = 0.02


class RefusedError(Exception):
    """The demo cannot begin on this machine; says why in one line."""


class StartError(Exception):
    """A process of the demo did not start, or has ended.

    Attributes:
        name: Which one.
        lines: What it has put out last.
    """

    def __init__(self, name: str, problem: str, lines: Sequence[str]) -> None:
        super().__init__(f"{name} {problem}")
        self.name = name
        self.lines = lines


class Stage:
    """Everything that runs beside the demo, and the addresses it has.

    Args:
        children: Starts the processes.
        client: Talks to them.
        folder: For the flags file, the database and the logs.
        flags: The flags file, in that folder.
        sites: The sites.
    """

    def __init__(
        self,
        children: Children,
        client: httpx.AsyncClient,
        folder: Path,
        flags: Path,
        sites: Sequence[Site],
    ) -> None:
        self._children = children
        self._client = client
        self._folder = folder
        self._sites = sites
        self.flags = flags
        try:
            self._port, *self._site_ports = free_ports(1 + len(sites))
        except OSError as error:
            raise RefusedError(str(error)) from None
        self.url = f"http://127.0.0.1:{self._port}"
        self.pages = {
            site.name: Page(client, f"http://127.0.0.1:{port}/")
            for site, port in zip(sites, self._site_ports, strict=True)
        }
        self._service: Child
        self._running: dict[str, Child] = {}

    async def start(self) -> None:
        """Start everything; returns when all of it answers.

        Raises:
            RefusedError: The service refuses to run.
            StartError: A site does not start.
        """
        await self.start_service()
        env = environment(
            os.environ, api_url=self.url, api_key=KEY, database=self._folder / "django.sqlite3"
        )
        starts = [
            self._start_site(site, port, env)
            for site, port in zip(self._sites, self._site_ports, strict=True)
        ]
        await asyncio.gather(*starts)

    async def start_service(self) -> None:
        """Start the service, on the same port as before; returns when it answers."""
        command = [sys.executable, "-m", "shipsilently_cli", "serve", str(self.flags)]
        self._service = self._children.start(
            "service",
            [*command, "--port", str(self._port), "--key", KEY],
            folder=self._folder,
            env=os.environ,
        )
        try:
            await self._answers("service", self._service, f"{self.url}/local/state")
        except StartError as error:
            if self._service.ended and self._service.process.returncode == 2 and error.lines:
                raise RefusedError(error.lines[-1].removeprefix("Error: ")) from None
            raise
        self._running["service"] = self._service

    def kill_service(self) -> None:
        """End the service's process and with it every connection, without warning."""
        del self._running["service"]
        self._children.kill(self._service)

    async def refuse(self) -> None:
        """From now on the service answers every call with 503."""
        await self._ask("POST", "/local/faults", {"endpoint": "*", "status": 503})

    async def followers(self) -> int:
        """How many sites follow the service's stream at present."""
        count: int = (await self._ask("GET", "/local/state"))["openStreams"]
        return count

    async def _ask(self, method: str, path: str, body: object = None) -> dict[str, Any]:
        try:
            answer = await self._client.request(
                method, self.url + path, json=body, headers={"X-API-Key": KEY}
            )
            answer.raise_for_status()
        except httpx.HTTPError as error:
            raise StartError(
                "service", f"does not answer ({type(error).__name__})", self._service.last_lines()
            ) from None
        said: dict[str, Any] = answer.json()
        return said

    def last_lines(self, name: str) -> list[str]:
        """What a site has put out last."""
        return self._running[name].last_lines() if name in self._running else []

    def check(self) -> None:
        """Raise `StartError` when a process that should run has ended."""
        for name, child in self._running.items():
            if child.ended:
                raise StartError(
                    name, f"has ended, with status {child.process.returncode}", child.last_lines()
                )

    async def _start_site(self, site: Site, port: int, env: dict[str, str]) -> None:
        if not site.folder.is_dir():
            raise StartError(site.name, f"has no folder {site.folder}", [])
        if command := site.prepare_with():
            child = self._children.start(site.name, command, folder=site.folder, env=env)
            await self._succeeds(site.name, child)
        child = self._children.start(site.name, site.serve_on(port), folder=site.folder, env=env)
        self._running[site.name] = child
        await self._answers(site.name, child, self.pages[site.name].url)

    async def _succeeds(self, name: str, child: Child) -> None:
        limit = time.monotonic() + _START_LIMIT
        while time.monotonic() < limit:
            if child.ended:
                self._children.ended(child)
                if child.process.returncode:
                    raise StartError(name, "could not be set up", child.last_lines())
                return
            await asyncio.sleep(_PAUSE)
        raise StartError(name, f"was not set up within {_START_LIMIT:g} s", child.last_lines())

    async def _answers(self, name: str, child: Child, url: str) -> None:
        seen = "no answer"
        limit = time.monotonic() + _START_LIMIT
        while time.monotonic() < limit:
            if child.ended:
                raise StartError(
                    name,
                    f"ended at once, with status {child.process.returncode}",
                    child.last_lines(),
                )
            try:
                answer = await self._client.get(url, headers={"X-API-Key": KEY})
            except httpx.HTTPError as error:
                seen = f"no answer ({type(error).__name__})"
            else:
                if answer.status_code == 200:
                    return
                seen = f"status {answer.status_code}"
            await asyncio.sleep(_PAUSE)
        raise StartError(
            name, f"did not start within {_START_LIMIT:g} s: {seen}", child.last_lines()
        )
