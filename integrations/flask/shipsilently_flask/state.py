"""What one app has: its client and its settings, kept in ``app.extensions``."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from flask import Flask
from msgspec import Struct

from shipsilently_core import Config, Context, ShipSilentlyClient

from .settings import Settings

__all__ = ["NAME", "ContextLoader", "State", "shared_client", "state_of"]

#: The extension's name in ``app.extensions``.
NAME = "shipsilently"

ContextLoader = Callable[[], Context | Mapping[str, Any] | None]
"""Says whom the flags of the current request are for."""


class HasLoader(Protocol):
    """The extension, as far as the state of an app needs it."""

    loader: ContextLoader | None


class State(Struct, eq=False):
    """What ``app.extensions["shipsilently"]`` holds.

    Attributes:
        settings: What the app has been told.
        extension: Holds the context loader, which may be registered after `init_app`.
    """

    settings: Settings
    extension: HasLoader
    _client: ShipSilentlyClient
    #: The app's own configuration, while that may still say that this is a test.
    _asked: Mapping[str, Any] | None = None

    @property
    def client(self) -> ShipSilentlyClient:
        """The app's client.

        Other apps with the same configuration share it, but for those with ``TESTING``. Tests
        often set that when the factory has returned, so it is asked when the client is first used.
        """
        if self._asked is not None:
            self._decide()
        return self._client

    def _decide(self) -> None:
        with _lock:
            if self._asked is not None and self._asked["TESTING"]:
                self._client = ShipSilentlyClient(self._client.config)
            self._asked = None


def state_of(app: Flask) -> State:
    """The state of `app`.

    Raises:
        RuntimeError: The extension was never set up on this app.
    """
    state = app.extensions.get(NAME)
    if state is None:
        raise RuntimeError(
            f"the app {app.name!r} has no ShipSilently: write ShipSilently(app), or "
            "shipsilently.init_app(app) in its factory"
        )
    return state  # type: ignore[no-any-return]  # only the extension writes there


# Weak, so that a client lives as long as its apps do, or its own background.
_clients: weakref.WeakSet[ShipSilentlyClient] = weakref.WeakSet()
_lock = threading.Lock()


def shared_client(config: Config, *, alone: bool) -> ShipSilentlyClient:
    """The client for `config` that all apps with this configuration share.

    Args:
        config: The configuration.
        alone: Make one for this app only: what one test's app was told must not be
            known to the next test's.
    """
    if alone:
        return ShipSilentlyClient(config)
    with _lock:
        for client in _clients:
            if client.config == config and not client.evaluator.closed:
                return client
        client = ShipSilentlyClient(config)
        _clients.add(client)
        return client
