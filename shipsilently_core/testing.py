"""Fakes for tests of code that uses the client, and of the client itself.

They stand at the border, where the network and the clock are: nothing of the
client is replaced.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import sys
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar, cast

import msgspec

from ._overrides import overrides
from ._process import Bell
from ._stream import StreamBroken, StreamReader
from ._wire import BATCH, EVENTS, TICKET, Reply, Request
from .values import Failure

if TYPE_CHECKING:
    from unittest import TestCase

__all__ = ["ManualClock", "ScriptedService", "override_flags"]

T = TypeVar("T", bound=Callable[..., Any])


class override_flags:  # used like a function, as its peers in other packages are
    """Set flags for the length of a test, in every thread and task, and without the network.

    A context manager, a decorator for plain and async functions and for fixtures that
    ``yield`` (until they end), and a class decorator, for `unittest.TestCase` (the
    fixtures of a test see the values too) and for classes of pytest (their ``test*``
    methods, also inherited ones). What a class sets wins over what its bases do::

        @override_flags({"checkout-v2": True})
        def test_new_checkout(client): ...

        with override_flags({"banner": "green"}, limit=3): ...

    Overrides nest, the innermost wins, and they are gone when the block ends, in
    whatever way it ends. Meanwhile no flags are evaluated ahead: the service, which may
    not be there, is asked when a test reads a flag that it has not set, and only then.

    Args:
        flags: Values by flag key.
        named: The same for keys that are Python names.
    """

    def __init__(self, flags: Mapping[str, Any] | None = None, /, **named: Any) -> None:
        self._flags: dict[str, Any] = {**(flags or {}), **named}
        self._layers: list[dict[str, Any]] = []

    def __enter__(self) -> Mapping[str, Any]:
        layer = dict(self._flags)
        self._layers.append(layer)
        overrides.push(layer)
        return layer

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        overrides.remove(self._layers.pop())

    async def __aenter__(self) -> Mapping[str, Any]:
        return self.__enter__()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.__exit__(kind, error, trace)

    def __call__(self, test: T) -> T:
        """Decorate a function, a generator function, such as a fixture is, or a class."""
        if isinstance(test, type):
            self._decorate_class(test)
            return cast("T", test)
        return cast("T", _with_flags(test, lambda *_: self._flags))

    def _decorate_class(self, test: type[Any]) -> None:
        # Of two decorators of one class the one that is nearer to it wins.
        setattr(test, _SET_HERE, {**self._flags, **vars(test).get(_SET_HERE, {})})
        # Whoever has made such a class has imported this; for all others that would take too long.
        unittest = sys.modules.get("unittest")
        cases: type[TestCase] | None = getattr(unittest, "TestCase", None)
        if cases is None or not issubclass(test, cases):
            for name in dir(test):
                if name.startswith("test"):
                    _decorate_method(test, name)
            return
        set_up = test.setUp

        @functools.wraps(set_up)
        def with_flags(case: TestCase) -> None:
            case.enterContext(override_flags(_set_on(type(case))))
            set_up(case)

        test.setUp = with_flags  # type: ignore[assignment,method-assign]  # what a class decorator is for


#: Where a decorated class keeps what its own decorators set.
_SET_HERE = "_shipsilently_flags"


def _set_on(test: type[Any]) -> dict[str, Any]:
    """What decorators set on a class and on those that it is derived from; the nearest wins."""
    flags: dict[str, Any] = {}
    for each in reversed(test.__mro__):
        flags.update(vars(each).get(_SET_HERE, {}))
    return flags


def _decorate_method(test: type[Any], name: str) -> None:
    """Decorate a test of a class, which it may have inherited."""
    method = inspect.getattr_static(test, name)
    if inspect.isfunction(method):
        setattr(test, name, _with_flags(method, lambda case, *_: _set_on(type(case))))
    elif isinstance(method, classmethod):
        of_class = _with_flags(method.__func__, lambda own, *_: _set_on(own))
        setattr(test, name, classmethod(of_class))
    elif isinstance(method, staticmethod):
        setattr(test, name, staticmethod(_with_flags(method.__func__, lambda *_: _set_on(test))))


def _with_flags(
    test: Callable[..., Any], flags_of: Callable[..., Mapping[str, Any]]
) -> Callable[..., Any]:
    """The function with flags set while it runs; they are found from its arguments."""
    if inspect.iscoroutinefunction(test):

        @functools.wraps(test)
        async def with_flags_async(*args: Any, **kwargs: Any) -> Any:
            with override_flags(flags_of(*args)):
                return await test(*args, **kwargs)

        return with_flags_async

    if inspect.isgeneratorfunction(test):

        @functools.wraps(test)
        def with_flags_to_the_end(*args: Any, **kwargs: Any) -> Any:
            with override_flags(flags_of(*args)):
                return (yield from test(*args, **kwargs))

        return with_flags_to_the_end

    if inspect.isasyncgenfunction(test):

        @functools.wraps(test)
        async def with_flags_to_the_end_async(*args: Any, **kwargs: Any) -> Any:
            with override_flags(flags_of(*args)):
                async with contextlib.aclosing(test(*args, **kwargs)) as made:
                    async for each in made:
                        yield each

        return with_flags_to_the_end_async

    @functools.wraps(test)
    def with_flags(*args: Any, **kwargs: Any) -> Any:
        with override_flags(flags_of(*args)):
            return test(*args, **kwargs)

    return with_flags


class ManualClock:
    """A clock that stands still until it is told to move.

    Args:
        now: Unix time in seconds to begin with.
    """

    def __init__(self, now: float = 1_800_000_000.0) -> None:
        self._unix = now
        self._passed = 1_000.0

    def monotonic(self) -> float:
        """Seconds; only grows."""
        return self._passed

    def time(self) -> float:
        """Unix time in seconds."""
        return self._unix

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self._passed += seconds
        self._unix += seconds


class ScriptedService:
    """A service without a network, for ``ShipSilentlyClient(transport=...)``.

    It answers with the flags it is given, evaluated by nothing but a look-up,
    until it is told to fail.

    Args:
        flags: Values by flag key, the same for every context; or a function from a
            context's attributes to that.

        streaming: Whether streaming is in the plan. A client with this transport has a
            background, and so a stream, only when it is started explicitly.

    Attributes:
        requests: Every request for flags that came, oldest first.
        events: Every analytics event that was accepted.
        tickets: How many tickets for a stream were asked for.
    """

    def __init__(
        self,
        flags: Mapping[str, Any] | Callable[[dict[str, Any]], Mapping[str, Any]] | None = None,
        *,
        streaming: bool = False,
    ) -> None:
        self._flags = {} if flags is None else flags
        self._streaming = streaming
        self._next: list[Reply] = []
        self._always: Reply | None = None
        self._streams: list[_ScriptedStream] = []
        self.requests: list[Request] = []
        self.events: list[dict[str, Any]] = []
        self.tickets: int = 0

    def set(self, flags: Mapping[str, Any] | Callable[[dict[str, Any]], Mapping[str, Any]]) -> None:
        """Serve these flags from now on."""
        self._flags = flags

    def fail(
        self,
        status: int | None = None,
        *,
        failure: Failure | None = None,
        headers: Mapping[str, str] | None = None,
        body: bytes = b"",
        times: int | None = None,
        connected: bool = True,
    ) -> None:
        """Answer like this from now on, or for the next `times` requests."""
        if status is None and failure is None:
            failure = Failure.NETWORK
        reply = Reply(status, body, dict(headers or {}), failure, connected, "scripted")
        if times is None:
            self._always = reply
        else:
            self._next.extend([reply] * times)

    def recover(self) -> None:
        """Answer as a service should."""
        self._next.clear()
        self._always = None

    def send(self, request: Request) -> Reply:
        """Answer one request."""
        if request.path == TICKET:
            return self._ticket()
        if request.path == EVENTS:
            return self._take_events(request)
        self.requests.append(request)
        if self._next:
            return self._next.pop(0)
        return self._answer(request) if self._always is None else self._always

    async def asend(self, request: Request) -> Reply:
        """Answer one request, in a task."""
        return self.send(request)

    def open_stream(self, ticket: str) -> StreamReader | Reply:
        """Open a stream, which is live at once."""
        if self._always is not None:
            return self._always
        stream = _ScriptedStream()
        self._streams.append(stream)
        stream.put(b'event: connected\ndata: {"connectionId":"scripted"}\n\n')
        return stream

    def send_event(self, name: str = "flags.updated", data: str = "{}") -> None:
        """Send an event on every open stream."""
        for stream in self._streams:
            stream.put(f"event: {name}\ndata: {data}\n\n".encode())

    def drop_streams(self) -> None:
        """End every open stream."""
        streams, self._streams = self._streams, []
        for stream in streams:
            stream.close()

    def interrupt(self) -> None:
        """End every open stream, as a client does that is closed."""
        self.drop_streams()

    def close(self) -> None:
        """Nothing else is open."""

    async def aclose(self) -> None:
        """Nothing else is open."""

    def forget(self) -> None:
        """Nothing belongs to this process."""

    def _take_events(self, request: Request) -> Reply:
        if self._always is not None:
            return self._always
        events = msgspec.json.decode(request.body)["events"]
        self.events.extend(events)
        return _ok({"accepted": len(events)})

    def _ticket(self) -> Reply:
        self.tickets += 1
        if self._always is not None:
            return self._always
        return _ok({"ticket": "scripted", "expiresIn": 60}) if self._streaming else Reply(402)

    def _answer(self, request: Request) -> Reply:
        asked = msgspec.json.decode(request.body)
        flags = self._flags(asked["context"]) if callable(self._flags) else self._flags
        rows = {
            key: {"flagKey": key, "value": value, "reason": "default"}
            for key, value in flags.items()
        }
        if request.path == BATCH:
            return _ok({"flags": rows})
        if asked["flagKey"] not in rows:
            return Reply(404, b'{"error":"flag not found"}', _JSON)
        return _ok(rows[asked["flagKey"]])


class _ScriptedStream:
    """An open stream of a `ScriptedService`."""

    def __init__(self) -> None:
        self._chunks: list[bytes] = []
        self._bell = Bell()

    def put(self, chunk: bytes) -> None:
        """Send these bytes."""
        self._chunks.append(chunk)
        self._bell.ring()

    def read(self, timeout: float) -> bytes:
        """The next bytes."""
        while not self._chunks:
            if self._bell.wait(timeout):
                raise StreamBroken("the service ended it")
        return self._chunks.pop(0)

    def close(self) -> None:
        """End it."""
        self._bell.close()


_JSON = {"content-type": "application/json"}


def _ok(answer: object) -> Reply:
    return Reply(200, msgspec.json.encode(answer), _JSON)
