"""The stream: ticket, plan, connection, one heartbeat, and whether a proxy holds it back."""

from __future__ import annotations

import time
from collections.abc import Generator

from msgspec import Struct
from msgspec.json import Decoder

from shipsilently_core import Failure
from shipsilently_core._http import HttpTransport
from shipsilently_core._sse import EventParser, EventTooLargeError
from shipsilently_core._stream import Silence, StreamBroken, StreamReader
from shipsilently_core._wire import UNREADABLE, Reply, ticket_request

from .findings import Checks, Finding, failure, ok, skipped, warning
from .service import is_page
from .session import Session, seconds

__all__ = ["check"]

#: Seconds for the first event, beyond the deadline of the call that opens the stream.
_FIRST_PATIENCE = 3.0

_UNBUFFER = (
    "A proxy on the way buffers answers: switch that off for /v1/stream (nginx: "
    "`proxy_buffering off`). Until then changes are polled for."
)


class _Ticket(Struct):
    ticket: str


_decode = Decoder(_Ticket).decode


def check(session: Session) -> Checks:
    """Whether changes arrive as they happen. Whatever is found, there is more to look at."""
    if not session.config.stream:
        for name in ("ticket", "stream", "heartbeat"):
            yield skipped(name, "streaming is switched off")
        return True
    ticket = yield from _ticket(session)
    live = False
    if ticket is not None:
        live = yield from _stream(session, ticket)
    if ticket is None:
        yield skipped("stream", "there is no ticket")
    if not live:
        yield skipped("heartbeat", "there is no stream")
    return True


def _ticket(session: Session) -> Generator[Finding, None, str | None]:
    reply, _ = session.timed(ticket_request())
    if reply.status == 402:
        every = seconds(session.config.polling_interval)
        yield warning(
            "ticket",
            f"the plan has no streaming (HTTP 402): changes arrive by polling, every {every}",
            "Take a plan with streaming, or set stream to False so that nothing asks for it.",
        )
        return None
    if reply.status == 200 and not is_page(reply):
        try:
            ticket: str = _decode(reply.body).ticket
        except UNREADABLE:
            ticket = ""
        if ticket:
            yield ok("ticket", "the plan has streaming")
            return ticket
    yield failure(
        "ticket",
        f"there is no ticket for the stream: {_how(reply)}",
        "Changes are polled for meanwhile; the service's status page may say more.",
    )
    return None


def _stream(session: Session, ticket: str) -> Checks:
    transport: HttpTransport = session.transport
    begin = time.perf_counter()
    opened = transport.open_stream(ticket)
    if isinstance(opened, Reply):
        if opened.failure is Failure.TIMEOUT:
            limit = seconds(session.config.timeout)
            yield failure(
                "stream",
                f"the ticket is good, but no byte of the stream came within {limit}",
                _UNBUFFER,
            )
        else:
            yield failure(
                "stream",
                f"the ticket is good, but there is no stream: {_how(opened)}",
                "Something on the way does not let event streams pass: look at proxies.",
            )
        return False
    try:
        events = _Events(opened)
        end = events.wait_for("connected", _FIRST_PATIENCE)
        if end:
            yield failure(
                "stream",
                f"it opened, but the event that says so {end}",
                _UNBUFFER,
            )
            return False
        yield ok("stream", f"connected in {seconds(time.perf_counter() - begin)}")
        if session.quick:
            yield skipped("heartbeat", "not waited for, as --quick was given")
            return True
        limit = seconds(session.patience)
        session.progress(f"waiting for a heartbeat, up to {limit} (--quick does not)")
        begin = time.perf_counter()
        end = events.wait_for("heartbeat", session.patience)
        if end:
            yield failure(
                "heartbeat",
                f"the stream opened, but a heartbeat {end}",
                f"{_UNBUFFER} Or it cuts quiet connections: allow two minutes.",
            )
        else:
            yield ok("heartbeat", f"after {seconds(time.perf_counter() - begin)}")
        return True
    finally:
        opened.close()


class _Events:
    """Reads an open stream up to the event wanted."""

    def __init__(self, reader: StreamReader) -> None:
        self._reader = reader
        self._parser = EventParser()
        self._names: list[str] = []

    def wait_for(self, name: str, patience: float) -> str:
        """How the wait ended without it; nothing where it came."""
        end = time.monotonic() + patience
        while True:
            while self._names:
                if self._names.pop(0) == name:
                    return ""
            left = end - time.monotonic()
            try:
                if left <= 0:
                    raise Silence
                chunk = self._reader.read(left)
                self._names += [event.name for event in self._parser.feed(chunk)]
            except Silence:
                return f"did not come within {seconds(patience)}"
            except StreamBroken as broken:
                return f"did not come before the stream ended ({broken.cause})"
            except EventTooLargeError:
                return "did not come, but something without an end"


def _how(reply: Reply) -> str:
    if reply.failure is Failure.TIMEOUT:
        return "no answer in time"
    if reply.status is None:
        return f"no answer ({reply.cause or reply.failure})"
    if is_page(reply):
        return f"an HTML page (HTTP {reply.status})"
    return f"HTTP {reply.status}{f', {reply.cause}' if reply.status == 200 and reply.cause else ''}"
