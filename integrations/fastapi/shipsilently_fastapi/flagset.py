"""`FlagSet`: the core's, and in addition a dependency."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Self, TypeVar

from fastapi import Depends

from shipsilently_core import FlagKey
from shipsilently_core import FlagSet as CoreFlagSet
from shipsilently_core._process import on_event_loop

__all__ = ["FlagKey", "FlagSet", "reader"]

#: The name of the parameter through which FastAPI hands the flags over.
_FLAGS = "shipsilently_flags"

Kind = TypeVar("Kind", bound=CoreFlagSet)


class FlagSet(CoreFlagSet):
    """Flags with types and defaults, read all at once.

    ::

        class Checkout(FlagSet):
            checkout_v2: bool = False
            banner: Literal["blue", "green"] = "blue"

        @app.get("/")
        async def home(checkout: Annotated[Checkout, Depends(Checkout)]): ...

    As the core's, whose sets are dependencies too by `FlagsDependency.as_`.
    """

    def __new__(cls, **values: Any) -> Any:
        given = values.get(_FLAGS)
        if given is None:
            return super().__new__(cls)
        made = cls.of(given)
        # FastAPI awaits it where it takes the class for what `__wrapped__` is.
        return _awaitable(made) if on_event_loop() else made

    def __init__(self, **values: Any) -> None:
        if _FLAGS not in values:
            super().__init__(**values)

    @classmethod
    def using(cls, flags: Callable[..., Any]) -> Callable[..., Awaitable[Self]]:
        """A dependency that reads the set from other flags, as those of `flags.using(...)`.

        ``Annotated[Checkout, Depends(Checkout.using(user_flags))]``. With the request's
        own ``flags`` it is the same as the class alone, and costs no thread anywhere.
        """
        return reader(cls, flags)


def reader(kind: type[Kind], flags: Callable[..., Any]) -> Callable[..., Awaitable[Kind]]:
    """A dependency that reads a set from the flags that another one gives."""

    async def read(**given: Any) -> Kind:
        return kind.of(given[_FLAGS])

    setattr(read, "__signature__", _signature(flags))  # noqa: B010  # not for type checkers
    return read


def make_dependency(flags: Callable[..., Any]) -> None:
    """Make `FlagSet` itself a dependency, which reads from the flags that `flags` gives."""
    # FastAPI asks whether to await, and what to hand over. Which of the two signatures it
    # looks at depends on the version of Python.
    signature = _signature(flags)
    setattr(_dependency, "__signature__", signature)  # noqa: B010
    setattr(FlagSet, "__signature__", signature)  # noqa: B010
    setattr(FlagSet, "__wrapped__", _dependency)  # noqa: B010


def _signature(flags: Callable[..., Any]) -> inspect.Signature:
    parameter = inspect.Parameter(
        _FLAGS, inspect.Parameter.KEYWORD_ONLY, annotation=Annotated[Any, Depends(flags)]
    )
    return inspect.Signature([parameter])


async def _awaitable(made: Any) -> Any:
    return made


async def _dependency(**given: Any) -> Any:
    """What FastAPI takes a `FlagSet` for: something to await, with the flags as its parameter.

    A class is called in a thread, which costs more than all the rest. From Python 3.13
    on it cannot be taken for anything else; `FlagSet.using` is awaited everywhere.
    """
