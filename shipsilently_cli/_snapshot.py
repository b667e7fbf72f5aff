"""Results to ship with an app: what ``bootstrap=`` reads, made and checked.

For the commands of the frameworks, too; it needs no click.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from shipsilently_core import (
    ConfigurationError,
    EvaluationError,
    EvaluationResult,
    ShipSilentlyClient,
)
from shipsilently_core._shipped import shipped
from shipsilently_core._view import IMPERSONAL

from ._failures import explained, failures_of

__all__ = ["NoAnswerError", "Taken", "check", "take", "write"]

#: Counts up when the meaning of the file changes.
_FORMAT = 1


class NoAnswerError(Exception):
    """The service did not answer as it should; says what was wrong."""


@dataclass(frozen=True, slots=True)
class Taken:
    """Every flag of the environment, as far as it may stand for anybody's.

    Attributes:
        flags: By key, as they are written.
        left_out: The keys of those that a rule has made for this context alone.
    """

    flags: dict[str, dict[str, Any]]
    left_out: tuple[str, ...]

    @property
    def document(self) -> str:
        """The file: sorted, a line for each thing, so that differences are seen."""
        head = {"format": _FORMAT, "evaluated": datetime.now(UTC).isoformat(timespec="seconds")}
        # The head is to be at the top.
        flags = json.loads(_sorted(self.flags))
        return json.dumps({**head, "flags": flags}, ensure_ascii=False, indent=2) + "\n"

    @property
    def notes(self) -> list[str]:
        """What there is to say of it."""
        told = [f"{_flags(len(self.flags))}"]
        if self.left_out:
            told.append(
                f"left out, since a rule made them for this context alone: "
                f"{', '.join(self.left_out)}"
            )
        return told


def take(client: ShipSilentlyClient, context: Mapping[str, Any] | None = None) -> Taken:
    """Evaluate every flag with one call.

    Args:
        client: Whose service.
        context: Whom for; left out, the client's own background context.

    Raises:
        NoAnswerError: The service did not answer; what is known from before is not taken.
    """
    given = client.config.baseline_context if context is None else context
    with failures_of(client) as failures:
        try:
            results = client.evaluate_all(given)
        except EvaluationError as error:
            raise NoAnswerError(explained(error)) from None
    if failures:
        raise NoAnswerError(failures[0])
    return Taken(
        {key: _row(found) for key, found in results.items() if found.reason in IMPERSONAL},
        tuple(sorted(key for key in results if results[key].reason not in IMPERSONAL)),
    )


def _row(found: EvaluationResult) -> dict[str, Any]:
    row = {"value": found.value, "reason": str(found.reason)}
    return row if found.rule_id is None else {**row, "ruleId": found.rule_id}


def write(path: Path, taken: Taken) -> bool:
    """Put it into a file, whole or not at all; whether that was needed.

    A file that holds the same flags already is left as it is, with the time of then.

    Raises:
        OSError: It cannot be written, or holds what somebody may miss: no snapshot.
    """
    # What a link points to is replaced, not the link.
    path = Path(os.path.realpath(path))
    if _flags_in(path) == _sorted(taken.flags):
        return False
    data = taken.document.encode()
    mode = None
    with contextlib.suppress(FileNotFoundError):
        found = path.stat()
        if not stat.S_ISREG(found.st_mode):
            path.write_bytes(data)
            return True
        mode = stat.S_IMODE(found.st_mode)
        _check_can_go(path)
    unfinished = path.with_name(f".{path.name}.{os.getpid()}.unfinished")
    try:
        with unfinished.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        if mode is not None:
            unfinished.chmod(mode)
        unfinished.replace(path)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise
    return True


def _check_can_go(path: Path) -> None:
    """A flags file of the local service has rules that are nowhere else."""
    try:
        if not path.read_bytes().strip():
            return
        shipped(path)
    except ConfigurationError:
        raise FileExistsError(
            errno.EEXIST, "holds something else than a snapshot; move it away, or name another file"
        ) from None


def _sorted(flags: Any) -> str:
    """Equal for what is the same in JSON, where 1 is not `true`."""
    return json.dumps(flags, sort_keys=True)


def _flags_in(path: Path) -> str | None:
    if not path.is_file():
        return None
    try:
        return _sorted(json.loads(path.read_bytes())["flags"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


def check(path: Path) -> tuple[str, ...]:
    """What there is to say of a file that is to be shipped.

    Raises:
        ConfigurationError: It would not be taken.
    """
    snapshot = shipped(path)
    assert snapshot is not None
    told = [_flags(len(snapshot.rows))]
    personal = [key for key, row in snapshot.rows.items() if row.reason not in IMPERSONAL]
    if personal:
        told.append(
            f"served to nobody, since a rule for somebody made them: {', '.join(sorted(personal))}"
        )
    return tuple(told)


def _flags(count: int) -> str:
    return f"{count} flag{'' if count == 1 else 's'}"
