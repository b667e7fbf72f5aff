"""Flags in tests: set for one, and gone after it."""

from __future__ import annotations

from typing import Any

from shipsilently_core.testing import override_flags

__all__ = ["override_flag", "override_flags"]


def override_flag(key: str, value: Any = True) -> override_flags:
    """Set one flag for the length of a test; see `override_flags`.

    A context manager, and a decorator for functions, async ones too, and classes of tests::

        @override_flag("new-checkout", True)
        def test_new_checkout(client): ...
    """
    return override_flags({key: value})
