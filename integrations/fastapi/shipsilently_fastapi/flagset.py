"""`FlagSet`: several flags as one typed object."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Awaitable, Callable
from typing import (
    Annotated,
    Any,
    ClassVar,
    Self,
    dataclass_transform,
    get_args,
    get_origin,
    get_type_hints,
)

import msgspec
from fastapi import Depends

from shipsilently_core import ConfigurationError, Failure, FailureReport, Flags, Source
from shipsilently_core._process import on_event_loop

from .dependencies import flags as request_flags

__all__ = ["FlagKey", "FlagSet"]

#: The name of the parameter through which FastAPI hands the flags over.
_FLAGS = "shipsilently_flags"


class FlagKey(msgspec.Struct, frozen=True):
    """The key of a flag whose field is called otherwise: ``Annotated[bool, FlagKey("a/b")]``."""

    key: str


class _Field(msgspec.Struct, frozen=True):
    name: str
    keys: tuple[str, ...]
    type: Any
    default: Any


@dataclass_transform(kw_only_default=True, frozen_default=True)
class FlagSet:
    """Flags with types and defaults, read all at once.

    ::

        class Checkout(FlagSet):
            checkout_v2: bool = False
            banner: Literal["blue", "green"] = "blue"

        @app.get("/")
        async def home(checkout: Annotated[Checkout, Depends(Checkout)]): ...

    A field is the flag of its name, or of its name with hyphens (``checkout-v2``),
    or the one that `FlagKey` names. A value that does not have the field's type is
    not served: the default is, with the signal ``evaluation_failed`` and one warning.

    Made with keywords, it is a plain frozen object, for tests:
    ``Checkout(checkout_v2=True)``.

    Raises:
        ConfigurationError: While the class is made: a field has no default, or one
            that is not of its type.
    """

    __fields: ClassVar[tuple[_Field, ...] | None]

    def __init_subclass__(cls) -> None:
        cls.__fields = None
        try:
            cls._fields()
        except NameError:
            # A type that is defined further down; it is looked up again on first use.
            cls.__fields = None

    def __new__(cls, **values: Any) -> Any:
        given = values.get(_FLAGS)
        if given is None:
            return super().__new__(cls)
        made = cls.of(given)
        # FastAPI awaits it where it takes the class for what `__wrapped__` is.
        return _awaitable(made) if on_event_loop() else made

    def __init__(self, **values: Any) -> None:
        if _FLAGS in values:
            return
        fields = {field.name: field.default for field in self._fields()}
        unknown = values.keys() - fields.keys()
        if unknown:
            raise TypeError(f"{type(self).__name__} has no field {sorted(unknown)[0]!r}")
        self.__dict__.update(fields | values)

    @classmethod
    def of(cls, flags: Flags) -> Self:
        """The set, read from the flags of any framework.

        In a coroutine, ``await flags.aevaluate_all()`` first.
        """
        made = object.__new__(cls)
        made.__dict__.update({field.name: _read(flags, cls, field) for field in cls._fields()})
        return made

    @classmethod
    def using(cls, flags: Callable[..., Any]) -> Callable[..., Awaitable[Self]]:
        """A dependency that reads the set from other flags, as those of `flags.using(...)`.

        ``Annotated[Checkout, Depends(Checkout.using(user_flags))]``. With the request's
        own ``flags`` it is the same as the class alone, and costs no thread anywhere.
        """

        async def read(**given: Any) -> Self:
            return cls.of(given[_FLAGS])

        read.__signature__ = _signature(flags)  # type: ignore[attr-defined]  # what FastAPI reads
        return read

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__} is read-only")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{type(self).__name__} is read-only")

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other.__dict__ == self.__dict__

    __hash__ = None  # type: ignore[assignment]  # its values may be objects

    def __repr__(self) -> str:
        values = ", ".join(f"{name}={value!r}" for name, value in self.__dict__.items())
        return f"{type(self).__name__}({values})"

    @classmethod
    def _fields(cls) -> tuple[_Field, ...]:
        if cls.__fields is None:
            hints = get_type_hints(cls, include_extras=True)
            cls.__fields = tuple(
                _field(cls, name, kind)
                for name, kind in hints.items()
                if not name.startswith("_") and get_origin(kind) is not ClassVar
            )
        return cls.__fields


def _field(cls: type[Any], name: str, kind: Any) -> _Field:
    where = f"{cls.__name__}.{name}"
    if hasattr(FlagSet, name):
        raise ConfigurationError(where, "is taken by a method; name it otherwise, with a FlagKey")
    keys = tuple(dict.fromkeys((name, name.replace("_", "-"))))
    if get_origin(kind) is Annotated:
        for extra in get_args(kind)[1:]:
            if isinstance(extra, FlagKey):
                keys = (extra.key,)
    if not hasattr(cls, name):
        raise ConfigurationError(where, "needs a default, for when the flag cannot be had")
    default = getattr(cls, name)
    try:
        msgspec.to_builtins(default)
        msgspec.convert(default, kind)
    except msgspec.ValidationError:
        raise ConfigurationError(where, "has a default that is not of its type") from None
    except TypeError as error:
        raise ConfigurationError(where, f"has a type that no flag can have: {error}") from None
    return _Field(name, keys, kind, default)


def _read(flags: Flags, cls: type[Any], field: _Field) -> Any:
    key = field.keys[0]
    if len(field.keys) > 1 and key not in flags:
        key = field.keys[1]
    if field.type is bool or field.type is str:
        # The flags themselves hold these two to exactly this type, and do it faster.
        return flags.get(key, field.default)
    found = flags.detail(key, None)
    if found.source is not Source.DEFAULT:
        try:
            return _converted(found.value, field.type)
        except msgspec.ValidationError:
            _tell(flags, key, f"{cls.__name__}.{field.name}", found.value)
    # A default of its own for each set: it may be an object that somebody changes.
    return copy.deepcopy(field.default)


def _converted(value: Any, kind: Any) -> Any:
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError:
        # 3.0 and 3 are the same number in JSON.
        if isinstance(value, float) and value.is_integer():
            return msgspec.convert(int(value), kind)
        raise


def _tell(flags: Flags, key: str, where: str, value: Any) -> None:
    evaluator = flags._client.evaluator
    message = f"flag {key!r} holds a {type(value).__name__} that {where} does not take"
    evaluator.notices.warn(f"type {key} {where}", "%s; the declared default is served", message)
    evaluator._report(FailureReport(Failure.TYPE_MISMATCH, None, key, message))


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


# For FastAPI, which asks whether to await and what to hand over; not for type checkers.
# Which of the two signatures is looked at depends on the version of Python.
setattr(_dependency, "__signature__", _signature(request_flags))  # noqa: B010
setattr(FlagSet, "__signature__", _signature(request_flags))  # noqa: B010
setattr(FlagSet, "__wrapped__", _dependency)  # noqa: B010
