"""What some of the client's verbs hand out, to be closed or left again."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar, cast

__all__ = ["Flushed", "Subscription"]

Handler = TypeVar("Handler", bound=Callable[..., Any])


class Flushing(Protocol):
    """What delivers flag checks: the client."""

    def flush(self, timeout: float = ...) -> int:
        """Deliver, blocking."""
        ...

    async def aflush(self, timeout: float = ...) -> int:
        """Deliver, in a task."""
        ...


Client = TypeVar("Client", bound=Flushing)


class Subscription:
    """One context being followed, until it is closed."""

    def __init__(self, end: Callable[[], None]) -> None:
        self._end = end

    def close(self) -> None:
        """Stop following it; idempotent."""
        self._end()

    def __enter__(self) -> Subscription:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Flushed(Generic[Client]):
    """See `ShipSilentlyClient.flushed`."""

    def __init__(self, client: Client, timeout: float) -> None:
        self._client = client
        self._timeout = timeout

    def __enter__(self) -> Client:
        return self._client

    def __exit__(self, *_: object) -> None:
        self._client.flush(self._timeout)

    async def __aenter__(self) -> Client:
        return self._client

    async def __aexit__(self, *_: object) -> None:
        await self._client.aflush(self._timeout)

    def __call__(self, function: Handler) -> Handler:
        """Decorate a function."""
        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def with_aflush(*args: Any, **kwargs: Any) -> Any:
                async with self:
                    return await function(*args, **kwargs)

            return cast("Handler", with_aflush)

        @functools.wraps(function)
        def with_flush(*args: Any, **kwargs: Any) -> Any:
            with self:
                return function(*args, **kwargs)

        return cast("Handler", with_flush)
