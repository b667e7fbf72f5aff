"""The settings of one app: read from its configuration through one table, and checked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from flask import Flask
from msgspec import NODEFAULT, Struct
from msgspec.structs import FieldInfo, fields

from shipsilently_core import Config, ConfigurationError

if TYPE_CHECKING:
    from shipsilently_core import _settings

    class Keywords(_settings.Settings, total=False):
        """For type checkers: the settings as keywords of the extension."""

        client_flags: list[str] | tuple[str, ...] | set[str] | frozenset[str]
        anonymous_id: str | None
        anonymous_cookie: str
        anonymous_max_age: int


__all__ = ["Settings", "read_settings"]

PREFIX = "SHIPSILENTLY"
#: Where visitors without an account can have their stable id.
PLACES = (None, "session", "cookie")


class Settings(Struct, frozen=True):
    """What an app has been told, beside what its client has.

    Attributes:
        config: The client's own settings; ``None`` where a ready client was given.
        client_flags: The flags that `flags_json` may show to a browser, by key or pattern.
        anonymous_id: Where visitors without a ``userId`` get a stable one: ``"session"``,
            ``"cookie"``, or ``None`` for nowhere.
        anonymous_cookie: The name of that cookie.
        anonymous_max_age: Seconds for which that cookie lives.
    """

    config: Config | None
    client_flags: tuple[str, ...] = ()
    anonymous_id: str | None = None
    anonymous_cookie: str = "shipsilently_visitor"
    anonymous_max_age: int = 365 * 24 * 60 * 60


def read_settings(app: Flask, given: Mapping[str, Any], *, ready_client: bool) -> Settings:
    """Read the settings of `app` and put what it leaves open into its configuration.

    A key ``SHIPSILENTLY_TIMEOUT`` wins over ``SHIPSILENTLY = {"TIMEOUT": …}``, and
    that over the keywords of the extension.

    Args:
        app: The app.
        given: The keywords of the extension.
        ready_client: A client was given, with settings of its own.

    Raises:
        ConfigurationError: A value is wrong, or a name unknown; names the key.
    """
    places = _gather(app, given)
    table = dict(_OWN)
    if not ready_client:
        table.update((item.name, item) for item in fields(Config))
    values = {
        name: app.config.setdefault(_key(name), _default(item)) for name, item in table.items()
    }
    try:
        config = None
        if not ready_client:
            config = Config.from_mapping({name: values[name] for name in _CORE})
        return Settings(config, **{name: check(name, values[name]) for name, check in _CHECKS})
    except ConfigurationError as error:
        raise _renamed(error, places) from None


def _gather(app: Flask, given: Mapping[str, Any]) -> dict[str, str]:
    """Bring all settings to their own keys; where each was given, if not there."""
    known = {*_CORE, *_OWN}
    group = app.config.get(PREFIX, {})
    if not isinstance(group, Mapping):
        raise ConfigurationError(PREFIX, "must be a mapping of settings")
    for key in app.config:
        if key.startswith(f"{PREFIX}_"):
            _check_known(key, key.removeprefix(f"{PREFIX}_").lower(), known, _key)
    places: dict[str, str] = {}
    sources: list[tuple[Mapping[str, Any], Callable[[str], str], Callable[[str], str]]] = [
        (group, lambda key: f"{PREFIX}[{key!r}]", str.upper),
        (given, lambda key: f"ShipSilently({key}=…)", str.lower),
    ]
    for source, spell, suggest in sources:
        for key, value in source.items():
            name = str(key).lower()
            _check_known(spell(key), name, known, suggest)
            if _key(name) not in app.config:
                app.config[_key(name)] = value
                places[name] = spell(key)
    return places


def _key(name: str) -> str:
    return f"{PREFIX}_{name.upper()}"


def _check_known(place: str, name: str, known: Iterable[str], spell: Callable[[str], str]) -> None:
    if name in known:
        return
    import difflib

    near = difflib.get_close_matches(name, known, n=1)
    names = ", ".join(spell(each) for each in sorted(known))
    hint = f"did you mean {spell(near[0])}?" if near else f"known are: {names}"
    raise ConfigurationError(place, f"is not a setting; {hint}")


def _renamed(error: ConfigurationError, places: Mapping[str, str]) -> ConfigurationError:
    """The same error with the name that the app's author wrote."""
    name = next(part for part in _longest_first if error.setting.startswith(part))
    rest = error.setting.removeprefix(name)
    return ConfigurationError(places.get(name, _key(name)) + rest, error.problem)


def _default(item: Any) -> Any:
    if not isinstance(item, FieldInfo):
        return item
    # Made anew for each app, which may change what is in its configuration.
    return item.default_factory() if item.default is NODEFAULT else item.default


def _keys(name: str, value: Any) -> tuple[str, ...]:
    if isinstance(value, (list, tuple, set, frozenset)) and all(
        isinstance(key, str) for key in value
    ):
        return tuple(value)
    raise ConfigurationError(name, "must be a list of flag keys, or patterns such as 'public-*'")


def _place(name: str, value: Any) -> str | None:
    if value in PLACES:
        return value  # type: ignore[no-any-return]  # it is one of them
    raise ConfigurationError(name, "must be 'session', 'cookie' or None")


def _cookie_name(name: str, value: Any) -> str:
    if isinstance(value, str) and value.isascii() and value.replace("_", "").isalnum():
        return value
    raise ConfigurationError(name, "must be a cookie's name: letters, digits and underscores")


def _whole_seconds(name: str, value: Any) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return value
    raise ConfigurationError(name, "must be a whole number of seconds, more than 0")


_CORE = Config.__struct_fields__
_OWN = dict(zip(Settings.__struct_fields__[1:], Settings.__struct_defaults__, strict=True))
_CHECKS: tuple[tuple[str, Callable[[str, Any], Any]], ...] = (
    ("client_flags", _keys),
    ("anonymous_id", _place),
    ("anonymous_cookie", _cookie_name),
    ("anonymous_max_age", _whole_seconds),
)
_longest_first = sorted({*_CORE, *_OWN}, key=len, reverse=True)
