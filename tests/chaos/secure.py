"""What can go wrong with TLS, as toxics."""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from tests.core.certificate import Authority

from .adversary import Adversary, Toxic
from .wire import Wire, stop_listening

__all__ = ["Expires", "ForgetsTls", "HandshakeHangs"]


class Expires(Toxic):
    """The certificate has an end, and connections are reset until it is reached and beyond it.

    Args:
        authority: Makes certificates.
        left: Seconds for which it is still good; below 0, it comes expired.
    """

    def __init__(self, authority: Authority, left: float) -> None:
        super().__init__()
        self._authority = authority
        self._left = left
        self._work: asyncio.Task[None] | None = None

    async def begin(self, adversary: Adversary) -> None:
        self._put(
            adversary, self._authority.leaf(datetime.now(UTC) + timedelta(seconds=self._left))
        )
        self._work = asyncio.get_running_loop().create_task(self._go_on(adversary))

    async def _go_on(self, adversary: Adversary) -> None:
        while True:
            # Only a new handshake looks at it.
            adversary.reset_all()
            self.hit("connection")
            await asyncio.sleep(0.4)

    async def end(self, adversary: Adversary) -> None:
        if self._work is not None:
            self._work.cancel()
        self._put(adversary, self._authority.leaf())

    def _put(self, adversary: Adversary, certificate: str) -> None:
        assert adversary.context is not None
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "served.pem")
            path.write_text(certificate, encoding="ascii")
            # New handshakes use it, also those of a server that listens already.
            adversary.context.load_cert_chain(path)


class ForgetsTls(Toxic):
    """The service speaks no TLS any more: it answers the handshake in plain HTTP.

    Args:
        answer: What it says; empty for nothing at all.
    """

    def __init__(self, answer: bytes) -> None:
        super().__init__()
        self._answer = answer
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[Any] | None] = set()

    async def begin(self, adversary: Adversary) -> None:
        await adversary.refuse()
        adversary.reset_all()
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", adversary.port)

    async def end(self, adversary: Adversary) -> None:
        if self._server is not None:
            await stop_listening(self._server)
        await adversary.listen()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.hit("connection")
        self._tasks.add(asyncio.current_task())
        wire = Wire(reader, writer)
        with contextlib.suppress(OSError):
            await reader.read(1)
        try:
            if not self._answer:
                await wire.vanish()
            writer.write(self._answer)
        finally:
            writer.close()


class HandshakeHangs(ForgetsTls):
    """Connections are made, and the handshake is never answered."""

    def __init__(self) -> None:
        super().__init__(b"")
