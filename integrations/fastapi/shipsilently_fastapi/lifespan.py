"""The client's start and end, as the lifespan of an app or of a router."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from threading import Lock
from typing import TYPE_CHECKING, Any, overload

import anyio

from shipsilently_core import ConfigurationError
from shipsilently_core._process import running_loop

if TYPE_CHECKING:
    from .extension import ShipSilently

__all__ = ["Lifespan"]

#: The name in the lifespan's state, and on ``app.state``, under which requests find the client. An
#: app may have something of its own under a plain one.
STATE = "shipsilently.extension"

_NOT_GIVEN: Any = object()

#: Seconds beyond the client's own limit for which a cancelled shutdown still waits for it.
_GRACE = 3.0

#: What runs now, by the id of the router whose app it runs for; of several, the first to begin
#: is first. A lifespan that holds ours need not hand its state on, so requests look here, too.
running: dict[int, tuple[ShipSilently, ...]] = {}
_lock = Lock()


class Lifespan:
    """Starts the client before the app's own lifespan and closes it after that.

    ::

        app = FastAPI(lifespan=shipsilently.lifespan)
        app = FastAPI(lifespan=shipsilently.lifespan(inner=my_lifespan))

    The client neither delays the start nor prevents it, whatever the service does.
    """

    def __init__(self, shipsilently: ShipSilently, inner: Any = None) -> None:
        self.shipsilently = shipsilently
        if inspect.isasyncgenfunction(inner):
            inner = asynccontextmanager(inner)
        self._inner: Callable[[Any], AbstractAsyncContextManager[Any]] | None = inner

    @overload
    def __call__(self, app: Any) -> AbstractAsyncContextManager[Mapping[str, Any]]: ...
    @overload
    def __call__(self, *, inner: Any) -> Lifespan: ...
    def __call__(self, app: Any = _NOT_GIVEN, *, inner: Any = None) -> Any:
        """Run for `app`; or, with `inner`, give a lifespan that runs both.

        Args:
            app: The app that starts; ``None`` for routes without one.
            inner: A lifespan of your own. It may use the client to its end, and its
                state is kept.

        Raises:
            ConfigurationError: Neither is given.
        """
        if inner is None:
            if app is _NOT_GIVEN:
                raise ConfigurationError(
                    "lifespan", "is handed over, not called: write lifespan=shipsilently.lifespan"
                )
            return self._run(app)
        if self._inner is not None:
            inner = _nested(self._inner, Lifespan(self.shipsilently, inner)._inner)
        return Lifespan(self.shipsilently, inner)

    @asynccontextmanager
    async def _run(self, app: Any) -> AsyncIterator[dict[str, Any]]:
        if running_loop() is None:
            raise ConfigurationError(
                "lifespan", "needs asyncio's event loop: run the server without trio"
            )
        self.shipsilently.start()
        try:
            with _noted(app, self.shipsilently):
                if self._inner is None:
                    yield {STATE: self.shipsilently}
                else:
                    async with self._inner(app) as state:
                        yield {**(state or {}), STATE: self.shipsilently}
        finally:
            await _to_its_end(self.shipsilently)


@contextmanager
def _noted(app: Any, shipsilently: ShipSilently) -> Iterator[None]:
    """Let requests find it while it runs."""
    # Held to the end, so that nothing else gets its id.
    router = getattr(app, "router", None)
    if router is None:
        yield
        return
    with _lock:
        running[id(router)] = (*running.get(id(router), ()), shipsilently)
    try:
        yield
    finally:
        with _lock:
            left = list(running.pop(id(router)))
            left.remove(shipsilently)
            if left:
                running[id(router)] = tuple(left)


def _nested(outer: Any, inner: Any) -> Any:
    @asynccontextmanager
    async def both(app: Any) -> AsyncIterator[dict[str, Any]]:
        async with outer(app) as outer_state, inner(app) as inner_state:
            yield {**(outer_state or {}), **(inner_state or {})}

    return both


async def _to_its_end(shipsilently: ShipSilently) -> None:
    """Close the client, also when the server cancels the shutdown meanwhile."""
    # Two kinds of cancelling: anyio's comes again at each await, asyncio's comes once.
    with anyio.CancelScope(shield=True):
        closing = asyncio.ensure_future(shipsilently.stop())
        try:
            await asyncio.shield(closing)
        except asyncio.CancelledError:
            await asyncio.wait([closing], timeout=_GRACE)
            raise
