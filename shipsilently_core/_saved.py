"""What a store is given to keep, as bytes: results under names that tell nobody whose they are.

Nothing here does I/O. All of it is sealed with keys made from the API key: bytes that were
cut, changed, renamed or written with another key or for another service are not taken.
"""

from __future__ import annotations

import functools
import hmac
import zlib
from collections.abc import Callable
from typing import Final, TypeVar

from msgspec import Raw, Struct
from msgspec.json import Decoder, Encoder

from ._snapshot import Row, Snapshot
from ._wire import UNREADABLE

__all__ = [
    "Collection",
    "Recalled",
    "SavedContext",
    "SavedSnapshot",
    "Seal",
    "Unreadable",
    "body_of",
    "snapshot_of",
]

_MAGIC: Final = b"SHSI"
#: Counts up when the meaning of what is sealed changes.
_VERSION: Final = 1
_MAC_LENGTH: Final = 32
_PLAIN, _DEFLATED = b"\x00", b"\x01"
_HEAD = len(_MAGIC) + 1
#: Bytes; less is not worth the time to compress.
_WORTH_DEFLATING = 512
#: Bytes that anything kept may unfold to.
_LARGEST = 64 * 1024 * 1024


class Unreadable(Exception):  # a finding, which its reader turns into a warning
    """Something that was kept cannot be used.

    Args:
        why: For the log; never a part of the bytes.
    """

    def __init__(self, why: str) -> None:
        self.why = why
        super().__init__(why)


class SavedContext(Struct, frozen=True, array_like=True):
    """One context's flags, as a shared store keeps them.

    Attributes:
        current: Unix time in seconds until which they were known to be current.
        stamp: The store's own time in seconds just before the service was asked.
        body: The flags; see `body_of`.
    """

    current: float
    stamp: float
    body: Raw


class SavedSnapshot(Struct, frozen=True, array_like=True):
    """What a whole process knew.

    Attributes:
        saved: Unix time in seconds.
        baseline: The name of the client's own context.
        contexts: By name, until when they were known to be current (Unix time in
            seconds) and the place of their flags in `bodies`; the latest used first.
        bodies: Flags; contexts that have the same share them.
    """

    saved: float
    baseline: str
    contexts: dict[str, tuple[float, int]]
    bodies: list[Raw]


class _Body(Struct, array_like=True):
    complete: bool
    rows: dict[str, Row]


_encode = Encoder().encode
_body = Decoder(_Body)


def body_of(snapshot: Snapshot) -> Raw:
    """A snapshot's flags, to be kept."""
    return Raw(_encode(_Body(snapshot.complete, snapshot.rows)))


def snapshot_of(body: Raw) -> Snapshot:
    """The snapshot that was kept.

    Raises:
        Unreadable: It holds something else.
    """
    try:
        found = _body.decode(body)
    except UNREADABLE:
        raise Unreadable("its contents are not as expected") from None
    return Snapshot(found.rows, complete=found.complete)


class Recalled:
    """The contexts of a saved snapshot that nobody has needed yet.

    Args:
        saved: The snapshot.

    Attributes:
        contexts: See `SavedSnapshot`.
    """

    def __init__(self, saved: SavedSnapshot) -> None:
        self.contexts = saved.contexts
        self._bodies: list[Raw | Snapshot] = list(saved.bodies)

    def find(self, name: str) -> tuple[float, Snapshot] | None:
        """Until when one context's flags were current, and they; until `forget`.

        Raises:
            Unreadable: They are no flags.
        """
        found = self.contexts.get(name)
        if found is None:
            return None
        current, place = found
        body = self._bodies[place]
        if isinstance(body, Raw):
            # Contexts that have the same share it from now on, too.
            body = self._bodies[place] = snapshot_of(body)
        return current, body

    def forget(self, name: str) -> None:
        """One context's flags are known elsewhere by now, or cannot be read."""
        self.contexts.pop(name, None)

    def body(self, place: int) -> Raw:
        """Flags as they are to be saved again."""
        body = self._bodies[place]
        return body if isinstance(body, Raw) else body_of(body)


class Collection:
    """What is to be saved, while it is gathered.

    Args:
        saved: Unix time in seconds.
        baseline: The name of the client's own context.
        room: Bytes that the flags may take in all; the first are taken in any case.
    """

    def __init__(self, saved: float, baseline: str, room: int) -> None:
        self._saved = saved
        self._baseline = baseline
        self._room = room
        self._contexts: dict[str, tuple[float, int]] = {}
        self._bodies: list[Raw] = []
        self._places: dict[object, int] = {}

    def add(self, name: str, current: float, snapshot: Snapshot) -> None:
        """A context of this process, unless there is no room."""
        if name not in self._contexts:
            self._add(name, current, id(snapshot), lambda: body_of(snapshot))

    def add_other(self, others: Recalled, name: str) -> None:
        """A context as other processes know it."""
        found = others.contexts.get(name)
        if found is not None and name not in self._contexts:
            current, place = found
            self._add(name, current, (others, place), functools.partial(others.body, place))

    def add_others(self, others: Recalled, most: int) -> None:
        """The contexts of other processes that this one does not know, up to so many in all."""
        for name in list(others.contexts):
            if len(self._contexts) >= most:
                return
            self.add_other(others, name)

    def _add(self, name: str, current: float, which: object, body: Callable[[], Raw]) -> None:
        place = self._places.get(which)
        if place is None:
            raw = body()
            if len(raw) > self._room and self._bodies:
                return
            self._room -= len(raw)
            place = self._places[which] = len(self._bodies)
            self._bodies.append(raw)
        self._contexts[name] = (current, place)

    def saved(self) -> SavedSnapshot:
        """All of it."""
        return SavedSnapshot(self._saved, self._baseline, self._contexts, self._bodies)


class Seal:
    """Names contexts, and locks what is kept of them, for one key at one service.

    Args:
        api_key: The key; it can be had neither from names nor from what is sealed.
        api_url: The service.
    """

    def __init__(self, api_key: str, api_url: str) -> None:
        def derive(purpose: str) -> bytes:
            message = f"shipsilently store {purpose} {api_url}".encode()
            return hmac.digest(api_key.encode(), message, "sha256")

        self._names = derive("names")
        self._locks = derive("locks")
        #: Tells one key at one service from another, to whoever has neither.
        self.fingerprint: str = derive("fingerprint").hex()[:20]

    def name_of(self, context: bytes) -> str:
        """A context's name: the same for equal contexts, and of no use without the API key.

        It begins with the fingerprint and a slash.

        Args:
            context: Its attributes in their wire form.
        """
        return f"{self.fingerprint}/{hmac.digest(self._names, context, 'sha256').hex()[:40]}"

    def close(self, name: str, kept: Struct) -> bytes:
        """What is to be kept under this name, as bytes."""
        plain = _encode(kept)
        form = _PLAIN
        if len(plain) >= _WORTH_DEFLATING:
            plain, form = zlib.compress(plain, 1), _DEFLATED
        content = form + plain
        return _MAGIC + bytes([_VERSION]) + self._lock(name, content) + content

    def open_context(self, name: str, data: bytes) -> SavedContext:
        """One context's flags that were kept under this name.

        Raises:
            Unreadable: They are not what `close` once gave for this name, key and service.
        """
        return self._open(name, data, _saved_context)

    def open_snapshot(self, name: str, data: bytes) -> SavedSnapshot:
        """What a whole process knew, as it was kept under this name.

        Raises:
            Unreadable: It is not what `close` once gave for this name, key and service.
        """
        saved = self._open(name, data, _saved_snapshot)
        if any(not 0 <= place < len(saved.bodies) for _, place in saved.contexts.values()):
            raise Unreadable("its contents are not as expected")
        return saved

    def _open(self, name: str, data: bytes, decoder: Decoder[_Kind]) -> _Kind:
        if not data.startswith(_MAGIC) or len(data) <= _HEAD + _MAC_LENGTH:
            raise Unreadable("it was not written by this library, or is cut short")
        if data[len(_MAGIC)] != _VERSION:
            raise Unreadable("another version of this library wrote it")
        mac, content = data[_HEAD : _HEAD + _MAC_LENGTH], data[_HEAD + _MAC_LENGTH :]
        if not hmac.compare_digest(mac, self._lock(name, content)):
            raise Unreadable("it is damaged, or belongs to another key, service or context")
        try:
            return decoder.decode(_unfold(content))
        except (*UNREADABLE, zlib.error):
            raise Unreadable("its contents are not as expected") from None

    def _lock(self, name: str, content: bytes) -> bytes:
        return hmac.digest(self._locks, f"{_VERSION} {name} ".encode() + content, "sha256")


_Kind = TypeVar("_Kind", SavedContext, SavedSnapshot)
_saved_context = Decoder(SavedContext)
_saved_snapshot = Decoder(SavedSnapshot)


def _unfold(content: bytes) -> bytes:
    plain = content[1:]
    if content[:1] == _PLAIN:
        return plain
    inflater = zlib.decompressobj()
    plain = inflater.decompress(plain, _LARGEST)
    if not inflater.eof:
        raise zlib.error
    return plain
