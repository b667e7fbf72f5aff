"""Where the flags come from: a file that people edit, or a mapping that a test gives."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

from ._checks import check_flags
from .document import Flag, are_same
from .errors import FlagsFileError
from .flagsfile import parse, parse_plain, read, render, rewrite

__all__ = ["FileSource", "FlagsSource", "MappingSource", "plain_flags"]

#: Seconds after which a wrong file is read once more before anybody is told: an
#: editor may be in the middle of saving.
SETTLE = 0.05

_logger = logging.getLogger("shipsilently.local")


class FlagsSource(Protocol):
    """What the service needs of a source."""

    flags: Mapping[str, Flag]

    def edit(self, change: Callable[[dict[str, Any]], object]) -> None:
        """Let ``change`` alter the plain data of the flags by key, check, and keep it.

        Raises `FlagsFileError`, and then nothing has changed.
        """


def plain_flags(flags: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of ``flags`` in which a bare value stands for a flag with that default."""
    return {
        key: dict(flag) if isinstance(flag, Mapping) else {"default": flag}
        for key, flag in flags.items()
    }


class MappingSource:
    """Flags that live in memory."""

    def __init__(self, flags: Mapping[str, Any]) -> None:
        self._plain = plain_flags(flags)
        self.flags: Mapping[str, Flag] = check_flags(self._plain, "flags")

    def edit(self, change: Callable[[dict[str, Any]], object]) -> None:
        """See `FlagsSource.edit`."""
        plain = plain_flags(self._plain)
        change(plain)
        self.flags = check_flags(plain, "flags")
        self._plain = plain


class FileSource:
    """Flags in a file. The first read must succeed; later the last good one stays.

    ``report`` is told, in one line each, when the file was reloaded and when it is
    right again, ``complain`` when it has become wrong. What they raise is logged.
    ``pause`` waits so many seconds.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        report: Callable[[str], None],
        complain: Callable[[str], None],
        pause: Callable[[float], object] | None = None,
    ) -> None:
        self.path = Path(path)
        self._report = report
        self._complain = complain
        self._pause = pause or threading.Event().wait
        self._content: bytes | None = read(path)
        self._problem: str | None = None
        self.flags: Mapping[str, Flag] = parse(self._content, path).flags

    def refresh(self) -> bool:
        """Look at the file; True when ``flags`` has changed. Never raises."""
        try:
            return self._reload()
        except FlagsFileError:
            self._pause(SETTLE)
        try:
            return self._reload()
        except FlagsFileError as error:
            if self._problem != str(error):
                self._problem = str(error)
                _tell(self._complain, f"{error}. Still serving the last good flags.")
            return False

    def edit(self, change: Callable[[dict[str, Any]], object]) -> None:
        """See `FlagsSource.edit`. The file is written anew: its comments are lost."""
        plain = parse_plain(read(self.path), self.path)
        parse(render(plain, self.path), self.path)
        plain["flags"] = plain_flags(plain["flags"])
        change(plain["flags"])
        content = render(plain, self.path)
        flags = parse(content, self.path).flags
        rewrite(self.path, content)
        self._content, self._problem, self.flags = content, None, flags

    def _reload(self) -> bool:
        content = read(self.path)
        if content == self._content and self._problem is None:
            return False
        flags = parse(content, self.path).flags
        changed = not are_same(flags, self.flags)
        recovered = self._problem is not None
        self._content, self._problem, self.flags = content, None, flags
        if changed or recovered:
            again = " is right again:" if recovered else ": reloaded,"
            plural = "" if len(flags) == 1 else "s"
            _tell(self._report, f"{self.path}{again} {len(flags)} flag{plural}.")
        return changed


def _tell(whom: Callable[[str], None], line: str) -> None:
    """Whoever is told cannot keep the flags from being followed."""
    try:
        whom(line)
    except Exception:
        _logger.exception("could not report: %s", line)
