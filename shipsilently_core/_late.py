"""Names of a package that not every app uses: imported when they are first asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

__all__ = ["late_names"]


def late_names(
    package: Mapping[str, Any], places: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """The ``__getattr__`` and the ``__dir__`` of a package that has such names.

    Args:
        package: Its ``globals()``.
        places: The module that each name is imported from.
    """

    def get(name: str) -> Any:
        if name not in places:
            raise AttributeError(f"module {package['__name__']!r} has no attribute {name!r}")
        return getattr(import_module(places[name]), name)

    return get, lambda: sorted({*package, *places})
