"""What a closed gate may answer."""

from __future__ import annotations

__all__ = ["check_status"]


def check_status(status: object) -> None:
    """Refuse what would tell a browser, or a cache, that all is well.

    Raises:
        ValueError: This is not the status of an error.
    """
    if not isinstance(status, int) or not 400 <= status <= 599:
        raise ValueError("status must be that of an error, 400 to 599")
