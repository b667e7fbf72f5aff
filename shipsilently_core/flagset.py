"""`FlagSet`: several flags as one typed object."""

from __future__ import annotations

import copy
import inspect
from typing import (
    TYPE_CHECKING,
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

from ._overrides import overrides
from .errors import ConfigurationError
from .values import Source

if TYPE_CHECKING:
    from .flags import Flags

__all__ = ["FlagKey", "FlagSet"]


class FlagKey(msgspec.Struct, frozen=True):
    """The key of a flag whose field is called otherwise: ``Annotated[bool, FlagKey("a/b")]``."""

    key: str


class _Field(msgspec.Struct, frozen=True):
    """One field of a set.

    Attributes:
        name: What it is called.
        keys: The flags that it may be, the first that exists.
        plain: Whether the flags themselves hold its values to its type.
        holder: A struct whose ``value`` is of its type. msgspec looks into a struct's types once,
            and into others each time.
        default: What it is where the flag cannot be had.
    """

    name: str
    keys: tuple[str, ...]
    plain: bool
    holder: type[msgspec.Struct]
    default: Any


@dataclass_transform(kw_only_default=True, frozen_default=True)
class FlagSet:
    """Flags with types and defaults, read all at once.

    ::

        class Checkout(FlagSet):
            checkout_v2: bool = False
            banner: Literal["blue", "green"] = "blue"

        checkout = flags.as_(Checkout)

    A field is the flag of its name, or of its name with hyphens (``checkout-v2``),
    or the one that `FlagKey` names. A value that does not have the field's type is
    not served: the default is, with the signal ``evaluation_failed`` and one warning.

    Made with keywords, it is a plain frozen object, for tests:
    ``Checkout(checkout_v2=True)``.

    Raises:
        ConfigurationError: While the class is made: a field has no default, or one
            that is not of its type, or a name that something else has.
    """

    __fields: ClassVar[tuple[_Field, ...] | None]

    def __init_subclass__(cls) -> None:
        cls.__fields = None
        try:
            cls._fields()
        except NameError:
            # A type that is defined further down; it is looked up again on first use.
            cls.__fields = None

    def __init__(self, **values: Any) -> None:
        fields = {field.name: copy.deepcopy(field.default) for field in self._fields()}
        unknown = values.keys() - fields.keys()
        if unknown:
            raise TypeError(f"{type(self).__name__} has no field {sorted(unknown)[0]!r}")
        self.__dict__.update(fields | values)

    @classmethod
    def of(cls, flags: Flags) -> Self:
        """The set, read from the flags of a request; the same as ``flags.as_(cls)``."""
        made = object.__new__(cls)
        # Its fields are of one evaluation, whatever other threads do with these flags.
        flags = flags._as_seen()
        made.__dict__.update({field.name: _read(flags, cls, field) for field in cls._fields()})
        return made

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__} is read-only")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{type(self).__name__} is read-only")

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other.__dict__ == self.__dict__

    __hash__: ClassVar[None] = None  # type: ignore[assignment]  # its values may be objects

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


def _field(cls: type[FlagSet], name: str, kind: Any) -> _Field:
    where = f"{cls.__name__}.{name}"
    for base in cls.__mro__[1:]:
        # What a base has without a type is a method, or something else that is no flag.
        if name in vars(base) and name not in inspect.get_annotations(base):
            raise ConfigurationError(
                where, f"is taken by {base.__name__}; name it otherwise, with a FlagKey"
            )
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
    holder = msgspec.defstruct(name, [("value", kind)])
    return _Field(name, keys, _is_plain(kind), holder, default)


def _is_plain(kind: Any) -> bool:
    """Whether the flags themselves hold values to this type, and do it faster."""
    if get_origin(kind) is Annotated:
        kind, *extras = get_args(kind)
        if any(isinstance(extra, msgspec.Meta) for extra in extras):
            # It says more of the value than its type.
            return False
    return kind is bool or kind is str


def _read(flags: Flags, cls: type[FlagSet], field: _Field) -> Any:
    key = _key(flags, field.keys)
    if field.plain:
        return flags.get(key, field.default)
    found = flags.detail(key, None)
    if found.source is not Source.DEFAULT:
        try:
            return _converted(found.value, field.holder)
        except msgspec.ValidationError:
            flags.report_mismatch(key, found.value, f"{cls.__name__}.{field.name}")
    # A default of its own for each set: it may be an object that somebody changes.
    return copy.deepcopy(field.default)


def _key(flags: Flags, keys: tuple[str, ...]) -> str:
    """The key that there is a flag of; what a test has set goes before what the service has."""
    if len(keys) > 1:
        for key in keys:
            if key in overrides.values:
                return key
        if keys[0] not in flags:
            return keys[1]
    return keys[0]


def _converted(value: Any, holder: type[Any]) -> Any:
    try:
        return msgspec.convert({"value": value}, holder).value
    except msgspec.ValidationError:
        # 3.0 and 3 are the same number in JSON.
        if isinstance(value, float) and value.is_integer():
            return msgspec.convert({"value": int(value)}, holder).value
        raise
