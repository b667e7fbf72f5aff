"""What the client needs of the network; `HttpTransport` gives it, and a test can too."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from ._stream import StreamReader
    from ._wire import Reply, Request

__all__ = ["Transport"]


class Transport(Protocol):
    """How calls reach the service; every way a call can end is a `Reply`."""

    def send(self, request: Request) -> Reply:
        """Carry out one call, blocking."""
        ...

    async def asend(self, request: Request) -> Reply:
        """Carry out one call in a task."""
        ...

    def close(self) -> None:
        """Let go of every connection."""
        ...

    async def aclose(self) -> None:
        """Let go of every connection, those of the running loop included."""
        ...

    def forget(self) -> None:
        """In a forked child: let go of the parent's connections without a word on them."""
        ...

    def open_stream(self, ticket: str) -> StreamReader | Reply:
        """Open the stream that the ticket is for, or say why not."""
        ...

    def interrupt(self) -> None:
        """End every exchange that is under way, at once."""
        ...
