"""What a test has decided: values that win over everything, and whether there is a network."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ._process import Lock

__all__ = ["Overrides", "overrides"]


class Overrides:
    """Layers of values by flag key; the latest wins.

    Attributes:
        values: The merged layers; replaced when a layer comes or goes, never changed.
        on_read: Called with the key of each flag of these that is read.
        refused: In a test without the network, the clients that would have asked there.
    """

    def __init__(self) -> None:
        self.values: Mapping[str, Any] = {}
        self.on_read: Callable[[str], object] | None = None
        self.refused: list[object] | None = None
        self._layers: list[Mapping[str, Any]] = []
        self._lock = Lock()

    def push(self, layer: Mapping[str, Any]) -> None:
        """Put a layer on top."""
        with self._lock:
            self._layers.append(layer)
            self._merge()

    def remove(self, layer: Mapping[str, Any]) -> None:
        """Take this very layer away, wherever it is."""
        with self._lock:
            for place, other in enumerate(self._layers):
                if other is layer:
                    del self._layers[place]
                    break
            self._merge()

    def refuse(self, client: object) -> None:
        """Note that a client would have used the network."""
        refused = self.refused
        if refused is not None:
            refused.append(client)

    def _merge(self) -> None:
        merged: dict[str, Any] = {}
        for layer in self._layers:
            merged.update(layer)
        self.values = merged


#: The process's own, since a test's live server runs in another thread.
overrides = Overrides()
