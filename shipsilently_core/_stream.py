"""The life of the one connection that tells of changes: ticket, stream, events, and again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn, Protocol

from msgspec import Struct
from msgspec.json import Decoder

from ._backoff import full_jitter
from ._clock import Clock
from ._notices import Notices
from ._sse import Event, EventParser, EventTooLargeError
from ._wire import UNREADABLE, Reply, Request, failure_of, retry_after, ticket_request
from .config import RetryConfig
from .values import ConnectionState, Failure

__all__ = ["Silence", "Stream", "StreamBroken", "StreamReader", "StreamTransport"]

#: Seconds for which a stream must live after it came up before the ladder starts again: a
#: server that accepts and drops at once must not be hammered.
_HEALTHY_AFTER = 30.0


class Silence(Exception):  # an end of waiting, not an error
    """Nothing came within the time given."""


class StreamBroken(Exception):  # an end like any other for whoever reconnects
    """The stream has ended or cannot be read any more.

    Args:
        cause: The name of what happened, without a text that may hold secrets.
    """

    def __init__(self, cause: str) -> None:
        self.cause = cause
        super().__init__(cause)


class StreamReader(Protocol):
    """An open stream."""

    def read(self, timeout: float) -> bytes:
        """The next bytes.

        Raises:
            Silence: None came within `timeout` seconds.
            StreamBroken: None will come any more.
        """
        ...

    def close(self) -> None:
        """Let go of it."""
        ...


class StreamTransport(Protocol):
    """What the connection needs of the network."""

    def send(self, request: Request) -> Reply:
        """Carry out one call."""
        ...

    def open_stream(self, ticket: str) -> StreamReader | Reply:
        """Open the stream that the ticket is for, or say why not."""
        ...


class _Ticket(Struct):
    ticket: str


_ticket = Decoder(_Ticket)


class _End(Struct):
    """How one try ended.

    Attributes:
        healthy: Whether the stream had lived for long enough to start the ladder again.
        pause: Seconds that the service asked for.
        final: Whether there is no use in another try.
    """

    healthy: bool = False
    pause: float = 0.0
    final: bool = False


class Stream:
    """Keeps one stream open, for ever.

    Every try asks for a ticket of its own, after the wait. Each end, whatever its
    cause, is followed by another try after a full-jitter delay, except where the
    plan has no streaming (402) or retrying is switched off.

    Args:
        transport: The network.
        clock: Time.
        rng: Gives a number in ``[0, 1)``.
        retry: Delays, and the silence that means a dead stream.
        notices: For the log.
        wait: Waits for so many seconds; whether the client was closed meanwhile.
        closed: Whether the client has been closed.
        on_state: Told of each change of the connection's state.
        on_updated: Called whenever the service says that something changed.
    """

    def __init__(
        self,
        transport: Callable[[], StreamTransport],
        clock: Clock,
        rng: Callable[[], float],
        *,
        retry: RetryConfig,
        notices: Notices,
        wait: Callable[[float], bool],
        closed: Callable[[], bool],
        on_state: Callable[[ConnectionState], None],
        on_updated: Callable[[], None],
    ) -> None:
        self._transport = transport
        self._clock = clock
        self._rng = rng
        self._retry = retry
        self._notices = notices
        self._wait = wait
        self._closed = closed
        self._on_state = on_state
        self._on_updated = on_updated
        self._live_since: float | None = None

    def run(self) -> None:
        """Stay connected until the client is closed, or for as long as there is any use in it."""
        failures = 0
        while True:
            end = self._try()
            if self._closed():
                return
            if end.final or not self._retry.enabled:
                self._on_state(ConnectionState.POLLING)
                return
            failures = 0 if end.healthy else failures
            delay = full_jitter(failures, self._retry.base_delay, self._retry.max_delay, self._rng)
            failures += 1
            if self._wait(max(delay, end.pause)):
                return

    def _try(self) -> _End:
        try:
            transport = self._transport()
            reply = transport.send(ticket_request())
            if reply.status == 402:
                self._notices.once(
                    "no streaming", "the plan has no streaming (HTTP 402): polling instead"
                )
                return _End(final=True)
            ticket = _ticket_of(reply)
            if ticket is None:
                return self._refused("a ticket for the stream", reply)
            opened = transport.open_stream(ticket)
            if isinstance(opened, Reply):
                return self._refused("the stream", opened)
        except Exception as error:
            return self._lost(type(error).__name__)
        return self._listen(opened)

    def _listen(self, reader: StreamReader) -> _End:
        cause = ""
        self._live_since = None
        try:
            self._follow(reader)
        except Silence:
            cause = "silence"
        except StreamBroken as broken:
            cause = broken.cause
        except EventTooLargeError as error:
            cause = str(error)
        except Exception as error:
            cause = type(error).__name__
        finally:
            reader.close()
        end = self._lost(cause)
        since = self._live_since
        end.healthy = since is not None and self._clock.monotonic() - since >= _HEALTHY_AFTER
        return end

    def _follow(self, reader: StreamReader) -> NoReturn:
        parser = EventParser()
        heard = self._clock.monotonic()
        while True:
            patience = heard + self._retry.heartbeat_timeout - self._clock.monotonic()
            if patience <= 0:
                raise Silence
            for event in parser.feed(reader.read(patience)):
                if not event.name:
                    continue
                # Only a whole event with a name is a sign of life: a proxy may send comments and
                # half an event for an origin that is gone.
                heard = self._clock.monotonic()
                if self._live_since is None:
                    self._live_since = heard
                    self._on_state(ConnectionState.STREAMING)
                self._take(event)

    def _take(self, event: Event) -> None:
        if event.name == "flags.updated":
            # What it says beyond that is of no use here: everything is evaluated again.
            self._on_updated()

    def _refused(self, what: str, reply: Reply) -> _End:
        if self._closed():
            # Our own doing.
            return _End()
        pause = retry_after(reply, now=self._clock.time(), base=self._retry.base_delay)
        failure = failure_of(reply) or Failure.PROTOCOL
        how = reply.cause if reply.status is None else f"HTTP {reply.status}"
        self._on_state(ConnectionState.RECONNECTING)
        self._notices.warn(
            f"stream {failure}",
            "could not get %s: %s (%s); meanwhile only polling finds changes",
            what,
            failure,
            how,
        )
        return _End(pause=pause or 0.0)

    def _lost(self, cause: str) -> _End:
        if self._closed():
            return _End()
        self._on_state(ConnectionState.RECONNECTING)
        self._notices.warn(
            f"stream lost {cause}",
            "the stream ended (%s); until it is back, only polling finds changes",
            cause,
        )
        return _End()


def _ticket_of(reply: Reply) -> str | None:
    if failure_of(reply) is not None:
        return None
    try:
        found: Any = _ticket.decode(reply.body.removeprefix(b"\xef\xbb\xbf"))
    except UNREADABLE:
        return None
    ticket: str = found.ticket
    return ticket or None
