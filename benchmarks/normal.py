"""The state in which a client mostly is, for figures of what that costs."""

from __future__ import annotations

from shipsilently_core import ShipSilentlyClient

__all__ = ["as_if_it_streams"]


def as_if_it_streams(client: ShipSilentlyClient) -> None:
    """Let a client without a background be as one whose stream is up: nothing grows old by itself.

    So no clock is asked whether what is held is still fresh, unless ``max_age`` is set.
    """
    client.evaluator.cache.live(True)
