"""The dictionary `SHIPSILENTLY` of Django's settings: read through one table, checked."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from asgiref.sync import iscoroutinefunction
from django.http import HttpRequest
from django.utils.module_loading import import_string
from msgspec import Struct

from shipsilently_core import (
    AnalyticsConfig,
    Config,
    ConfigurationError,
    Context,
    RetryConfig,
    ShipSilentlyClient,
)

__all__ = ["Attribute", "Options", "Problem", "Reading", "is_async", "read_options"]

ContextHook = Callable[[HttpRequest], Any]


class Attribute(Struct, frozen=True):
    """One attribute of the user that goes into the context.

    Attributes:
        name: What the service calls it.
        path: Where it is found, from the user on.
    """

    name: str
    path: tuple[str, ...]


class Options(Struct, frozen=True, kw_only=True):
    """What is Django's own in the settings; the other names are those of the core's `Config`.

    Attributes:
        client: A client of your own, or a function that makes one, in place of every
            setting of the core.
        context: Makes a request's context; plain or async. ``None``: the user's pk as ``userId``.
        attributes: More of the user for the context; ``None`` of it without being named.
        anonymous_id: Where a visitor's stable id is kept: ``"session"``, ``"cookie"`` or nowhere.
        prefetch: Under ASGI, evaluate before the view runs.
        exclude_paths: Beginnings of paths on which nothing is prefetched.
        client_flags: Patterns of the flags that may reach a browser.
        raise_in_debug: With ``DEBUG``, raise what a request would otherwise survive.
        offline: Ask no service. ``None``: only while Django's tests run.
        context_is_async: Whether `context` is; each request would ask that anew.
    """

    client: ShipSilentlyClient | Callable[[], ShipSilentlyClient] | None = None
    context: ContextHook | None = None
    attributes: tuple[Attribute, ...] = ()
    anonymous_id: str | None = None
    prefetch: bool = False
    exclude_paths: tuple[str, ...] = ()
    client_flags: tuple[str, ...] = ()
    raise_in_debug: bool = False
    offline: bool | None = None
    context_is_async: bool = False


class Problem(Struct, frozen=True):
    """What is wrong with the settings.

    Attributes:
        code: The id of the system check, without the app's name.
        text: The setting, and what is wrong with it; never its value.
        hint: What to do about it.
    """

    code: str
    text: str
    hint: str = ""


class Reading(Struct, frozen=True):
    """The settings as far as they are right, and what is wrong with the rest.

    Attributes:
        options: Django's own.
        config: The client's; ``None`` where its key or its address is missing or wrong.
        problems: In the order in which they were found.
    """

    options: Options
    config: Config | None
    problems: tuple[Problem, ...] = ()


def read_options(given: object, *, offline: bool = False) -> Reading:
    """Read the settings; what is wrong with them is told, never raised.

    Args:
        given: The dictionary.
        offline: What counts where ``OFFLINE`` is not set. Who asks no service needs no key.
    """
    if not isinstance(given, Mapping):
        text = f"SHIPSILENTLY must be a dictionary, not {type(given).__name__}"
        return Reading(Options(), None, (Problem("E004", text),))
    problems: list[Problem] = []
    own: dict[str, Any] = {}
    core: dict[str, Any] = {}
    for given_name, value in given.items():
        name = str(given_name).upper()
        if name in _READERS:
            own[name.lower()] = _own(name, value, problems)
        elif name in _CORE:
            core[name] = value
        else:
            place = f"SHIPSILENTLY[{str(given_name)!r}]"
            problems.append(_unknown(place, str(given_name), [*_READERS, *_CORE]))
    options = Options(**own, context_is_async=is_async(own.get("context")))
    if options.client is not None:
        if core:
            text = f"SHIPSILENTLY[{next(iter(core))!r}] has no effect beside CLIENT"
            problems.append(Problem("E003", text, "Give it to the client instead."))
        return Reading(options, None, tuple(problems))
    if options.offline is not None:
        offline = options.offline
    return Reading(options, _config(core, problems, offline=offline), tuple(problems))


def is_async(function: Any) -> bool:
    """Whether calling this gives something to await.

    Knows objects with an async ``__call__``, and what a class body marks as static.
    """
    if isinstance(function, staticmethod):
        function = function.__func__
    return iscoroutinefunction(function) or iscoroutinefunction(
        getattr(type(function), "__call__", None)  # noqa: B004  # is it async, not: is it there
    )


def _own(name: str, value: Any, problems: list[Problem]) -> Any:
    read, otherwise = _READERS[name]
    try:
        return read(value)
    except _WrongError as error:
        hint = _HINTS.get(name, "")
        problems.append(Problem("E003", f"SHIPSILENTLY[{name!r}] {error}", hint))
        return otherwise


def _unknown(place: str, name: str, known: Collection[str]) -> Problem:
    import difflib

    near = difflib.get_close_matches(name.upper(), known, n=1)
    hint = f"Did you mean {near[0]!r}?" if near else f"Known are {', '.join(sorted(known))}."
    return Problem("E002", f"{place} is not a setting", hint)


def _known(name: str, value: Any, problems: list[Problem]) -> Any:
    """A setting that holds settings, without those that are none; any other as it is."""
    kind = _NESTED.get(name)
    if kind is None or not isinstance(value, Mapping):
        return value
    known = [field.upper() for field in kind.__struct_fields__]
    right = {}
    for inner, given in value.items():
        if str(inner).upper() in known:
            right[inner] = given
        else:
            place = f"SHIPSILENTLY[{name!r}][{str(inner)!r}]"
            problems.append(_unknown(place, str(inner), known))
    return right


def _config(core: dict[str, Any], problems: list[Problem], *, offline: bool) -> Config | None:
    """The client's settings without those that are wrong.

    A wrong key or address is not left out: the client would talk to somebody else.
    """
    right: dict[str, Any] = {}
    for name, value in core.items():
        try:
            checked = _CORE_READERS.get(name, _as_it_is)(_known(name, value, problems))
            Config.from_mapping({**_PLACEHOLDERS, name: checked})
        except (ConfigurationError, _WrongError) as error:
            if name not in _PLACEHOLDERS:
                problems.append(Problem("E003", _told(name, error)))
        else:
            right[name] = checked
    for name in _PLACEHOLDERS.keys() & core.keys():
        right[name] = core[name]
    try:
        return _made(right, offline=offline)
    except ConfigurationError as error:
        setting = _name_of(error)
        code = "E001" if setting == "API_KEY" else "E003"
        problems.append(Problem(code, _told(setting, error), _HINTS.get(setting, "")))
        return None


def _made(right: dict[str, Any], *, offline: bool) -> Config:
    try:
        return Config.from_mapping(right)
    except ConfigurationError as error:
        if not offline or _name_of(error) != "API_KEY" or "API_KEY" in right:
            raise
        return Config.from_mapping({**right, "API_KEY": _PLACEHOLDERS["API_KEY"]})


def _name_of(error: ConfigurationError) -> str:
    return error.setting.partition(" ")[0].upper()


def _told(name: str, error: Exception) -> str:
    if not isinstance(error, ConfigurationError):
        return f"SHIPSILENTLY[{name!r}] {error}"
    inner = error.setting.removeprefix(name.lower())
    if inner.startswith("."):
        inner = f"[{inner[1:].upper()!r}]"
    return f"SHIPSILENTLY[{name!r}]{inner} {error.problem}"


class _WrongError(Exception):
    """A setting is wrong; says how, to be read after the setting's name."""


def _imported(value: Any) -> Any:
    """What a dotted path names; anything else as it is."""
    if not isinstance(value, str):
        return value
    try:
        return import_string(value)
    except ImportError as error:
        raise _WrongError(f"cannot be imported: {error}") from None


def _as_it_is(value: Any) -> Any:
    return value


def _store(value: Any) -> Any:
    """A store, where the setting names a cache of Django's; anything else as it is."""
    if isinstance(value, str) and value.startswith(_CACHE):
        # Here, since most sites have none.
        from .stores import DjangoCacheStore

        return DjangoCacheStore(value.removeprefix(_CACHE))
    return value


def _context(value: Any) -> ContextHook | None:
    hook = _imported(value)
    if hook is not None and not callable(hook):
        raise _WrongError("must be a callable that takes a request, or the dotted path of one")
    return hook  # type: ignore[no-any-return]


def _client(value: Any) -> Any:
    client = _imported(value)
    if client is not None and not isinstance(client, ShipSilentlyClient) and not callable(client):
        raise _WrongError("must be a ShipSilentlyClient, a callable that makes one, or its path")
    return client


def _attributes(value: Any) -> tuple[Attribute, ...]:
    found = []
    for text in _strings(value):
        name, _, path = text.partition(":")
        parts = tuple((path or name).split("."))
        if not name or not all(part.isidentifier() for part in parts):
            raise _WrongError('must hold names such as "email" or "plan:profile.plan"')
        found.append(Attribute(name, parts))
    return tuple(found)


def _strings(value: Any) -> tuple[str, ...]:
    if not isinstance(value, (list, tuple)) or not all(isinstance(one, str) for one in value):
        raise _WrongError("must be a list of strings")
    return tuple(value)


def _paths(value: Any) -> tuple[str, ...]:
    paths = _strings(value)
    if not all(path.startswith("/") for path in paths):
        raise _WrongError('must hold beginnings of paths, each starting with "/"')
    return paths


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise _WrongError("must be True or False")
    return value


def _optional_flag(value: Any) -> bool | None:
    if value is not None and not isinstance(value, bool):
        raise _WrongError("must be True, False or None")
    return value


def _anonymous_id(value: Any) -> str | None:
    if value not in (None, "session", "cookie"):
        raise _WrongError('must be "session", "cookie" or None')
    return value  # type: ignore[no-any-return]


def nobody(request: HttpRequest) -> Context:
    """The context in place of a hook that cannot be used: nobody in particular."""
    return Context()


#: Django's own settings: how each is read, and what stands in for one that is wrong.
_READERS: dict[str, tuple[Callable[[Any], Any], Any]] = {
    "ANONYMOUS_ID": (_anonymous_id, None),
    "ATTRIBUTES": (_attributes, ()),
    "CLIENT": (_client, None),
    "CLIENT_FLAGS": (_strings, ()),
    "CONTEXT": (_context, nobody),
    "EXCLUDE_PATHS": (_paths, ()),
    "OFFLINE": (_optional_flag, None),
    "PREFETCH": (_flag, False),
    "RAISE_IN_DEBUG": (_flag, False),
}
#: Settings of the core that can be written in a way of Django's.
_CORE_READERS: dict[str, Callable[[Any], Any]] = {
    "HTTP_CLIENT": _imported,
    "ON_ERROR": _imported,
    "ON_STATE_CHANGE": _imported,
    "STORE": _store,
}
#: What comes before the name of a cache.
_CACHE = "django-cache:"
_CORE = frozenset(name.upper() for name in Config.__struct_fields__)
#: Settings that hold settings.
_NESTED: dict[str, Any] = {"ANALYTICS": AnalyticsConfig, "RETRY": RetryConfig}
_PLACEHOLDERS = {"API_KEY": "placeholder", "API_URL": "http://localhost"}
_HINTS = {
    "API_KEY": "Set SHIPSILENTLY = {'API_KEY': ...}, or the environment variable "
    "SHIPSILENTLY_API_KEY, to the SDK key of one environment.",
    "CONTEXT": "Until it is right, flags are for nobody in particular.",
}
