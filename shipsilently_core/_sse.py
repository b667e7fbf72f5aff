"""Server-sent events, decoded step by step from bytes.

The rules are those of the WHATWG's HTML standard, "Server-sent events": a stream is
UTF-8, perhaps after a byte order mark; CR, LF and CRLF end a line and nothing else
does; an event is complete at a blank line and not before.
"""

from __future__ import annotations

from msgspec import Struct

__all__ = ["Event", "EventParser", "EventTooLargeError"]

_BOM = b"\xef\xbb\xbf"


class Event(Struct, frozen=True):
    """One event.

    Attributes:
        name: Its type; empty where the server named none.
        data: Its data lines, joined by line feeds.
        last_id: The last ``id`` that the server sent, with this event or before.
    """

    name: str
    data: str
    last_id: str


class EventTooLargeError(Exception):
    """The server sent a line or an event beyond the cap; the stream cannot be followed."""


class EventParser:
    """Turns the chunks of one stream into events.

    Args:
        max_line: Bytes; the longest line that is accepted.
        max_event: Bytes; the most data that one event may hold.
    """

    def __init__(self, *, max_line: int = 1024 * 1024, max_event: int = 4 * 1024 * 1024) -> None:
        self._max_line = max_line
        self._max_event = max_event
        self._partial: list[bytes] = []
        self._partial_size = 0
        self._begun = False
        self._after_cr = False
        self._name = ""
        self._data: list[str] = []
        self._data_size = 0
        self._last_id = ""
        #: Milliseconds that the server asked to wait before reconnecting; ``None`` for no wish.
        self.retry: int | None = None

    def feed(self, chunk: bytes) -> list[Event]:
        """Take in a chunk; the events that it completes.

        Raises:
            EventTooLargeError: A line or an event is beyond the cap.
        """
        if self._after_cr and chunk:
            # The line feed of a CRLF whose first half ended the chunk before.
            self._after_cr = False
            chunk = chunk.removeprefix(b"\n")
        if not chunk:
            return []
        if b"\n" not in chunk and b"\r" not in chunk:
            self._keep(chunk)
            return []
        self._keep(chunk)
        lines = b"".join(self._partial).splitlines(keepends=True)
        self._partial.clear()
        self._partial_size = 0
        if lines[-1].endswith((b"\n", b"\r")):
            self._after_cr = lines[-1].endswith(b"\r")
        else:
            last = lines.pop()
            self._partial.append(last)
            self._partial_size = len(last)
        events: list[Event] = []
        for line in lines:
            event = self._line(line.rstrip(b"\r\n"))
            if event is not None:
                events.append(event)
        return events

    def _keep(self, chunk: bytes) -> None:
        end = max(chunk.rfind(b"\n"), chunk.rfind(b"\r"))
        self._partial.append(chunk)
        self._partial_size += len(chunk)
        if end < 0 and self._partial_size > self._max_line:
            raise EventTooLargeError("a line is longer than the cap")

    def _line(self, line: bytes) -> Event | None:
        if not self._begun:
            self._begun = True
            line = line.removeprefix(_BOM)
        if not line:
            return self._dispatch()
        if len(line) > self._max_line:
            raise EventTooLargeError("a line is longer than the cap")
        if line.startswith(b":"):
            return None
        field, _, raw = line.partition(b":")
        value = raw.removeprefix(b" ").decode("utf-8", "replace")
        if field == b"data":
            self._data.append(value)
            self._data_size += len(raw) + 1
            if self._data_size > self._max_event:
                raise EventTooLargeError("an event is larger than the cap")
        elif field == b"event":
            self._name = value
        elif field == b"id":
            if "\0" not in value:
                self._last_id = value
        elif field == b"retry" and value.isascii() and value.isdigit():
            self.retry = int(value[:18])
        return None

    def _dispatch(self) -> Event | None:
        name, data = self._name, self._data
        self._name, self._data, self._data_size = "", [], 0
        # As in the standard, an event without any data line is none.
        return Event(name, "\n".join(data), self._last_id) if data else None
