"""``Depends(flags)``: the flags of a request or a socket as a dependency."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import Annotated, Any, TypeVar, cast

from fastapi import Depends
from starlette.requests import HTTPConnection

from shipsilently_core import FlagSet

from .connection import RequestFlags
from .flagset import make_dependency, reader
from .gates import Gate, GateArguments, cached_gate, gate_arguments
from .lookup import get_flags

__all__ = ["FlagsDep", "FlagsDependency", "flags"]

Kind = TypeVar("Kind", bound=FlagSet)


class FlagsDependency:
    """Gives the flags of a request or a socket, evaluated: reading them needs no ``await``."""

    def __init__(self) -> None:
        self._gates: dict[object, Gate] = {}
        self._derived: dict[object, FlagsDependency] = {}
        self._readers: dict[object, Callable[..., Awaitable[Any]]] = {}

    async def __call__(self, connection: HTTPConnection) -> RequestFlags:
        """For ``Depends``: waits for the request's one evaluation."""
        found = get_flags(connection)
        # As `RequestFlags.aload`, without its coroutine.
        rest = found.begin()
        if rest is not None:
            await rest
        return found

    def using(self, context: Callable[..., Any]) -> FlagsDependency:
        """Flags for the context that another dependency gives, as your authentication does.

        ::

            async def current_context(user: CurrentUser) -> dict[str, str]:
                return {"userId": user.id, "plan": user.plan}

            user_flags = flags.using(current_context)
            UserFlags = Annotated[Flags, Depends(user_flags)]

        So a token is parsed once, by the app, and what the app answers to a wrong one
        is what the caller gets. The result is cached per request like any dependency's,
        ``app.dependency_overrides[current_context]`` works, and the request's flags
        become these for templates and `get_flags`, unless they were needed before.

        Args:
            context: A dependency, plain or ``async``, that gives a mapping or a `Context`.

        Returns:
            The same object for the same argument.
        """
        found = self._derived.get(context)
        if found is None:
            found = self._derived.setdefault(context, _FlagsUsing(context))
        return found

    def as_(self, kind: type[Kind]) -> Callable[..., Awaitable[Kind]]:
        """A dependency that gives these flags as a `FlagSet`, also one of the core.

        ``Annotated[Checkout, Depends(flags.as_(Checkout))]``

        Args:
            kind: The set.

        Returns:
            The same function for the same argument.
        """
        found = self._readers.get(kind)
        if found is None:
            found = self._readers.setdefault(kind, reader(kind, self))
        return cast("Callable[..., Awaitable[Kind]]", found)

    def requires(
        self, *keys: str, value: Any = True, status: int = 404, detail: str | None = None
    ) -> Gate:
        """A gate that asks these flags; see `requires_flag`."""
        return cached_gate(self, self._gates, keys, value, status, detail)

    def gate(
        self, *keys: str, value: Any = True, status: int = 404, detail: str | None = None
    ) -> GateArguments:
        """A gate as arguments of a route or router, so that OpenAPI lists the refusal.

        ::

            @app.get("/new", **flags.gate("new-checkout"))

        Args:
            keys: As for `requires_flag`, like the rest.
            value: The same.
            status: The same.
            detail: The same.
        """
        return gate_arguments(self.requires(*keys, value=value, status=status, detail=detail))


class _FlagsUsing(FlagsDependency):
    """See `FlagsDependency.using`."""

    def __init__(self, context: Callable[..., Any]) -> None:
        super().__init__()
        # FastAPI reads from the signature what to call first.
        self.__signature__ = inspect.Signature(
            [
                inspect.Parameter(
                    "connection", inspect.Parameter.KEYWORD_ONLY, annotation=HTTPConnection
                ),
                inspect.Parameter(
                    "context",
                    inspect.Parameter.KEYWORD_ONLY,
                    annotation=Annotated[Any, Depends(context)],
                ),
            ],
            return_annotation=RequestFlags,
        )

    async def __call__(self, connection: HTTPConnection, context: Any = None) -> RequestFlags:
        """For ``Depends``: waits for the evaluation for this context."""
        base = get_flags(connection)
        return await base.of(base.client.evaluator.context(context)).aload()


#: The dependency, for ``Depends(flags)``.
flags: FlagsDependency = FlagsDependency()
make_dependency(flags)

#: The flags as a parameter: ``async def home(flags: FlagsDep): ...``
FlagsDep = Annotated[RequestFlags, Depends(flags)]


def requires_flag(
    *keys: str, value: Any = True, status: int = 404, detail: str | None = None
) -> Gate:
    """A dependency that lets a request or a socket through only while flags are on.

    ``Depends(requires_flag("new-checkout"))``, on a route, a router, an app or a
    WebSocket. The same arguments give the same object, so that
    ``app.dependency_overrides[requires_flag("new-checkout")]`` works.

    Args:
        keys: The flags; all must hold. ``"!x"`` holds where ``"x"`` would not.
        value: What each flag must be, with its JSON type: ``1`` is not ``True``.
        status: The HTTP status of the refusal; 404 looks as if there were nothing.
        detail: The refusal's text; left out, the usual one of that status.

    Raises:
        ValueError: No flag is named, or the status is not that of an error.
    """
    return flags.requires(*keys, value=value, status=status, detail=detail)
