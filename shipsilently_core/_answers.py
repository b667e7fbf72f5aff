"""An answer as it comes in, and every way it can fail to, as a `Reply`."""

from __future__ import annotations

import time
import zlib
from collections.abc import Iterable

from ._process import Lock, is_time_limit
from ._wire import Reply
from .values import Failure

__all__ = ["Answer", "BadAnswer", "Room", "headers_of", "is_doubtful", "reply_to"]

_WANTED_HEADERS = ("content-encoding", "content-type", "date", "retry-after")

#: Bytes that are unpacked at once.
_STEP = 64 * 1024

#: Bytes; what an answer may take without asking what others take at the same time.
_SMALL = 256 * 1024

#: Seconds without any answer after which a failed call casts doubt on the other connections.
_QUIET = 1.0


def headers_of(pairs: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    """The headers that matter, by name in lower case; several of one name are joined."""
    found: dict[str, str] = {}
    for raw_name, raw_value in pairs:
        name = raw_name.decode("ascii", "replace").lower()
        if name in _WANTED_HEADERS:
            value = raw_value.decode("latin-1").strip()
            found[name] = f"{found[name]}, {value}" if name in found else value
    return found


class BadAnswer(Exception):
    """An answer that is too large, or not in the encoding it claims to be in."""


def is_doubtful(reply: Reply, begin: float, heard: float) -> bool:
    """Whether other connections have probably gone the way of the one that a call has failed on.

    A router that has forgotten them says nothing, or resets each one when it is used: a call
    would be lost for every single one of them. Where anything is heard, they are kept.
    """
    if not reply.connected or heard > min(begin, time.monotonic() - _QUIET):
        return False
    return reply.failure in (Failure.TIMEOUT, Failure.NETWORK)


class Room:
    """What the answers that come in at the same time may take together.

    Args:
        cap: Bytes; for one answer, and for all of them beyond what is small in each.
    """

    def __init__(self, cap: int) -> None:
        self.cap = cap
        self._taken = 0
        self._lock = Lock()

    def take(self, size: int) -> None:
        """Raises `BadAnswer` where so many bytes are not left."""
        with self._lock:
            if self._taken + size > self.cap:
                raise BadAnswer("too many large answers at once")
            self._taken += size

    def give_back(self, size: int) -> None:
        """They are not needed any more."""
        with self._lock:
            self._taken -= size


class _Body:
    """An answer's body as it comes in: decompressed step by step, never beyond the cap."""

    def __init__(self, encoding: str, room: Room) -> None:
        self._room = room
        self._taken = 0
        # One piece of memory that grows: many small ones stay with each thread's allocator.
        self._content = bytearray()
        self._size = 0
        self._inflate = None
        name = encoding.strip().lower()
        if name in ("gzip", "x-gzip", "deflate"):
            self._inflate = zlib.decompressobj(wbits=zlib.MAX_WBITS | 32)
        elif name not in ("", "identity"):
            raise BadAnswer("unknown content encoding")

    def close(self) -> None:
        """Give its room back."""
        self._content.clear()
        if self._taken:
            self._room.give_back(self._taken)
            self._taken = 0

    def feed(self, chunk: bytes) -> None:
        """Take in what has arrived.

        Raises:
            BadAnswer: It is too much, or broken.
        """
        if self._inflate is None:
            self._keep(chunk)
            return
        while chunk:
            try:
                self._keep(self._inflate.decompress(chunk, _STEP))
            except zlib.error:
                raise BadAnswer("broken compression") from None
            if self._inflate.unused_data:
                # Something follows the end, and zlib would gather it without a bound.
                raise BadAnswer("broken compression")
            chunk = self._inflate.unconsumed_tail

    def _keep(self, part: bytes) -> None:
        self._content += part
        self._size += len(part)
        if self._size > self._room.cap:
            raise BadAnswer(f"more than {self._room.cap} bytes")
        more = self._size - _SMALL - self._taken
        if more > 0:
            self._room.take(more)
            self._taken += more

    def finish(self) -> bytes:
        """The whole body.

        Raises:
            BadAnswer: The end is missing.
        """
        if self._inflate is not None and self._size and not self._inflate.eof:
            raise BadAnswer("broken compression")
        return bytes(self._content)


class Answer:
    """An answer as it comes in."""

    def __init__(self, room: Room) -> None:
        self._room = room
        self._status = 0
        self._headers: dict[str, str] = {}
        self._body: _Body | None = None

    def __enter__(self) -> Answer:
        return self

    def __exit__(self, *error: object) -> None:
        if self._body is not None:
            self._body.close()

    def begin(
        self, status: int, headers: Iterable[tuple[bytes, bytes]], *, unpacked: bool = False
    ) -> None:
        """The head has come.

        Raises:
            BadAnswer: The body will be in an unknown encoding.
        """
        self._status = status
        self._headers = headers_of(headers)
        encoding = "" if unpacked else self._headers.get("content-encoding", "")
        self._body = _Body(encoding, self._room)

    def feed(self, chunk: bytes) -> None:
        """More of the body has come; raises `BadAnswer`."""
        assert self._body is not None
        try:
            self._body.feed(chunk)
        except BadAnswer:
            # At once, since the task that waits for it runs later and others need the room now.
            self._body.close()
            raise

    def cut_off(self, error: Exception) -> Reply:
        """What an answer says whose body cannot be had: where it refuses, its head is enough.

        Args:
            error: Why; raised where nothing can be said.
        """
        if self._status in (0, 200) or is_time_limit(error):
            try:
                raise error
            finally:
                # Its traceback refers to this frame, and so to the connection.
                del error
        return Reply(self._status, headers=self._headers)

    def reply(self) -> Reply:
        """The whole; raises `BadAnswer` where the end of the body is missing."""
        assert self._body is not None
        return Reply(self._status, self._body.finish(), self._headers)


_TIMEOUTS = {"TimeoutException", "TimeoutError"}
_UNSENDABLE = {"LocalProtocolError", "DecodingError", "InvalidURL"}
_UNCONNECTED = {"ConnectError", "ConnectTimeout", "ProxyError", "UnusableProxy"}


def reply_to(error: BaseException) -> Reply:
    """The reply that an exception stands for.

    By the names of its classes: httpx, httpcore and httpx2 use the same ones. Its
    text is not kept, since it may hold an address or a header.
    """
    if isinstance(error, BadAnswer):
        return Reply(failure=Failure.PROTOCOL, cause=str(error))
    names = {kind.__name__ for kind in type(error).__mro__}
    if names & _TIMEOUTS:
        failure = Failure.TIMEOUT
    elif names & _UNSENDABLE:
        failure = Failure.PROTOCOL
    else:
        failure = Failure.NETWORK
    return Reply(
        failure=failure,
        connected=not names & _UNCONNECTED,
        cause=type(error).__name__.lstrip("_"),
    )
