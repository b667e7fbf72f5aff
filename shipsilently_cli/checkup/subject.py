"""What the doctor examines."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from shipsilently_core import Config, ShipSilentlyClient

from .findings import Finding

__all__ = ["Subject"]


def _nothing(flags: frozenset[str] | None) -> Iterable[Finding]:
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A configuration, and as much of the app around it as this process has loaded.

    Attributes:
        config: The settings; ``None`` where they are wrong.
        problems: What is wrong with them.
        app: The app that this process has loaded, for people; empty for none.
        client: The app's client.
        sources: Folders and files that read flags.
        framework: The framework's own checks; told the keys of the environment's flags, where
            they are known.
    """

    config: Config | None
    problems: tuple[Finding, ...] = ()
    app: str = ""
    client: ShipSilentlyClient | None = None
    sources: tuple[Path, ...] = ()
    framework: Callable[[frozenset[str] | None], Iterable[Finding]] = _nothing
