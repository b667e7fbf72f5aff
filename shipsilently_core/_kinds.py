"""The JSON type of a value, and whether it is the one a caller expects."""

from __future__ import annotations

from typing import Any

__all__ = [
    "FLAT",
    "as_key",
    "fits",
    "in_place_of",
    "is_lazy_string",
    "plain",
    "translated",
    "unshared",
]

#: Classes of "lazy strings", by name: the frameworks that own them are not imported for this.
_LAZY_STRINGS = frozenset(("Promise", "LazyString", "_LazyString", "LazyProxy"))
_PLAIN = frozenset((bool, str, int, float, dict, list, type(None)))

#: The types of values that nobody can change.
FLAT = frozenset((bool, str, int, float, type(None)))


def is_lazy_string(value: Any) -> bool:
    """Whether it is a text that is translated when it is shown, as frameworks have them."""
    return any(kind.__name__ in _LAZY_STRINGS for kind in type(value).__mro__)


def translated(value: Any) -> Any:
    """A lazy string as the text that it gives now; anything else as it is."""
    if type(value) in _PLAIN or not is_lazy_string(value):
        return value
    try:
        # What that gives may be a kind of string of the framework's own.
        return str.__str__(str(value))
    except Exception:
        # Its translation raised, as it will for whoever shows it: the read does not.
        return value


def as_key(key: Any) -> str:
    """What was given as a flag's key, as a plain string; of what is none, its type in brackets.

    Sites take keys from what people send them, too. No flag is called like that, so it is read as
    any other that is not known; its own text may do anything, and tell anything.
    """
    if type(key) is str:
        return key
    return str.__str__(key) if isinstance(key, str) else f"<{type(key).__name__}>"


def in_place_of(key: Any, error: TypeError) -> str:
    """`as_key`, for a read that has failed; where the key was not why, the error again.

    A read that works need not ask, so it costs nothing there.
    """
    usable = as_key(key)
    if usable is key:
        raise error
    return usable


def plain(value: Any) -> Any:
    """An object of a subclass of a JSON type, as that type itself, for an encoder.

    Template engines mark strings as safe by such classes.

    Raises:
        TypeError: It is of no JSON type at all.
    """
    if isinstance(value, str):
        # Not str(value), which may be of the subclass again.
        return str.__str__(value)
    if isinstance(value, int):
        return int.__int__(value)
    if isinstance(value, float):
        return float.__float__(value)
    raise TypeError(f"a {type(value).__name__} has no form in JSON")


def fits(value: Any, default: Any) -> bool:
    """Whether `value` may be served to a caller whose default is `default`.

    A boolean is no number and a number no boolean, though Python says otherwise;
    whole and fractional numbers are one type, as in JSON. A default of ``None``
    takes everything.
    """
    if default is None or type(value) is type(default):
        return True
    if isinstance(default, bool) or isinstance(value, bool):
        return False
    if isinstance(default, (int, float)):
        return isinstance(value, (int, float))
    return any(isinstance(default, kind) and isinstance(value, kind) for kind in (str, dict, list))


def unshared(value: Any) -> Any:
    """A copy of a JSON object or array, which a caller might change; anything else as it is."""
    if type(value) is dict:
        return {key: unshared(inner) for key, inner in value.items()}
    if type(value) is list:
        return [unshared(inner) for inner in value]
    return value
