"""What settings bring along: a store to open, and results that were shipped with the app."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec.json import Encoder

from ._kinds import plain
from ._snapshot import Row, Snapshot
from ._wire import parse_batch
from .config import checked_seconds
from .errors import ConfigurationError
from .stores import FileStore, SnapshotStore
from .values import EvaluationResult, Reason

__all__ = ["SWITCHES", "opened", "shipped"]

_REDIS = ("redis://", "rediss://", "unix://", "valkey://", "valkeys://")
#: What an environment variable says for yes and no; these name no file.
SWITCHES = {"true": True, "1": True, "on": True, "false": False, "0": False, "off": False}
_encode = Encoder(enc_hook=plain).encode


def opened(given: Any) -> SnapshotStore | None:
    """The store that a setting means.

    Raises:
        ConfigurationError: It means none, or a library is missing.
    """
    if isinstance(given, str):
        given = SWITCHES.get(given.strip().lower(), given)
    if given is None or given is False:
        return None
    if given is True:
        return FileStore()
    if isinstance(given, str) and given.startswith(_REDIS):
        from .stores_redis import RedisStore

        return RedisStore(given)
    if isinstance(given, (str, os.PathLike)):
        if not os.fspath(given) or (isinstance(given, str) and "://" in given):
            raise ConfigurationError(
                "store", "must be a path, or an address that begins with redis:// or rediss://"
            )
        return FileStore(given)
    if isinstance(given, SnapshotStore) and not isinstance(given, type):
        for name in ("deadline", "load_deadline", "interval"):
            checked_seconds(f"store {name}", getattr(given, name, 0.0), least=0.0)
        for name in ("max_contexts", "max_bytes"):
            _check_count(f"store {name}", getattr(given, name, 0))
        return given
    raise ConfigurationError(
        "store", f"must be a store, a path, an address of Redis or True, not {type(given).__name__}"
    )


def _check_count(name: str, number: Any) -> None:
    if not isinstance(number, int) or isinstance(number, bool) or number < 0:
        raise ConfigurationError(name, "must be a whole number, at least 0")


def shipped(given: Any) -> Snapshot | None:
    """The results that a setting holds, or the file that it names.

    Raises:
        ConfigurationError: They cannot be read. Values are never shown.
    """
    if given is None or isinstance(given, Snapshot):
        return given
    if isinstance(given, (str, os.PathLike)):
        return _of_document(_read(given))
    if not isinstance(given, Mapping):
        raise ConfigurationError(
            "bootstrap", f"must be a mapping or the path of a file, not {type(given).__name__}"
        )
    rows = given
    if "flags" in given and isinstance(given["flags"], Mapping) and "value" not in given["flags"]:
        rows = given["flags"]
    checked = {key: _row(key, item) for key, item in rows.items()}
    try:
        document = _encode({"flags": checked})
    except (TypeError, ValueError, OverflowError, RecursionError):
        # UnicodeEncodeError is a ValueError.
        raise ConfigurationError("bootstrap", "holds something that JSON has no form for") from None
    return _of_document(document)


def _row(key: Any, item: Any) -> Any:
    if not isinstance(key, str):
        raise ConfigurationError("bootstrap", "flag keys must be strings")
    if isinstance(item, EvaluationResult):
        return Row(item.value, item.reason, item.rule_id)
    if isinstance(item, Mapping) and "value" in item:
        return {"reason": Reason.DEFAULT, **item}
    raise ConfigurationError(
        f"bootstrap[{key!r}]",
        'must be a result, such as {"value": true}; plain values belong into defaults',
    )


def _read(given: str | os.PathLike[str]) -> bytes:
    try:
        path = Path(given).expanduser()
    except RuntimeError as error:
        raise ConfigurationError("bootstrap", f"is no path: {error}") from None
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigurationError(
            "bootstrap", f"cannot be read from {str(path)!r}: {error.strerror}"
        ) from None


def _of_document(document: bytes) -> Snapshot:
    parsed = parse_batch(document)
    if parsed is None:
        raise ConfigurationError(
            "bootstrap", "is not the JSON that `shipsilently snapshot` writes: no object `flags`"
        )
    rows, malformed = parsed
    if malformed:
        raise ConfigurationError(
            f"bootstrap[{malformed[0]!r}]", "is no result: it needs a value and a reason"
        )
    return Snapshot(rows, complete=False)
